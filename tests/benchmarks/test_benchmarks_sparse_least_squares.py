"""The benchmarks of sparse least squares, at small sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from benchmark_runs import number, tables

from benchmarks import sparse_least_squares


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
