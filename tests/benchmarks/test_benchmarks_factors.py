"""The benchmarks of sparse least squares and of NMF, at small sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from benchmark_runs import number, tables

from benchmarks import nmf, sparse_least_squares


def test_sparse_least_squares_are_measured_in_a_process(
    called: Callable[..., str],
) -> None:
    options = ("--sizes", "300", "250", "3", "--no-peers")
    (table,) = tables(called(sparse_least_squares.main, *options))
    solver, systems, *seconds, before, peak, certified = table[1]
    assert (solver, systems, certified) == ("gpusolve.nnls", "3", "3")
    assert all(number(cell) > 0 for cell in seconds)
    assert 0 < number(before) <= number(peak)


def test_both_solvers_find_the_same_residuals() -> None:
    given = sparse_least_squares.systems_of(400, 250, 2)
    assert np.diff(given.A.indptr).tolist() == [3] * 400
    answers = [solve(given) for solve in sparse_least_squares.SOLVERS.values()]
    ours, theirs = (np.array(answer["rnorm"]) for answer in answers)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)
    assert (ours <= theirs * (1 + 1e-12)).all()
    assert sparse_least_squares.excess(answers[1], answers[0]) >= -1e-12


def test_factorisations_are_timed_to_the_same_objective(
    called: Callable[..., str],
) -> None:
    pytest.importorskip("sklearn")
    options = ("--sizes", "40", "30", "2", "--repeats", "1", "--most", "40")
    (table,) = tables(called(nmf.main, *options))
    assert [row[:2] for row in table[1:]] == [
        [matrix, solver] for matrix in ("dense", "sparse") for solver in nmf.SOLVERS
    ]
    for row in table[1:]:
        assert row[2] == "> 40" or (0 < number(row[2]) <= 40 and number(row[3]) > 0)


def test_the_fewest_sweeps_that_reach_a_goal() -> None:
    start = nmf.starts(30, 20, 2)["dense"]
    goal = nmf.objective_after(nmf.by_gpusolve, start, 6)
    assert nmf.sweeps_to(goal, nmf.by_gpusolve, start, 40) == 6
    assert nmf.sweeps_to(goal, nmf.by_gpusolve, start, 5) is None
