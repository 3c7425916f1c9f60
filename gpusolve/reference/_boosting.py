"""The boosted additive model, computed by its definition, learner by learner.

The *learner* of a covariate is a penalised least-squares fit of a B-spline basis,
``b = (B'WB + lambda K)^-1 B'W u``. Every step fits all learners to the residual u, and
moves the model a little towards the best of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


class Boosted(NamedTuple):
    """A boosted model and its steps.

    Attributes
    ----------
    offset : float
        The weighted mean of y.
    selected : (steps,) int array
        The learner that each step selected.
    updates : (steps, k) array
        The change of that learner's coefficients.
    risk : (steps + 1,) array
        The weighted sum of squared residuals before the first step and after each.
    fitted : (n,) array
        The fitted values of the final model.
    """

    offset: float
    selected: NDArray[Any]
    updates: Array
    risk: Array
    fitted: Array


def boost(
    B: Array,
    y: Array,
    K: Array,
    lambda_: Array,
    *,
    weights: Array | None = None,
    learning_rate: float = 0.1,
    steps: int = 100,
) -> Boosted:
    """Algorithms 1 and 2 of the paper.

    Parameters
    ----------
    B : (learners, n, k) array
        The design matrices.
    y : (n,) array
    K : (k, k) array
        The matrix of the penalty.
    lambda_ : (learners,) array
        The smoothing parameters.
    weights : (n,) array, optional
        Ones by default.
    learning_rate : float, optional
        The fraction of the best fit that each step adds to the model.
    steps : int, optional
        Number of steps.

    See Also
    --------
    gpusolve.gam.BoostedGAM, design_matrix

    References
    ----------
    A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models with GPU
    Acceleration", 2023.

    Examples
    --------
    >>> B = np.array([[[1.0], [1.0], [0.0]], [[1.0], [0.0], [0.0]]])
    >>> y = np.array([3.0, 0.0, 0.0])
    >>> model = boost(B, y, np.eye(1), np.zeros(2), learning_rate=1.0, steps=1)
    >>> model.selected, model.risk, model.fitted
    (array([1], dtype=int32), array([6., 2.]), array([3., 1., 1.]))
    """
    w = np.ones(len(y)) if weights is None else weights
    inverses = [
        np.linalg.inv(X.T @ (w[:, None] * X) + smoothing * K)
        for X, smoothing in zip(B, lambda_, strict=True)
    ]
    offset = float(w @ y / w.sum())
    fitted = np.full(len(y), offset)
    selected = np.zeros(steps, np.int32)
    updates = np.zeros((steps, B.shape[2]))
    risk = [float(w @ (y - fitted) ** 2)]
    for step in range(steps):
        residual = y - fitted
        coefs = [A @ (X.T @ (w * residual)) for X, A in zip(B, inverses, strict=True)]
        losses = [
            w @ (residual - X @ coef) ** 2 for X, coef in zip(B, coefs, strict=True)
        ]
        best = int(np.argmin(losses))
        selected[step] = best
        updates[step] = learning_rate * coefs[best]
        fitted = fitted + B[best] @ updates[step]
        risk.append(float(w @ (y - fitted) ** 2))
    return Boosted(offset, selected, updates, np.array(risk), fitted)
