"""The package's calls on a GPU, next to their predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy_stand_in
import harness
import numpy as np
import predicted_calls as benchmark
import pytest
from benchmark_runs import number, tables

from gpusolve._emulator._gpu import DEVICES
from gpusolve.emulator import profile

COSTS = Path(benchmark.__file__).parent / "results" / "costs.md"


@pytest.fixture(autouse=True)
def no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo at the end of a test that `harness.choose` sets the variable."""
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")


def measured_page(
    cases: list[benchmark.Case], monkeypatch: pytest.MonkeyPatch, output: Path
) -> str:
    """What the benchmark writes on the stand-in."""
    monkeypatch.setattr(benchmark, "CASES", cases)
    monkeypatch.setattr(benchmark, "REPEATS", 1)
    monkeypatch.setattr(harness, "cuda_events", lambda cupy: harness.wall_clock)
    monkeypatch.setattr("sys.argv", ["predicted_calls.py", "--output", str(output)])
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")
    with cupy_stand_in.installed(1):
        benchmark.main()
    return output.read_text()


# ---- the table -----------------------------------------------------------------------


def test_every_case_has_a_prediction_for_every_device() -> None:
    table = benchmark.stored()["cases"]
    names = [case.name for case in benchmark.CASES]
    assert len(set(names)) == len(names)
    assert set(table) == set(names)
    for ranges in table.values():
        assert set(ranges) == set(DEVICES)
        assert all(0 < low <= high < 60 for low, high in ranges.values())


def test_predictions_are_not_below_the_bandwidth() -> None:
    """A scan reads and writes each element once; a reduction reads it."""
    table = benchmark.stored()["cases"]
    for name, moved in (("reduce, 1e8", 4e8), ("scan, 1e8", 8e8)):
        for device, (low, _) in table[name].items():
            assert low > moved / DEVICES[device].memory


def test_goals_are_those_of_the_page_of_costs() -> None:
    pages = tables(COSTS.read_text())
    (rows,) = (rows for rows in pages if "from the machine code, ms" in rows[0])
    goals = {f"nnls, {row[0]}": row[-1] for row in rows[1:]}
    table = benchmark.stored()["cases"]
    found = {
        case.name: benchmark.goal_cell(case.goal, table[case.name]["H200"][1])
        for case in benchmark.CASES
        if case.goal is not None
    }
    assert {name: _plain(cell) for name, cell in found.items()} == goals


def _plain(cell: str) -> str:
    """The goal without zeros at its end: "0.600, reached" is "0.6, reached"."""
    number, mark = cell.split(", ")
    return f"{float(number):g}, {mark}"


def test_a_counted_call_is_predicted_as_the_report_does() -> None:
    (case,) = (case for case in benchmark.CASES if case.name.startswith("gemv"))
    same = case._replace(size=case.counted)
    call = case.make(harness.choose(emulate=True), case.counted)
    with profile() as report:
        call()
    expected = report.predict("H200")
    assert benchmark.predicted(same)["H200"] == [expected.low, expected.high]
    longer = benchmark.predicted(case._replace(size=1000 * case.counted))
    assert longer["H200"][0] > 10 * expected.low


@pytest.mark.slow
def test_barriers_of_the_grid_are_not_multiplied() -> None:
    """More blocks, on multiprocessors that had no block, take the same time.

    How often a block reads the counter of a barrier depends on the schedule.
    """
    (case,) = (case for case in benchmark.CASES if case.name.startswith("boost"))
    few, more = (case._replace(counted=64, size=size) for size in (64, 640))
    expected = pytest.approx(benchmark.predicted(few)["H200"], rel=0.01)
    assert benchmark.predicted(more)["H200"] == expected


# ---- on a GPU ------------------------------------------------------------------------


@pytest.mark.slow
def test_measured_next_to_predicted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cases = [case._replace(size=min(64, case.counted)) for case in benchmark.CASES]
    page = measured_page(cases, monkeypatch, tmp_path / "page.md")
    assert "nearest to this GPU, stand-in 0: MX550" in page
    ((_, *rows),) = tables(page)
    table = benchmark.stored()["cases"]
    assert [row[0] for row in rows] == [case.name for case in cases]
    for case, (_, predicted, *times, ratio, goal) in zip(cases, rows, strict=True):
        ends = table[case.name]["MX550"]
        assert predicted == benchmark.range_cell(ends)
        assert bool(times[1]) == (case.left_out is not None)
        call, left_out = (number(time or "0") for time in times)
        expected = (call - left_out) / (1e3 * np.mean(ends))
        assert number(ratio) == pytest.approx(expected, rel=0.02, abs=0.02)
        assert bool(goal) == (case.goal is not None)


def test_predictions_are_printed_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(harness, "cupy_with_device", lambda: None)
    monkeypatch.setattr("sys.argv", ["predicted_calls.py"])
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")
    benchmark.main()
    ((head, *rows),) = tables(capsys.readouterr().out)
    assert head == ["case", *DEVICES, "goal"]
    assert [row[0] for row in rows] == [case.name for case in benchmark.CASES]


def test_a_goal_is_reached_up_to_its_time() -> None:
    assert benchmark.goal_cell(None, 1) == ""
    assert benchmark.goal_cell(2e-3, 2e-3) == "2.00, reached"
    assert benchmark.goal_cell(2e-3, 2.1e-3) == "2.00, **missed**"


H100 = replace(DEVICES["H200"], name="H100", memory=3.35e12)
RTX_3090 = replace(DEVICES["RTX 4090"], multiprocessors=82, clock=1.7e9, memory=0.94e12)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        *((one, name) for name, one in DEVICES.items()),
        (H100, "H200"),
        (RTX_3090, "RTX 4090"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_nearest_device(gpu: Any, expected: str) -> None:
    assert benchmark.nearest(gpu) == expected
