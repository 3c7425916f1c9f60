"""Data that blocks of the boosting kernels share, and the grid barrier between them.

The emulator interleaves blocks by a seed, and its race detector reports reads that no
barrier orders after the write. One test relaxes the accesses of the barrier, in a copy
of the sources, and expects a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from spline_learners import boost, learners_of

from gpusolve import _emulator
from gpusolve.gam import Path as Steps


@pytest.fixture(autouse=True)
def emulate(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    with _emulator.races():
        yield


ORDERS = ".release.", ".acquire."
REMOVED = {"writers": ORDERS[:1], "readers": ORDERS[1:], "both": ORDERS}
"""What the arrival at the barrier and the load that waits are no longer."""


@pytest.fixture(params=REMOVED)
def relaxed_barrier(request: pytest.FixtureRequest, copied_sources: Path) -> None:
    """Relax accesses of the barrier, in a copy of the sources."""
    header = copied_sources / "grid.cuh"
    text = header.read_text()
    for order in REMOVED[request.param]:
        assert order in text
        text = text.replace(order, ".relaxed.")
    header.write_text(text)


def boosted(seed: int) -> Steps:
    """Five steps with three learners; the seed determines how blocks interleave."""
    rng = np.random.default_rng(0)
    X = rng.random((40, 3))
    y = np.sin(6 * X[:, 1]) + X[:, 2]
    with _emulator.schedule("random", seed):
        return boost(learners_of(X, 6), y, steps=5, learning_rate=0.5)


def test_no_race_and_same_bits_in_any_interleaving() -> None:
    first, second = boosted(seed=1), boosted(seed=2)
    assert len(np.unique(first.selected)) > 1
    np.testing.assert_array_equal(first.selected, second.selected)
    np.testing.assert_array_equal(first.updates, second.updates)
    np.testing.assert_array_equal(first.risk, second.risk)


@pytest.mark.slow
@pytest.mark.usefixtures("relaxed_barrier")
def test_a_relaxed_access_of_the_barrier_is_reported() -> None:
    with pytest.raises(_emulator.KernelError, match="orders the two"):
        boosted(seed=1)
