"""The family of the area under the ROC curve."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from .classes import ClassFamily
from .location import apply_weights


@dataclass(frozen=True)
class AUC(ClassFamily):
    """The area under the ROC curve: the share of pairs of rows in the right order.

    A pair is a row of class 1 and a row of class 0. The risk is one minus the share of
    pairs with ``f_1 > f_0``: a number between 0 and 1, not a sum over rows. It has no
    gradient; the gradient is the gradient of a smooth share with differences of f in
    units of its standard deviation,

        ``u_1 = sum_0 max(0, 1 - |f_1 - f_0| / sd(f))``,

    and minus the same sum over the rows of class 1 for a row of class 0. As in mboost.
    Weights count repeated rows, also in the standard deviation; mboost confuses the
    rows if not all weights are 1. Without a row of one class, the risk is 0.

    The model is for ranking: f has no unit, and the learning rate is only a factor of
    f. Scaled steps divide it by half of the rows. The offset is 0, and the predicted
    class is 1 where f is above 0. The model has no probabilities.

    See Also
    --------
    Binomial

    Notes
    -----
    On a CPU, the sums are differences of cumulative sums over the sorted rows, in
    O(n log n). On a device, each row adds up the other class, in O(n^2) for each step.
    Both need memory O(n).

    References
    ----------
    .. [1] M. Schmid, T. Hothorn, F. Krause and C. Rabe, "A PAUC-based estimation
           technique for disease classification and biomarker selection", Statistical
           Applications in Genetics and Molecular Biology 11 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> y, f = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0, 2.0, 4.0])
    >>> families.AUC().risks(y, f, 0.0, None)
    [array([0.25])]
    """

    name = "auc"
    effect_on = "the score"

    @property
    def has_one_loss(self) -> bool:
        """False: the risk of all pairs may rise, as steps reduce a smooth risk."""
        return False

    needs = "rows of both classes in and out of the bag"

    def suffices(self, y: Array, in_bag: bool) -> bool:
        return bool((y != y[..., :1]).any())

    def check(self, y: Array) -> None:
        if not bool(((y == 0) | (y == 1)).all()):
            raise ValueError("y of the auc family must be 0 or 1, got others")
        if bool((y == y[..., :1]).all()):
            raise ValueError(
                f"y of the auc family must have both classes, got only {float(y.min())}"
            )

    def offset(self, y: Array, w: Array | None) -> float:
        return 0.0

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        return 0.0

    def unit(self, y: Array, f: Array, w: Array | None) -> float:
        return 2 / float(len(y) if w is None else w.sum())

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return each_fit(smooth_gradient, y, f, None)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        """The share of wrong pairs of each row of class 1, in all pairs."""
        return each_fit(wrong_pairs, y, f, None)

    def least_loss(self, y: Array, s: Array) -> Array:
        return y * 0

    def weighted_gradient(self, y: Any, f: Array, s: Array, w: Array | None) -> Array:
        u = each_fit(smooth_gradient, y, f, w)
        return u if w is None else apply_weights(u, w)

    def risks(self, y: Any, f: Array, s: Array, *weights: Array | None) -> list[Array]:
        found = []
        for w in weights:
            losses = each_fit(wrong_pairs, y, f, w)
            weighted = losses if w is None else apply_weights(losses, w)
            found.append(weighted.sum(axis=-1, keepdims=True))
        return found

    def for_classes(self, count: int) -> AUC:
        if count != 2:
            raise ValueError(f"y of the auc family must have 2 classes, got {count}")
        return self

    def most_probable(self, f: Array, s: Array) -> NDArray[np.intp]:
        return np.asarray(on_host(f[0]) > 0).astype(np.intp)


Sums = Callable[[Array, Array, Array], Array]
"""From y, f and w of a fit, (n,), to a number for each row."""


def each_fit(sums: Sums, y: Array, f: Array, w: Array | None) -> Array:
    """The numbers of the rows, of the shape of f: (n,), or (F, n)."""
    xp = namespace(f)
    w = xp.ones(f.shape) if w is None else xp.broadcast_to(w, f.shape)
    if f.ndim == 1:
        return sums(y, f, w)
    rows = zip(xp.broadcast_to(y, f.shape), f, w, strict=True)
    return xp.stack([sums(*row) for row in rows])


def smooth_gradient(y: Array, f: Array, w: Array) -> Array:
    """The sum over the other class of ``max(0, 1 - distance)``, negative for class 0.

    The weights of the other class are factors.
    """
    xp, is_one = namespace(f), y == 1
    x = standardised(f, w)
    u = xp.zeros_like(f)
    u[is_one] = near_sums(x[is_one], x[~is_one], w[~is_one])
    u[~is_one] = -near_sums(x[~is_one], x[is_one], w[is_one])
    return u


def standardised(f: Array, w: Array) -> Array:
    """``f - mean`` in units of the standard deviation of repeated rows, if not 0."""
    total = float(w.sum())
    distance = f - float((w * f).sum()) / total
    variance = float((w * distance**2).sum()) / max(total - 1, 1.0)
    return distance / math.sqrt(variance) if variance > 0 else distance


def near_sums(x: Array, others: Array, w: Array) -> Array:
    """For each x, the sum over the others of ``w max(0, 1 - |x - other|)``."""
    xp = namespace(x)
    order = xp.argsort(others)
    others, w = others[order], w[order]
    places = [xp.searchsorted(others, x + shift) for shift in (-1, 0, 1)]
    count, moment = (
        xp.concatenate([xp.zeros(1), xp.cumsum(values)]) for values in (w, w * others)
    )
    below, above = (
        (count[end] - count[begin], moment[end] - moment[begin])
        for begin, end in pairwise(places)
    )
    return (1 - x) * below[0] + below[1] + (1 + x) * above[0] - above[1]


def wrong_pairs(y: Array, f: Array, w: Array) -> Array:
    """For each row of class 1, the share of its wrong pairs in all; 0 for class 0."""
    xp, is_one = namespace(f), y == 1
    others, weights = f[~is_one], w[~is_one]
    order = xp.argsort(others)
    until = xp.concatenate([xp.zeros(1), xp.cumsum(weights[order])])
    right = until[xp.searchsorted(others[order], f[is_one])]
    pairs = float(until[-1]) * float(w[is_one].sum())
    losses = xp.zeros_like(f)
    if pairs > 0:
        losses[is_one] = (until[-1] - right) / pairs
    return losses
