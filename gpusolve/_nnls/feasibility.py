"""Whether linear constraints have a solution: the points that violate them least.

What is given is rounded. So constraints have a solution if a point violates none by
more than the rounding of its terms, and no solution if no point does so. The point of
the least squares of the violations within the bounds decides. Its violations are
multipliers y, too, not negative for inequalities. By Farkas's lemma they prove that no
x within the bounds has ``C x >= d`` if ``d y`` is above the largest ``(C^T y) x``.
"""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple

import numpy as np

from .._device.arrays import Array, ArrayT, largest, namespace, unwrapped
from .._device.kernels import Device, device_of
from .._device.products import product, transposed, transposed_product
from .._numerics.arithmetic import EPS, inverse_power_of_two, remainder
from .._numerics.certificate import INFEASIBLE, ROUNDED, SHARE
from .arguments import drop_repeats, gather
from .constraint_rows import Rows, row_basis
from .dense import solve_within_bounds
from .problem import Problem

FAR = 1e9
"""A proof is for the x of at most this size, in units of the largest side that x = 0
violates. A bound beyond counts as infinite there."""

SCALINGS = 3
"""How often columns and rows are scaled."""

MOVED = 1 / 4
"""How much of the allowed violation may be due to moved sides. The rest is for x, whose
terms may be smaller than those of the point of least violation."""

WEIGHINGS = 2
"""How often violations are weighted by the size of their terms at the last point."""


class LeastViolation(NamedTuple):
    """The points of some systems that violate the constraints least.

    Attributes
    ----------
    x : (systems, n) array
        Within the bounds.
    sides : (systems, rows) array
        The sides of the general rows, moved so that x satisfies them.
    is_consistent, is_far : (systems,) array
        Whether rounding explains the violations, and whether it explains them nowhere.
    is_proven : (systems,) array
        Whether the multipliers prove that there is no solution.
    multipliers : (systems, rows) array
        Of the general rows.
    lower, upper : (systems, n) array
        The multipliers of the bounds.
    """

    x: Array
    sides: Array
    is_consistent: Array
    is_far: Array
    is_proven: Array
    multipliers: Array
    lower: Array
    upper: Array

    @property
    def is_infeasible(self) -> Array:
        """Whether systems have no solution, beyond the rounding of what was given."""
        return self.is_far & self.is_proven


class Proof(NamedTuple, Generic[ArrayT]):
    """The multipliers that prove that a system has no solution, in float64.

    They multiply the constraints. For every x that satisfies all of them, each term of

        ``ub (b_ub - A_ub x) + eq (b_eq - A_eq x) + sum_to (s - sum(x))``
        ``+ lower (x - l) + upper (u - x)``

    is 0 or positive, where s is the given sum, and l and u are the bounds. But
    ``A_ub^T ub + A_eq^T eq + sum_to - lower + upper`` is 0 in each element, up to
    rounding, so the value is the same for every x: it is negative. With the rounding it
    is negative for every x up to 1e9 times the largest side that x = 0 violates.

    Arrays are NaN for systems that have no proof: they have another status, all their
    weights are zero, or the lower bound is infinity or the upper minus infinity.

    Attributes
    ----------
    ub, eq : (..., rows) array
        The multipliers of ``A_ub x <= b_ub``, not negative, and of ``A_eq x = b_eq``.
    lower, upper : (..., n) array
        The multipliers of the bounds, not negative; 0 for infinite bounds.
    sum_to : (...,) array
        The multiplier of the fixed sum.

    See Also
    --------
    NNLSResult.proof

    Examples
    --------
    >>> import gpusolve
    >>> rows = {"A_ub": [[1.0, 1.0]], "b_ub": [1.0]}
    >>> proof = gpusolve.lsq_linear([[1.0, 0.0]], [1.0], (1, 9), **rows).proof()
    >>> proof.ub, proof.lower
    (array([1.]), array([1., 1.]))
    """

    ub: ArrayT
    eq: ArrayT
    lower: ArrayT
    upper: ArrayT
    sum_to: ArrayT | Any


Proof.__module__ = "gpusolve"  # pickles stay valid if the class moves


@np.errstate(all="ignore")
def proof_of(given: dict[str, Any], status: Array) -> Proof[Any]:
    """The proofs for the systems of status 4; `given` has the fields of a `Problem`."""
    xp, problem = namespace(status), Problem(**{k: given[k] for k in Problem._fields})
    n, batch = problem.shape[1], problem.batch
    rows = Rows.of(problem._replace(A=xp.zeros((0, n))))
    at = xp.flatnonzero(status == INFEASIBLE)
    every = slice(0, math.prod(batch))
    found = least_violation(problem, rows, every, at, device_of(status))
    below, equal, _ = rows.counts
    ends = [below, below + equal]
    ub, eq, total = xp.split(found.multipliers, ends, axis=-1)
    parts = [ub, -eq, found.lower, found.upper, -total.sum(axis=-1)]
    fields = []
    for values in parts:
        field = xp.full((every.stop, *values.shape[1:]), math.nan)
        field[at[found.is_proven]] = values[found.is_proven]
        fields.append(unwrapped(field.reshape((*batch, *values.shape[1:]))))
    return Proof(*fields)


class Limits(NamedTuple):
    """The general constraints ``C x >= d`` of some systems, and their bounds, scaled.

    Elements of C and the largest side that x = 0 violates are about 1. All factors are
    powers of two.

    Attributes
    ----------
    C : (systems, rows, n) array
        The rows of equalities are the last. Each system has its own product, whose last
        bits do not depend on the other systems: a proof is the same on request.
    d, units : (systems, rows), (rows,) array
        The sides, and by how much of the size of its terms a row may be violated.
    lower, upper : (systems, n) array
        Infinite where they contradict each other.
    equal : (rows,) array
        Mask of the equalities.
    used : (systems, rows) array
        Mask of the rows that not every x up to `FAR` satisfies.
    rows, columns : (..., rows), (..., n) array
        The factors of rows and columns.
    size : (systems, 1) array
        The factor of the sides and of x.
    """

    C: Array
    d: Array
    units: Array
    lower: Array
    upper: Array
    equal: Array
    used: Array
    rows: Array
    columns: Array
    size: Array

    @classmethod
    def of(
        cls, C: Array, d: Array, units: Array, bounds: tuple[Array, Array], below: int
    ) -> Limits:
        """Scale the constraints, whose first rows, `below`, are inequalities."""
        xp, equal = namespace(d), namespace(d).arange(d.shape[-1]) >= below
        C, rows, columns = equilibrated(C)
        C = xp.broadcast_to(C, (*d.shape, C.shape[-1]))
        absent, d = d == -math.inf, xp.where(xp.isinf(d), 0, d) * rows
        lower, upper = (bound / columns for bound in bounds)
        violated = [xp.where(equal, xp.abs(d), d), lower, -upper]
        size = inverse_power_of_two(largest(xp.concatenate(violated, axis=-1)))[:, None]
        d, lower, upper = d * size, lower * size, upper * size
        far = ~equal & (d < -FAR * xp.abs(C).sum(axis=-1))
        used = ~(absent | far | ~(C.any(axis=-1) | (d != 0)))
        return cls(C, d, units, lower, upper, equal, used, rows, columns, size)

    def limit(self, x: Array) -> Array:
        """By how much a point of this size may violate each row; 1 for unused rows."""
        terms = product(namespace(x).abs(self.C), x) + abs(self.d)
        return namespace(x).where(self.used, self.units * terms, 1)

    def nearest(self, limit: Array, target: Device | None) -> Array:
        """The points within the bounds with the least squares of violation / limit.

        The slack of an inequality is another variable, which is not negative.
        """
        xp, below = namespace(limit), int((~self.equal).sum())
        C, slack = drop_repeats(self.C, 2), -xp.eye(limit.shape[-1])[:, :below]
        slack = xp.broadcast_to(slack, (*C.shape[:-1], below))
        none = xp.zeros((len(limit), below))
        bounds = (self.lower, none), (self.upper, none + math.inf)
        lower, upper = (xp.concatenate(pair, axis=-1) for pair in bounds)
        given = Problem(
            A=xp.concatenate([C, slack], axis=-1),
            b=self.d,
            batch=limit.shape[:1],
            bounds=(lower, upper),
            weights=xp.where(self.used, 1 / limit**2, 0),
        )
        return solve_within_bounds(given, target, "qr").x[:, : self.C.shape[-1]]

    def multipliers(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The multipliers y of the rows, and ``C^T y``, of the bounds.

        The elements of the free variables are made 0, up to rounding of y. What is left
        is computed in twice the working precision.
        """
        xp, free = namespace(x), (x > self.lower) & (x < self.upper)
        if not y.shape[-1]:
            return y, 0 * x
        rows = self.C * (y != 0)[..., None] * free[:, None, :]
        basis = row_basis(transposed(rows))
        for _ in range(2):
            y = y - transposed_product(basis, product(basis, y))
        y = xp.where(self.equal, y, xp.maximum(y, 0))
        v, _ = remainder(0 * x, transposed(self.C), -y)
        return y, v

    def is_proof(self, y: Array, v: Array) -> Array:
        """Whether ``d y`` is above ``v x`` within the bounds, beyond rounding."""
        xp = namespace(y)
        low, high = xp.maximum(self.lower, -FAR), xp.minimum(self.upper, FAR)
        gain = (self.d * y).sum(axis=-1) - xp.maximum(v * low, v * high).sum(axis=-1)
        terms = xp.abs(v) * xp.maximum(xp.abs(low), xp.abs(high))
        terms = terms.sum(axis=-1) + xp.abs(self.d * y).sum(axis=-1)
        return gain > (v.shape[-1] + y.shape[-1]) * EPS * terms


def least_violation(
    problem: Problem, rows: Rows, chunk: slice, at: Array, target: Device | None
) -> LeastViolation:
    """The least violations in the systems `at` of a chunk of the flattened batch."""
    xp, (n, systems) = namespace(at), (problem.shape[1], len(at))

    def part(value: Array | float, core: int) -> Array:
        array = xp.asarray(value, float)
        if array.ndim >= core:
            array = gather(array, core, problem.batch, chunk)
        return array if array.ndim <= core else array[at]

    C, units = part(rows.C, 2), rows.units
    d = xp.broadcast_to(part(rows.d, 1), (systems, len(units)))
    lower, upper = (
        xp.broadcast_to(part(bound, 1), (systems, n)) for bound in problem.bounds
    )
    wrong = (lower > upper) | (lower == math.inf) | (upper == -math.inf)
    none = xp.where(wrong, -math.inf, lower), xp.where(wrong, math.inf, upper)
    limits = Limits.of(C, d, units, none, rows.counts[0])
    x, equal = xp.ones((systems, n)), limits.equal
    for _ in range(WEIGHINGS):
        limit = limits.limit(magnitude(x))
        x = limits.nearest(limit, target)
    violation = limits.d - product(limits.C, x)
    violation = xp.where(equal, violation, xp.maximum(violation, 0))
    violation = xp.where(limits.used, violation, 0)
    y = violation / limit**2
    most = largest(xp.abs(y), keepdims=True)
    y, v = limits.multipliers(x, y / xp.where(most > 0, most, 1))
    is_proven, share = (
        limits.is_proof(y, v),
        abs(violation) / limits.limit(magnitude(x)),
    )
    # Almost parallel rows magnify any move: none is made for rounding errors of x.
    rounding = (ROUNDED + n) * EPS / units
    moved = xp.where((share <= rounding).all(axis=-1)[:, None], 0, violation)
    y, v = y * limits.rows, v / limits.columns
    below = xp.where((v < 0) & (limits.lower >= -FAR), -v, 0)
    above = xp.where((v > 0) & (limits.upper <= FAR), v, 0)
    first = wrong & (xp.cumsum(wrong, axis=-1) == 1)
    is_wrong = wrong.any(axis=-1)
    infinite = xp.isinf(lower) | xp.isinf(upper)
    y, below, above = (
        xp.where(is_wrong[:, None], of_bounds, values)
        for values, of_bounds in ((y, 0), (below, first), (above, first))
    )
    return LeastViolation(
        x=x * limits.columns / limits.size,
        sides=d - moved / limits.rows / limits.size,
        is_consistent=(share <= MOVED).all(axis=-1) & ~is_wrong,
        is_far=(share**2).sum(axis=-1) > share.shape[-1],
        is_proven=xp.where(is_wrong, ~(first & infinite).any(axis=-1), is_proven),
        multipliers=y,
        lower=below,
        upper=above,
    )


def magnitude(x: Array) -> Array:
    """The magnitudes of x; elements near 0 count with a share of the usual size."""
    return abs(x) + SHARE


def equilibrated(C: Array) -> tuple[Array, Array, Array]:
    """The rows with elements of at most 1 in rows and columns, and the factors.

    The factors of rows and of columns follow; all are powers of two.
    """
    M: Any = C
    columns: Any = 1.0
    rows: Any = 1.0
    for _ in range(SCALINGS):
        factor = inverse_power_of_two(largest(namespace(C).abs(M), axis=-2))
        M, columns = M * factor[..., None, :], columns * factor
        factor = inverse_power_of_two(largest(namespace(C).abs(M)))
        M, rows = M * factor[..., None], rows * factor
    return M, rows, columns
