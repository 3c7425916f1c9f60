"""The benchmarks of matrix-vector products, at small sizes."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmark_runs import number, report, tables

from benchmarks import gemv as benchmark
from benchmarks import gemv_figure4
from gpusolve._emulator._predict import LAUNCH_SECONDS
from gpusolve.studies import boosting_step

FIGURE_4 = "gemv_figure4.py"
RESULTS = Path(gemv_figure4.__file__).parent / "results"
VARIANTS = ["version 1", "version 2", "auto"]
GPUS = ["MX550", "H200"]
PREDICTED = [f"{gpu} {kind}, predicted" for gpu in GPUS for kind in VARIANTS]


@pytest.mark.slow
def test_figure_4_on_the_emulator() -> None:
    printed = report(FIGURE_4, "--emulate", "--sizes", "50x16", "--repeats", "1")
    assert "no figure here says anything about a GPU" in printed
    ((names, times),) = tables(printed)
    assert names == ["n x k", "numpy.dot", *VARIANTS]
    assert times[0] == "50 x 16"
    assert all(number(time) > 0 for time in times[1:])


@pytest.mark.slow
def test_figure_4_has_numpy_next_to_predictions(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws the figure")
    picture = tmp_path / "figure.png"
    sizes = ("--sizes", "50x16", "40x8", "--repeats", "1")
    printed = report(FIGURE_4, "--cpu", *sizes, "--picture", str(picture))
    assert "nothing was measured on a GPU" in printed
    ((names, *times),) = tables(printed)
    assert names == ["n x k", "numpy.dot", *PREDICTED]
    assert [row[0] for row in times] == ["50 x 16", "40 x 8"]
    assert "- H200 auto, predicted: " in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_faster_than_numpy_is_less_time() -> None:
    found = {
        (10, 4): {"numpy.dot": 2.0, "a": 3.0},
        (1000, 4): {"numpy.dot": 9.0, "a": 8.0},
    }
    assert list(gemv_figure4.faster_than_numpy(found)) == ["- a: 1,000 x 4"]
    found.popitem()
    assert list(gemv_figure4.faster_than_numpy(found)) == ["- a: nowhere"]


def stored_figure() -> dict[str, dict[str, float]]:
    """The times of Figure 4 in microseconds, by size and by name."""
    page = (RESULTS / "gemv_figure4.md").read_text()
    ((names, *lines),) = tables(page)
    return {
        size: dict(zip(names[1:], map(number, times), strict=True))
        for size, *times in lines
    }


predicted = functools.cache(boosting_step.predicted)


@pytest.mark.slow
@pytest.mark.paper(
    "Sieminski, Figure 4",
    "numpy.dot, measured, is faster than both versions on both GPUs, predicted, for "
    "1,000 rows; for 100,000 rows and 64 functions both versions on the H200, and "
    "version 1 on the MX550, are faster than numpy.dot; for 16 functions only the "
    "method that we choose is",
)
@pytest.mark.parametrize("functions", [16, 64])
def test_the_claim_of_figure_4(functions: int) -> None:
    """The time of numpy.dot is stored; predictions are made again, and as stored."""
    for rows in (1_000, 100_000):
        stored = stored_figure()[f"{rows:,} x {functions}"]
        times = {
            name.removesuffix(", predicted"): 1e6 * seconds
            for name, seconds in predicted(rows, functions).items()
        }
        for name, time in times.items():
            assert time == pytest.approx(stored[f"{name}, predicted"], rel=5e-3)
        expected = set() if rows == 1_000 else {"MX550 auto", "H200 auto"}
        if (rows, functions) == (100_000, 64):
            expected |= {"MX550 version 1", "H200 version 1", "H200 version 2"}
        assert {name for name in times if times[name] < stored["numpy.dot"]} == expected


@pytest.mark.slow
@pytest.mark.paper(
    "Sieminski, 4.2",
    "For 1,000 rows and 16 functions version 2 takes 1.7 times as long as version 1 on "
    "both GPUs, predicted: it has 6 launches instead of 3",
)
def test_versions_differ_by_their_launches_for_small_matrices() -> None:
    """The paper says that the difference was small."""
    seconds = predicted(1000, 16)
    for gpu in GPUS:
        first, second = (seconds[f"{gpu} {kind}, predicted"] for kind in VARIANTS[:2])
        assert second / first == pytest.approx(1.7, abs=0.05)
        assert second - first > (6 - 3) * LAUNCH_SECONDS[0]


@pytest.mark.slow
@pytest.mark.paper(
    "Sieminski, 4.2",
    "For 100,000 rows and 16 functions version 2 takes 755 microseconds on an H200 "
    "and version 1 697, and 1,620 and 1,280 on an MX550, predicted; they wait for "
    "loads",
)
def test_versions_wait_for_loads_for_large_matrices() -> None:
    """For 16 rows version 1 has one block; version 2 has 16 sums for each long row."""
    seconds = predicted(100_000, 16)
    for gpu, times in {"H200": (697, 755), "MX550": (1280, 1620)}.items():
        for kind, time in zip(VARIANTS[:2], times, strict=True):
            found = 1e6 * seconds[f"{gpu} {kind}, predicted"]
            assert found == pytest.approx(time, rel=5e-3)


@pytest.mark.slow
@pytest.mark.paper(
    "Sieminski, 5 cuBLAS",
    "Any gemv reads the basis of 100,000 x 64 twice, in 12 microseconds of an H200's "
    "4.3e12 bytes per second; the method that we choose is predicted to take 31",
)
def test_the_least_time_of_any_gemv() -> None:
    least = 2 * 4 * 100_000 * 64 / 4.3e12
    assert 1e6 * least == pytest.approx(12, abs=0.5)
    found = predicted(100_000, 64)["H200 auto, predicted"]
    assert 1e6 * found == pytest.approx(31, abs=0.5)


def test_a_wrong_product_is_reported() -> None:
    step = gemv_figure4.make(np, 50, 8)
    gemv_figure4.check_call(step, gemv_figure4.numpy_call(step), "numpy")
    wrong = step._replace(residual=step.residual[::-1])
    with pytest.raises(RuntimeError, match=r"wrong is wrong for \(50, 8\)"):
        gemv_figure4.check_call(step, gemv_figure4.numpy_call(wrong), "wrong")


@pytest.mark.paper(
    "Sieminski, 5 cuBLAS",
    "On a GPU the program times cuBLAS's gemv next to all variants, with the letter of "
    "a transpose for matrices in C order",
)
def test_cublas_multiplies_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuBLAS's gemv takes matrices in C order, and the letter of a transpose."""

    def gemv(kind: str, alpha: float, A: Any, x: Any, beta: float, y: Any) -> None:
        assert A.flags.c_contiguous
        assert (alpha, beta) == (1, 0)
        y[:] = (A if kind == "N" else A.T) @ x

    cupy = SimpleNamespace(empty=np.empty)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cublas", SimpleNamespace(gemv=gemv))
    step = gemv_figure4.make(np, 50, 8)
    gemv_figure4.check_call(step, gemv_figure4.cublas_call(step), "cuBLAS")


@pytest.mark.parametrize("where", ["--emulate", "--cpu"])
def test_benchmark(where: str, monkeypatch: Any, capsys: Any) -> None:
    toy = {name: [(30, 16)] for name in benchmark.SIZES["cpu"]}
    monkeypatch.setattr(benchmark, "SIZES", {"emulator": toy, "cpu": toy})
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")
    monkeypatch.setattr(sys, "argv", ["gemv.py", "--repeats", "1", where])
    benchmark.main()
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith(("| 30", "| (30"))]
    assert len(rows) == 5
    assert len(rows[0].split("|")) == (10 if where == "--emulate" else 7)


def test_benchmark_notices_a_wrong_answer(monkeypatch: Any) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")
    machine = benchmark.choose(emulate=False, cpu=True, repeats=1)
    problem = benchmark.make(np, benchmark.Shape(30, 16, transpose=True))
    benchmark.check(machine, problem, ("auto",))
    wrong = problem._replace(x=problem.x + 1)
    monkeypatch.setattr(benchmark, "gpusolve_call", lambda *_: lambda: wrong.x)
    with pytest.raises(RuntimeError, match="auto is wrong for"):
        benchmark.check(machine, problem, ("auto",))
