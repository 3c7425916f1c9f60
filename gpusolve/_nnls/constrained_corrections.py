"""Corrections of points on their active constraints.

Active are equalities, and inequalities with a multiplier. Where the objective has its
minimum on the active constraints, the gradient of the Lagrangian is zero.
"""

from __future__ import annotations

import numpy as np

from .._device.arrays import Array, namespace
from .._device.products import product
from .accurate_products import transposed_product
from .constrained_dual import Dual, Point, decomposed
from .constrained_system import ConstrainedSystem

EPS = float(np.finfo(np.float64).eps)


def correct_by_factor(system: ConstrainedSystem, dual: Dual, point: Point) -> Point:
    """A step of Newton's method, with the factor Z and its proximal term.

    The matrix of the active rows is solved with a small multiple of their size added:
    the rows may depend on each other.
    """
    xp, (x, multipliers), Z = namespace(point.x), point, dual.Z
    rows = active_rows(system, multipliers, xp.matmul(system.C, Z))
    e = system.slope(x, system.residual(x)) + transposed_product(system.C, multipliers)
    along = transposed_product(Z, e)
    M = xp.matmul(rows, xp.swapaxes(rows, -1, -2))
    size = xp.diagonal(M, axis1=-2, axis2=-1)
    lack = xp.where(size > 0, system.lack(x) - product(rows, along), 0)
    shift = xp.where(size > 0, size * M.shape[-1] * EPS, 1)
    M = M + shift[..., None] * xp.eye(M.shape[-1])
    change = xp.linalg.solve(M, lack[..., None])[..., 0]
    step = product(Z, along + transposed_product(rows, change))
    return with_signs(system, Point(x + step, multipliers + change))


def correct_by_projection(system: ConstrainedSystem, _: Dual, point: Point) -> Point:
    """The minimum in the null space of the active rows.

    It squares no condition number and needs no proximal term, but the singular
    values of two matrices are needed for each system.
    """
    xp, (x, multipliers) = namespace(point.x), point
    rows = active_rows(system, multipliers, system.C)
    left, inverse, right = decomposed(rows)
    lack = xp.where(xp.isfinite(system.d), system.lack(x), 0)
    x = x + transposed_product(right, inverse * transposed_product(left, lack))
    A = system.rows_with_l2()
    across = A - xp.matmul(xp.matmul(A, xp.swapaxes(right, -1, -2)), right)
    of_rows, of_values, of_columns = decomposed(across, 1.0)
    r = xp.concatenate([system.residual(x), -xp.sqrt(system.l2) * x], axis=-1)
    along = transposed_product(of_rows, r[..., : A.shape[-2]])
    along = of_values * (along - of_values * product(of_columns, system.l1 + 0 * x))
    step = transposed_product(of_columns, along)
    x = x + step - transposed_product(right, product(right, step))
    e = system.slope(x, system.residual(x)) + transposed_product(system.C, multipliers)
    change = product(left, inverse * product(right, e))
    return with_signs(system, Point(x, multipliers - change))


def active_rows(system: ConstrainedSystem, multipliers: Array, rows: Array) -> Array:
    """The rows of active constraints, and zeros for the others."""
    xp = namespace(rows)
    equal = xp.arange(rows.shape[-2]) >= system.inequalities
    return xp.where(((multipliers != 0) | equal)[..., None], rows, 0)


def with_signs(system: ConstrainedSystem, point: Point) -> Point:
    """The point with non-negative multipliers of inequalities."""
    xp, multipliers = namespace(point.x), point.multipliers
    equal = xp.arange(multipliers.shape[-1]) >= system.inequalities
    positive = xp.maximum(multipliers, 0)
    return point._replace(multipliers=xp.where(equal, multipliers, positive))
