"""What boosted additive models have in common: learners, fits, effects."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from .._device.kernels import current, current_device, device_of
from . import _inputs
from ._insight import Insight
from ._sklearn import TakesWeights, check_integer, check_number
from ._term import MISSING_VALUES, UNKNOWN_LEVELS, Term
from ._uniform import uniform_learners
from .basis import OUTSIDE
from .batch import (
    Batch,
    Settings,
    Training,
    fit_batch,
    is_vector,
    make_ready,
    row_of,
    starts,
)
from .boosting import METHODS, RISK_TOLERANCE, Path, _boost
from .effects import Samples
from .families import Family
from .formula import Formula
from .frame import Factor, Frame, Name
from .learners import Learners
from .patience import fit_patiently
from .penalty import PENALTIES
from .plot import Risks, plot
from .problem import columns_of
from .rows import Rows
from .smoothing import check_df
from .stacked import Paths, advanced, boost_family
from .store import save
from .terms import bbs, bols

RUG = 200
"""The most rows of the training data that are kept for the rug in plots."""

ALLOWED = {
    "outside": OUTSIDE,
    "device": _inputs.DEVICES,
    "method": METHODS,
    "penalty": PENALTIES,
    "missing": MISSING_VALUES,
    "unknown": UNKNOWN_LEVELS,
}
"""The values of parameters that are words."""

Self = TypeVar("Self", bound="AdditiveModel")


class AdditiveModel(TakesWeights, Insight):
    """A sum of effects, fitted by componentwise boosting; see `BoostedGAM`."""

    feature_names_in_: NDArray[Any]
    default_family: str
    formula_: Formula | None = None

    def __init__(
        self,
        learners: Any = None,
        *,
        family: Any = None,
        n_basis: int = 24,
        degree: int = 3,
        penalty: str | None = "difference",
        penalty_order: int = 2,
        df: float = 4,
        df_definition: str = "2S-SS",
        learning_rate: float = 0.1,
        max_iter: int = 100,
        method: str = "auto",
        device: str = "auto",
        outside: str = "linear",
        missing: str = "error",
        unknown: str = "error",
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

    # ---- fit -------------------------------------------------------------------------

    def _frame(self, X: Any, device: str = "auto") -> Frame:
        """The columns of `X` that the learners read; all columns without learners."""
        if self.formula_ is not None:
            X = self.formula_.columns(X)
        if self.learners is None and not has_factors(X):
            array = _inputs.covariates(X, device, missing=self.missing != "error")
            names = _inputs.feature_names(X)
            keys = range(array.shape[1]) if names is None else names.tolist()
            return Frame({name: array[:, j] for j, name in enumerate(keys)})
        if self.learners is None:
            return Frame.of(X, device)
        read = [name for term in bound(self.learners) for name in term.columns]
        return Frame.of(X, device, read)

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
        with current(data.device):
            if data.weights is not None and not bool(data.weights.all()):
                data = data.take(data.weights > 0)
            settings = self._settings(data.frame, family)
            learners = None
            if data.y.ndim == 1 and not self.early_stopping:
                learners = uniform_learners(settings, data, self.method)
            if learners is not None:
                paths, lambda_ = self._fit_uniform(learners, settings, data)
            else:
                paths, lambda_ = self._fit_stacked(settings, data)
            self._keep(settings, data, paths, lambda_)
        self._set_names(X)

    def _settings(self, frame: Frame, family: Family) -> Settings:
        """The learners with their ranges and levels, and the parameters of the fit."""
        terms = (
            self._default_terms(frame)
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

    def _default_terms(self, frame: Frame) -> list[Term]:
        """A spline of each numeric column, and a linear effect of each factor."""
        options: dict[str, Any] = {"degree": self.degree, "df": self.df}
        if self.penalty == "cyclic":
            options["cyclic"] = True
            options["knots"] = self.n_basis - 1
        else:
            options["knots"] = self.n_basis - self.degree - 1
        if self.penalty == "ridge":
            options["differences"] = 0
        elif self.penalty is None:
            options["df"] = None
        else:
            options["differences"] = self.penalty_order
        return [
            bols(name) if frame.is_factor(name) else bbs(name, **options)
            for name in frame.names
        ]

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
        return [path], lambda_

    def _fit_stacked(
        self, settings: Settings, data: Training
    ) -> tuple[list[Path], NDArray[np.float64]]:
        """Fit learners of any kind, with any family: see `boost_family`."""
        if self.method not in ("auto", "stacked"):
            raise ValueError(
                "method must be 'auto' or 'stacked' unless all learners are equal "
                f"splines and the family is Gaussian, got {self.method!r}"
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
        else:
            batch = self._continued(settings, data)
        return batch.each(), batch.lambda_[0]

    def _continued(self, settings: Settings, data: Training) -> Batch:
        """A fit to all rows, which continues the last one if there is a warm start.

        Raises
        ------
        ValueError
            If there is a warm start with other data, or fewer iterations.
        """
        if not self._is_warm():
            return fit_batch(settings, data, data.weights, self.max_iter)
        ready = make_ready(settings, data, data.weights)
        self._check_warm(settings, on_host(ready.problem.lambda_), ready.intercepts)
        before = joined(self.paths_)
        start = advanced(ready.problem, ready.start, before.selected, before.updates)
        later = boost_family(
            ready.problem,
            settings.family,
            data.y,
            start,
            learning_rate=self.learning_rate,
            steps=self.max_iter - self.n_iter_,
            device=data.device,
        )
        check_continued(before.risk, later.risk[:, 0])
        paths = before.followed_by(later)
        return Batch(ready.intercepts, on_host(ready.problem.lambda_), paths)

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

    def _keep_paths(self, paths: list[Path]) -> None:
        """Store the steps, and what follows from them."""
        self.paths_ = paths
        self.n_iter_ = len(paths[0])
        self.method_ = paths[0].method
        coef = np.stack([self._columns(path.coef(len(self.terms_))) for path in paths])
        several = len(paths) > 1
        self.coef_ = coef if several else coef[0]
        risk = np.stack([path.risk for path in paths])
        self.risk_ = risk if several else risk[0]
        selected = np.stack([path.selected for path in paths])
        self.selected_ = selected if several else selected[0]
        self.intercept_ = self._intercepts() if several else paths[0].offset

    def stop_at(self: Self, iteration: int) -> Self:
        """Keep the first iterations only: the model that was fitted by then.

        Parameters
        ----------
        iteration : int
            From 0 to ``n_iter_``.

        Returns
        -------
        The model itself.
        """
        iteration = self._iteration(iteration)
        self._keep_paths([path.until(iteration) for path in self.paths_])
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The attributes without the training data, which a pickle does not keep."""
        return {key: one for key, one in self.__dict__.items() if key != "_data"}

    def _intercepts(self) -> NDArray[np.float64]:
        return np.array([path.offset for path in self.paths_])

    def _columns(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coefficients of the columns, from those of the functions: (K, k)."""
        found = [
            columns_of(term.transform(), row[: functions_of(term)])
            for term, row in zip(self.terms_, coef, strict=True)
        ]
        padded = np.zeros((len(coef), max(len(one) for one in found)))
        for row, one in zip(padded, found, strict=True):
            row[: len(one)] = one
        return padded

    # ---- predict ---------------------------------------------------------------------

    def _link(
        self, frame: Frame, iteration: int | None, offset: Any, fit: int = 0
    ) -> Array:
        """The additive predictor of one fit, (n,) on the device of the frame."""
        path = self.paths_[fit]
        coef = path.coef(len(self.terms_), iteration)
        f = self._start(frame, offset, fit)
        for learner in np.flatnonzero(coef.any(axis=1)).tolist():
            f += self._effect(learner, frame, coef[learner])
        return f

    def _start(self, frame: Frame, offset: Any, fit: int = 0) -> Array:
        """The additive predictor before the first iteration, (n,)."""
        f = namespace(frame.like).full(frame.rows, self.paths_[fit].offset)
        added = _inputs.start_of(offset, frame.like)
        return f if added is None else f + added

    def _offset(self, X: Any, offset: Any) -> Any:
        """The given offset, or that of the formula."""
        if offset is None and self.formula_ is not None:
            return self.formula_.offset(X)
        return offset

    def _rows(self, learner: int, frame: Frame) -> Rows:
        """The design of one learner."""
        return self.terms_[learner].rows(
            frame, outside=self.outside, unknown=self.unknown, missing=self.missing
        )

    def _effect(self, learner: int, frame: Frame, coef: NDArray[np.float64]) -> Array:
        """The effect of one learner, from the coefficients of its functions."""
        design = self._rows(learner, frame)
        return design.multiply(namespace(frame.like).asarray(coef[: design.functions]))

    # ---- effects ---------------------------------------------------------------------

    def partial_effect(
        self, learner: int | str, x: Any, *, iteration: int | None = None, fit: int = 0
    ) -> Array:
        """The effect of one learner on the additive predictor, not centred.

        Parameters
        ----------
        learner : int or str
            Its index, its name (see `names_`), or the name of a feature that no other
            learner reads.
        x : (n,) array_like, or columns as for `fit`
            The values of its feature; a data frame or a mapping if it has several.
        iteration : int, optional
            Use the model after this number of iterations, from 0 to ``n_iter_``.
        fit : int, optional
            The index of the class, for a classifier of several classes.

        Returns
        -------
        (n,) float64 array
            On the device of `x`.

        Raises
        ------
        TypeError
            If `learner` is neither an integer nor a string.
        IndexError, ValueError
            If there is no such learner.
        """
        self._check_is_fitted()
        index = self._index_of(learner)
        coef = self.paths_[fit].coef(len(self.terms_), self._iteration(iteration))
        design = self._design_at(index, x)
        values = design.parts[0].values
        with current_device(values):
            row = coef[index, : design.functions]
            return design.multiply(namespace(values).asarray(row))

    def plot(
        self,
        learners: Sequence[int | str] | None = None,
        *,
        cv: Risks | None = None,
        samples: Samples | None = None,
        level: float = 0.95,
        fit: int = 0,
    ) -> Any:
        """Draw the effects, the risk, and how much each learner reduced it.

        Parameters
        ----------
        learners : sequence of int or str, optional
            The learners to draw, in this order; by default at most 24 of those that
            were selected, the ones first that reduced the risk most.
        cv : CrossValidation, optional
            The result of `cv_stop`; the risk of its folds is drawn, too.
        samples : EffectBootstrap, optional
            The result of `bootstrap_effects`; bounds of the effects are drawn.
        level : float, optional
            The share of the samples between the bounds.
        fit : int, optional
            The index of the class, for a classifier of several classes.

        Returns
        -------
        matplotlib.figure.Figure
            A curve for a numeric feature, bars for a factor, a curve for each level of
            a factor, and a map for two numeric features, with the positions of some
            training data. Each effect is centred over these; but the effect of a
            feature that multiplies others (``by=``) is its coefficient. Effects share a
            scale, unless one would be more than five times as high as another. So do
            maps.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        self._check_is_fitted()
        return plot(self, learners, cv=cv, samples=samples, level=level, fit=fit)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file; see `gpusolve.gam.save`."""
        save(self, path)

    def _design_at(self, index: int, x: Any) -> Rows:
        """The design of a learner at values of its features, see `partial_effect`."""
        columns = self.terms_[index].columns
        if len(columns) == 1 and not hasattr(x, "columns") and not has_keys(x):
            values = _inputs.column(x, self.missing != "error")
            frame = Frame.of({columns[0]: values})
        else:
            frame = Frame.of(x, "auto", columns)
        with frame.current():
            return self._rows(index, frame)

    def _rug_of(self, index: int) -> dict[Name, NDArray[Any]]:
        """Some rows of the training data, of the features of a learner."""
        return {name: self.rug_[name] for name in self.terms_[index].columns}

    def _index_of(self, learner: int | str) -> int:
        """The index of a learner, given by its index, its name or its feature."""
        count = len(self.terms_)
        if isinstance(learner, str):
            if self.names_.count(learner) == 1:
                return self.names_.index(learner)
            reading = [j for j, t in enumerate(self.terms_) if learner in t.columns]
            if len(reading) == 1:
                return reading[0]
            raise ValueError(f"learner must be one of {self.names_}, got {learner!r}")
        check_integer("learner", learner)
        if not -count <= learner < count:
            raise IndexError(f"learner must be -{count} to {count - 1}, got {learner}")
        return int(learner) % count

    def _iteration(self, iteration: int | None) -> int:
        """The number of iterations to use; all by default."""
        self._check_is_fitted()
        if iteration is None:
            return self.n_iter_
        check_integer("iteration", iteration)
        if not 0 <= iteration <= self.n_iter_:
            raise ValueError(f"iteration must be 0 to {self.n_iter_}, got {iteration}")
        return int(iteration)

    # ---- checks ----------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """TypeError or ValueError for parameters of the wrong type or out of range."""
        for name in (
            "n_basis", "degree", "penalty_order", "max_iter", "n_iter_no_change",
        ):  # fmt: skip
            check_integer(name, getattr(self, name))
        for name in ("df", "learning_rate", "validation_fraction"):
            check_number(name, getattr(self, name))
        if not (self.learning_rate > 0 and np.isfinite(self.learning_rate)):
            raise ValueError(
                f"learning_rate must be positive and finite, got {self.learning_rate}"
            )
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                "validation_fraction must be between 0 and 1, got "
                f"{self.validation_fraction}"
            )
        for name, least in (("max_iter", 0), ("n_iter_no_change", 1)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"{name} must be {least} or more, got {getattr(self, name)}"
                )
        check_df(self.df, self.df_definition)
        for name, allowed in ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} must be one of {allowed}, got {getattr(self, name)!r}"
                )

    def _set_names(self, X: Any) -> None:
        """Store the names and the number of the features of `X`."""
        names = _inputs.feature_names(X)
        self.n_features_in_ = _inputs.number_of_features(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _covariates(self, X: Any) -> Frame:
        """The columns for a prediction, with the features of the fit."""
        self._check_is_fitted()
        if self.learners is None:
            _inputs.check_names(
                _inputs.feature_names(X),
                getattr(self, "feature_names_in_", None),
                type(self).__name__,
            )
            count = _inputs.number_of_features(X)
            if count != self.n_features_in_:
                raise ValueError(
                    f"X has {count} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
        return self._frame(X)


def bound(learners: Any) -> list[Term]:
    """The learners as a list of terms that know their covariates.

    Raises
    ------
    TypeError
        If they are no terms.
    ValueError
        If there are none, or one has no covariates.
    """
    if isinstance(learners, Mapping):
        terms = [
            named(term, key).with_covariates(key if isinstance(key, tuple) else (key,))
            for key, term in learners.items()
        ]
    elif isinstance(learners, Term):
        terms = [learners]
    else:
        terms = [named(term, j) for j, term in enumerate(learners)]
    if not terms:
        raise ValueError("learners must have at least one learner, got none")
    return terms


def named(term: Any, key: Any) -> Term:
    """The term itself; TypeError if it is none."""
    if not isinstance(term, Term):
        raise TypeError(
            f"learners must be terms such as bbs(), got {term!r} for {key!r}"
        )
    return term


def has_keys(X: Any) -> bool:
    """Whether `X` is a mapping of names to columns, or a frame."""
    return isinstance(X, Mapping | Frame)


def has_factors(X: Any) -> bool:
    """Whether `X` has named columns, and some of them are no numbers."""
    if has_keys(X):
        return True
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return False
    return any(getattr(dtype, "kind", "O") not in "biufc" for dtype in dtypes)


def functions_of(term: Term) -> int:
    """The number of functions of a learner."""
    T = term.transform()
    return len(term.penalty()) if T is None else len(T)


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


def joined(paths: list[Path]) -> Paths:
    """The steps of several fits as arrays."""
    return Paths(
        np.stack([path.selected for path in paths]),
        np.stack([path.updates for path in paths]),
        np.stack([path.risk for path in paths]),
        None,
        np.stack([nuisance_of(path) for path in paths]),
    )


def nuisance_of(path: Path) -> NDArray[np.float64]:
    """The adaptive parameters of a path; zeros if it has none."""
    return np.zeros(len(path) + 1) if path.nuisance is None else path.nuisance


def check_continued(before: NDArray[np.float64], risk: NDArray[np.float64]) -> None:
    """ValueError unless the steps begin with the risk at the end of the last ones."""
    last = before[:, -1]
    scale = np.abs(before).max(axis=1)
    if (np.abs(risk - last) > RISK_TOLERANCE * scale).any():
        raise ValueError(
            "a warm start needs the data of its path: the risk must be "
            f"{last}, as at the end of the path, got {risk}"
        )
