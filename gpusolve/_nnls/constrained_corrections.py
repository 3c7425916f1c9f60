"""Corrections of points on their active constraints.

Active are equalities, and inequalities with a multiplier. Where the objective has its
minimum on the active constraints, the gradient of the Lagrangian is zero.
"""

from __future__ import annotations

from .._device.arrays import Array, largest, namespace
from .._device.products import product, transposed, transposed_product
from .._numerics.compensated import remainder, two_sum
from .active_rows import DEPENDENT, decomposed
from .constrained_dual import Dual, Point
from .constrained_system import EPS, ConstrainedSystem, gradient_of_lagrangian

REFINEMENTS = 8
"""How often points and multipliers are refined. Where rows are parallel up to 1e-13, a
time leaves about 1e-3 of the errors. The last changes are the rests."""

ILL_CONDITIONED = 2.0**13
"""A null space is refined where rounding errors may be larger by this factor."""


def correct_by_factor(system: ConstrainedSystem, dual: Dual, point: Point) -> Point:
    """A step of Newton's method, with the factor Z and its proximal term.

    The matrix of the active rows is solved with a small multiple of their size added:
    the rows may depend on each other.
    """
    xp, (x, multipliers, rest, x_rest), Z = namespace(point.x), point, dual.Z
    rows = active_rows(system, multipliers, xp.matmul(system.C, Z))
    slope = system.slope(x, system.residual(x, x_rest))
    e = slope + transposed_product(system.C, multipliers)
    along = transposed_product(Z, e)
    M = xp.matmul(rows, xp.swapaxes(rows, -1, -2))
    size = xp.diagonal(M, axis1=-2, axis2=-1)
    lack = xp.where(
        size > 0, system.constraint_residual(x, x_rest) - product(rows, along), 0
    )
    shift = xp.where(size > 0, size * M.shape[-1] * EPS, 1)
    M = M + shift[..., None] * xp.eye(M.shape[-1])
    change = xp.linalg.solve(M, lack[..., None])[..., 0]
    step = product(Z, along + transposed_product(rows, change))
    x, x_rest = two_sum(x, x_rest + step)
    return drop_negative_multipliers(
        system, Point(x, multipliers + change, 0 * rest, x_rest)
    )


def correct_by_elimination(
    system: ConstrainedSystem, dual: Dual, point: Point
) -> Point:
    """The minimum where the active rows hold, with variables eliminated by them.

    It squares no condition number and needs no proximal term, and no scale of a row or
    a variable affects it. The multipliers get a rest: where constraints have columns of
    very different size, only multipliers of more than the working precision make the
    gradient of the Lagrangian zero.
    """
    xp, x, x_rest = namespace(point.x), point.x, point.x_rest
    whole, (places, system) = system, active_system(system, point.multipliers)
    inverse, null = eliminate(system.C)
    multipliers, rest = (
        xp.take_along_axis(part, places, axis=-1) for part in point[1:3]
    )
    A = system.rows_with_l2()
    of_rows, of_values, of_columns = decomposed(xp.matmul(A, null), 1.0)
    linear = of_values * product(
        of_columns, transposed_product(null, system.l1 + 0 * x)
    )
    for _ in range(REFINEMENTS):
        x, x_rest = two_sum(
            x, x_rest + product(inverse, system.constraint_residual(x, x_rest))
        )
        r = system.residual(x, x_rest)
        r = xp.concatenate([r, -xp.sqrt(system.l2) * x], axis=-1)
        along = transposed_product(of_rows, r[..., : A.shape[-2]]) - linear
        step = product(null, transposed_product(of_columns, of_values * along))
        x, x_rest = two_sum(x, x_rest + step)
    slope = system.slope(x, system.residual(x, x_rest))
    for _ in range(REFINEMENTS):
        e = gradient_of_lagrangian(system, slope, multipliers, rest)
        change = rest - transposed_product(inverse, e)
        multipliers, rest = two_sum(multipliers, change)
    every, none = xp.arange(len(x))[:, None], xp.zeros_like(point.rest)
    found = Point(x, none, none.copy(), x_rest)
    found.multipliers[every, places], found.rest[every, places] = multipliers, rest
    return drop_negative_multipliers(whole, found)


def active_system(
    system: ConstrainedSystem, multipliers: Array
) -> tuple[Array, ConstrainedSystem]:
    """The systems with their active rows only, and the places of these rows.

    Rows of zeros fill up systems with fewer active rows.
    """
    xp, C = namespace(multipliers), active_rows(system, multipliers, system.C)
    active = C.any(axis=-1)
    most = int(active.sum(axis=-1).max()) if active.size else 0
    places = xp.argsort(~active, axis=-1, kind="stable")[:, :most]
    d = xp.where(active, system.d, 0)
    return places, system._replace(
        C=xp.take_along_axis(C, places[..., None], axis=-2),
        d=xp.take_along_axis(d, places, axis=-1),
    )


def eliminate(rows: Array) -> tuple[Array, Array]:
    """A generalised inverse of the rows of each system, and a basis of the null space.

    Gauss-Jordan elimination of the largest element of a row that is not rounding error:
    an element counts only if it is larger than the rounding errors of the terms that it
    was computed from. The next row is the row in which least has cancelled.

    Parameters
    ----------
    rows : (systems, k, n) array

    Returns
    -------
    inverse : (systems, n, k) array
        ``rows (inverse v) = v`` if ``rows x = v`` has a solution.
    null : (systems, n, n) array
        ``I - inverse rows``; its columns are a basis, or zeros.
    """
    xp, (systems, k, n) = namespace(rows), rows.shape
    every, unit = xp.arange(systems), xp.eye(n)
    whole = xp.concatenate([rows, xp.broadcast_to(xp.eye(k), (systems, k, k))], axis=-1)
    terms, pivots = xp.abs(whole), xp.zeros((systems, k, n))
    for _ in range(min(k, n)):
        size, of = xp.abs(whole[..., :n]), terms[..., :n]
        left = (size > DEPENDENT * n * EPS * of) & ~pivots.any(axis=-1)[..., None]
        columns = xp.where(left, size, 0).argmax(axis=-1)
        share = xp.where(left, size / xp.where(left, of, 1), 0)
        share = xp.take_along_axis(share, columns[..., None], axis=-1)[..., 0]
        i = share.argmax(axis=-1)
        j, found = columns[every, i], share[every, i] > 0
        if not bool(found.any()):
            break
        pivot = xp.where(found, whole[every, i, j], 1)[..., None]
        row, of_row = whole[every, i] / pivot, terms[every, i] / xp.abs(pivot)
        factor = xp.where(found[:, None], whole[every, :, j], 0)
        factor[every, i] = 0
        whole = whole - factor[..., None] * row[:, None]
        terms = terms + xp.abs(factor)[..., None] * of_row[:, None]
        whole[every, i], terms[every, i] = row, of_row
        pivots[every, i] += found[:, None] * unit[j]
    pivots = transposed(pivots)
    inverse = xp.matmul(pivots, whole[..., n:])
    null = unit - xp.matmul(pivots, whole[..., :n])
    growth = xp.matmul(xp.abs(inverse), xp.matmul(xp.abs(rows), xp.abs(null)))
    size, growth = (largest(largest(xp.abs(part))) for part in (null, growth))
    at = xp.flatnonzero(growth > ILL_CONDITIONED * size)
    if len(at):
        columns, left = transposed(null[at]), transposed(inverse[at])
        for _ in range(REFINEMENTS):
            lack, _ = remainder(xp.zeros(k), rows[at][:, None], columns)
            columns = columns + xp.matmul(lack, left)
        null[at] = transposed(columns)
    return inverse, null


def active_rows(system: ConstrainedSystem, multipliers: Array, rows: Array) -> Array:
    """The rows of active constraints, and zeros for the others."""
    xp = namespace(rows)
    equal = xp.arange(rows.shape[-2]) >= system.inequalities
    return xp.where(((multipliers != 0) | equal)[..., None], rows, 0)


def drop_negative_multipliers(system: ConstrainedSystem, point: Point) -> Point:
    """The point without negative multipliers of inequalities."""
    xp, multipliers = namespace(point.x), point.multipliers
    equal = xp.arange(multipliers.shape[-1]) >= system.inequalities
    kept = equal | (multipliers > 0)
    multipliers, rest = (xp.where(kept, y, 0) for y in (multipliers, point.rest))
    return point._replace(multipliers=multipliers, rest=rest)
