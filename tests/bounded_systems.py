"""Least-squares systems with bounds, weights, penalties and sums, and their optima.

All functions take batches: arrays of which the first axis is the system. The optimum is
found without the package, by the method of least squares on every set of variables that
may be free.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from degenerate_systems import BATCH, FAMILIES
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

RANK = 1e-11
"""Singular values below this part of the largest count as zero in `brute_force`."""

UNITS = 64.0
"""What rounding may add to the objective, in units of ``eps magnitude**2``."""

FEASIBLE = 1e-6
"""How far the sum of a solution may be off, as a part of its terms. `infeasibility`
measures it; this number only tells a solution from another point."""

EPS = float(np.finfo(np.float64).eps)


class Bounded(NamedTuple):
    """Systems with all their options; `sum_to` may be None."""

    A: Array
    b: Array
    lower: Array
    upper: Array
    l1: Array
    l2: Array
    weights: Array
    sum_to: Array | None

    @classmethod
    def of(
        cls,
        A: ArrayLike,
        b: ArrayLike,
        bounds: tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf),
        l1: ArrayLike = 0.0,
        l2: ArrayLike = 0.0,
        weights: ArrayLike = 1.0,
        sum_to: ArrayLike | None = None,
    ) -> Bounded:
        """Broadcast all arguments to the systems of `b`, (systems, m)."""
        A, b = np.asarray(A, np.float64), np.asarray(b, np.float64)
        systems, (m, n) = len(b), A.shape[-2:]

        def per(value: ArrayLike, *shape: int) -> Array:
            return np.broadcast_to(np.asarray(value, np.float64), (systems, *shape))

        total = None if sum_to is None else per(sum_to)
        each = per(bounds[0], n), per(bounds[1], n), per(l1, n), per(l2, n)
        return cls(per(A, m, n), b, *each, per(weights, m), total)

    def take(self, systems: Any) -> Bounded:
        return Bounded(*[None if one is None else one[systems] for one in self])

    def rounded(self, dtype: Any) -> Bounded:
        """The systems as a solver of this dtype reads them, in float64."""
        fields = [one if one is None else one.astype(dtype) for one in self]
        return Bounded(*[one if one is None else one.astype(float) for one in fields])

    def options(self) -> dict[str, Any]:
        """The arguments of ``lsq_linear`` after `A` and `b`."""
        given = self._asdict()
        bounds = given.pop("lower"), given.pop("upper")
        return {"bounds": bounds} | {
            name: value for name, value in given.items() if name not in ("A", "b")
        }

    def weighted(self) -> tuple[Array, Array]:
        """A and b with rows multiplied by the square roots of the weights."""
        root = np.sqrt(self.weights)
        return self.A * root[..., None], self.b * root


def objective(given: Bounded, x: Array) -> Array:
    """What is minimised, in extended precision."""
    A, b = (np.asarray(one, np.longdouble) for one in given.weighted())
    r = b - np.einsum("kmn,kn->km", A, x)
    found = (r * r).sum(axis=-1) / 2
    found = found + (given.l1 * x).sum(axis=-1) + (given.l2 * x * x).sum(axis=-1) / 2
    return np.asarray(found, np.float64)


def magnitude(given: Bounded, x: Array) -> Array:
    """``|b| + sum_k |a_k x_k|`` with the weights; what rounding is relative to."""
    A, b = given.weighted()
    size = np.sqrt((A * A).sum(axis=-2) + given.l2)
    return np.asarray(np.linalg.norm(b, axis=-1) + (size * np.abs(x)).sum(axis=-1))


def infeasibility(given: Bounded, x: Array) -> Array:
    """How far the sum is off, relative to its terms; infinite beyond a bound.

    Rounding errors of x do not count where they are all that x is.
    """
    inside = (x >= given.lower) & (x <= given.upper)
    off = np.zeros(len(x))
    if given.sum_to is not None:
        A, b = given.weighted()
        norm = np.sqrt((A * A).sum(axis=-2) + given.l2)
        unit = np.linalg.norm(b, axis=-1)[:, None] / np.where(norm > 0, norm, np.inf)
        rounding = 8 * EPS * np.where(x != 0, unit, 0).max(axis=-1, initial=0)
        total = np.asarray(x, np.longdouble).sum(axis=-1)
        size = np.abs(x).sum(axis=-1) + np.abs(given.sum_to)
        lack = np.maximum(np.abs(total - given.sum_to) - rounding, 0)
        off = lack / np.where(size > 0, size, 1)
    return np.where(inside.all(axis=-1), off, np.inf).astype(np.float64)


def violation(given: Bounded, x: Array) -> Array:
    """The largest violation of the optimality conditions, as a part of `magnitude`.

    The gradient must not point into the interval, from any bound. With a fixed sum, no
    variable may rise while another one falls: the multiplier is eliminated.
    """
    A, b = (np.asarray(one, np.longdouble) for one in given.weighted())
    r = b - np.einsum("kmn,kn->km", A, x)
    w = np.einsum("kmn,km->kn", A, r) - given.l1 - given.l2 * x
    norm = np.sqrt((A * A).sum(axis=-2) + given.l2)
    rises, falls = x < given.upper, x > given.lower
    if given.sum_to is None:
        up, down = np.where(rises, w, 0), np.where(falls, -w, 0)
        worst = np.maximum(np.maximum(up, down), 0) / np.where(norm > 0, norm, 1)
    else:
        pairs = rises[:, :, None] & falls[:, None]
        gain = np.where(pairs, w[:, :, None] - w[:, None], 0)
        both = norm[:, :, None] + norm[:, None]
        worst = np.maximum(gain / np.where(both > 0, both, 1), 0)
    worst = worst.reshape(len(x), -1).max(axis=-1, initial=0)
    size = magnitude(given, x)
    return np.asarray(worst / np.where(size > 0, size, 1), np.float64)


def brute_force(given: Bounded) -> Array:
    """The least objective over all choices of a bound, or none, for each variable.

    What rounding x may add to the objective counts for each candidate: a solver need
    not find one of 1e15, on columns that are dependent up to rounding.
    """
    systems, n = given.lower.shape
    best = np.full(systems, np.inf)
    for pattern in itertools.product(range(3), repeat=n):
        chosen = np.array(pattern, int)
        rest = np.choose(chosen, [given.lower, given.upper, np.zeros(n)])
        possible = np.isfinite(rest).all(axis=-1)
        if possible.any():
            x = best_on(given.take(possible), rest[possible], chosen == 2)
            part, found = given.take(possible), np.nan_to_num(x)
            value = objective(part, found) + UNITS * EPS * magnitude(part, found) ** 2
            value[np.isnan(x).any(axis=-1)] = np.inf
            best[possible] = np.minimum(best[possible], value)
    return best


def best_on(given: Bounded, rest: Array, free: Array) -> Array:
    """The best x where some variables rest; NaN if it is beyond a bound.

    With a fixed sum, the first free variable makes it up. So equal entries of a row
    cancel exactly: such a row says no more than the sum.
    """
    A, b = given.weighted()
    n, basis, x = A.shape[-1], np.eye(A.shape[-1])[:, free], rest.copy()
    if given.sum_to is not None and free.any():
        first = int(np.argmax(free))
        basis = basis[:, 1:] - np.eye(n)[:, [first]]
        x[:, first] += given.sum_to - rest.sum(axis=-1)
    A = np.concatenate([A, np.sqrt(given.l2)[..., None] * np.eye(n)], axis=-2)
    r = np.pad(b, ((0, 0), (0, n))) - (A @ x[..., None])[..., 0]
    P = A @ basis
    scale = np.linalg.norm(P, axis=-2)
    scale = np.where(scale > 0, scale, 1)
    inverse = np.linalg.pinv(P / scale[:, None], rcond=RANK)
    penalty = (given.l1 @ basis / scale)[..., None]
    change = inverse @ (r[..., None] - inverse.swapaxes(-1, -2) @ penalty)
    x = x + (change[..., 0] / scale) @ basis.T
    slack = 1e-9 * np.abs(x).max(axis=-1, initial=0, keepdims=True)
    inside = (x >= given.lower - slack) & (x <= given.upper + slack)
    if given.sum_to is not None:
        inside &= np.abs(x.sum(axis=-1) - given.sum_to)[:, None] <= slack
    inside = inside.all(axis=-1, keepdims=True)
    return np.where(inside, np.clip(x, given.lower, given.upper), np.nan)


# ---- random systems ----

KINDS = (
    (0.0, np.inf),
    (-np.inf, np.inf),
    (-np.inf, 0.0),
    (0.0, 1.0),
    (-1.0, 1.0),
    (1.0, np.inf),
    (-2.0, -1.0),
    (0.0, 0.0),
    (1.0, 1.0),
)
"""Bounds of variables. Integers make ties and degenerate vertices."""


def random_bounds(rng: Generator, systems: int, n: int) -> tuple[Array, Array]:
    """Bounds of one kind, or another kind for each variable, some of them scaled."""
    kinds = np.array(KINDS)
    same = rng.random((systems, 1)) < 0.4
    kind = np.where(
        same,
        rng.integers(5, size=(systems, 1)),
        rng.integers(len(kinds), size=(systems, n)),
    )
    scale = np.where(
        rng.random((systems, 1)) < 0.5, 1.0, 10 ** rng.uniform(-3, 3, (systems, n))
    )
    return kinds[kind, 0] * scale, kinds[kind, 1] * scale


def feasible_sums(rng: Generator, lower: Array, upper: Array) -> Array:
    """A sum that the bounds allow; in a quarter of the systems the greatest."""
    low = np.where(np.isfinite(lower), lower, np.minimum(upper, 1.0) - 1.0)
    high = np.where(np.isfinite(upper), upper, np.maximum(lower, -1.0) + 1.0)
    part = rng.random((len(lower), 1))
    return np.asarray(
        (low + np.where(part < 0.75, part, 1) * (high - low)).sum(axis=-1)
    )


def random_systems(
    index: int, seed: int = 0, systems: int = BATCH, largest: int = 12
) -> tuple[str, Bounded]:
    """A batch of one family of ``degenerate_systems``, with random options."""
    rng = np.random.default_rng([seed, index, 13])
    m, n = int(rng.integers(1, largest + 1)), int(rng.integers(2, largest + 1))
    name = list(FAMILIES)[index % (len(FAMILIES) - 1)]
    A, b = FAMILIES[name](rng, systems, m, n)
    (m, n), kinds = A.shape[-2:], int(rng.integers(16))
    lower, upper = random_bounds(rng, systems, n)
    size = np.linalg.norm(A, axis=-2) + 0.1
    l1 = size * rng.exponential(size=(systems, n)) * (rng.random((systems, n)) < 0.5)
    l1 = np.where(np.isfinite(lower), l1, 0)  # there is a minimum
    l2 = size * rng.exponential(size=(systems, n)) * (rng.random((systems, n)) < 0.5)
    weights = rng.exponential(size=(systems, m)) * (rng.random((systems, m)) < 0.9)
    weights[:, 0] += 0.1
    total = feasible_sums(rng, lower, upper)
    return name, Bounded(
        A,
        b,
        lower,
        upper,
        l1 if kinds & 1 else np.zeros((systems, n)),
        l2 if kinds & 2 else np.zeros((systems, n)),
        weights if kinds & 4 else np.ones((systems, m)),
        total if kinds & 8 else None,
    )


def by_bvls(given: Bounded) -> Array:
    """SciPy's x of each system, by bounded-variable least squares; NaN if it fails.

    It is that without `l1` and `sum_to`, which SciPy does not have.
    """
    A, b = given.weighted()
    rows = np.sqrt(given.l2)[..., None] * np.eye(A.shape[-1])
    A, b = np.concatenate([A, rows], -2), np.concatenate([b, 0 * given.l2], -1)
    found = np.full(given.lower.shape, np.nan)
    for k, bounds in enumerate(zip(given.lower, given.upper, strict=True)):
        fixed = bounds[0] == bounds[1]
        found[k] = np.where(fixed, bounds[0], 0)
        rest = b[k] - A[k] @ found[k]
        free = tuple(bound[~fixed] for bound in bounds)
        if not fixed.all():
            try:
                result = scipy.optimize.lsq_linear(
                    A[k][:, ~fixed], rest, free, "bvls", tol=1e-15
                )
                found[k, ~fixed] = np.clip(result.x, *free)
            except (np.linalg.LinAlgError, ValueError):
                found[k] = np.nan
    return found


def excess(given: Bounded, x: Array) -> Array:
    """How far the objective is above that of brute force, as a part of its terms.

    It is infinite where x is not finite or not feasible.
    """
    of_b = np.linalg.norm(given.weighted()[1], axis=-1)
    with np.errstate(all="ignore"):
        terms = of_b * magnitude(given, x)
        above = objective(given, x) - brute_force(given)
        found = above / np.where(terms > 0, terms, 1)
        off = infeasibility(given, x) > FEASIBLE
    return np.where(np.isfinite(found) & ~off, found, np.inf)
