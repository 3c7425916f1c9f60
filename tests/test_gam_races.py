"""What blocks of the boosting kernels tell each other, and the barrier between them.

The emulator replays how blocks interleave by a seed, and its race detector knows which
writes a block may rely on. The barrier's fences are taken away here, in a copy of the
sources, to see that it would be noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpusolve import _emulator
from gpusolve.gam.basis import BSplines
from gpusolve.gam.boosting import Path as Steps
from gpusolve.gam.boosting import boost
from gpusolve.gam.learners import make_learners

METHODS = ("stacked", "gram")


@pytest.fixture(autouse=True)
def emulate(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    with _emulator.races():
        yield


FENCE = "__threadfence();"
LOST = {"writers": [0], "readers": [1], "both": [0, 1]}
"""Which of the barrier's two fences are taken away."""


@pytest.fixture(params=LOST)
def lost_fences(request: pytest.FixtureRequest, copied_sources: Path) -> None:
    """The barrier without some of its fences, in a copy of the sources."""
    header = copied_sources / "grid.cuh"
    before, between, after = header.read_text().split(FENCE)
    kept = ["" if fence in LOST[request.param] else FENCE for fence in (0, 1)]
    header.write_text(before + kept[0] + between + kept[1] + after)


def boosted(method: str, seed: int) -> Steps:
    """A few steps of three learners, with the blocks interleaved by a seed."""
    rng = np.random.default_rng(0)
    X = rng.random((40, 3))
    y = np.sin(6 * X[:, 1]) + X[:, 2]
    basis = BSplines.spanning(X, 6).evaluate(X)
    with _emulator.schedule("random", seed):
        learners = make_learners(basis, 6)
        return boost(learners, y, steps=5, learning_rate=0.5, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_no_race_and_the_same_bits_in_any_interleaving(method: str) -> None:
    first, second = boosted(method, seed=1), boosted(method, seed=2)
    assert len(np.unique(first.selected)) > 1
    np.testing.assert_array_equal(first.selected, second.selected)
    np.testing.assert_array_equal(first.updates, second.updates)
    np.testing.assert_array_equal(first.risk, second.risk)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("lost_fences")
def test_a_missing_fence_is_noticed(method: str) -> None:
    with pytest.raises(_emulator.KernelError, match="orders the two"):
        boosted(method, seed=1)
