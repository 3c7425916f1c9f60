"""Boosting as in the paper: three matrix-vector products for each learner and step."""

from __future__ import annotations

from .._device.arrays import Array, namespace
from .._gemv.gemv import Variant, gemv
from ..reference._boosting import Boosted


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

    The arguments, but for `variant`, and the result are as for
    `gpusolve.reference.boost`; a step also needs the fits of all learners. Nothing is
    copied to the host. The design matrices take ``8 K n k`` bytes.

    Parameters
    ----------
    variant : str, optional
        The variant of `gpusolve.gemv` for the three products.

    See Also
    --------
    gpusolve.reference.boost, gpusolve.gam.BoostedGAM, gpusolve.gemv

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
