"""Feasible points at which the methods on a CPU start, for a batch of systems."""

from __future__ import annotations

import numpy as np

from .._numerics.certificate import gradient, residual
from .._numerics.scaling import Array, Mask, ScaledSystem


def starting_point(system: ScaledSystem, guess: Array, most: int) -> tuple[Array, Mask]:
    """A feasible x, and which variables start passive: at most `most`.

    These are the variables that the guess has between their bounds and not where they
    rest. If the sum is fixed, x has that sum, and some variable is passive in any case.

    Parameters
    ----------
    system : ScaledSystem
    guess : (N, n) array
        In the scaled variables. Entries that are not finite are ignored.
    most : int
    """
    usable = np.isfinite(guess) & (system.norm > 0)
    x = np.where(usable, np.clip(guess, system.lower, system.upper), system.rest)
    passive = moved_inside(system, x)
    too_many = np.cumsum(passive, axis=1) > most - system.has_sum
    x = np.where(passive & too_many, system.rest, x)
    if not system.has_sum:
        return x, passive & ~too_many
    x, last = make_sum(system, x)
    return x, moved_inside(system, x) | last


def moved_inside(system: ScaledSystem, x: Array) -> Mask:
    """Whether each variable is between its bounds, and not where it rests."""
    inside = (x > system.lower) & (x < system.upper)
    return np.asarray(inside & (x != system.rest))


@np.errstate(all="ignore")
def make_sum(system: ScaledSystem, x: Array) -> tuple[Array, Mask]:
    """Move variables to a bound, the steepest first, until x has its sum.

    The second result marks the last of them, which may stop before its bound. If all
    bounds together do not allow the sum, all variables are moved.
    """
    lower, upper, row = system.lower, system.upper, system.A[..., -1, :]
    missing = (system.b[..., -1] - np.vecdot(row, x))[:, None]
    up = missing >= 0
    end, direction = np.where(up, upper, lower), np.where(up, 1, -1)
    movable = (row > 0) & (lower < upper)
    slope = direction * gradient(system, residual(system, x)) / row
    order = np.argsort(np.where(movable, -slope, -np.inf), axis=1, kind="stable")
    room = np.where(movable, row * np.abs(end - x), 0)
    room = np.take_along_axis(room, order, axis=1)
    left = np.abs(missing) - np.pad(np.cumsum(room, axis=1), ((0, 0), (1, 0)))[:, :-1]
    suffices = (room > 0) & (room >= left)
    suffices[:, -1:] = True
    position = np.argmax(suffices, axis=1)[:, None]
    rank = np.argsort(order, axis=1)
    x = np.where(movable & (rank < position), end, x)
    last = movable & (rank == position)
    value = x + direction * np.take_along_axis(left, position, axis=1) / row
    return np.where(last, np.clip(value, lower, upper), x), last
