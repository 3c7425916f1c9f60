"""What several fits of one batch cost on a device, counted on the emulator."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pytest

from gpusolve._emulator._costs import KernelCosts
from gpusolve._emulator._profile import SECTOR_BYTES
from gpusolve.emulator import profile
from gpusolve.gam import BSplines
from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.folds import Folds, make_folds
from gpusolve.gam._boosting.problem import Designs, PreparedLearners
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._terms.rows import compact_rows
from gpusolve.gam.families import Family, Gaussian, Poisson

ROWS, LEARNERS, FUNCTIONS, FOLDS = 1024, 4, 32, 5


@pytest.fixture
def folds() -> Folds:
    return make_folds("bootstrap", np.ones(ROWS), np.zeros(ROWS), FOLDS, 0)


def ridge_problem(weights: np.ndarray) -> PreparedLearners:
    """Cubic splines of random columns, with a ridge penalty."""
    X = np.random.default_rng(0).random((ROWS, LEARNERS))
    basis = BSplines.spanning(X, FUNCTIONS).evaluate(X)
    designs = tuple(compact_rows(basis, j, FUNCTIONS) for j in range(LEARNERS))
    gram = tuple(design.gram(weights) for design in designs)
    inverse = tuple(np.linalg.inv(G + np.eye(FUNCTIONS)) for G in gram)
    lambdas = np.ones((len(weights), LEARNERS))
    nothing = (None,) * LEARNERS
    return PreparedLearners(
        Designs((), designs), gram, inverse, lambdas, weights, nothing
    )


def only_launch(family: Family, folds: Folds, steps: int) -> KernelCosts:
    """The costs of boosting all folds; the host waits for nothing on the way."""
    problem = ridge_problem(folds.weights)
    y = np.random.default_rng(1).poisson(2.0, ROWS).astype(np.float64)
    start = np.zeros((problem.fits, 1))
    fits = Fits(problem, family, y, start, out_of_bag=folds.out_of_bag)
    with profile() as report, mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1"):
        boost_family(fits, steps)
    host = report.host
    assert (host.launches, host.synchronizations, host.copies) == (1, 0, 0)
    (kernel,) = report.kernels
    assert kernel.launches == 1
    return kernel


def moved(kernel: KernelCosts) -> int:
    """The bytes of all requests."""
    return SECTOR_BYTES * sum(array.sectors for array in kernel.arrays.values())


@pytest.mark.slow
@pytest.mark.parametrize("family", [Gaussian(), Poisson()])
def test_a_batch_is_one_launch_with_the_bytes_of_its_fits(
    family: Family, folds: Folds
) -> None:
    batch = only_launch(family, folds, steps=3)
    alone = [
        only_launch(family, Folds(w[None], v[None]), steps=3)
        for w, v in zip(*folds, strict=True)
    ]
    assert moved(batch) <= 1.01 * sum(map(moved, alone))
    assert batch.grid_barriers == alone[0].grid_barriers
    for shared in ("values", "first"):
        read = batch.arrays[shared].distinct_bytes
        assert read == alone[0].arrays[shared].distinct_bytes


def test_a_step_reads_each_value_once_for_each_fit(folds: Folds) -> None:
    """Values, an index and u for the moments; values again of the selected learner."""
    steps = 3
    made = [only_launch(Gaussian(), folds, some) for some in (steps, 2 * steps)]
    entries = ROWS * LEARNERS * FOLDS * steps
    expected = {"values": 32 * (1 + 1 / LEARNERS), "first": 4 * (1 + 1 / LEARNERS)}
    for name, size in expected.items():
        few, many = (kernel.arrays[name].sectors for kernel in made)
        assert SECTOR_BYTES * (many - few) == size * entries
    few, many = map(moved, made)
    # Of each row of a fit: f three times, y, two weights, u written; u for each
    # learner. The rest: coefficients of the selected learner, and where things are.
    of_rows = 32 * 1.25 + 4 * 1.25 + 8 + 7 * 8 / LEARNERS
    of_matrices = LEARNERS * FOLDS * steps * 2 * 8 * FUNCTIONS**2
    assert of_rows * entries + of_matrices <= many - few
    assert many - few <= 1.25 * (of_rows * entries + of_matrices)
