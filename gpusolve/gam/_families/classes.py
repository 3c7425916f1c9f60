"""Families of classes: what `BoostedGAMClassifier` needs.

The thresholds between ordered classes are found by the same steps as in
``thresholds.cuh``, which has the sources.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from .._data.conventions import check_integer, check_least
from .family import CoupledFamily, CudaFamily, Family, softplus
from .numerics import special, weighted_sum

Floats = NDArray[np.float64]

TOLERANCE, STEPS = 1e-7, 60
"""The change at which Newton's method stops: the next change is about its square."""

LEAST_GAP = 0.1
"""A step keeps at least this share of each distance between neighbours."""

OVERSHOOT = -0.5
"""The slope along a step, relative to its start, that makes the step too long."""

RIDGE = 1e-10
"""Added to the information, relative to the sum of the weights."""

LOGISTIC = 0.346
"""A mean of logistic functions of normal variables with variance v is nearly the
logistic function of the mean, divided by ``sqrt(1 + 0.346 v)``."""


class ClassFamily(Family):
    """A family whose responses are classes."""

    is_ordered: ClassVar[bool] = False
    """Whether the order of the classes has a meaning."""

    def for_classes(self, count: int) -> Self:
        """The family for this number of classes; ValueError if it is for others."""
        return self

    def responses(self, codes: NDArray[np.intp], count: int) -> NDArray[np.float64]:
        """The responses of rows of the classes 0, .., count - 1: (n,), or (F, n)."""
        return codes.astype(np.float64)

    @abstractmethod
    def log_probabilities(self, f: Array, s: Array) -> Array:
        """The logarithms of the probabilities, (n, K), from the predictors (F, n).

        s is the parameter, of F fits if there are several.
        """

    def most_probable(self, f: Array, s: Array) -> NDArray[np.intp]:
        """The predicted class of each row, on the host; as `log_probabilities`."""
        return np.asarray(on_host(self.log_probabilities(f, s)).argmax(axis=1))


@dataclass(frozen=True)
class NumberedFamily(ClassFamily):
    """A family of K classes, whose responses are the numbers 0, .., K - 1."""

    classes: int = 2

    def __post_init__(self) -> None:
        check_integer("classes", self.classes)
        check_least("classes", self.classes, 2)

    def for_classes(self, count: int) -> Self:
        return replace(self, classes=count)

    def check(self, y: Array) -> None:
        codes = (y >= 0) & (y < self.classes) & (y == namespace(y).rint(y))
        if not bool(codes.all()):
            raise ValueError(
                f"y of the {self.name} family must be 0 to {self.classes - 1}, got "
                f"{float(y[~codes][0])}"
            )


@dataclass(frozen=True)
class Multinomial(NumberedFamily, CoupledFamily):
    """The negative log likelihood of K classes, with a predictor for each class.

    ``P(y = k) = exp(f_k) / sum_i exp(f_i)``, and the gradient is the indicator of class
    k minus this probability. A step updates the same learner for all classes: the
    learner that reduces the sum of squares of all gradients most. Without inequalities
    the effects of a learner add up to 0 over the classes, so that no class is a
    reference. mboost has K - 1 predictors, and its model depends on the last class.
    The offsets are the logarithms of the weighted shares of the classes, minus their
    mean; a class without rows counts half a row.

    Parameters
    ----------
    classes : int, optional
        The number K of classes; y is 0, 1, .., K - 1. `BoostedGAMClassifier` replaces
        it by the number of the classes in its data.

    See Also
    --------
    Binomial, PropOdds

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> family = families.Multinomial(3)
    >>> family.response(family.offset(np.array([0.0, 1.0, 1.0, 2.0]), None))
    array([0.25, 0.5 , 0.25])
    """

    name = "multinomial"
    effect_on = "the log odds"

    @property
    def predictors(self) -> int:
        return self.classes

    @property
    def parameter(self) -> float:
        return float(self.classes)

    def offset(self, y: Array, w: Array | None) -> Any:
        shares = on_host(weighted_sum(self._indicators(y) + 0.0, w)).ravel()
        logs = np.log(np.maximum(shares, 0.5))
        return np.asarray(logs - logs.mean())

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return self._indicators(y, f.ndim) - self.response(f)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        xp, largest = namespace(f), f.max(axis=0)
        own = xp.where(self._indicators(y, f.ndim), f - largest, 0).sum(axis=0)
        return xp.log(xp.exp(f - largest).sum(axis=0)) - own

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        """Of effects that add up to 0: ``p (1 - p) K / (K - 1)``."""
        p = self.response(f)
        return p * (1 - p) * (self.classes / (self.classes - 1))

    def response(self, f: Array) -> Array:
        """The probabilities of the classes, (K, .., n)."""
        xp = namespace(f)
        odds = xp.exp(f - f.max(axis=0))
        return odds / odds.sum(axis=0)

    def log_probabilities(self, f: Array, s: Array) -> Array:
        xp = namespace(f)
        odds = (f - f.max(axis=0)).T
        return odds - xp.log(xp.exp(odds).sum(axis=1, keepdims=True))

    def _indicators(self, y: Array, ndim: int = 2) -> Array:
        """Whether y is each class, (K, .., n)."""
        codes = namespace(y).arange(self.classes)
        return y == codes.reshape(-1, *[1] * (ndim - 1))


# ---- ordered classes -----------------------------------------------------------------


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
        return namespace(f).asarray(find_thresholds(y, f, w, self.classes))

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


def find_thresholds(y: Array, f: Array, w: Array | None, classes: int) -> Floats:
    """The thresholds of classes 0, 1, .. with the largest likelihood at f, for one fit.

    The log likelihood is concave, so Newton's method needs no more than shorter steps:
    where a step would change the order, and where the slope turns along it. A class
    without weight counts as half a row, with the mean of f.
    """
    xp = namespace(f)
    y = y.astype(np.intp)
    w = xp.ones(len(y)) if w is None else w

    def by_class(x: Array) -> Floats:
        sums = xp.bincount(y, xp.where(w != 0, w * x, 0.0), classes)
        return np.asarray(on_host(sums))

    shares = by_class(xp.ones(len(y)))
    total = shares.sum()
    mean = float(weighted_sum(f, w)) / total
    variance = float(weighted_sum((f - mean) ** 2, w)) / total
    absent = shares == 0
    shares = np.where(absent, 0.5, shares)
    logits = np.log(np.cumsum(shares)[:-1]) - np.log(np.cumsum(shares[::-1])[-2::-1])
    thresholds = mean + np.sqrt(1 + LOGISTIC * variance) * logits  # if f is normal
    step, slope = np.zeros(len(thresholds)), 0.0
    for _ in range(STEPS):
        ends = xp.asarray(np.concatenate([[-np.inf], thresholds, [np.inf]]))
        above, below = special(f).expit(f - ends[1:][y]), special(f).expit(ends[y] - f)
        push, pull = by_class(above)[:-1], by_class(below)[1:]
        bend = by_class(above * (1 - above))[:-1] + by_class(below * (1 - below))[1:]
        over = special(thresholds).expit(mean - thresholds)  # half a row if absent
        first = 0.5 * (absent[:-1] * over - absent[1:] * (1 - over))
        second = 0.5 * (absent[:-1] + 0.0 + absent[1:]) * over * (1 - over)
        gradient, bend = push - pull + first, bend + second
        diagonal, neighbours = bend + RIDGE * total, np.zeros_like(thresholds)
        near = np.exp(-np.diff(thresholds))
        gap = near / (1 - near)
        gradient[1:] += shares[1:-1] * gap
        gradient[:-1] -= shares[1:-1] * gap
        neighbours[1:] = shares[1:-1] * gap * (1 + gap)
        diagonal[1:] += neighbours[1:]
        diagonal[:-1] += neighbours[1:]
        if step @ gradient < OVERSHOOT * slope:
            step, slope = 0.5 * step, 0.5 * slope
            thresholds = thresholds - step
            continue
        upper = np.diag(neighbours[1:], 1)
        matrix = np.diag(diagonal) - upper - upper.T
        step = np.asarray(np.linalg.solve(matrix, gradient))
        shrinking = -np.diff(step) / np.diff(thresholds)
        length = min(1.0, (1 - LEAST_GAP) / max([*shrinking, 1 - LEAST_GAP]))
        step = length * step
        slope = float(step @ gradient)
        thresholds = thresholds + step
        if abs(step).max() <= TOLERANCE:
            break
    return np.asarray(thresholds)
