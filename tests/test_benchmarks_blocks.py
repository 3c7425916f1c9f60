"""The benchmark of the data-parallel blocks, at its smallest size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import blocks, timing

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "blocks.py"

WORKS = [
    "reduce",
    "maximum_segment_sum",
    "scan",
    "scan, max",
    "stable_partition",
    "segmented_scan, short",
    "segmented_reduce, short",
    "segmented_scan, long",
    "segmented_reduce, long",
    "segmented_scan, mixed",
    "segmented_reduce, mixed",
]


def report(*options: str) -> str:
    """What the benchmark prints, run on the same import path as the tests."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, str(BENCHMARK), "--repeats", "1", *options],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def rows(text: str, columns: int) -> list[list[str]]:
    """The rows of the table of so many columns, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    return [cells for cells in split if len(cells) == columns][2:]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_emulated(tmp_path: Path) -> None:
    written = tmp_path / "made" / "blocks.md"
    printed = report("--emulate", "--sizes", "100", "--output", str(written))
    assert written.read_text() == printed
    assert "no figure here says anything about a GPU" in printed.split("\n\n")[1]
    copy, *timed = rows(printed, 7)
    assert copy[0] == "*copy*"
    assert [cells[0] for cells in timed] == WORKS
    assert all(number(cells[3]) > 0 and number(cells[6]) > 0 for cells in timed)
    assert [name for name, _ in rows(printed, 2)] == WORKS
    slides = rows(printed, 5)
    assert [cells[0] for cells in slides] == ["tree", "group", "chunked", "atomic"]
    assert all(number(cells[1]) > 0 for cells in slides)
    assert [cells[4] == "" for cells in slides] == [False, False, False, True]


def test_on_a_cpu() -> None:
    printed = report("--cpu", "--sizes", "1e3", "100")
    assert "Not measured on a GPU yet" in printed
    timed = [cells for cells in rows(printed, 7) if cells[0] != "*copy*"]
    assert [cells[0] for cells in timed] == WORKS * 2
    assert [cells[2] for cells in timed] == ["10^2"] * len(WORKS) + ["10^3"] * len(
        WORKS
    )


@pytest.mark.parametrize("kind", blocks.SEGMENTS)
@pytest.mark.parametrize("n", [1, 2, 1000, 300_000])
def test_lengths_sum_to_n(kind: str, n: int) -> None:
    lengths = blocks.segment_lengths(kind, n)
    assert lengths.sum() == n
    assert lengths.min() > 0


def test_sums_of_the_numbers_are_exact() -> None:
    x = blocks.numbers(np, 100_000)
    np.testing.assert_array_equal(np.cumsum(x), np.cumsum(x.astype(np.int64)))


def test_rivals_agree() -> None:
    for work in blocks.works(np, 1000):
        blocks.check(np, work)


def test_notices_a_wrong_answer() -> None:
    wrong = blocks.Work("wrong", 0, lambda: 1, blocks.Rival("right", lambda: 2))
    with pytest.raises(RuntimeError, match="wrong does not agree with right"):
        blocks.check(np, wrong)


def test_the_bytes_that_must_be_moved() -> None:
    floors = {work.name: work.floor for work in blocks.works(np, 1000)}
    assert floors["reduce"] == 4000
    assert floors["scan"] == 8000
    assert floors["segmented_scan, mixed"] == floors["stable_partition"] == 9000


class Compute:
    """The three algorithms with the parameters of cuda.compute, in NumPy."""

    OpKind = SimpleNamespace(PLUS="plus")

    @staticmethod
    def reduce_into(
        *, d_in: Any, d_out: Any, num_items: int, op: str, h_init: Any
    ) -> None:
        d_out[:] = h_init + d_in[:num_items].sum()

    @staticmethod
    def inclusive_scan(
        *, d_in: Any, d_out: Any, num_items: int, op: str, init_value: Any
    ) -> None:
        d_out[:] = init_value + np.cumsum(d_in[:num_items])

    @staticmethod
    def segmented_reduce(
        *,
        d_in: Any,
        d_out: Any,
        num_segments: int,
        start_offsets_in: Any,
        end_offsets_in: Any,
        op: str,
        h_init: Any,
    ) -> None:
        for k in range(num_segments):
            segment = d_in[start_offsets_in[k] : end_offsets_in[k]]
            d_out[k] = h_init[0] + segment.sum()


def test_calls_of_cuda_compute() -> None:
    called = []
    for work in blocks.works(np, 1000, Compute):
        if work.compute is not None:
            work.compute()
            result = work.compute.keywords["d_out"]  # type: ignore[attr-defined]
            np.testing.assert_array_equal(np.ravel(work.ours()), result)
            called.append(work.name.partition(",")[0])
    assert set(called) == {"reduce", "scan", "segmented_reduce"}


def test_what_fails_in_cuda_compute_fails_alone() -> None:
    def fail() -> None:
        raise KeyError

    machine = blocks.Machine("cuda", np, timing.by_the_clock, 1)
    assert blocks.compute_cell(machine, fail) == "not installed"
    machine = machine._replace(compute=Compute)
    assert blocks.compute_cell(machine, fail) == "fails: KeyError"
    assert blocks.compute_cell(machine, None) == ""
    assert number(blocks.compute_cell(machine, lambda: sum(range(100)))) > 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00012345, "0.000123"), (1.5, "1.50"), (99.96, "100"), (123456, "123,000")],
)
def test_three_digits(value: float, text: str) -> None:
    assert blocks.three_digits(value) == text


def test_powers_of_ten() -> None:
    assert [blocks.power(n) for n in (1, 1000, 1200)] == ["10^0", "10^3", "1,200"]


def test_the_median_is_without_the_first_calls() -> None:
    seconds = iter([9.0, 5.0, 1.0, 3.0, 2.0])
    taken = timing.timing(lambda call: next(seconds), lambda: None, 3)
    assert taken == timing.Timing(first=9.0, median=2.0)


def test_unknown_commands_are_unknown() -> None:
    assert timing.answer_of("no-such-command") == "unknown"
