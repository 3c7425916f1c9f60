"""Constraints that all hold with equality at a point, or contradict each other.

In a dtype, what is given is rounded: then they hold at the point up to rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

INF = np.inf


class Tight(NamedTuple):
    """A batch of least-squares problems; the rows of constraints are shared."""

    A: Array
    b: Array
    point: Array
    lower: Array
    upper: Array
    A_ub: Array
    b_ub: Array
    A_eq: Array
    b_eq: Array
    sum_to: Array | None

    def options(self, dtype: Any) -> dict[str, Any]:
        """The arguments of ``lsq_linear`` but A and b, rounded to a dtype."""
        names = "A_ub", "b_ub", "A_eq", "b_eq", "sum_to"
        given = {name: getattr(self, name) for name in names}
        rounded = {k: v.astype(dtype) for k, v in given.items() if v is not None}
        bounds = self.lower.astype(dtype), self.upper.astype(dtype)
        return {"bounds": bounds} | rounded


def times(C: Array, x: Array) -> Array:
    return np.asarray(np.einsum("...ij,...j->...i", C, x))


def violation(given: dict[str, Any], x: Array) -> Array:
    """The largest violation of each system, relative to the terms.

    Elements of x count with at least 1e-4 of the largest.
    """
    x = x.astype(float)
    size = np.abs(x) + 1e-4 * np.abs(x).max(axis=-1, keepdims=True)
    C, d, E, f = (given[k].astype(float) for k in ("A_ub", "b_ub", "A_eq", "b_eq"))
    lack = [times(C, x) - d, np.abs(times(E, x) - f)]
    terms = [times(abs(C), size) + abs(d), times(abs(E), size) + abs(f)]
    if "sum_to" in given:
        total = given["sum_to"].astype(float)
        lack.append(np.abs(x.sum(axis=-1) - total)[:, None])
        terms.append((size.sum(axis=-1) + np.abs(total))[:, None])
    lack += [given["bounds"][0] - x, x - given["bounds"][1]]
    terms += [size, size]
    most = np.concatenate([np.maximum(part, 0) for part in lack], axis=-1)
    whole = np.concatenate(terms, axis=-1)
    return np.asarray((most / np.where(most > 0, whole, 1)).max(axis=-1))


Rows = dict[str, Array]
"""The rows of A_ub and A_eq, and bounds; sides are those of the point."""


def groups(rng: np.random.Generator, x: Array) -> Rows:
    """Sums of groups, and the total, which depends on them."""
    group = rng.integers(2, size=x.shape[1])
    E = np.stack([group == 0, group == 1, group >= 0]).astype(float)
    return {"A_eq": E, "lower": np.minimum(x, 0)}


def fixed(rng: np.random.Generator, x: Array) -> Rows:
    """All variables are fixed, and a combination of them is given, too."""
    return {"A_eq": rng.standard_normal((1, x.shape[1])), "lower": x, "upper": x}


def vertex(rng: np.random.Generator, x: Array) -> Rows:
    """Each row, and its opposite."""
    C = rng.standard_normal((x.shape[1] + int(rng.integers(2)), x.shape[1]))
    return {"A_ub": np.concatenate([-C, C])}


def box(rng: np.random.Generator, x: Array) -> Rows:
    """The sum of all upper bounds."""
    return {"A_eq": np.ones((1, x.shape[1])), "lower": x - 1, "upper": x}


def cycle(rng: np.random.Generator, x: Array) -> Rows:
    """Differences around a circle, whose sum is 0."""
    return {"A_eq": np.eye(x.shape[1]) - np.roll(np.eye(x.shape[1]), 1, axis=1)}


def sums(rng: np.random.Generator, x: Array) -> Rows:
    """Sums as pairs of inequalities, next to the sum of all variables."""
    E = (np.arange(x.shape[1]) == np.arange(2)[:, None]).astype(float)
    E = np.concatenate([1 - E, E - 1])
    upper = np.where(rng.random(x.shape) < 0.5, x, INF)
    return {"A_ub": E, "upper": upper, "sum_to": x.sum(axis=-1)}


FAMILIES = {make.__name__: make for make in (groups, fixed, vertex, box, cycle, sums)}


def tight(
    family: str, rng: np.random.Generator, systems: int, n: int, shares: bool
) -> Tight:
    """Problems of a family, whose constraints all hold with equality at a point."""
    own = () if shares else (systems,)
    A, b = rng.standard_normal((*own, n + 2, n)), rng.standard_normal((systems, n + 2))
    x = rng.random((systems, n))
    rows = FAMILIES[family](rng, x)
    none = np.zeros((0, n))
    C, E = rows.get("A_ub", none), rows.get("A_eq", none)
    bounds = rows.get("lower", x - INF), rows.get("upper", x + INF)
    sides = times(C, x), times(E, x)
    return Tight(A, b, x, *bounds, C, sides[0], E, sides[1], rows.get("sum_to"))


def contradicted(given: Tight, gap: Array) -> Tight:
    """One side is moved by a part of its terms, so that no x satisfies all rows.

    The last equality is a sum or a difference of others, or there is a last inequality
    whose opposite is given.
    """
    C, d = (given.A_eq, given.b_eq) if len(given.A_eq) else (given.A_ub, given.b_ub)
    terms = times(abs(C), abs(given.point)) + abs(d)
    last = gap * terms[:, -1]
    if len(given.A_eq):
        side = given.b_eq.copy()
        side[:, -1] += last
        return given._replace(b_eq=side)
    side = given.b_ub.copy()
    side[:, -1] -= last
    return given._replace(b_ub=side)
