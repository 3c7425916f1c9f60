"""The learners of a boosted additive model, by their definitions.

The *learner* of a covariate is a penalised least-squares fit of a B-spline basis,
``b = (B'WB + lambda K)^-1 B'W u``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def equidistant_knots(lower: float, upper: float, n_basis: int, degree: int) -> Array:
    """Equidistant knots, continued by `degree` knots below `lower` and above `upper`.

    Returns
    -------
    (n_basis + degree + 1,) array

    See Also
    --------
    design_matrix

    Examples
    --------
    >>> equidistant_knots(0.0, 1.0, n_basis=3, degree=1)
    array([-0.5,  0. ,  0.5,  1. ,  1.5])
    """
    cells = n_basis - degree
    steps = np.arange(-degree, cells + degree + 1, dtype=np.float64)
    return lower + (upper - lower) / cells * steps


def design_matrix(x: Array, knots: Array, degree: int) -> Array:
    """The values of all B-splines at every x, by the recursion of Cox and de Boor.

    Parameters
    ----------
    x : (n,) array
        Values from ``knots[degree]`` to ``knots[-degree - 1]``; this upper end belongs
        to the cell below it.
    knots : (n_basis + degree + 1,) array
        In ascending order.
    degree : int

    Returns
    -------
    (n, n_basis) array

    See Also
    --------
    equidistant_knots, gpusolve.gam.BSplines

    Examples
    --------
    >>> design_matrix(np.array([0.25]), equidistant_knots(0.0, 1.0, 3, 1), 1)
    array([[0.5, 0.5, 0. ]])
    """
    cells = len(knots) - 2 * degree - 1
    cell = np.searchsorted(knots[degree : degree + cells], x, side="right") - 1
    B = np.zeros((len(x), len(knots) - 1))
    B[np.arange(len(x)), degree + np.clip(cell, 0, cells - 1)] = 1
    for d in range(1, degree + 1):
        rising = (x[:, None] - knots[:-d]) / (knots[d:] - knots[:-d])
        B = rising[:, :-1] * B[:, :-1] + (1 - rising[:, 1:]) * B[:, 1:]
    return B


def degrees_of_freedom(
    B: Array, weights: Array, K: Array, lambda_: float, definition: str
) -> float:
    """``tr(2S - S'S)`` ("2S-SS") or ``tr(S)`` ("trace") of the hat matrix S.

    See Also
    --------
    smoothing_parameter, design_matrix

    Examples
    --------
    >>> B, K = np.eye(4), np.zeros((4, 4))
    >>> degrees_of_freedom(B, np.ones(4), K, 0.0, "trace")
    4.0
    """
    G = B.T @ (weights[:, None] * B)
    S = np.linalg.solve(G + lambda_ * K, G)
    if definition == "trace":
        return float(np.trace(S))
    return float(2 * np.trace(S) - np.trace(S @ S))


def smoothing_parameter(
    B: Array, weights: Array, K: Array, df: float, definition: str
) -> float:
    """The lambda that gives `df` degrees of freedom, for a B of full rank.

    By bisection of its logarithm: the degrees of freedom fall as lambda rises.

    See Also
    --------
    degrees_of_freedom, gpusolve.gam.BoostedGAM

    Examples
    --------
    >>> B, K = np.eye(4), np.eye(4)
    >>> round(smoothing_parameter(B, np.ones(4), K, 2.0, "trace"), 6)
    1.0
    """
    if df >= np.linalg.matrix_rank(B):
        return 0.0
    low, high = np.log(1e-9), np.log(1e12)
    while (middle := (low + high) / 2) not in (low, high):
        if degrees_of_freedom(B, weights, K, np.exp(middle), definition) > df:
            low = middle
        else:
            high = middle
    return float(np.exp(middle))
