"""Least squares with almost parallel constraints, and their minima in exact rationals.

The arguments are floating-point numbers, which are rationals. A set of active rows
gives one candidate, by elimination in integers; a candidate that satisfies the
conditions of Karush, Kuhn and Tucker exactly is the minimum.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations
from math import lcm, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EPS = float(np.finfo(float).eps)

TIGHT = 1e-9
"""Slack of a constraint that is tried first as active, relative to its terms."""
Vector = list[Fraction]


class Exact(NamedTuple):
    """A batch: every array has the systems as its first axis."""

    A: Array
    b: Array
    lower: Array
    upper: Array
    A_ub: Array
    b_ub: Array
    A_eq: Array
    b_eq: Array

    def options(self) -> dict[str, Any]:
        """The arguments of ``lsq_linear`` but A and b."""
        rows = {name: getattr(self, name) for name in self._fields[4:]}
        return {"bounds": (self.lower, self.upper), **rows}

    def system(self, k: int) -> Exact:
        return Exact(*[values[k] for values in self])

    def rows(self) -> tuple[list[Vector], Vector, int]:
        """The constraints ``C x >= d`` of one system; the first rows are equalities."""
        eye = np.eye(self.A.shape[-1])
        C = np.concatenate([self.A_eq, -self.A_ub, eye, -eye])
        d = np.concatenate([self.b_eq, -self.b_ub, self.lower, -self.upper])
        used = np.isfinite(d)
        return [exact(row) for row in C[used]], exact(d[used]), len(self.b_eq)


def exact(values: Array) -> Vector:
    return [Fraction(float(value)) for value in values]


def dot(a: Vector, b: Vector) -> Fraction:
    return sum((s * t for s, t in zip(a, b, strict=True) if s and t), Fraction(0))


def solution(rows: list[Vector], right: Vector) -> Vector | None:
    """The solution of a square system, by Bareiss's elimination; None if singular."""
    M = []
    for row, side in zip(rows, right, strict=True):
        unit = lcm(*[value.denominator for value in (*row, side)])
        M.append([int(value * unit) for value in (*row, side)])
    n, before = len(M), 1
    for k in range(n):
        pivot = next((i for i in range(k, n) if M[i][k]), None)
        if pivot is None:
            return None
        M[k], M[pivot] = M[pivot], M[k]
        top = M[k]
        for i in range(n):
            if i != k:
                row, factor = M[i], M[i][k]
                M[i] = [
                    (top[k] * s - factor * t) // before
                    for s, t in zip(row, top, strict=True)
                ]
        before = top[k]
    return [Fraction(row[n], row[i]) for i, row in enumerate(M)]


def independent(rows: list[Vector]) -> list[int]:
    """The rows that do not depend on rows before them."""
    found: list[int] = []
    reduced: list[tuple[int, Vector]] = []
    for i, row in enumerate(rows):
        left = list(row)
        for k, other in reduced:
            factor = left[k] / other[k]
            left = [s - factor * t for s, t in zip(left, other, strict=True)]
        pivot = next((k for k, value in enumerate(left) if value), None)
        if pivot is not None:
            reduced.append((pivot, left))
            found.append(i)
    return found


def normal_equations(one: Exact) -> tuple[list[Vector], Vector]:
    """``A^T A`` and ``A^T b`` of one system."""
    columns = [exact(column) for column in one.A.T]
    H = [[dot(a, other) for other in columns] for a in columns]
    return H, [dot(a, exact(one.b)) for a in columns]


def minimum(
    one: Exact, H: list[Vector], g: Vector, near: Array | None = None
) -> Vector | None:
    """The minimum of ``x H x / 2 - g x`` within the constraints of one system.

    None: infeasible, or without a unique minimum. The constraints that hold with
    equality at a point `near` it are tried first.
    """
    C, d, equalities = one.rows()
    always, n = independent(C[:equalities]), len(g)
    others = range(equalities, len(C))
    most = n - len(always)
    tight = range(0)
    if near is not None and np.isfinite(near).all():
        rows, sides = np.array(C, float)[equalities:], np.array(d, float)[equalities:]
        left = np.abs(rows @ near - sides) / (np.abs(rows) @ np.abs(near) + 1e-30)
        tight = [i + equalities for i in np.argsort(left, kind="stable")]
        tight = tight[: min(most, int((left < TIGHT).sum()))]
    sets = [combinations(others, size) for size in range(most + 1)]
    for some in chain([tuple(tight)], *sets):
        active = [*always, *some]
        k = len(active)
        M = [[*H[j], *[-C[i][j] for i in active]] for j in range(n)]
        M += [[*C[i], *[Fraction(0)] * k] for i in active]
        found = solution(M, [*g, *[d[i] for i in active]])
        if found is None:
            continue
        x, y = found[:n], found[n + len(always) :]
        lack = [side - dot(row, x) for row, side in zip(C, d, strict=True)]
        if min(y, default=0) < 0 or any(lack[:equalities]):
            continue
        if max(lack, default=Fraction(0)) <= 0:
            return x
    return None


def misfit(one: Exact, x: Vector) -> Fraction:
    """``|b - A x|^2``."""
    r = [
        Fraction(float(side)) - dot(exact(row), x)
        for row, side in zip(one.A, one.b, strict=True)
    ]
    return dot(r, r)


def excess(one: Exact, x: Array, best: Vector) -> float:
    """By how much ``|b - A x|`` is above its minimum, relative as in `kkt`."""
    found, least = misfit(one, exact(x)), misfit(one, best)
    norms = np.linalg.norm(one.A.astype(float), axis=0)
    size = np.linalg.norm(one.b) + norms @ np.abs([float(value) for value in best])
    roots = sqrt(found) + sqrt(least)
    return float(found - least) / roots / float(size) if roots else 0.0


def program_excess(
    x: Array, best: Vector, H: list[Vector], g: Vector, eps: float = EPS
) -> float:
    """By how much a quadratic objective is above its minimum, relative as in `kkt`.

    Rounding errors of gradients, by the size S of their terms, and of H count as 0.
    """

    def parts(x: Vector) -> tuple[Fraction, Fraction]:
        return dot(x, [dot(row, x) for row in H]) / 2, dot(g, x)

    point = exact(x)
    size = [abs(value) for value in point]
    terms = [
        2 * abs(side) + 2 * dot([abs(value) for value in row], size)
        for row, side in zip(H, g, strict=True)
    ]
    pairs = enumerate(zip(point, best, strict=True))
    apart = sum(H[k][k] * (x - y) ** 2 for k, (x, y) in pairs)
    S = max(float(part) / sqrt(H[k][k] or 1) for k, part in enumerate(terms))
    (square, linear), (least, of_g) = parts(point), parts(best)
    found = float(square - linear - least + of_g) - 32 * len(x) * eps * S**2
    found -= 16 * len(x) ** 2 * eps * float(apart)
    return max(found, 0.0) / (float(square + abs(linear)) + eps * S**2 or 1)


def violation(one: Exact, x: Array) -> float:
    """The largest violation of a constraint, relative to the size of its terms.

    Terms count with at least 1e-4 of their size for an x with ``|a_k x_k| = |b|``.
    """
    C, d, equalities = one.rows()
    norms = np.linalg.norm(one.A.astype(float), axis=0)
    size = exact(np.abs(x) + 1e-4 * np.linalg.norm(one.b) / norms)
    found = 0.0
    for i, (row, side) in enumerate(zip(C, d, strict=True)):
        lack = side - dot(row, exact(x))
        terms = abs(side) + dot([abs(value) for value in row], size)
        lack = abs(lack) if i < equalities else max(lack, Fraction(0))
        found = max(found, float(lack / terms) if lack else 0.0)
    return found


# ---- families ------------------------------------------------------------------------

FAMILIES = "parallel", "equality", "opposite", "doubled", "redundant", "vertex", "fixed"


def almost_parallel(
    rng: np.random.Generator, systems: int, family: str, dtype: Any = np.float64
) -> Exact:
    """Systems with rows that are parallel up to 1e-9 to 1e-13 (float32: 1e-4 to 1e-6).

    Most have integers as elements before the rows are turned and scaled.
    """
    n = int(rng.integers(2, 4))
    m = n + int(rng.integers(0, 2))
    eps = np.finfo(dtype).eps
    near = rng.choice([1e7, 1e6, 1e5, 1e4, 1e3] if eps < 1e-10 else [1e3, 1e2, 16])
    near = near * eps * (0.5 + rng.random((systems, 1, 1)))

    def draw(*shape: int, most: int = 3) -> Array:
        return rng.integers(-most, most + 1, (systems, *shape)).astype(float)

    A = draw(m, n) + 4 * np.eye(m, n)
    if rng.random() < 0.4:
        A = np.broadcast_to(np.eye(m, n), A.shape).copy()
    point = draw(n, most=2)
    first = draw(1, n)
    first[..., 0] += first[..., 0] == 0
    turned = first + near * draw(2, n)
    more = draw(1, n)
    rows = [first, turned[:, :1], more]
    if family == "equality":
        rows = [turned[:, :1], more]
    elif family == "opposite":
        rows = [first, -turned[:, :1], more]
    elif family == "doubled":
        rows = [first, 2 * turned[:, :1], 3 * first]
    elif family == "redundant":
        rows = [first, more, first + more + near * draw(1, n)]
    elif family == "vertex":
        rows = [first, turned, more, more - near * draw(1, n)]
    C = np.concatenate(rows, axis=1)
    E = first if family == "equality" else draw(int(rng.integers(0, 2)), n)
    if rng.random() < 0.4:
        C = C * 10.0 ** rng.integers(-6, 7, (systems, C.shape[1], 1))
    if rng.random() < 0.3:
        sizes = 10.0 ** rng.integers(-3, 4, (systems, n))
        A, C, E = (matrix * sizes[:, None] for matrix in (A, C, E))
        point = point / sizes
    A, C, E, point = (array.astype(dtype) for array in (A, C, E, point))
    limit = np.einsum("sij,sj->si", C, point)
    slack = rng.choice([0, 0, 0, 1], limit.shape) * np.abs(C).max(axis=-1)
    exponent = rng.integers(-14, 1, limit.shape)
    limit = limit + (slack * 10.0**exponent if rng.random() < 0.3 else slack)
    lower, upper = np.full((2, systems, n), np.inf) * np.array([-1, 1])[:, None, None]
    if family == "fixed":
        lower[:, 0] = upper[:, 0] = point[:, 0]
    elif rng.random() < 0.3:
        lower = np.where(rng.random((systems, n)) < 0.5, point, lower)
    b = np.einsum("sij,sj->si", A, point)
    kind = rng.choice(["exact", "small", "integers"])
    if kind == "small":
        b = b + 10.0 ** rng.integers(-9, 0, (systems, 1)) * draw(m)
    elif kind == "integers":
        b = draw(m)
    sums = np.einsum("sij,sj->si", E, point)
    return Exact(
        *[array.astype(dtype) for array in (A, b, lower, upper, C, limit, E, sums)]
    )
