"""The criteria that choose a lambda of a regularization path, and the L-curve.

The first axis of arrays is lambda.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._device.arrays import Array, namespace

LABELLED = 5
"""The most points of the curve that show their lambda."""

SIZE = (4.6, 3.4)
"""The size of the figure in inches."""


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


# ---- the picture ---------------------------------------------------------------------


def pyplot() -> Any:
    """matplotlib.pyplot; ImportError that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error
    return plt


def draw_path(
    lambdas: Array, rnorm: Array, seminorm: Array, marks: dict[str, int]
) -> Any:
    """The figure of an L-curve; `marks` has the indices of named points."""
    figure, axis = pyplot().subplots(figsize=SIZE, layout="constrained")
    order = np.argsort(lambdas)
    axis.loglog(rnorm[order], seminorm[order], "o-", color="0.6", ms=3, lw=1)
    shown = np.linspace(0, len(order) - 1, min(LABELLED, len(order))).astype(int)
    for k in order[shown]:
        axis.annotate(
            f"{lambdas[k]:.2g}", (rnorm[k], seminorm[k]), (4, 4),
            textcoords="offset points", fontsize=7, color="0.4",
        )  # fmt: skip
    for number, (name, k) in enumerate(marks.items()):
        axis.plot(
            rnorm[k], seminorm[k], "o", mfc="none", color=f"C{number}",
            ms=7 + 4 * number, label=f"{name}: {lambdas[k]:.2g}",
        )  # fmt: skip
    axis.set_xlabel("rnorm")
    axis.set_ylabel("seminorm")
    axis.tick_params(which="both", labelsize=7)
    for ticks, values in ((axis.xaxis, rnorm), (axis.yaxis, seminorm)):
        if values.max() > 10 * values.min():  # the labels of decades suffice
            ticks.set_minor_formatter("")
    axis.spines[["top", "right"]].set_visible(False)
    if marks:
        axis.legend(title="lambda", frameon=False, fontsize=8)
    return figure
