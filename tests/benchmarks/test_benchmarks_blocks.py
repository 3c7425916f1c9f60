"""The benchmark of the data-parallel blocks, at its smallest size."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmark_runs import number, report, tables
from together import together

from benchmarks import blocks
from benchmarks.harness import Machine, wall_clock
from gpusolve._blocks.reduce import ORDERED_VARIANTS

OPERATIONS = [
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


@pytest.mark.slow
def test_emulator_report_is_printed_and_written(tmp_path: Path) -> None:
    written = tmp_path / "made" / "blocks.md"
    options = ("--emulate", "--sizes", "100", "--repeats", "1")
    printed = report("blocks.py", *options, "--output", str(written))
    assert written.read_text() == printed
    assert "no figure here says anything about a GPU" in printed.split("\n\n")[1]
    assert f"`python benchmarks/blocks.py {' '.join(options)}`" in printed
    main, first_calls, slides = tables(printed)
    _, copy, *timed = main
    assert copy[0] == "*copy*"
    assert [cells[0] for cells in timed] == OPERATIONS
    assert all(number(cells[3]) > 0 and number(cells[6]) > 0 for cells in timed)
    assert [name for name, _ in first_calls[1:]] == OPERATIONS
    variants = [cells[0] for cells in slides[1:]]
    assert variants == [*ORDERED_VARIANTS, "reduce512", "atomic", "atomic_each"]
    assert all(number(cells[1]) > 0 for cells in slides[1:])
    assert [cells[4] == "" for cells in slides[1:]] == [False] * 3 + [True] * 3


def test_cpu_report_has_all_sizes_in_order() -> None:
    printed = report("blocks.py", "--cpu", "--sizes", "1e3", "100", "--repeats", "1")
    assert "CPU path: **no figure here says anything about a GPU" in printed
    (main,) = tables(printed)
    timed = [cells for cells in main[1:] if cells[0] != "*copy*"]
    assert [cells[0] for cells in timed] == OPERATIONS * 2
    sizes = ["10^2"] * len(OPERATIONS) + ["10^3"] * len(OPERATIONS)
    assert [cells[2] for cells in timed] == sizes


def test_no_peers_leaves_their_cells_empty() -> None:
    options = ("--cpu", "--sizes", "100", "--repeats", "1", "--no-peers")
    (main,) = tables(report("blocks.py", *options))
    assert all(cells[6] == "" for cells in main[1:])


@together("kind", blocks.SEGMENTS)
@together("n", [1, 2, 1000, 300_000])
def test_segment_lengths_sum_to_n(kind: str, n: int) -> None:
    lengths = blocks.segment_lengths(kind, n)
    assert lengths.sum() == n
    assert lengths.min() > 0


def test_sums_of_the_numbers_are_exact() -> None:
    x = blocks.numbers(np, 100_000)
    np.testing.assert_array_equal(np.cumsum(x), np.cumsum(x.astype(np.int64)))


def test_peers_agree() -> None:
    for operation in blocks.operations(np, 1000):
        blocks.check(np, operation)


def test_check_rejects_a_different_result() -> None:
    peer = blocks.Peer("right", lambda: 2)
    wrong = blocks.Operation("wrong", 0, lambda: 1, peer)
    with pytest.raises(RuntimeError, match="wrong does not agree with right"):
        blocks.check(np, wrong)


def test_bytes_moved() -> None:
    moved = {row.name: row.bytes_moved for row in blocks.operations(np, 1000)}
    assert moved["reduce"] == 4000
    assert moved["scan"] == 8000
    assert moved["segmented_scan, mixed"] == moved["stable_partition"] == 9000


def test_a_failing_library_does_not_end_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(x: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(blocks, "maximum_rise", fail)
    machine = Machine("cpu", np, wall_clock, 1)
    (main,) = tables("\n".join(blocks.main_table(machine, [100], None, {})))
    cells = {cells[0]: cells[6] for cells in main[1:]}
    assert cells.pop("maximum_segment_sum") == "fails: MemoryError"
    assert not any("fails" in cell for cell in cells.values())


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


def test_cuda_compute_gets_its_parameters() -> None:
    called = []
    for operation in blocks.operations(np, 1000, Compute):
        if operation.compute is not None:
            operation.compute()
            result = operation.compute.keywords["d_out"]  # type: ignore[attr-defined]
            np.testing.assert_array_equal(np.ravel(operation.ours()), result)
            called.append(operation.name.partition(",")[0])
    assert set(called) == {"reduce", "scan", "segmented_reduce"}
