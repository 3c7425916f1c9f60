"""Whether linear constraints have a solution: the points that violate them least.

What is given is rounded. So constraints have a solution if a point violates none by
more than the rounding of its terms, and no solution if no point does so. The point of
the least squares of the violations within the bounds decides. Its violations are
multipliers y, too, not negative for inequalities. By Farkas's lemma they prove that no
x within the bounds has ``C x >= d`` if ``d y`` is above the largest ``(C^T y) x``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .._device.arrays import Array, largest, namespace
from .._device.kernels import Device
from .._device.products import product, transposed
from . import cpu, device
from .accurate_products import transposed_product
from .constrained_certificate import SHARE
from .constrained_dual import decomposed
from .constrained_system import EPS, power_of_two
from .constraint_rows import Rows
from .inputs import Problem
from .part import gather

FAR = 1e9
"""A proof is for the x of at most this size, in units of the largest side that x = 0
violates. A bound beyond counts as infinite there."""

SCALINGS = 3
"""How often columns and rows are scaled."""

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
    is_consistent, is_infeasible : (systems,) array
        Whether rounding explains the violations, and whether there is a proof that it
        explains them nowhere.
    multipliers : (systems, rows) array
        Of the general rows.
    lower, upper : (systems, n) array
        The multipliers of the bounds.
    """

    x: Array
    sides: Array
    is_consistent: Array
    is_infeasible: Array
    multipliers: Array
    lower: Array
    upper: Array


def least_violation(
    problem: Problem, rows: Rows, chunk: slice, at: Array, target: Device | None
) -> LeastViolation:
    """The least violations in the systems `at` of a chunk of the flattened batch."""
    xp, (n, systems) = namespace(at), (problem.shape[1], len(at))

    def part(value: Array | float, core: int) -> Array:
        array = xp.asarray(value, float)
        if array.ndim < core:
            return xp.broadcast_to(array, (systems, n))
        array = gather(array, core, problem.batch, chunk)
        return array if array.ndim == core else array[at]

    C, d, units = rows.general
    C, d = part(C, 2), xp.broadcast_to(part(d, 1), (systems, len(units)))
    lower, upper = (
        xp.broadcast_to(part(bound, 1), (systems, n)) for bound in problem.bounds
    )
    k, inequalities = len(units), rows.counts[0]
    equal, absent = xp.arange(k) >= inequalities, d == -math.inf
    wrong = (lower > upper) | (lower == math.inf) | (upper == -math.inf)
    lower, upper = xp.where(wrong, -math.inf, lower), xp.where(wrong, math.inf, upper)
    M, columns, row_scale = equilibrated(C)
    sides = xp.where(absent, 0, d) * row_scale
    lower, upper = lower / columns, upper / columns
    size = largest(xp.where(equal, xp.abs(sides), sides))
    size = xp.maximum(size, xp.maximum(largest(lower), largest(-upper)))
    by_size = power_of_two(size)[:, None]
    sides, lower, upper = sides * by_size, lower * by_size, upper * by_size
    absent = absent | (~equal & (sides < -FAR * xp.abs(M).sum(axis=-1)))
    slack = -xp.eye(k)[:, :inequalities]
    slack = xp.broadcast_to(slack, (*M.shape[:-1], inequalities))
    none = xp.zeros((systems, inequalities))
    given = Problem(
        A=xp.concatenate([M, slack], axis=-1),
        b=sides,
        batch=(systems,),
        bounds=(
            xp.concatenate([lower, none], axis=-1),
            xp.concatenate([upper, none + math.inf], axis=-1),
        ),
    )
    x_size = xp.ones((systems, n))
    for _ in range(WEIGHINGS):
        limit = units * (product(xp.abs(M), x_size) + xp.abs(sides))
        used = (limit > 0) & ~absent
        weights = xp.where(used, 1 / xp.where(used, limit, 1) ** 2, 0)
        given = given._replace(weights=weights)
        if target is None:
            x = cpu.nnls(given, "qr").x[:, :n]
        else:
            x = device.nnls(given, target, "qr").x[:, :n]
        x_size = xp.abs(x) + SHARE
    violation = sides - product(M, x)
    violation = xp.where(used & (equal | (violation > 0)), violation, 0)
    limit = units * (product(xp.abs(M), x_size) + xp.abs(sides))
    part_of_limit = xp.abs(violation) / xp.where(used, limit, 1)
    y = violation * weights
    y = y / xp.maximum(largest(xp.abs(y), keepdims=True), EPS)
    free = (x > lower) & (x < upper)
    basis, _, _ = decomposed(M * (y != 0)[..., None] * free[:, None, :])
    for _ in range(2):
        y = y - product(basis, transposed_product(basis, y))
    y = xp.where(equal, y, xp.maximum(y, 0))
    v, terms = transposed_product(M, y), transposed_product(xp.abs(M), xp.abs(y))
    low, high = xp.maximum(lower, -FAR), xp.minimum(upper, FAR)
    gain = (sides * y).sum(axis=-1) - xp.where(v > 0, v * high, v * low).sum(axis=-1)
    terms = (terms * xp.maximum(xp.abs(low), xp.abs(high))).sum(axis=-1)
    terms = terms + xp.abs(sides * y).sum(axis=-1)
    is_far = (part_of_limit**2).sum(axis=-1) > k
    is_infeasible = is_far & (gain > (k + n) * EPS * terms)
    return LeastViolation(
        x=x * columns / by_size,
        sides=d - violation / row_scale / by_size,
        is_consistent=(part_of_limit <= 1).all(axis=-1) & ~wrong.any(axis=-1),
        is_infeasible=is_infeasible,
        multipliers=y * row_scale,
        lower=xp.where((v < 0) & (lower >= -FAR), -v / columns, 0),
        upper=xp.where((v > 0) & (upper <= FAR), v / columns, 0),
    )


def equilibrated(C: Array) -> tuple[Array, Array, Array]:
    """The rows with elements of at most 1 in rows and columns, and the factors.

    The factors of columns and of rows follow; all are powers of two.
    """
    M, columns, rows = C, 1.0, 1.0
    for _ in range(SCALINGS):
        factor = power_of_two(largest(namespace(C).abs(M), axis=-2))
        M, columns = M * factor[..., None, :], columns * factor
        factor = power_of_two(largest(namespace(C).abs(M)))
        M, rows = M * factor[..., None], rows * factor
    return M, columns, rows
