"""The benchmarks of matrix-vector products, at small sizes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmark_runs import number, report, tables

from benchmarks import gemv_figure4

FIGURE_4 = "gemv_figure4.py"
VARIANTS = ["naive", "threads_per_dot", "threads_per_row", "auto"]


def test_figure_4_on_the_emulator() -> None:
    printed = report(FIGURE_4, "--emulate", "--sizes", "50x16", "--repeats", "1")
    assert "no figure here says anything about a GPU" in printed
    ((names, times),) = tables(printed)
    assert names == ["n x k", *VARIANTS, "numpy.dot"]
    assert times[0] == "50 x 16"
    assert all(number(time) > 0 for time in times[1:])


def test_figure_4_on_a_cpu_has_one_path() -> None:
    printed = report(FIGURE_4, "--cpu", "--sizes", "50x16", "40x8", "--repeats", "1")
    ((names, *times),) = tables(printed)
    assert names == ["n x k", "auto", "numpy.dot"]
    assert [row[0] for row in times] == ["50 x 16", "40 x 8"]


def test_figure_4_is_predicted_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws the figure")
    picture = tmp_path / "figure.png"
    options = ("--predict", "--sizes", "50x16", "--picture", str(picture))
    printed = report(FIGURE_4, *options)
    assert "nothing was measured" in printed
    ((names, times),) = tables(printed)
    assert names == ["n x k", *VARIANTS]
    # Launches of about 4 microseconds: three; in version 2 each has a second one.
    by_name = dict(zip(names[1:], map(number, times[1:]), strict=True))
    assert by_name["naive"] == by_name["threads_per_dot"] == 12
    assert by_name["threads_per_row"] == 24
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_wrong_product_is_reported() -> None:
    step = gemv_figure4.make(np, 50, 8)
    gemv_figure4.check(step, gemv_figure4.by_numpy(step), "numpy")
    wrong = step._replace(residual=step.residual[::-1])
    with pytest.raises(RuntimeError, match=r"wrong is wrong for \(50, 8\)"):
        gemv_figure4.check(step, gemv_figure4.by_numpy(wrong), "wrong")


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
    gemv_figure4.check(step, gemv_figure4.by_cublas(step), "cuBLAS")
