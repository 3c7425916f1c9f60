"""The number of steps has a limit, whatever the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from together import together

import gpusolve

Array = NDArray[Any]

SHAPES = [(36, 36), (2, 37), (24, 9)]
SYSTEMS = 4
ENTER_AT_ONCE = 16
"""Of the Gram method: see ``most_entering`` in ``gram_steps.cuh``."""
RESTARTS = 10
"""Of the Gram method: see ``most_refreshes`` in ``gram_solver.cuh``."""


def extremes(rng: np.random.Generator, m: int, n: int) -> Array:
    return rng.standard_normal((m, n)) * 10.0 ** rng.integers(-150, 151, (m, n))


def extreme_columns(rng: np.random.Generator, m: int, n: int) -> Array:
    return rng.standard_normal((m, n)) * 10.0 ** rng.integers(-300, 301, n)


def subnormal(rng: np.random.Generator, m: int, n: int) -> Array:
    return rng.standard_normal((m, n)) * 1e-315


def hilbert(_rng: np.random.Generator, m: int, n: int) -> Array:
    return 1.0 / (1 + np.arange(m)[:, None] + np.arange(n))


def deficient(rng: np.random.Generator, m: int, n: int) -> Array:
    return rng.standard_normal((m, 2)) @ rng.standard_normal((2, n))


def duplicated(rng: np.random.Generator, m: int, n: int) -> Array:
    return rng.standard_normal((m, 3))[:, rng.integers(0, 3, n)]


def integers(rng: np.random.Generator, m: int, n: int) -> Array:
    return rng.integers(-1, 2, (m, n)).astype(float)


KINDS = extremes, extreme_columns, subnormal, hilbert, deficient, duplicated, integers


def options_of(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    """Plain, with a start, and with penalties for which dependent columns change."""
    l1 = rng.random(n)
    bounds = (-rng.random(n), rng.random(n))
    start = rng.standard_normal(n) * 10.0 ** rng.integers(-20, 20, n)
    every: list[dict[str, Any]] = [
        {},
        {"warm_start": start},
        {"l1": l1, "bounds": bounds},
    ]
    every.append({**every[-1], "sum_to": 0.0, "warm_start": start})
    return every


def batches(kind: Any, m: int, n: int) -> Any:
    """Right-hand sides near and far from the columns, with all options."""
    rng = np.random.default_rng(m * n)
    A = np.stack([kind(rng, m, n) for _ in range(SYSTEMS)])
    b = rng.standard_normal((SYSTEMS, m)) * 10.0 ** rng.choice([-150, 0], (SYSTEMS, 1))
    b[0] = A[0] @ rng.random(n)
    for options in options_of(rng, n):
        yield A, b, {"maxiter": None, **options}
        yield A, b, {"maxiter": 2, **options}


@together("kind", KINDS)
@together(("m", "n"), SHAPES)
@pytest.mark.parametrize("method", ["qr", "gram", "auto"])
def test_steps_have_a_limit(method: str, kind: Any, m: int, n: int) -> None:
    """A passive solution follows each variable that enters, or each group of variables
    of the Gram method. There are at most `maxiter` of these solutions. Before the
    first, all variables of a starting point may enter. What leaves has entered.
    """
    for A, b, options in batches(kind, m, n):
        bounds = options.pop("bounds", (0, np.inf))
        result = gpusolve.lsq_linear(A, b, bounds, method=method, **options)
        limit = options["maxiter"] or 10 * n
        starts, at_once = np.array([(RESTARTS, ENTER_AT_ONCE), (1, 1)])[result.method].T
        entering = starts * (min(m + ("sum_to" in options), n) + at_once)
        assert np.isin(result.status, (0, 1, 3)).all()
        assert (result.nit <= limit).all()
        assert (result.n_updates <= entering + at_once * result.nit).all()
        assert (result.n_downdates <= result.n_updates).all()
