"""The benchmarks of NNLS, for its speed and its accuracy, at their smallest sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmark_runs import number, report, run, tables

from benchmarks.experiments import EXPERIMENTS

SMALL = ("--systems", "2", "--sizes", "12", "--repeats", "1")


def test_every_experiment_is_timed_in_both_precisions() -> None:
    pytest.importorskip("joblib", reason="SciPy runs in a joblib pool")
    (table,) = tables(report("nnls.py", "--cpu", *SMALL))
    timed = [tuple(cells[:4]) for cells in table[1:]]
    dtypes = ("float64", "float32")
    assert timed == [(one, dtype, "2", "12") for one in EXPERIMENTS for dtype in dtypes]
    assert all(number(cells[7]) > 0 and number(cells[10]) < 8 for cells in table[1:])


def test_scipy_can_be_left_out() -> None:
    (table,) = tables(report("nnls.py", "--cpu", "--no-peers", *SMALL))
    assert all(cells[6:8] == ["", ""] for cells in table[1:])


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_accuracy_counts_every_system(tmp_path: Path, jobs: str) -> None:
    failures = tmp_path / "failures.npz"
    options = ("--cpu", "--systems", "400", "--jobs", jobs, "--save", str(failures))
    (table,) = tables(report("nnls_accuracy.py", *options))
    assert [cells[:2] for cells in table[1:]] == [
        *(["full rank", "200"], ["rank 1", "200"], ["all", "400"])
    ]
    failed = sum(int(cells[4]) for cells in table[1:-1])
    assert len(np.load(failures)["excess"]) == failed


def test_accuracy_with_bounds() -> None:
    options = ("--cpu", "--bounds", "--systems", "200", "--jobs", "1")
    (table,) = tables(report("nnls_accuracy.py", *options))
    name, systems, excess, _, failed, silent = table[1][:6]
    assert (name, systems, failed, silent) == ("full rank", "200", "0", "0")
    assert abs(float(excess)) < 1e-9


def test_accuracy_of_gram_needs_the_cpu() -> None:
    done = run("nnls_accuracy.py", "--emulate", "--method", "gram")
    assert done.returncode == 1
    assert "--method gram runs on the CPU only" in done.stderr
