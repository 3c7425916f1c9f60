"""Convex quadratic programs within bounds, mostly singular, and their optima.

All functions take batches. Nothing here uses the package: optima are found on every set
of variables that may be free, by eigenvalues, and refined and judged in extended
precision, by the G and c that were given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from bounded_systems import feasible_sums, integer_bounds
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[Any]

UNITS = 64.0
"""What rounding may add to the objective, in units of eps times the sum of its terms.
Entries of G and c that differ by eps change it as much."""

FAR = 1e5
"""Infinite bounds are replaced by this number, in units of the other variables. So an
objective without a minimum has a candidate that is much better."""

CUTOFFS = (1e-15, 1e-12, 1e-9)
"""Eigenvalues below these parts of the largest count as zero, in turn."""


class Program(NamedTuple):
    """``min x G x / 2 - c x``; `scale` is the unit of each variable."""

    G: Array
    c: Array
    lower: Array
    upper: Array
    sum_to: Array | None
    scale: Array

    def take(self, systems: Any) -> Program:
        return Program(*[None if array is None else array[systems] for array in self])


def objective(given: Program, x: Array) -> Array:
    """``x G x / 2 - c x`` in extended precision."""
    G, x = given.G.astype(np.longdouble), x.astype(np.longdouble)
    return np.asarray((x * (np.einsum("kij,kj->ki", G, x) / 2 - given.c)).sum(axis=-1))


def rounding(given: Program, x: Array) -> Array:
    """What rounding may add to the objective, also by the last bits of a fixed sum."""
    terms = np.abs(x) * (np.einsum("kij,kj->ki", np.abs(given.G), np.abs(x)))
    terms += np.abs(given.c * x)
    found = UNITS * np.finfo(np.float64).eps * terms.sum(axis=-1)
    if given.sum_to is not None:
        w = given.c - np.einsum("kij,kj->ki", given.G, x)
        bits = np.finfo(np.float64).eps * np.abs(x).sum(axis=-1)
        off = np.maximum(np.abs(lack(given, x)), bits)
        found = found + off * np.abs(w).max(axis=-1)
    return np.asarray(found)


def natural(given: Program, x: Array) -> Array:
    """``x G x / 2 + |c x|``: the terms of the objective."""
    cx = (given.c * x).sum(axis=-1)
    return np.asarray(np.abs(objective(given, x) + cx) + np.abs(cx), np.float64)


def brute_force(given: Program) -> tuple[Array, Array]:
    """The best x and its objective, over all choices of a bound for each variable.

    What rounding may add to the objective counts for each candidate.
    """
    systems, n = given.c.shape
    best, best_x = (
        np.full(systems, np.inf, np.longdouble),
        np.full((systems, n), np.nan),
    )
    unit = given.scale * np.maximum(1, size_of_bounds(given))
    lower = np.where(np.isfinite(given.lower), given.lower, -FAR * unit)
    upper = np.where(np.isfinite(given.upper), given.upper, FAR * unit)
    near = given._replace(lower=lower, upper=upper)
    for pattern in itertools.product(range(3), repeat=n):
        chosen = np.array(pattern)
        rest = np.choose(chosen, [lower, upper, np.zeros(n)])
        for x in candidates(near, rest, chosen == 2):
            value = objective(given, x) + rounding(given, x)
            better = value < best  # NaN is not
            best = np.where(better, value, best)
            best_x[better] = x[better]
    return best_x, best


def size_of_bounds(given: Program) -> Array:
    """The largest finite bound of each system in units, as a column."""
    both = np.stack([given.lower, given.upper])
    both = np.where(np.isfinite(both), np.abs(both) / given.scale, 0)
    return np.asarray(both.max(axis=(0, 2))[:, None])


def candidates(given: Program, rest: Array, free: Array) -> list[Array]:
    """The best x where some variables rest, for each cutoff; NaN if beyond a bound."""
    scale = given.scale
    G = given.G * scale[:, :, None] * scale[:, None, :]
    P = np.broadcast_to(np.diag(free.astype(float)), G.shape)
    start = rest.copy()
    if given.sum_to is not None:
        q = scale * free
        length = np.sqrt((q * q).sum(axis=-1, keepdims=True))
        q = q / np.where(length > 0, length, 1)
        P = P - q[:, :, None] * q[:, None, :]
    values, vectors = np.linalg.eigh(P @ G @ P)
    found = []
    for cutoff in CUTOFFS if free.any() else CUTOFFS[:1]:
        kept = values > cutoff * np.maximum(values.max(axis=-1, keepdims=True), 1e-300)
        root = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1)), 0)
        half = P @ vectors * root[:, None, :]
        x = start.astype(np.longdouble)
        for _ in range(3):
            if given.sum_to is not None and free.any():
                lack = given.sum_to - x.sum(axis=-1)
                x = x + scale * q * (lack[:, None] / np.where(length > 0, length, 1))
            w = given.c - np.einsum("kij,kj->ki", given.G.astype(np.longdouble), x)
            along = np.einsum("kij,ki->kj", half, (w * scale).astype(float))
            x = x + scale * np.einsum("kij,kj->ki", half, along) * free
        x = x.astype(np.float64)
        slack = 1e-9 * scale * np.abs(x / scale).max(axis=-1, keepdims=True)
        inside = (x >= given.lower - slack) & (x <= given.upper + slack)
        clipped = np.clip(x, given.lower, given.upper)
        if given.sum_to is not None:
            lack = np.abs(clipped.sum(axis=-1) - given.sum_to)
            inside &= (lack <= 1e-14 * np.abs(clipped).sum(axis=-1))[:, None]
        found.append(np.where(inside.all(axis=-1, keepdims=True), clipped, np.nan))
    return found


def excess(given: Program, x: Array, best_x: Array, best: Array) -> Array:
    """How far the objective of x is above the optimum, relative to its terms."""
    above = objective(given, x) - rounding(given, x) - best
    slope = np.abs(given.c * given.scale).max(axis=-1)
    terms = natural(given, best_x) + UNITS * np.finfo(np.float64).eps * slope**2
    return np.asarray(above / np.where(terms > 0, terms, 1), np.float64)


def lack(given: Program, x: Array) -> Array:
    """The fixed sum minus the sum of x, in extended precision."""
    return np.asarray(given.sum_to - x.astype(np.longdouble).sum(axis=-1))


def wrong_sum(given: Program, x: Array) -> Array:
    """How far the sum is off, relative to its terms."""
    if given.sum_to is None:
        return np.zeros(len(x))
    size = np.maximum(np.abs(x).sum(axis=-1), 1e-300)
    return np.asarray(np.abs(lack(given, x)) / size, np.float64)


# ---- random programs ----

Factors = Callable[[Generator, int, int], Array]


def normal(rng: Generator, systems: int, n: int) -> Array:
    """Of full rank, with a few more rows."""
    return rng.normal(size=(systems, n + int(rng.integers(4)), n))


def positive(rng: Generator, systems: int, n: int) -> Array:
    """Non-negative, as templates and concentrations are."""
    return rng.random((systems, n + 3, n))


def deficient(rng: Generator, systems: int, n: int) -> Array:
    """Of a lower rank."""
    rank = int(rng.integers(1, n))
    A = rng.normal(size=(systems, n, rank)) @ rng.normal(size=(systems, rank, n))
    return np.asarray(A)


def zeros(rng: Generator, systems: int, n: int) -> Array:
    """With columns of zeros."""
    return normal(rng, systems, n) * (rng.random((systems, 1, n)) < 0.6)


def duplicates(rng: Generator, systems: int, n: int) -> Array:
    """Columns that are equal, or the opposite of each other."""
    A = normal(rng, systems, n)
    A = np.take_along_axis(A, rng.integers(n, size=(systems, 1, n)), axis=-1)
    return np.asarray(A * rng.choice([-1, 1, 1, 1, 2], (systems, 1, n)))


def nearly(rng: Generator, systems: int, n: int) -> Array:
    """Columns that differ by little from other columns."""
    noise = 10 ** rng.uniform(-9, -3, (systems, 1, 1))
    return duplicates(rng, systems, n) + noise * rng.normal(size=(systems, 1, n))


def graded(rng: Generator, systems: int, n: int) -> Array:
    """Singular values from 1 to 1e-8: eigenvalues of G from 1 to rounding."""
    Q = np.linalg.qr(rng.normal(size=(2, systems, n, n)))[0]
    return np.asarray(Q[0] * 10 ** rng.uniform(-8, 0, (systems, 1, n)) @ Q[1])


def integers(rng: Generator, systems: int, n: int) -> Array:
    """Small integers: ties, and exact dependences."""
    return rng.integers(-1, 2, (systems, int(rng.integers(1, n + 2)), n)).astype(float)


FAMILIES: dict[str, Factors] = {
    family.__name__: family
    for family in (
        *(normal, positive, deficient, zeros, duplicates, nearly, graded, integers),
    )
}
"""Factors A of G, by name."""


def random_programs(
    index: int, seed: int = 0, systems: int = 256, largest: int = 4
) -> tuple[str, Program]:
    """A batch of one family with random bounds; sums in half of the batches."""
    rng = np.random.default_rng([seed, index, 29])
    name = list(FAMILIES)[index % len(FAMILIES)]
    n = int(rng.integers(2, largest + 1))
    A = FAMILIES[name](rng, systems, n)
    lower, upper = integer_bounds(rng, systems, n)
    c = np.einsum("kmn,km->kn", A, rng.normal(size=A.shape[:2]))
    other = rng.normal(size=c.shape) * (rng.random((systems, 1)) < 0.5)
    kind = int(rng.integers(4))
    if kind == 0:  # not in the range of G
        c = c + other
    elif kind == 1:  # nearly in the range
        c = c + other * 10 ** rng.uniform(-16, -8, (systems, 1))
    elif kind == 2:
        c = np.round(c)
    total = feasible_sums(rng, lower, upper) if rng.random() < 0.5 else None
    scale = np.ones((systems, n))
    if total is None or rng.random() < 0.5:
        scale = np.where(
            rng.random((systems, 1)) < 0.5, 1.0, 10 ** rng.uniform(-6, 6, (systems, n))
        )
    G = np.einsum("kmi,kmj->kij", A, A) / scale[:, :, None] / scale[:, None, :]
    lower, upper = lower * scale, upper * scale
    if total is not None:
        total = feasible_sums(rng, lower, upper)
    G = np.tril(G) + np.swapaxes(np.tril(G, -1), -1, -2)
    return name, Program(G, c / scale, lower, upper, total, scale)
