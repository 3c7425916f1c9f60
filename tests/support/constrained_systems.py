"""Small least-squares problems with linear constraints, and their least objective."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FEASIBLE = 1e-9
"""The largest violation of a constraint by a candidate, relative to its terms."""

ROUNDING = 1e-4
"""Added to the size of each element of x, times the largest element or 1: rounding
errors of an element near 0. Columns of A have unit norm."""

INF = np.inf


class Constrained(NamedTuple):
    """A batch: every array has the systems as its first axis."""

    A: Array
    b: Array
    lower: Array
    upper: Array
    A_ub: Array
    b_ub: Array
    A_eq: Array
    b_eq: Array
    l1: Array
    l2: Array
    weights: Array

    def options(self) -> dict[str, Any]:
        """The arguments of ``lsq_linear`` but A and b."""
        given = self._asdict()
        names = "A_ub", "b_ub", "A_eq", "b_eq", "l1", "l2", "weights"
        options = {name: given[name] for name in names}
        return {"bounds": (self.lower, self.upper), **options}

    def system(self, k: int) -> Constrained:
        return Constrained(*[values[k] for values in self])

    def rows(self) -> tuple[Array, Array, Array, Array]:
        """The constraints of one system: ``C x >= d`` and ``E x = f``."""
        n = self.A.shape[-1]
        C = np.concatenate([-self.A_ub, np.eye(n), -np.eye(n)])
        d = np.concatenate([-self.b_ub, self.lower, -self.upper])
        used = np.isfinite(d)
        return C[used], d[used], self.A_eq, self.b_eq

    def with_unit_columns(self) -> tuple[Constrained, Array]:
        """The same system in other variables, and the old variables for each new."""
        scale = np.linalg.norm(self.A, axis=0)
        scale = 1 / np.where(scale > 0, scale, 1)
        changed = {name: getattr(self, name) * scale for name in ("A", "A_ub", "A_eq")}
        changed |= {"lower": self.lower / scale, "upper": self.upper / scale}
        changed |= {"l1": self.l1 * scale, "l2": self.l2 * scale**2}
        return self._replace(**changed), scale

    def objective(self, x: Array) -> float:
        r = np.sqrt(self.weights) * (self.b - self.A @ x)
        return float(r @ r / 2 + self.l1 @ x + self.l2 @ x**2 / 2)

    def infeasibility(self, x: Array, rounding: float = ROUNDING) -> float:
        """The largest violation of a constraint by x, relative to its terms."""
        one, scale = self.with_unit_columns()
        (C, d, E, f), x = one.rows(), x / scale
        rows, sides = np.concatenate([C, E]), np.concatenate([d, f])
        lack = sides - rows @ x
        lack[: len(d)] = np.maximum(lack[: len(d)], 0)
        x_size = np.abs(x) + rounding * max(1.0, np.max(np.abs(x), initial=0))
        size = np.abs(rows) @ x_size + np.abs(sides)
        return float(np.max(np.abs(lack) / np.where(size > 0, size, 1), initial=0))


def candidates(one: Constrained) -> Iterator[Array]:
    """The stationary points on all sets of active constraints."""
    one, scale = one.with_unit_columns()
    C, d, E, f = one.rows()
    n = one.A.shape[-1]
    H = one.A.T @ (one.weights[:, None] * one.A) + np.diag(one.l2)
    g = one.A.T @ (one.weights * one.b) - one.l1
    for size in range(min(n, len(C)) + 1):
        for active in map(list, combinations(range(len(C)), size)):
            rows = np.concatenate([C[active], E])
            k = len(rows)
            K = np.block([[H, rows.T], [rows, np.zeros((k, k))]])
            right = np.concatenate([g, d[active], f])
            found = np.linalg.lstsq(K, right, rcond=1e-12)[0]
            if np.allclose(K @ found, right, rtol=1e-9, atol=1e-9):
                yield scale * found[:n]


def brute_force(one: Constrained) -> float:
    """The least objective of a system; infinite if no candidate is feasible."""
    values = [
        one.objective(x) for x in candidates(one) if one.infeasibility(x) <= FEASIBLE
    ]
    return min(values, default=INF)


def random_constrained(
    rng: np.random.Generator, systems: int, n: int, kind: str
) -> Constrained:
    """Random systems with at least one feasible point, unless `kind` is "any"."""
    m = int(rng.integers(1, n + 3))
    inequalities, equalities = int(rng.integers(1, 6)), int(rng.integers(0, min(n, 3)))
    integers = kind in ("integers", "any")

    def draw(*shape: int) -> Array:
        if integers:
            return rng.integers(-2, 3, (systems, *shape)).astype(float)
        return rng.standard_normal((systems, *shape))

    A, A_ub, A_eq = draw(m, n), draw(inequalities, n), draw(equalities, n)
    if kind == "deficient":
        A[..., -1] = A[..., 0]
        A = np.concatenate([A, A[:, :1]], axis=1)
    if kind == "scaled":
        A *= 10.0 ** rng.uniform(-6, 6, (systems, 1, n))
    if kind == "redundant":
        A_ub = np.concatenate([A_ub, A_ub, 2 * A_ub[:, :1]], axis=1)
        A_eq = np.concatenate([A_eq, A_eq.sum(axis=1, keepdims=True)], axis=1)
    inside = draw(n)
    slack = np.maximum(draw(A_ub.shape[1]), 0)
    b_ub = (A_ub @ inside[..., None])[..., 0] + slack
    b_eq = (A_eq @ inside[..., None])[..., 0]
    lower = np.where(rng.random((systems, n)) < 0.3, inside - 1, -INF)
    upper = np.where(rng.random((systems, n)) < 0.3, inside + 1, INF)
    if kind == "any":
        b_ub, b_eq = draw(A_ub.shape[1]), draw(A_eq.shape[1])
    b = draw(A.shape[1])
    penalties = np.zeros((2, systems, n))
    if kind == "penalties":
        penalties = 0.3 * rng.random((2, systems, n))
        lower = np.maximum(lower, inside - 2)
    weights = np.ones((systems, A.shape[1]))
    if kind == "weights":
        weights = rng.random((systems, A.shape[1]))
    return Constrained(A, b, lower, upper, A_ub, b_ub, A_eq, b_eq, *penalties, weights)
