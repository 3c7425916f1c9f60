"""The base of boosted additive models: parameters, checks and fits."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from ..._device.kernels import current
from .. import _inputs
from .._boosting.batch import Fits, Settings, Training, make_fits
from .._boosting.methods import Method
from .._boosting.path import Path, join_paths
from .._boosting.patience import fit_patiently
from .._boosting.stacked import boost_family
from .._conventions import TakesMetadata
from .._terms.blocks import columns_in_memory
from .._terms.frame import Factor, Frame, Name
from ..families import Family, FamilyName
from .insight import Insight
from .specification import bind_learners, default_terms

RUG = 200
"""The most rows of the training data that are kept for the rug in plots."""


class AdditiveModel(TakesMetadata, Insight):
    """A sum of effects, fitted by componentwise boosting; see `BoostedGAM`."""

    default_family: str
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
        step_rule: Literal["scaled", "mboost"] = "scaled",
        max_iter: int = 100,
        method: Method = "auto",
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
        self.step_rule = step_rule
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
        frame = self._frame(columns_in_memory(X), self.device)
        with frame.current():
            like = frame.like
            return Training(
                frame,
                y,
                _inputs.observation_weights(sample_weight, like),
                _inputs.start_of(offset, like),
            )

    def _fit(self, X: Any, data: Training, family: Family) -> None:
        """Fit to checked data; `X` gives the names of the features."""
        vars(self).pop("validation_risk_", None)  # of an earlier fit
        with current(data.device):
            if data.weights is not None and not bool(data.weights.all()):
                data = data.take(data.weights > 0)
            settings = self._settings(data.frame, family)
            with np.errstate(over="ignore", invalid="ignore"):
                fits, path = self._steps(settings, data)
            self.terms_ = list(settings.terms)
            self.family_ = family
            self.lambda_ = on_host(fits.problem.lambda_[0])
            self.rug_ = rug_of(data.frame)
        self.n_rows_ = data.rows
        self._data = data, settings
        self._keep_paths(path.each())
        self._set_names(X)

    def _settings(self, frame: Frame, family: Family) -> Settings:
        """The learners with their ranges and levels, and the parameters of the fit."""
        terms = (
            default_terms(self, frame)
            if self.learners is None
            else bind_learners(self.learners)
        )
        return Settings(
            tuple(term.learn(frame) for term in terms),
            family,
            self.learning_rate,
            self.df_definition,
            self.missing,
            self.step_rule,
        )

    def _steps(self, settings: Settings, data: Training) -> tuple[Fits, Path]:
        """Make the steps; for a warm start, after the steps of the last fit."""
        if self.early_stopping:
            fits, path, self.validation_risk_ = fit_patiently(
                settings,
                data,
                self.max_iter,
                method=self.method,
                fraction=self.validation_fraction,
                patience=self.n_iter_no_change,
                random_state=self.random_state,
            )
            return fits, path
        fits, before, steps = make_fits(settings, data, data.weights), None, 0
        if self.warm_start and hasattr(self, "paths_"):
            self._check_warm(fits)
            before, steps = join_paths(self.paths_), self.n_iter_
        more = self.max_iter - steps
        return fits, boost_family(fits, more, before=before, method=self.method)

    def _check_warm(self, fits: Fits) -> None:
        """ValueError unless the last fit had these learners and offsets."""
        same = (
            fits.problem.terms == tuple(self.terms_)
            and fits.family == self.family_
            and np.shape(fits.offset) == np.shape(self._intercepts())
            and np.allclose(on_host(fits.problem.lambda_[0]), self.lambda_, rtol=1e-6)
            and np.allclose(fits.offset, self._intercepts())
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
    """Some rows, on the host, for plots; levels instead of codes."""
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
