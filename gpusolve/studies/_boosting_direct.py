"""Boosting as in the paper: three matrix-vector products for each learner and step."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import Array, namespace
from .._gemv.gemv import gemv
from ..gam.learners import Learners


def boost(
    learners: Learners,
    residual: Array,
    learning_rate: float,
    steps: int,
    gemv_variant: Any,
) -> tuple[Array, Array, Array]:
    """Make the steps with dense design matrices, on the device of the learners.

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
    X = learners.dense()
    residual = residual.copy()
    selected = xp.zeros(steps, np.int32)
    updates = xp.zeros((steps, learners.n_basis))
    risk = xp.zeros(steps + 1)
    risk[0] = residual @ learners.weighted(residual)
    for step in range(steps):
        weighted = learners.weighted(residual)
        projected = gemv(X, weighted, transpose=True, variant=gemv_variant)
        coefs = gemv(learners.inverse, projected, variant=gemv_variant)
        fits = gemv(X, coefs, variant=gemv_variant)
        losses = learners.weighted((residual - fits) ** 2).sum(axis=1)
        best = losses.argmin()
        selected[step] = best
        updates[step] = learning_rate * coefs[best]
        residual -= learning_rate * fits[best]
        risk[step + 1] = residual @ learners.weighted(residual)
    return selected, updates, risk
