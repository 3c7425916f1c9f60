"""Boosting as in the paper: three matrix-vector products for each learner and step."""

from __future__ import annotations

from typing import NamedTuple

from .._device.arrays import Array, namespace
from .._gemv.gemv import Variant, gemv


class Boosted(NamedTuple):
    """A boosted model and its steps.

    Attributes
    ----------
    offset : float
        The weighted mean of y.
    selected : (steps,) int32 array
        The learner that each step selected.
    updates : (steps, k) array
        The change of that learner's coefficients.
    risk : (steps + 1,) array
        The weighted sum of squared residuals before the first step and after each.
    fitted : (n,) array
        The fitted values of the final model.
    """

    offset: float
    selected: Array
    updates: Array
    risk: Array
    fitted: Array


def boost_directly(
    B: Array,
    y: Array,
    K: Array,
    lambda_: Array,
    *,
    weights: Array | None = None,
    learning_rate: float = 0.1,
    steps: int = 100,
    variant: Variant = "auto",
) -> Boosted:
    """Algorithms 1 and 2 of the paper, by `gpusolve.gemv`, on the device of the arrays.

    A step also needs the fits of all learners. Nothing is copied to the host. The
    design matrices take ``8 K n k`` bytes.

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
    variant : str, optional
        The variant of `gpusolve.gemv` for the three products.

    See Also
    --------
    gpusolve.gam.BoostedGAM, gpusolve.gemv

    References
    ----------
    A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models with GPU
    Acceleration", 2023.

    Examples
    --------
    >>> import numpy as np
    >>> B = np.array([[[1.0], [1.0], [0.0]], [[1.0], [0.0], [0.0]]])
    >>> y = np.array([3.0, 0.0, 0.0])
    >>> options = {"learning_rate": 1.0, "steps": 1}
    >>> boost_directly(B, y, np.eye(1), np.zeros(2), **options).fitted
    array([3., 1., 1.])
    """
    xp = namespace(y)
    w = xp.ones(len(y)) if weights is None else weights
    offset = w @ y / w.sum()
    residual = y - offset
    gram = xp.matmul(B.swapaxes(1, 2), w[:, None] * B)
    inverse = xp.linalg.inv(gram + lambda_[:, None, None] * K)
    selected = xp.zeros(steps, xp.int32)
    updates = xp.zeros((steps, B.shape[2]))
    risk = xp.zeros(steps + 1)
    risk[0] = residual @ (w * residual)
    for step in range(steps):
        projected = gemv(B, w * residual, transpose=True, variant=variant)
        coefs = gemv(inverse, projected, variant=variant)
        fits = gemv(B, coefs, variant=variant)
        losses = (w * (residual - fits) ** 2).sum(axis=1)
        best = losses.argmin()
        selected[step] = best
        updates[step] = learning_rate * coefs[best]
        residual = residual - learning_rate * fits[best]
        risk[step + 1] = residual @ (w * residual)
    return Boosted(offset, selected, updates, risk, y - residual)
