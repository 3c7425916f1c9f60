"""What boosted additive models have in common: parameters, checks and fits."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from ..._device.kernels import current, device_of
from .. import _inputs
from .._stacked.batch import (
    Settings,
    Training,
    fit_batch,
    is_vector,
    make_ready,
    row_of,
    starts,
)
from .._stacked.patience import fit_patiently
from .._terms.frame import Factor, Frame, Name
from .._terms.term import Term
from ..boosting import Path, _boost
from ..families import Family, FamilyName
from ..learners import Learners
from .conventions import TakesWeights
from .insight import Insight
from .specification import bound, default_terms
from .uniform import uniform_learners
from .warm import continued

RUG = 200
"""The most rows of the training data that are kept for the rug in plots."""


class AdditiveModel(TakesWeights, Insight):
    """A sum of effects, fitted by componentwise boosting; see `BoostedGAM`."""

    default_family: str
    columns_: list[Name]
    family_: Family
    n_features_in_: int
    n_rows_: int
    rug_: dict[Name, NDArray[Any]]
    terms_: list[Term]
    validation_risk_: NDArray[np.float64]

    def __init__(
        self,
        learners: Any = None,
        *,
        family: FamilyName | Family | None = None,
        n_basis: int = 24,
        degree: int = 3,
        penalty: Literal["difference", "ridge", "cyclic", None] = "difference",
        penalty_order: int = 2,
        df: float = 4,
        df_definition: Literal["2S-SS", "trace"] = "2S-SS",
        learning_rate: float = 0.1,
        max_iter: int = 100,
        method: Literal["auto", "direct", "stacked", "gram"] = "auto",
        device: Literal["auto", "cpu", "cuda"] = "auto",
        outside: Literal["linear", "clamp", "error"] = "linear",
        missing: Literal["error", "zero"] = "error",
        unknown: Literal["error", "zero"] = "error",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.learners = learners
        self.family = family
        self.n_basis = n_basis
        self.degree = degree
        self.penalty = penalty
        self.penalty_order = penalty_order
        self.df = df
        self.df_definition = df_definition
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.method = method
        self.device = device
        self.outside = outside
        self.missing = missing
        self.unknown = unknown
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.warm_start = warm_start

    def _training(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Training:
        """The checked data of a fit; `y` as it is given."""
        frame = self._frame(X, self.device)
        with frame.current():
            like = frame.like
            return Training(
                frame,
                y,
                _inputs.observation_weights(sample_weight, like),
                _inputs.start_of(offset, like),
                device_of(like),
            )

    def _fit(self, X: Any, data: Training, family: Family) -> None:
        """Fit to checked data; `X` gives the names of the features."""
        vars(self).pop("validation_risk_", None)  # of an earlier fit
        with current(data.device):
            if data.weights is not None and not bool(data.weights.all()):
                data = data.take(data.weights > 0)
            settings = self._settings(data.frame, family)
            learners = None
            if data.y.ndim == 1 and not self.early_stopping:
                learners = uniform_learners(settings, data, self.method)
            with np.errstate(over="ignore", invalid="ignore"):
                if learners is not None:
                    paths, lambda_ = self._fit_uniform(learners, settings, data)
                else:
                    paths, lambda_ = self._fit_stacked(settings, data)
            self._keep(settings, data, paths, lambda_)
        self._set_names(X)

    def _settings(self, frame: Frame, family: Family) -> Settings:
        """The learners with their ranges and levels, and the parameters of the fit."""
        terms = (
            default_terms(self, frame)
            if self.learners is None
            else bound(self.learners)
        )
        return Settings(
            tuple(term.learn(frame) for term in terms),
            family,
            self.learning_rate,
            self.df_definition,
            self.missing,
            frame.dtype,
        )

    def _fit_uniform(
        self, learners: Learners, settings: Settings, data: Training
    ) -> tuple[list[Path], NDArray[np.float64]]:
        """Fit splines of equal shape to squared errors: see `boost`."""
        lambda_ = on_host(learners.lambda_)
        (intercept,), _ = starts(settings.family, data, row_of(data.weights), 1)
        start = None
        if self._is_warm():
            self._check_warm(settings, lambda_, np.array([intercept]))
            (start,) = self.paths_
        path = _boost(
            learners,
            data.y - data.offset if is_vector(data.offset) else data.y,
            learning_rate=self.learning_rate,
            steps=self.max_iter - (0 if start is None else len(start)),
            method=self.method,
            start=start,
            offset=float(intercept),
            device=data.device,
        )
        settings.family.check_risk(path.risk)
        return [path], lambda_

    def _fit_stacked(
        self, settings: Settings, data: Training
    ) -> tuple[list[Path], NDArray[np.float64]]:
        """Fit learners of any kind, with any family: see `boost_family`."""
        if self.method not in ("auto", "stacked"):
            raise ValueError(
                "method must be 'auto' or 'stacked' unless all learners are equal "
                "splines, the family is Gaussian, missing is 'error' and "
                f"early_stopping is False, got {self.method!r}"
            )
        if self.early_stopping:
            batch, self.validation_risk_ = fit_patiently(
                settings,
                data,
                self.max_iter,
                fraction=self.validation_fraction,
                patience=self.n_iter_no_change,
                random_state=self.random_state,
            )
        elif self._is_warm():
            ready = make_ready(settings, data, data.weights)
            lambda_ = on_host(ready.problem.lambda_)
            self._check_warm(settings, lambda_, ready.intercepts)
            more = self.max_iter - self.n_iter_
            batch = continued(ready, settings, data, self.paths_, more)
        else:
            batch = fit_batch(settings, data, data.weights, self.max_iter)
        return batch.each(), batch.lambda_[0]

    def _is_warm(self) -> bool:
        return self.warm_start and hasattr(self, "paths_")

    def _check_warm(
        self, settings: Settings, lambda_: Array, intercepts: NDArray[np.float64]
    ) -> None:
        """ValueError unless the learners and the offsets are those of the last fit."""
        same = (
            settings.terms == tuple(self.terms_)
            and settings.family == self.family_
            and np.shape(intercepts) == np.shape(self._intercepts())
            and np.allclose(lambda_, self.lambda_, rtol=1e-6)
            and np.allclose(intercepts, self._intercepts())
        )
        if not same:
            raise ValueError(
                "a warm start needs the data and the effects of the last fit; set "
                "warm_start=False to start again"
            )
        if self.max_iter < self.n_iter_:
            raise ValueError(
                f"max_iter must be at least {self.n_iter_}, the number of iterations "
                f"of the last fit, got {self.max_iter}; predict(X, iteration=...) uses "
                "an earlier model"
            )

    def _keep(
        self,
        settings: Settings,
        data: Training,
        paths: list[Path],
        lambda_: NDArray[np.float64],
    ) -> None:
        """Store the fitted attributes, on the host."""
        self.terms_ = list(settings.terms)
        self.family_ = settings.family
        self.lambda_ = lambda_
        self.rug_ = rug_of(data.frame)
        self.n_rows_ = data.rows
        self._data = data, settings
        self._keep_paths(paths)

    def _set_names(self, X: Any) -> None:
        """Store the names and the number of the features of `X`."""
        names = _inputs.feature_names(X)
        self.n_features_in_ = _inputs.number_of_features(X)
        self.columns_ = _inputs.column_labels(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def rug_of(frame: Frame) -> dict[Name, NDArray[Any]]:
    """Some of the rows, on the host, for plots; levels instead of codes."""
    rows = np.linspace(0, frame.rows - 1, min(RUG, frame.rows)).astype(np.intp)
    some = frame.take(namespace(frame.like).asarray(rows))
    return {name: values_on_host(some[name]) for name in some.names}


def values_on_host(column: Array | Factor) -> NDArray[Any]:
    """The values of a column; the levels of a factor, None if they are missing."""
    if isinstance(column, Factor):
        levels = np.array([*column.levels, None], object)
        return np.asarray(levels[on_host(column.codes)])
    values: NDArray[Any] = on_host(column)
    return values
