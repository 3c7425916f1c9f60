"""Quadratic objectives within bounds, by block pivots.

Each step solves for the free variables. Then it exchanges all variables that violate a
condition: free variables beyond a bound come to rest there, and resting variables enter
where the gradient points inwards. This takes few steps even for thousands of variables.
It may cycle: such systems are left to other solvers.

L. F. Portugal, J. J. Judice and L. N. Vicente, *A Comparison of Block Pivoting and
Interior-Point Algorithms for Linear Least Squares Problems with Nonnegative Variables*,
Mathematics of Computation 63, 1994.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array
from .._device.threads import workers

PATIENCE = 4
"""Steps without fewer violations than before after which a system is left."""


class Quadratics(NamedTuple):
    """``z G z / 2 + ridge z^2 / 2 - w z`` of several systems, within bounds.

    Attributes
    ----------
    G : (n, n) array
        Positive definite.
    norm : (n,) array
        The roots of the diagonal of G, or more; positive.
    tol : float
        A variable enters if the gradient exceeds `tol` times the terms that cancel.
    ridge, w : (systems, n) array
    lower, upper : (systems, n) array
        They include 0.
    """

    G: Array
    norm: Array
    tol: float
    ridge: Array
    w: Array
    lower: Array
    upper: Array

    def take(self, system: int) -> Quadratics:
        """A single system."""
        own = [field[system] for field in self[3:]]
        return Quadratics(self.G, self.norm, self.tol, *own)


class Pivoted(NamedTuple):
    """The minima that were found.

    Attributes
    ----------
    z : (systems, n) array
    counts : (systems, 3) integer array
        Steps, and variables that entered and that left.
    solved : (systems,) array
        Whether z is the minimum; else it is 0.
    """

    z: Array
    counts: NDArray[np.int32]
    solved: NDArray[np.bool_]


def solve_by_pivots(given: Quadratics, maxiter: int) -> Pivoted:
    """Minimise the objective of each system, with at most `maxiter` steps each."""
    systems, n = given.w.shape
    found = Pivoted(
        np.zeros((systems, n)),
        np.zeros((systems, 3), np.int32),
        np.zeros(systems, bool),
    )

    def work(chunk: slice) -> None:
        for k in range(systems)[chunk]:
            one = solve_one(given.take(k), maxiter)
            for field, value in zip(found, one, strict=True):
                field[k] = value

    with workers(systems, n * n) as run:
        run(work)
    return found


def solve_one(given: Quadratics, maxiter: int) -> tuple[Array, tuple[int, ...], bool]:
    """The fields of `Pivoted` for one system."""
    lower, upper = given.lower, given.upper
    side = np.where(upper <= 0, 1, 0) - np.where(lower >= 0, 1, 0)
    w, z = given.w, np.zeros_like(given.w)
    largest = np.abs(w / given.norm).max(initial=0)
    least, patience, entered, left = len(w) + 1, PATIENCE, 0, 0
    for step in range(maxiter):
        noise = given.tol * given.norm * (largest + given.norm @ np.abs(z))
        enters = (side * w < -noise) & (lower < upper)
        leaves = np.where(side == 0, (z > upper) * 1 - (z < lower) * 1, 0)
        violations = int(enters.sum()) + int((leaves != 0).sum())
        if step and not violations:
            return z, (step, entered, left), True
        patience = PATIENCE if violations < least else patience - 1
        least = min(least, violations)
        if patience < 0:
            break
        entered += int(enters.sum())
        left += int((leaves != 0).sum())
        side = np.where(enters, 0, side + leaves)
        z = constrained(given, side)
        w = given.w - given.G @ z - given.ridge * z
    return 0 * z, (0, 0, 0), False


def constrained(given: Quadratics, side: NDArray[np.int64]) -> Array:
    """The minimum where each variable is free, or at its lower or upper bound."""
    free = np.flatnonzero(side == 0)
    z = np.where(side < 0, given.lower, np.where(side > 0, given.upper, 0))
    right = given.w[free]
    if z.any():
        right = right - (given.G @ z)[free]
    G = given.G[np.ix_(free, free)]
    G[np.diag_indices(len(free))] += given.ridge[free]
    z[free] = np.linalg.solve(G, right)
    return np.asarray(z)
