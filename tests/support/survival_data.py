"""Simulated survival times with ties, censoring and weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def trial(n: int = 120, seed: int = 27) -> dict[str, NDArray[np.float64]]:
    """The columns x, z, time, event and weight; times are multiples of 0.05."""
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal(n), rng.random(n)
    time = rng.exponential(np.exp(-0.8 * x + np.sin(6 * z)))
    censored = rng.exponential(2.0, n)
    return {
        "x": x,
        "z": z,
        "time": np.ceil(20 * np.minimum(time, censored)) / 20,
        "event": (time <= censored).astype(np.float64),
        "weight": rng.integers(1, 4, n).astype(np.float64),
    }
