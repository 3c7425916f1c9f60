"""The dual problem of least squares with linear constraints.

With ``H = A^T A + diag(l2) = (Z Z^T)^-1`` and constraints ``C x >= d``, their
multipliers y minimise ``|B y + p|^2 / 2 - (d - C x) y``. Here B is ``Z^T C^T``, x is
any point, and p is its negative gradient times ``Z^T``. The solution is
``x + Z (B y + p)``.

The multipliers of equalities are free, so they are eliminated. What remains is
non-negative least squares, of the part of B that is orthogonal to the columns of all
equalities. All systems share the matrix if they share A and C.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .._device.arrays import Array, namespace
from .._device.kernels import Device
from .._device.products import product, transposed, transposed_product
from .._numerics.solution import Solution
from .active_rows import DEPENDENT, decomposed
from .constrained_system import EPS, ConstrainedSystem, zero_infinities
from .dense import solve_within_bounds
from .problem import Option, Problem


class Point(NamedTuple):
    """Points of some systems, in scaled variables, and their multipliers.

    Attributes
    ----------
    x : (systems, n) array
    multipliers, rest : (systems, rows) array
        The multipliers are the sum of both; the rest is less than the rounding errors
        of the first.
    x_rest : (systems, n) array
        The same for x. The residual of the sum is a witness: where terms cancel, only
        an x of more than the working precision makes the gradient zero.
    """

    x: Array
    multipliers: Array
    rest: Array
    x_rest: Array


class Dual(NamedTuple):
    """The matrices of dual problems; arrays that all systems share lack the first axis.

    Attributes
    ----------
    Z : (..., n, n) array
    B : (..., n, inequalities) array
        Orthogonal to `equal`.
    equal : (..., n, rank) array
        Orthonormal columns or zeros: a basis of the columns of the equalities.
    coupling : (..., rank, inequalities) array
        The part of the inequalities along `equal`.
    per_equal : (..., equalities, rank) array
        The multipliers of the equalities for each column of `equal`.
    """

    Z: Array
    B: Array
    equal: Array
    coupling: Array
    per_equal: Array

    @classmethod
    def of(cls, system: ConstrainedSystem, Z: Array) -> Dual:
        """Eliminate the equalities."""
        xp, first = namespace(Z), system.inequalities
        whole = transposed(xp.matmul(system.C, Z))
        B, E = whole[..., :first], whole[..., first:]
        equal, inverse, rows = decomposed(E)
        coupling = xp.matmul(transposed(equal), B)
        rest = B - xp.matmul(equal, coupling)
        rest = rest - xp.matmul(equal, xp.matmul(transposed(equal), rest))
        rounding = (DEPENDENT * B.shape[-2] * EPS) ** 2 * (B**2).sum(axis=-2)
        used = (rest**2).sum(axis=-2) > rounding
        rest = xp.where(used[..., None, :], rest, 0)
        return cls(Z, rest, equal, coupling, transposed(rows) * inverse[..., None, :])

    def across(self, vectors: Array) -> Array:
        """The part of (systems, n) vectors that is orthogonal to `equal`."""
        along = transposed_product(self.equal, vectors)
        return vectors - product(self.equal, along)

    def step(
        self,
        system: ConstrainedSystem,
        x: Array,
        target: Device | None,
        method: str,
        maxiter: int | None,
    ) -> tuple[Point, Solution]:
        """Minimise the objective plus the proximal term around x."""
        xp, first = namespace(x), system.inequalities
        p = transposed_product(self.Z, system.slope(x, system.residual(x)))
        lack = system.constraint_residual(x, 0 * x)
        fixed = transposed_product(self.per_equal, lack[..., first:])
        apart = self.across(p)
        gain = zero_infinities(lack[..., :first]) - transposed_product(
            self.coupling, fixed
        )
        given = Problem(
            A=self.B,
            b=-apart,
            batch=x.shape[:1],
            bounds=(0.0, multiplier_limit(system)),
            l1=-gain if bool(gain.any()) else 0.0,
            maxiter=maxiter,
        )
        found = solve_within_bounds(given, target, method)
        free = fixed - transposed_product(self.equal, p)
        free = free - product(self.coupling, found.x)
        step = product(self.B, found.x) + apart + product(self.equal, fixed)
        parts = [found.x, product(self.per_equal, free)]
        multipliers = xp.concatenate(parts, axis=-1)
        x = x + product(self.Z, step)
        return Point(x, multipliers, 0 * multipliers, 0 * x), found


def multiplier_limit(system: ConstrainedSystem) -> Option:
    """The upper bounds of the multipliers; 0 for rows that hold for every x."""
    xp = namespace(system.d)
    absent = system.d[..., : system.inequalities] == -math.inf
    return xp.where(absent, 0.0, math.inf) if bool(absent.any()) else math.inf
