"""Kinds of effects and features for `gam_defaults.py`: each gives features and means.

The noise has a standard deviation of 0.4 of the standard deviation of the means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ROWS = 2_400

Kind = Callable[[np.random.Generator, int], tuple[Any, Any]]


def steps(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.random((n, 5))
    return X, (X[:, 0] > 0.3) - 1.5 * (X[:, 1] > 0.6) + 0.8 * (X[:, 2] > 0.5)


def many_steps(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.random((n, 4))
    return X, np.floor(6 * X[:, 0]) % 2 + np.floor(4 * X[:, 1]) % 2


def saw_teeth(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.random((n, 3))
    return X, 2 * (5 * X[:, 0] % 1) + np.sin(6 * X[:, 1])


def thresholds(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.standard_normal((n, 8))
    X[:, 3:] = X[:, 3:].round(1)
    return X, 2 * (X[:, 0] > 1) - 1.0 * (X[:, 3] < -1) + 0.3 * X[:, 4]


def smooth_and_step(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.standard_normal((n, 6))
    return X, np.sin(2 * X[:, 0]) + (X[:, 1] > 0.5) + 0.5 * X[:, 2]


def many_zeros(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.exponential(1, (n, 5)) * (rng.random((n, 5)) < 0.4)
    return X, (X[:, 0] > 0) + np.log1p(X[:, 1]) + 0.5 * X[:, 2]


def word_counts(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    rates = np.exp(rng.normal(-1, 1, (n, 1)) + rng.normal(0, 0.5, (1, 15)))
    X = rng.poisson(rates) * rng.exponential(1, (n, 15))
    return X, (X > 0) @ rng.normal(0, 0.6, 15)


def rare_levels(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = np.c_[rng.random((n, 2)), rng.random((n, 4)) < 0.03].astype(float)
    return X, np.sin(5 * X[:, 0]) + X[:, 2:] @ np.array([2, -2, 1, 0])


def log_normal(spread: float, features: int = 1) -> Kind:
    def make(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        z = rng.standard_normal((n, features))
        f = np.sin(2 * z[:, 0])
        return np.exp(spread * z), f if features == 1 else f + z[:, 1] + z[
            :, 2
        ] ** 2 / 2

    return make


def skewed_lines(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.lognormal(0, 1.5, (n, 4))
    return X, np.minimum(0.1 * X[:, 0], 5) + 0.05 * X[:, 1]


def heavy_tails(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.standard_t(3, (n, 4))
    return X, np.tanh(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * np.abs(X[:, 2])


def crowded_end(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    u = rng.random((n, 3))
    return u**4, np.sin(8 * u[:, 0]) + u[:, 1] ** 4


def lines(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.standard_normal((n, 8))
    return X, X @ rng.standard_normal(8)


def ten_sines(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.random((n, 10))
    waves, begin = rng.uniform(0.5, 1.5, 10), rng.uniform(0, 6, 10)
    return X, np.sin(2 * np.pi * X * waves + begin).sum(axis=1)


def smooth(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    X = rng.standard_normal((n, 6))
    return X, X[:, 0] + np.cos(2 * X[:, 1]) + np.exp(-(X[:, 2] ** 2))


KINDS: dict[str, Kind] = {
    "steps": steps,
    "many steps": many_steps,
    "saw-teeth": saw_teeth,
    "thresholds": thresholds,
    "smooth and a step": smooth_and_step,
    "many zeros": many_zeros,
    "word counts": word_counts,
    "rare levels": rare_levels,
    "log-normal, sd 1": log_normal(1.0),
    "log-normal, sd 2": log_normal(2.0),
    "log-normal, sd 3": log_normal(3.0),
    "four log-normal": log_normal(2.0, 4),
    "skewed lines": skewed_lines,
    "heavy tails": heavy_tails,
    "crowded end": crowded_end,
    "lines": lines,
    "ten sines": ten_sines,
    "smooth": smooth,
}


def made(name: str, rows: int = ROWS) -> tuple[Any, Any]:
    """The features of a kind, and responses with noise."""
    rng = np.random.default_rng([*map(ord, name)])
    X, mean = KINDS[name](rng, rows)
    return X, mean + 0.4 * mean.std() * rng.standard_normal(rows)
