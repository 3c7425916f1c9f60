"""Boosting as in the paper: three matrix-vector products for each learner and step."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import Array, namespace
from .._gemv.gemv import gemv


def boost(
    X: Array,
    inverse: Array,
    weights: Array | None,
    residual: Array,
    learning_rate: float,
    steps: int,
    gemv_variant: Any,
) -> tuple[Array, Array, Array]:
    """Make the steps with dense design matrices, on their device.

    Parameters
    ----------
    X : (K, n, k) array
        The design matrices.
    inverse : (K, k, k) array
        The coefficients of a fit to u are ``inverse X'Wu``.
    weights : (n,) array or None
        The diagonal of W; None for ones.

    Returns
    -------
    selected : (steps,) int32 array
    updates : (steps, k) array
    risk : (steps + 1,) array

    Notes
    -----
    Nothing is copied to the host. The design matrices take ``8 K n k`` bytes.
    """
    xp = namespace(residual)
    w = xp.ones(len(residual)) if weights is None else weights
    residual = residual.copy()
    selected = xp.zeros(steps, np.int32)
    updates = xp.zeros((steps, X.shape[-1]))
    risk = xp.zeros(steps + 1)
    risk[0] = residual @ (w * residual)
    for step in range(steps):
        projected = gemv(X, w * residual, transpose=True, variant=gemv_variant)
        coefs = gemv(inverse, projected, variant=gemv_variant)
        fits = gemv(X, coefs, variant=gemv_variant)
        losses = (w * (residual - fits) ** 2).sum(axis=1)
        best = losses.argmin()
        selected[step] = best
        updates[step] = learning_rate * coefs[best]
        residual -= learning_rate * fits[best]
        risk[step + 1] = residual @ (w * residual)
    return selected, updates, risk
