"""Tests of the boosting kernels only; test_gam_boosting.py tests every method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from spline_learners import SplineLearners, boost, learners_of, prepared
from together import together

from gpusolve import _emulator
from gpusolve._device.kernels import EmulatedDevice
from gpusolve._device.launch import LAUNCH_SECONDS, ceil_div
from gpusolve.emulator import profile
from gpusolve.gam import BSplines
from gpusolve.gam._boosting import gram_kernel, stacked_kernel


@pytest.fixture(autouse=True)
def emulate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")


def some_learners(
    rng: np.random.Generator, rows: int = 300, count: int = 3, **options: Any
) -> SplineLearners:
    return learners_of(rng.random((rows, count)), 8, **options)


def test_risk_of_a_perfect_fit_is_accurate(rng: np.random.Generator) -> None:
    """The risk is computed as a sum of squares: no digits cancel."""
    learners = some_learners(rng, penalty=None)
    y = learners.dense()[1] @ rng.standard_normal(8)
    path = boost(learners, y, steps=4, learning_rate=1.0)
    assert (path.selected == 1).sum() >= 1
    assert 0 <= path.risk[-1] < 1e-24 * path.risk[0]
    rest = np.einsum("inf,if->n", learners.dense(), path.coef(3))
    residual = y - path.offset - rest
    assert path.risk[-1] == pytest.approx(residual @ residual, rel=0.9)


@together("rows", [1, 31, 32, 33, 255, 2100, 5000])
def test_numbers_of_rows_around_batches_and_chunks(
    rows: int, rng: np.random.Generator
) -> None:
    learners = some_learners(rng, rows, 2)
    X = learners.dense()
    expected = np.einsum("inf,ing->ifg", X, X)
    np.testing.assert_allclose(learners.gram, expected, rtol=1e-12, atol=1e-12)


def test_a_fit_repeats_bit_for_bit(schedule: str, rng: np.random.Generator) -> None:
    learners = some_learners(rng, 2500, 3)
    y = rng.standard_normal(2500)
    with _emulator.schedule("forward"):
        expected = boost(learners, y, steps=9)
    again = boost(learners, y, steps=9)
    np.testing.assert_array_equal(again.updates, expected.updates)
    np.testing.assert_array_equal(again.risk, expected.risk)


def test_too_many_functions_for_a_block_are_refused(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners, y = some_learners(rng, 50), rng.standard_normal(50)
    monkeypatch.setattr(EmulatedDevice, "shared_memory_per_block", 4200)
    with pytest.raises(ValueError, match="must have fewer functions"):
        boost(learners, y, steps=1)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_watchdog_changes_only_the_number_of_launches(
    steps: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners, y = some_learners(rng, 700), rng.standard_normal(700)
    expected = boost(learners, y, steps=7)
    monkeypatch.setattr(EmulatedDevice, "has_watchdog", True)
    monkeypatch.setattr(stacked_kernel, "steps_of_launch", lambda *_: steps)
    path = boost(learners, y, steps=7)
    np.testing.assert_array_equal(path.selected, expected.selected)
    np.testing.assert_array_equal(path.updates, expected.updates)
    np.testing.assert_array_equal(path.risk, expected.risk)


def test_a_watchdog_allows_fewer_steps_for_more_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, many = 10**8, 10**9
    device = EmulatedDevice()
    assert stacked_kernel.steps_of_launch(device, many) >= 2**31 - 1
    monkeypatch.setattr(EmulatedDevice, "has_watchdog", True)
    steps = [stacked_kernel.steps_of_launch(device, shape) for shape in (few, many)]
    assert 1 <= steps[1] < steps[0] < 2**31 - 1


def test_a_watchdog_counts_all_bytes_of_a_step(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of each of 3 cubic learners has 4 doubles and an integer.

    The 4 passes that fit in a launch include the pass at the start.
    """
    learners, y = some_learners(rng, 50), rng.standard_normal(50)
    speed = 4.5 * 3 * 50 * (4 * 8 + 4) / LAUNCH_SECONDS
    monkeypatch.setattr(EmulatedDevice, "has_watchdog", True)
    monkeypatch.setattr(stacked_kernel, "READ_SPEED", speed)
    launches = []
    for passes in (4, 5):
        with profile() as report:
            boost(learners, y, steps=passes - 1)
        launches.append(report.kernels[-1].launches)
    assert launches == [1, 2]


@together("degree", [0, 2, 3, 5])
@together("limit", [0, 3000, 2**20])
def test_numbers_of_copies_of_the_moments(
    degree: int, limit: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warp adds 1, some or all rows at once that fit in its 32 lanes."""
    monkeypatch.setattr(gram_kernel, "MOMENT_BYTES", limit)
    X = rng.random((700, 3))
    basis = BSplines.spanning(X, 11, degree).evaluate(X)
    learners = prepared(basis, 11, weights=rng.random(700))
    y = np.sin(6 * X[:, 1])
    found = boost(learners, y, method="stacked", steps=4)
    monkeypatch.delenv("GPUSOLVE_EMULATE")
    expected = boost(learners, y, method="stacked", steps=4)
    np.testing.assert_array_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.updates, expected.updates, rtol=1e-9, atol=1e-9)


@together("blocks", [4, 132, 264])
@together("learners", [1, 3, 100, 131, 300, 10_000])
def test_chunks_keep_blocks_busy(learners: int, blocks: int) -> None:
    """If chunks may be small, blocks wait for at most a quarter of the time."""
    chunks = gram_kernel.balanced_chunks(learners, blocks, most=1000)
    units = learners * chunks
    assert units / (blocks * ceil_div(units, blocks)) > 0.75
    assert chunks == 1 or units <= gram_kernel.ROUNDS * blocks
    assert gram_kernel.balanced_chunks(learners, blocks, most=1) == 1


def test_sums_over_rows_have_few_bank_conflicts(rng: np.random.Generator) -> None:
    """Wavefronts for a row of a learner, and sectors.

    A lane reads a row of 32 bytes by two loads, one after the other.
    """
    X = rng.random((20_000, 2))
    basis = BSplines.spanning(X, 32).evaluate(X)
    with profile() as report:
        learners = prepared(basis, 32)
    (gram,) = report.kernels
    rows = learners.basis.first.size
    assert gram.shared_wavefronts <= 1.4 * rows
    assert gram.arrays["values"].sectors == 2 * gram.arrays["values"].fewest_sectors
    with profile() as report:
        boost(learners, X[:, 0], method="stacked", steps=1)
    (stacked,) = report.kernels
    # A row takes 0.7 for the moments, and 0.4 of the selected learner for the residual.
    assert stacked.shared_wavefronts <= 0.75 * rows + 0.4 * len(X)
    assert stacked.arrays["values"].sectors == stacked.arrays["values"].fewest_sectors
