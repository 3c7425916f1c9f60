"""The family of ordered classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._device.arrays import Array, namespace
from .classes import NumberedFamily
from .family import CudaFamily
from .gamma_function import special
from .links import softplus
from .thresholds import find_thresholds


@dataclass(frozen=True)
class PropOdds(NumberedFamily):
    """The negative log likelihood of ordered classes, with proportional odds.

    ``P(y <= k) = 1 / (1 + exp(f - t_k))`` with increasing thresholds t: a larger f
    makes higher classes more likely. The adaptive parameter has all thresholds; they
    maximise the weighted likelihood at the present f. A constant of f only moves them,
    so the offset is 0; a class without weight in a fold counts as half a row with the
    mean of f. mboost searches for the thresholds by BFGS, from the last thresholds, and
    computes the risk with the thresholds of the previous step; its offset depends on
    where this search starts.

    Parameters
    ----------
    classes : int, optional
        The number K of classes; y is 0, 1, .., K - 1. `BoostedGAMClassifier` replaces
        it by the number of the classes in its data. On a device, every 8 thresholds
        cost a pass over the rows in each Newton step.

    See Also
    --------
    Multinomial, Binomial

    Notes
    -----
    The response of `BoostedGAM` is f. `BoostedGAMClassifier` predicts probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> y = np.array([0.0, 1.0, 1.0, 2.0])
    >>> families.PropOdds(3).nuisance(y, np.zeros(4), None)
    array([-1.09861229,  1.09861229])
    """

    name = "prop_odds"
    effect_on = "the log odds of higher classes"
    is_ordered = True
    classes: int = 3

    @property
    def parameter(self) -> None:
        return None

    @property
    def nuisances(self) -> int:
        return self.classes - 1

    @property
    def cuda(self) -> CudaFamily:
        return super().cuda._replace(parameter=float(self.classes))

    def check(self, y: Array) -> None:
        super().check(y)
        if bool((y == y[..., :1]).all()):
            raise ValueError(
                f"y of the prop_odds family must have at least 2 classes, got only "
                f"{float(y.min())}"
            )

    def offset(self, y: Array, w: Array | None) -> float:
        return 0.0

    def nuisance(self, y: Array, f: Array, w: Array | None) -> Array:
        xp = namespace(f)
        if f.ndim == 1:
            return xp.asarray(find_thresholds(y, f, w, self.classes))
        weights = [None] * len(f) if w is None else xp.broadcast_to(w, f.shape)
        rows = zip(xp.broadcast_to(y, f.shape), f, weights, strict=True)
        return xp.stack([self.nuisance(*row) for row in rows])

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        (lower, upper), expit = self._ends(y, f, s), special(f).expit
        return expit(lower - f) - expit(f - upper)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        lower, upper = self._ends(y, f, s)
        within = namespace(f).log(-namespace(f).expm1(lower - upper))
        return softplus(f - upper) + softplus(lower - f) - within

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        (lower, upper), expit = self._ends(y, f, s), special(f).expit
        return (expit(lower - f) + expit(f - upper)) / 2

    def least_loss(self, y: Array, s: Array) -> Array:
        """In the middle of the thresholds; 0 in the first and the last class."""
        xp, outer = namespace(y), (y == 0) | (y == self.classes - 1)
        lower, upper = self._ends(y, y, s)
        middle = xp.where(outer, 0.0, 0.5 * (lower + upper))
        return xp.where(outer, 0.0, self.loss(y, middle, s))

    def parameter_at(self, y: Array, f: Array, w: Array | None, s: Array) -> Array:
        return self.nuisance(y, f, w)

    def log_probabilities(self, f: Array, s: Array) -> Array:
        codes = namespace(f).arange(self.classes)
        return -self.loss(codes, f[0][:, None], s[0])

    def _ends(self, y: Array, f: Array, s: Array) -> tuple[Array, Array]:
        """The thresholds below and above the class of each row, infinite at the ends.

        They have the shape of y, or of f if the fits have thresholds of their own.
        """
        xp, y = namespace(f), y.astype(np.intp)
        shape = (*s.shape[:-1], 1)
        ends = xp.concatenate(
            [xp.full(shape, -np.inf), s, xp.full(shape, np.inf)], axis=-1
        )
        if ends.ndim == 1:
            return ends[y], ends[y + 1]
        y = xp.broadcast_to(y, f.shape)
        return xp.take_along_axis(ends, y, -1), xp.take_along_axis(ends, y + 1, -1)
