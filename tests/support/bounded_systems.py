"""Least-squares systems with bounds, weights, penalties and sums, and their optima.

All functions take batches: arrays of which the first axis is the system. Nothing here
uses the package: optima are found by least squares on every set of variables that may
be free, or by SciPy, and optimality conditions are evaluated in extended precision.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
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

CERTIFIED = 16.0
"""The largest violation of a certified solution, in eps."""


class Bounded(NamedTuple):
    """Systems with all their options; `weights` and `sum_to` may be None."""

    A: Array
    b: Array
    lower: Array
    upper: Array
    l1: Array
    l2: Array
    weights: Array | None
    sum_to: Array | None

    @classmethod
    def of(
        cls,
        A: ArrayLike,
        b: ArrayLike,
        bounds: tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf),
        l1: ArrayLike = 0.0,
        l2: ArrayLike = 0.0,
        weights: ArrayLike | None = None,
        sum_to: ArrayLike | None = None,
    ) -> Bounded:
        """Broadcast all arguments to the systems of `b`, (systems, m)."""
        A, b = np.asarray(A, np.float64), np.asarray(b, np.float64)
        systems, (m, n) = len(b), A.shape[-2:]

        def per(value: Any, *shape: int) -> Any:
            if value is None:
                return None
            return np.broadcast_to(np.asarray(value, np.float64), (systems, *shape))

        each = per(bounds[0], n), per(bounds[1], n), per(l1, n), per(l2, n)
        return cls(per(A, m, n), b, *each, per(weights, m), per(sum_to))

    def take(self, systems: Any) -> Bounded:
        return Bounded(*[None if array is None else array[systems] for array in self])

    def copy(self) -> Bounded:
        """The systems in arrays that may be changed."""
        return Bounded(*[None if array is None else array.copy() for array in self])

    def astype(self, dtype: Any) -> Bounded:
        return Bounded(
            *[None if array is None else array.astype(dtype) for array in self]
        )

    def rounded(self, dtype: Any) -> Bounded:
        """The systems as a solver of this dtype reads them, in float64."""
        return self.astype(dtype).astype(np.float64)

    def options(self) -> dict[str, Any]:
        """The arguments of ``lsq_linear`` after `A` and `b`."""
        given = self._asdict()
        bounds = given.pop("lower"), given.pop("upper")
        return {"bounds": bounds} | {
            name: value for name, value in given.items() if name not in ("A", "b")
        }

    def weighted(self, dtype: Any = np.float64) -> tuple[Array, Array]:
        """A and b with rows multiplied by the square roots of the weights."""
        A, b = self.A.astype(dtype), self.b.astype(dtype)
        if self.weights is None:
            return A, b
        root = np.sqrt(self.weights.astype(dtype))
        return A * root[..., None], b * root


def objective(given: Bounded, x: Array) -> Array:
    """The objective, in extended precision."""
    A, b = given.weighted(np.longdouble)
    r = b - np.einsum("kmn,kn->km", A, x)
    found = (r * r).sum(axis=-1) / 2
    found = found + (given.l1 * x).sum(axis=-1) + (given.l2 * x * x).sum(axis=-1) / 2
    return np.asarray(found, np.float64)


def residual_norm(given: Bounded, x: Array) -> Array:
    """``|b - A x|`` with the weights, in extended precision."""
    A, b = given.weighted(np.longdouble)
    r = b - np.einsum("kmn,kn->km", A, x)
    return np.asarray(np.sqrt((r * r).sum(axis=-1)), np.float64)


def magnitude(given: Bounded, x: Array) -> Array:
    """``|b| + sum_k |a_k x_k|`` with the weights: the unit of rounding errors."""
    A, b = given.weighted(np.longdouble)
    size = np.sqrt((A * A).sum(axis=-2) + given.l2)
    return np.asarray(np.sqrt((b * b).sum(axis=-1)) + (size * np.abs(x)).sum(axis=-1))


def infeasibility(given: Bounded, x: Array) -> Array:
    """How far the sum is off, relative to its terms; infinite beyond a bound.

    Rounding errors of x do not count where they are all that x is.
    """
    inside = (x >= given.lower) & (x <= given.upper)
    off = np.zeros(len(x))
    if given.sum_to is not None:
        A, b = given.weighted(np.longdouble)
        norm = np.sqrt((A * A).sum(axis=-2) + given.l2)
        unit = np.sqrt((b * b).sum(axis=-1))[:, None] / np.where(norm > 0, norm, np.inf)
        eps = float(np.finfo(x.dtype).eps)
        rounding = 8 * eps * np.where(x != 0, unit, 0).max(axis=-1, initial=0)
        total = np.asarray(x, np.longdouble).sum(axis=-1)
        size = np.abs(x).sum(axis=-1) + np.abs(given.sum_to)
        lack = np.maximum(np.abs(total - given.sum_to) - rounding, 0)
        off = lack / np.where(size > 0, size, 1)
    return np.where(inside.all(axis=-1), off, np.inf).astype(np.float64)


def violation(given: Bounded, x: Array) -> Array:
    """The largest violation of the optimality conditions.

    The gradient must not point into the interval, from any bound. With a fixed sum, no
    variable may rise while another falls: the multiplier is eliminated. Violations
    are relative to the terms that cancel in a gradient, and to rounding of the largest
    variable, which need not change A x.
    """
    A, b = given.weighted(np.longdouble)
    r = b - np.einsum("kmn,kn->km", A, x)
    w = np.einsum("kmn,km->kn", A, r) - given.l1 - given.l2 * x
    norm = np.sqrt((A * A).sum(axis=-2) + given.l2)
    largest = np.abs(x).max(axis=-1, initial=0) * norm.max(axis=-1, initial=0)
    size = magnitude(given, x) + np.finfo(x.dtype).eps * largest
    terms = norm * size[:, None] + np.abs(given.l1)
    rises, falls = x < given.upper, x > given.lower
    if given.sum_to is None:
        worst = np.maximum(np.where(rises, w, 0), np.where(falls, -w, 0))
    else:
        pairs = rises[:, :, None] & falls[:, None]
        worst = np.maximum(np.where(pairs, w[:, :, None] - w[:, None], 0), 0)
        terms = terms[:, :, None] + terms[:, None]
    worst = worst / np.where(terms > 0, terms, 1)
    return worst.reshape(len(x), -1).max(axis=-1, initial=0).astype(np.float64)


def check_optimal(given: Bounded, found: Any, tolerance: float = CERTIFIED) -> None:
    """Every system is certified, feasible and optimal, up to `tolerance` eps."""
    x, eps = found.x, float(np.finfo(found.x.dtype).eps)
    assert (found.status == 0).all()
    assert infeasibility(given, x).max() <= 16 * eps
    assert violation(given, x).max() <= tolerance * eps
    expected = residual_norm(given, x)
    limit = 32 * eps * expected + eps * magnitude(given, x)
    assert (np.abs(found.rnorm - expected) <= limit).all()


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


def check_against_brute_force(
    given: Bounded, found: Any, shown: Any = True, least: float = 1.0
) -> None:
    """Solved systems are feasible and optimal; all others say so.

    At least the part `least` of the systems must be solved whose x is not large, and
    whose solution the mask `shown` allows.
    """
    assert set(np.unique(found.status)) <= {0, 3}
    off, solved = infeasibility(given, found.x), found.status == 0
    assert np.isfinite(off).all()
    assert off[solved].max(initial=0) <= 1e-10
    size, of_b = magnitude(given, found.x), np.linalg.norm(given.b, axis=-1)
    expected = (size < 1e3 * of_b) & shown
    assert solved[expected].sum() >= least * expected.sum()
    above = excess(given.take(solved), found.x[solved])
    assert above.max(initial=0) <= 1e-8


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

INTERVALS = (
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


def integer_bounds(rng: Generator, systems: int, n: int) -> tuple[Array, Array]:
    """Bounds of one kind, or another kind for each variable, some of them scaled."""
    kinds = np.array(INTERVALS)
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
    lower, upper = integer_bounds(rng, systems, n)
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
        weights if kinds & 4 else None,
        total if kinds & 8 else None,
    )


OPTIONS: list[dict[str, bool]] = [
    {},
    {"l1": True},
    {"l2": True},
    {"weights": True},
    {"has_sum": True},
    {"l1": True, "l2": True, "weights": True, "has_sum": True},
]
"""Options of `random_problems`."""


def random_problems(
    rng: Generator,
    systems: int,
    m: int,
    n: int,
    *,
    l1: bool = False,
    l2: bool = False,
    weights: bool = False,
    has_sum: bool = False,
) -> Bounded:
    """Feasible systems of full rank; sums that the bounds allow.

    The penalties do not decrease towards infinite bounds: there is a minimum.
    """
    A = rng.standard_normal((systems, m, n))
    lower, upper = integer_bounds(rng, systems, n)
    point = rng.normal(size=(systems, n))
    root = rng.random((systems, m)) * (rng.random((systems, m)) < 0.8)
    root[:, 0] += 0.1
    each = rng.random((2, systems, n))
    return Bounded.of(
        A,
        np.einsum("kmn,kn->km", A, point) + 0.3 * rng.standard_normal((systems, m)),
        (lower, upper),
        l1=0.5 * each[0] * np.isfinite(lower) if l1 else 0.0,
        l2=each[1] * (rng.random((systems, n)) < 0.7) if l2 else 0.0,
        weights=root**2 if weights else None,
        sum_to=np.clip(point, lower, upper).sum(axis=-1) if has_sum else None,
    )


def excess(given: Bounded, x: Array) -> Array:
    """How far the objective is above the brute-force optimum, as a part of its terms.

    It is infinite where x is not finite or not feasible.
    """
    of_b = np.linalg.norm(given.weighted()[1], axis=-1)
    with np.errstate(all="ignore"):
        terms = of_b * magnitude(given, x)
        above = objective(given, x) - brute_force(given)
        found = above / np.where(terms > 0, terms, 1)
        off = infeasibility(given, x) > FEASIBLE
    return np.where(np.isfinite(found) & ~off, found, np.inf)


# ---- defects ----

BAD = {
    "A": (2, np.nan),
    "b": (2, np.inf),
    "lower": (2, np.nan),
    "upper": (2, np.nan),
    "l1": (2, np.nan),
    "l2": (2, np.inf),
    "weights": (2, np.nan),
    "sum_to": (2, np.nan),
    "lower above": (4, None),
    "no weight": (4, None),
    "sum too large": (4, 1e3),
    "sum too small": (4, -1e3),
    "lower of inf": (4, np.inf),
    "upper of -inf": (4, -np.inf),
    "negative weight": (2, -1.0),
    "infinite weight": (2, np.inf),
    "infinite sum": (2, np.inf),
    "negative l1": (2, -1.0),
    "negative l2": (2, -1.0),
    "infinite l1": (2, np.inf),
}
"""The status of a system with this defect, and the number that makes it."""


def spoiled(given: Bounded, what: str, system: int) -> Bounded:
    """The systems, one of them with a defect."""
    other = given.copy()
    value = BAD[what][1]
    if what == "lower above":
        other.lower[system, 1] = other.upper[system, 1] + 1
    elif what == "no weight":
        other.weights[system] = 0
    elif value is not None:
        words = what.split()
        name = next(word for word in (*words, "weights") if word in (*given._fields,))
        name = "weights" if "weight" in words else "sum_to" if "sum" in words else name
        entry = (system,) if name == "sum_to" else (system, 1)
        getattr(other, name)[entry] = value
    return other
