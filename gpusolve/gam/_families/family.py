"""What every family of boosted models has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from ..._device.arrays import Array, namespace, on_host
from .._data import inputs
from .._data.conventions import check_between, check_choice
from .numerics import (
    MOST,
    apply_weights,
    at_least_half_a_row,
    most_likely,
    weighted_mean,
    weighted_sum,
    zero_above,
)

F = TypeVar("F", bound="Family")

ROUNDING = 1e-13
"""Relative rounding error of sums over many rows."""

FAMILIES_IN_CUDA = '#include "families.cuh"'
"""The definitions of the families that have names."""

COUPLED_IN_CUDA = '#include "distributions.cuh"'
"""The definitions of the families with several predictors."""

Update = Literal["joint", "noncyclic", "cyclic"]
"""Which predictors a step updates; see `CoupledFamily`."""


class CudaFamily(NamedTuple):
    """A family as a C++ type of a kernel.

    Attributes
    ----------
    definitions : str
        C++ source that defines the type; it precedes the source of the kernel.
    type : str
        The name of the type.
    parameter : float
        See `Family.parameter`; 0 if the kernel finds it.

    See Also
    --------
    Family, CustomCuda

    Examples
    --------
    >>> from gpusolve.gam import families
    >>> families.Quantile(0.9).cuda
    CudaFamily(definitions='#include "families.cuh"', type='Quantile', parameter=0.9)
    """

    definitions: str
    type: str
    parameter: float


class Family(ABC):
    """What a boosted model minimises, and how its predictor becomes a response.

    See Also
    --------
    family_of, Custom

    Examples
    --------
    >>> from gpusolve.gam import families
    >>> isinstance(families.family_of("poisson"), families.Family)
    True
    """

    name: str
    """As in ``BoostedGAM(family=name)``."""

    @property
    def effect_on(self) -> str:
        """What the additive predictor is, as plots say: effect on the log mean."""
        return "the predictor"

    @property
    def predictors(self) -> int:
        """The number of additive predictors of a response."""
        return 1

    update: Update = "joint"
    """The predictors that a step updates. "joint": all, by the same learner, which
    reduces the sum of squares of all gradients most. "cyclic": one after the other.
    "noncyclic": each predictor has a best learner, and the predictor whose update
    reduces the risk most is updated."""

    scipy_law: ClassVar[Callable[..., Any] | None] = None
    """The distribution in ``scipy.stats``, from this module, a mean and a parameter."""

    criteria: ClassVar[tuple[str, ...]] = ()
    """The criteria that `aic_stop` has; the first is the default."""

    def information(self, f: Array) -> Array | None:
        """The second derivative of the loss by f for `criteria`; None stands for 1."""
        return None

    @property
    def parameter(self) -> float | None:
        """Tau, delta, shape or theta; 0 without a parameter, None if it is adaptive."""
        return 0.0

    @property
    def adaptive(self) -> bool:
        """Whether the parameter is found from the data at every step."""
        return self.parameter is None

    @property
    def nuisances(self) -> int:
        """The number q of the numbers that an adaptive parameter consists of."""
        return 1

    @property
    def has_one_loss(self) -> bool:
        """Whether risks with different adaptive parameters can be compared."""
        return True

    def prepare(self, y: Any, X: Array) -> Array:
        """The response of the rows of X, as a fit keeps it: (n,) of float64.

        Rows can be taken from it. ValueError or TypeError for another form of y.
        """
        return inputs.target(y, X)

    def check(self, y: Array) -> None:
        """ValueError unless this family can be fitted to y, (n,)."""
        return

    needs: ClassVar[str] = "rows in and out of the bag"
    """What `suffices` asks for, as errors say."""

    def suffices(self, y: Array, in_bag: bool) -> bool:
        """Whether a fold has what a fit, or a loss of rows left out, needs.

        Losses of rows that depend on each other need more than a row.
        """
        return True

    @abstractmethod
    def offset(self, y: Array, w: Array | None) -> float:
        """The constant f with the least weighted loss of y, (n,); w None means ones."""

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        """The constant c with the least weighted loss of y at ``start + c``.

        This is for losses of ``y - f``.
        """
        return self.offset(y - start, w)

    def zero_of_gradient(
        self,
        start: Array,
        y: Array,
        w: Array | None,
        lower: float,
        upper: float,
        *,
        s: float | None = None,
        more: float = 0.0,
    ) -> float:
        """The constant c, at least `lower`, with weighted gradients of sum 0.

        The gradients are at ``start + c``, with the parameter s or the parameter that
        is found there; `more` is added to their sum. See `zero_above` for `upper`.
        """

        def score(c: float) -> float:
            f = start + c
            u = self.gradient(y, f, self.nuisance(y, f, w) if s is None else s)
            return float(weighted_sum(u, w)) + more

        return zero_above(score, lower, upper - lower)

    def nuisance(self, y: Array, f: Array, w: Array | None) -> Array:
        """The family's parameter at f, (n,): a number, or q numbers, (q,)."""
        return np.float64(self.parameter)

    @abstractmethod
    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        """The negative gradient of the loss by f; s is the parameter."""

    @abstractmethod
    def loss(self, y: Array, f: Array, s: Array) -> Array:
        """The loss of each row; s is the parameter."""

    def least_loss(self, y: Array, s: Array) -> Array:
        """The loss of each row at the best f; s is the parameter.

        This is for losses that are least at ``f = y``.
        """
        return self.loss(y, y, s)

    def finest_loss(self, y: Array) -> float:
        """The mean loss of a fit that is as fine as the rounding of y, (n,).

        A smaller loss says nothing about the data. -inf if the loss has a bound.
        """
        return -math.inf

    def parameter_at(self, y: Array, f: Array, w: Array | None, s: Array) -> Array:
        """The parameter of the best constant f of a model with the parameter s."""
        return s

    def curvature(self, y: Array, f: Array, s: Array) -> Array | None:
        """What scales the steps: the curvature of the loss; s is the parameter.

        A bound on ``gradient / (f* - f)``, with f* the predictor of least loss: then a
        step of the gradient divided by it does not go beyond f*. For a likelihood it is
        linear in y, so that it bounds this ratio also for the sum of rows that share f;
        its mean is the information where f is true. None stands for 1.
        """
        return None

    def unit(self, y: Array, f: Array, w: Array | None) -> float:
        """What scales the steps of a gradient that does not depend on the size of y.

        The first model of a fit is f. By default 1.
        """
        return 1.0

    def arrange(self, y: Array) -> Any:
        """What `weighted_gradient` and `risks` read of y, which all their calls share.

        Families whose rows depend on each other have methods of their own for them.
        """
        return y

    def weighted_gradient(self, y: Any, f: Array, s: Array, w: Array | None) -> Array:
        """The negative gradient times w, of all rows; y is arranged."""
        u = self.gradient(y, f, s)
        return u if w is None else apply_weights(u, w)

    def weighted_curvature(
        self, y: Any, f: Array, s: Array, w: Array | None
    ) -> Array | None:
        """The curvature times w, of all rows of f, (n,); y is arranged."""
        h = self.curvature(y, f, s)
        return h if h is None or w is None else apply_weights(h, w)

    def risks(self, y: Any, f: Array, s: Array, *weights: Array | None) -> list[Array]:
        """The sum of losses with each of the weights; y is arranged.

        Each is of shape (F, 1) for f of shape (F, n) or (P, F, n).
        """
        losses = namespace(f).broadcast_to(self.loss(y, f, s), f.shape[-2:])
        return [weighted_sum(losses, w) for w in weights]

    def response(self, f: Array) -> Array:
        """The predicted response: the mean, or the quantile or expectile."""
        return f

    def mean(self, f: Array, s: Array) -> Array:
        """The predicted response for the parameter s; by default `response`."""
        return self.response(f)

    def score(
        self, y: Array, f: Array, s: Array, w: Array | None, start: Array | None
    ) -> float:
        """The share of the deviance that the predictor f explains.

        See `BoostedGAM.score`; s is the parameter, and start the offset of the rows.
        """

        def deviance(at: Array, s: Array) -> float:
            perfect = self.least_loss(y, s)
            return float(weighted_sum(self.loss(y, at, s) - perfect, w))

        if start is not None:
            constant = start + self.offset_from(start, y, w)
        else:
            rounding = ROUNDING * float(abs(y).max())
            if is_constant(y):
                return float(float(abs(y - self.response(f)).max()) <= rounding)
            constant = namespace(y).full(y.shape, self.offset(y, w))
        with np.errstate(over="ignore"):
            total = deviance(constant, self.parameter_at(y, constant, w, s))
            return 1 - deviance(f, s) / total if total > 0 else 0.0

    def check_risk(self, risk: Array) -> None:
        """ValueError if a risk of a path, (..., steps + 1), is not finite.

        The steps were then so large that an exponential became infinite; before the
        first step, y or the offset is so large.
        """
        finite = on_host(namespace(risk).isfinite(risk)).reshape(-1, risk.shape[-1])
        if not finite.all():
            step = int(finite.all(axis=0).argmin())
            raise ValueError(
                f"learning_rate must be smaller for the {self.name} family and this "
                f"response, or y if it is huge: the risk is infinite or NaN after "
                f"iteration {step}"
            )

    def order_rows(self, y: Array) -> Array | None:
        """The int64 array ``places`` of the kernel; None if rows need no order."""
        return None

    @property
    def cuda(self) -> CudaFamily:
        """The family for a kernel."""
        return CudaFamily(FAMILIES_IN_CUDA, type(self).__name__, self.parameter or 0.0)


class AdaptiveFamily(Family):
    """A family whose parameter is given, or found from the data at every step."""

    parameter_name: ClassVar[str]
    """The attribute that has the given parameter, or None."""

    nuisance_in_cuda: ClassVar[str]
    """How ``families.cuh`` finds the parameter: a value of its enum `Nuisance`."""

    def __post_init__(self) -> None:
        if self.parameter is not None:
            check_between(self.parameter_name, self.parameter, 0, math.inf)

    @property
    def parameter(self) -> float | None:
        given: float | None = getattr(self, self.parameter_name)
        return given

    def nuisance(self, y: Array, f: Array, w: Array | None) -> Array:
        return self.estimate(y, f, w) if self.adaptive else super().nuisance(y, f, w)

    @abstractmethod
    def estimate(self, y: Array, f: Array, w: Array | None) -> Array:
        """The parameter that fits the residuals of f, (n,)."""

    @property
    def cuda(self) -> CudaFamily:
        found = super().cuda
        nuisance = self.nuisance_in_cuda if self.adaptive else "fixed"
        return found._replace(type=f"{found.type}<Nuisance::{nuisance}>")


class LikelyFamily(AdaptiveFamily):
    """A family whose adaptive parameter has the largest likelihood at f."""

    @abstractmethod
    def start(self, y: Array, f: Array, w: Array | None) -> float | None:
        """Where the search begins, from moments of the rows; None for the largest."""

    @abstractmethod
    def terms(self, y: Array, f: Array) -> Callable[[float], tuple[Array, Array]]:
        """The derivatives of the log likelihood of the rows by log s, from s.

        What does not depend on s is computed once.
        """

    def estimate(self, y: Array, f: Array, w: Array | None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # the search halves there
            return np.float64(self._search(y, f, w))

    def _search(self, y: Array, f: Array, w: Array | None) -> float:
        begin = self.start(y, f, w)
        if begin is None:
            return MOST

        terms = self.terms(y, f)

        def derivatives(s: float) -> tuple[float, float]:
            first, second = terms(s)
            return float(weighted_sum(first, w)), float(weighted_sum(second, w))

        return most_likely(begin, derivatives)


class LogLink(Family):
    """A family of the mean ``exp(f)``; the offset is the log of the weighted mean."""

    effect_on = "the log mean"

    def offset(self, y: Array, w: Array | None) -> float:
        rows = len(y) if w is None else float(w.sum())
        return math.log(at_least_half_a_row(y, w) / rows)

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        largest = float(start.max())
        mean = weighted_mean(namespace(start).exp(start - largest), w)
        return self.offset(y, w) - largest - math.log(float(mean))

    def least_loss(self, y: Array, s: Array) -> Array:
        xp = namespace(y)
        return self.loss(y, xp.log(xp.maximum(y, np.finfo(np.float64).tiny)), s)

    def response(self, f: Array) -> Array:
        return namespace(f).exp(f)


class CoupledFamily(Family):
    """A family of P predictors, whose gradients depend on all of them.

    The first axis of f and of the gradient is the predictor, (P, .., n); a loss has the
    remaining axes. s is not used.
    """

    @abstractmethod
    def offset(self, y: Array, w: Array | None) -> Any:
        """The constants f with the least weighted loss of y: (P,) on the host."""

    @abstractmethod
    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        """The curvatures of the loss by each predictor, (P, .., n); not negative."""

    @property
    def cuda(self) -> CudaFamily:
        return super().cuda._replace(definitions=COUPLED_IN_CUDA)


def is_constant(y: Array) -> bool:
    """Whether all values are equal, up to rounding."""
    return float(y.max() - y.min()) <= ROUNDING * float(abs(y).max())


def family_in(table: Mapping[str, type[F]], family: Any, kind: type[F]) -> F:
    """The family of a name in a table, with its default parameters; a family as it is.

    ValueError for an unknown name, TypeError for something else.
    """
    if isinstance(family, kind):
        return family
    if not isinstance(family, str):
        raise TypeError(f"family must be a name or a {kind.__name__}, got {family!r}")
    check_choice("family", family, list(table))
    return table[family]()


def exp_of(f: Array) -> Array:
    """``exp(f)``, infinite without a warning: then the risk is, which is checked."""
    with np.errstate(over="ignore"):
        return namespace(f).exp(f)


def softplus(x: Array) -> Array:
    """``log(1 + exp(x))`` without overflow."""
    return namespace(x).logaddexp(0, x)
