"""Criteria that choose the weight of a penalty, on arrays whose first axis is lambda.

A choice is an index along this axis for every system.
"""

from __future__ import annotations

import math

import numpy as np

from .._device.arrays import Array, namespace


@np.errstate(all="ignore")
def cross_validation(rnorm: Array, fitted: Array, rows: Array | int) -> Array:
    """The function of generalised cross-validation, ``m rnorm^2 / (m - fitted)^2``.

    It is infinite where the degrees of freedom leave no row to compare with.

    Parameters
    ----------
    rnorm : (lambdas, ...) array
    fitted : (lambdas, ...) array
        The degrees of freedom.
    rows : int or (...,) array
        The number of rows m that count.
    """
    xp, left = namespace(rnorm), rows - fitted
    decides = left > math.sqrt(np.finfo(rnorm.dtype).eps) * rows
    return xp.where(decides & (rnorm >= 0), rows * (rnorm / left) ** 2, math.inf)


@np.errstate(all="ignore")
def curvature(lambdas: Array, rnorm: Array, seminorm: Array) -> Array:
    """The curvature of ``log seminorm`` over ``log rnorm`` at each lambda.

    It is the curvature of the circle through a point and its neighbours in the order of
    the lambdas, positive at a corner that points to the origin. It is minus infinity at
    both ends, and where points are so close together that rounding decides.
    """
    xp = namespace(rnorm)
    order = xp.argsort(lambdas)
    x, y = xp.log(rnorm[order]), xp.log(seminorm[order])
    dx, dy = x[1:] - x[:-1], y[1:] - y[:-1]
    step = xp.sqrt(dx**2 + dy**2)
    chord = xp.sqrt((x[2:] - x[:-2]) ** 2 + (y[2:] - y[:-2]) ** 2)
    turn = 2 * (dx[:-1] * dy[1:] - dy[:-1] * dx[1:])
    bend = turn / (step[:-1] * step[1:] * chord)
    apart = xp.minimum(step[:-1], step[1:]) > np.cbrt(np.finfo(rnorm.dtype).eps)
    found = xp.full(rnorm.shape, -math.inf, rnorm.dtype)
    found[order[1:-1]] = xp.where(apart & xp.isfinite(bend), bend, -math.inf)
    return found


def largest_within(lambdas: Array, rnorm: Array, target: Array | float) -> Array:
    """The index of the largest lambda whose misfit is at most `target`.

    It is the index of the smallest lambda where all misfits are larger.
    """
    xp, fits = namespace(rnorm), rnorm <= target
    column = lambdas.reshape(-1, *(1,) * (rnorm.ndim - 1))
    largest = xp.where(fits, column, -math.inf).argmax(axis=0)
    return xp.where(fits.any(axis=0), largest, lambdas.argmin())
