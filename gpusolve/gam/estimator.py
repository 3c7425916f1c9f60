"""The boosted additive model as an estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from .._device.kernels import Device, current, current_device, device_of
from . import _inputs
from ._sklearn import Estimator, TakesWeights, check_integer, check_number
from .basis import OUTSIDE, BSplines, CompactBasis, column_ranges
from .boosting import ROUNDING, Path, _boost, check_method, weighted_mean
from .learners import Learners, _make
from .penalty import null_dimension, penalty_matrix
from .plot import plot
from .smoothing import check_df

RUG = 200
"""The most rows of the training data that are kept for the rug in plots."""


class BoostedGAM(TakesWeights, Estimator):
    r"""A generalised additive model, fitted by componentwise boosting.

    .. math:: \hat y = \beta_0 + \sum_j f_j(x_j), \qquad
              f_j(x_j) = \sum_i \gamma_{ji} B_{ji}(x_j)

    Every effect is a penalised B-spline. Each iteration fits all effects to the
    residuals, and moves the model a little towards the one that fits best. Covariates
    that do not improve the fit are never selected.

    Parameters
    ----------
    n_basis : int, optional
        Number of basis functions of each effect, at least ``degree + 1``.
    degree : int, optional
        Degree of the splines, 0 to 5.
    penalty : {"difference", "ridge", "cyclic", None}, optional
        What is penalised: differences of neighbouring coefficients (P-splines), the
        coefficients themselves, differences around a ring, nothing. "cyclic" draws the
        two ends of an effect together, but does not make them equal.
    penalty_order : int, optional
        Order of the differences, 1 to 3.
    df : float, optional
        Degrees of freedom of one fit of an effect; fewer give smaller steps. They are
        the same for all effects, so that none is preferred. Ignored without a penalty.
    df_definition : {"2S-SS", "trace"}, optional
        ``tr(2S - S'S)`` or ``tr(S)`` of the hat matrix S.
    learning_rate : float, optional
        The fraction of the best fit that an iteration adds to the model, positive. The
        risk never increases for rates up to 1.
    max_iter : int, optional
        Number of iterations. More iterations fit the data more closely.
    method : {"auto", "direct", "stacked", "gram"}, optional
        The algorithm, see `gpusolve.gam.boost`. All give the same model.
    device : {"auto", "cpu", "cuda"}, optional
        The device to fit on; "auto" is the device of `X`.
    outside : {"linear", "clamp", "error"}, optional
        Outside the range of the training data, continue an effect linearly, keep its
        value at the end of the range, or raise an error.
    warm_start : bool, optional
        Whether `fit` continues the last fit, with the same data and a larger
        `max_iter`, instead of starting again.

    Attributes
    ----------
    intercept_ : float
        The weighted mean of y.
    coef_ : (n_features, n_basis) array
        The coefficients of each effect; zero if it was never selected.
    lambda_ : (n_features,) array
        The smoothing parameters.
    selected_ : (n_iter_,) array of int32
        The feature that each iteration selected.
    risk_ : (n_iter_ + 1,) array
        The weighted sum of squared residuals before the first iteration and after each.
    n_iter_ : int
        Number of iterations that were made.
    path_ : Path
        All iterations; earlier models are computed from it, and a warm start
        continues it.
    method_ : str
        The method that was used.
    basis_ : BSplines
        The ranges of the features, as NumPy arrays.
    rug_ : (at most 200, n_features) array
        Some rows of the training data, for plots.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (n_features,) array of object
        Defined only if `X` was a data frame whose columns have names.

    Notes
    -----
    The model is that of mboost's ``gamboost`` with ``bbs`` learners [1]_ and the
    Gaussian family. All fitted attributes are on the host. A model that was fitted on a
    GPU can be pickled, and loaded on a machine without a GPU.

    If `X` is float32, the bases are stored as float32, which halves the memory; all
    sums are in float64.

    - NaN and infinity are errors.
    - A constant feature has no effect.
    - A feature with at most `df` levels, or data with at most `df` rows, is fitted
      without a penalty.
    - If `y` is constant, all coefficients are zero, up to the rounding of the mean.
    - Rows of weight zero are ignored. Integer weights, up to rounding, count rows;
      other weights are scaled so that their sum is the number of positive weights.

    References
    ----------
    .. [1] B. Hofner, A. Mayr, N. Robinzonov and M. Schmid, "Model-based boosting in R:
           a hands-on tutorial using the R package mboost", Computational Statistics 29
           (2014).
    .. [2] A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models
           with GPU Acceleration", 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM
    >>> X = np.random.default_rng(0).random((500, 4))
    >>> y = np.sin(6 * X[:, 2]) + X[:, 0]
    >>> model = BoostedGAM(max_iter=200).fit(X, y)
    >>> model.score(X, y) > 0.999
    True
    >>> np.unique(model.selected_)
    array([0, 2], dtype=int32)

    The model after 10 iterations, without fitting again:

    >>> early = model.predict(X, iteration=10)
    >>> bool(np.isclose(((y - early) ** 2).sum(), model.risk_[10]))
    True
    """

    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        *,
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
        warm_start: bool = False,
    ) -> None:
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
        self.warm_start = warm_start

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BoostedGAM:
        """Fit the model.

        Parameters
        ----------
        X : (n, n_features) array_like
            NumPy, CuPy, pandas, or any object that supports
            ``__cuda_array_interface__`` or DLPack; in any memory layout.
        y : (n,) array_like
        sample_weight : (n,) array_like, optional
            Not negative.

        Returns
        -------
        BoostedGAM
            The estimator itself.

        Raises
        ------
        TypeError
            If the data are not real numbers, or a parameter has the wrong type.
        ValueError
            If the data contain NaN or infinity or have the wrong shape, if a parameter
            is out of range, or if a warm start has other data or fewer iterations.
        ImportError
            If ``device="cuda"`` and CuPy is not installed.
        RuntimeError
            If ``device="cuda"`` and there is no GPU or no driver.
        """
        self._check_parameters()
        names = _inputs.feature_names(X)
        X = _inputs.covariates(X, self.device)
        device = device_of(X)
        check_method(self.method, X.shape[1], self.n_basis, device)
        with current(device):
            y = _inputs.target(y, X)
            weights = _inputs.observation_weights(sample_weight, X)
            self._fit(X, y, weights, device)
        self._set_names(names)
        return self

    def _fit(
        self, X: Array, y: Array, weights: Array | None, device: Device | None
    ) -> None:
        """Fit to checked data on the current device."""
        if weights is not None and not bool(weights.all()):
            kept = weights > 0
            X, y, weights = X[kept], y[kept], weights[kept]
        lower, upper = column_ranges(X)
        basis = BSplines(on_host(lower), on_host(upper), self.n_basis, self.degree)
        penalty = self.n_basis, self.penalty, self.penalty_order
        P, unpenalised = penalty_matrix(*penalty), null_dimension(*penalty)
        learners = _make(
            basis._evaluate(X, "linear", X.dtype),
            self.n_basis,
            P,
            unpenalised,
            df=self.df,
            df_definition=self.df_definition,
            weights=weights,
            device=device,
        )
        start = self._warm_path(basis, learners, y)
        path = _boost(
            learners,
            y,
            learning_rate=self.learning_rate,
            steps=self.max_iter - (0 if start is None else len(start)),
            method=self.method,
            start=start,
            device=device,
        )
        self._keep(X, basis, learners, path)

    def predict(self, X: Any, *, iteration: int | None = None) -> Array:
        """Predict the target.

        Parameters
        ----------
        X : (n, n_features) array_like
        iteration : int, optional
            Use the model after this number of iterations, from 0 to ``n_iter_``.

        Returns
        -------
        (n,) float64 array
            On the device of `X`.
        """
        coef = self._coef_at(iteration)
        X = self._covariates(X)
        with current_device(X):
            prediction = namespace(X).full(len(X), self.intercept_)
            for feature in np.flatnonzero(coef.any(axis=1)).tolist():
                prediction += self._effect(feature, X[:, feature], coef[feature])
        return prediction

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Predict the target after each iteration, from the first to the last.

        An invalid `X` raises an error at once, not at the first iteration.

        Yields
        ------
        (n,) float64 array
        """
        self._check_is_fitted()
        X = self._covariates(X)
        with current_device(X):
            bases = {
                feature: self._basis_of(feature, X[:, feature])
                for feature in np.unique(self.path_.selected).tolist()
            }
            updates = namespace(X).asarray(self.path_.updates)
            prediction = namespace(X).full(len(X), self.intercept_)
        return self._stages(prediction, bases, updates)

    def _stages(
        self, prediction: Array, bases: dict[int, CompactBasis], updates: Array
    ) -> Iterator[Array]:
        """The predictions after each iteration, given the one before the first."""
        for step, feature in enumerate(self.path_.selected.tolist()):
            with current_device(prediction):
                change = bases[feature].multiply(updates[step : step + 1])[0]
                prediction = prediction + change
            yield prediction

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination, ``1 - |y - predict|^2 / |y - mean|^2``.

        If y is constant, up to rounding, the result is 1 if y is predicted up to
        rounding, and 0 otherwise. Rows of weight zero are ignored.

        Parameters
        ----------
        X : (n, n_features) array_like
        y : (n,) array_like
        sample_weight : (n,) array_like, optional
            Not negative, and not all of it zero.
        """
        prediction = self.predict(X)
        with current_device(prediction):
            y = _inputs.one_per_row(y, "y", prediction)
            w = _inputs.observation_weights(sample_weight, prediction)
            return determination(
                y, prediction, namespace(y).ones(len(y)) if w is None else w
            )

    def partial_effect(
        self, feature: int | str, x: Any, *, iteration: int | None = None
    ) -> Array:
        """The effect ``f_j`` of one feature, not centred.

        Parameters
        ----------
        feature : int or str
            Its index, or its name if `fit` was given a data frame.
        x : (n,) array_like
            Values of the feature.
        iteration : int, optional
            Use the model after this number of iterations, from 0 to ``n_iter_``.

        Returns
        -------
        (n,) float64 array
            On the device of `x`.

        Raises
        ------
        TypeError
            If `feature` is neither an integer nor a string.
        IndexError, ValueError
            If no feature has this index or this name.
        """
        coef = self._coef_at(iteration)
        index = self._index_of(feature)
        values = _inputs.real_array(x, "x")
        if values.ndim != 1:
            raise ValueError(f"x must have shape (n,), got {values.shape}")
        with current_device(values):
            return self._effect(index, values, coef[index])

    def plot(self) -> Any:
        """Draw the effects, the risk and how often each feature was selected.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        self._check_is_fitted()
        return plot(self)

    def _check_parameters(self) -> None:
        for name in ("n_basis", "degree", "penalty_order", "max_iter"):
            check_integer(name, getattr(self, name))
        for name in ("df", "learning_rate"):
            check_number(name, getattr(self, name))
        if not (self.learning_rate > 0 and np.isfinite(self.learning_rate)):
            raise ValueError(
                f"learning_rate must be positive and finite, got {self.learning_rate}"
            )
        if self.max_iter < 0:
            raise ValueError(f"max_iter must be 0 or more, got {self.max_iter}")
        check_df(self.df, self.df_definition)
        for name, allowed in (("outside", OUTSIDE), ("device", _inputs.DEVICES)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} must be one of {allowed}, got {getattr(self, name)!r}"
                )

    def _warm_path(self, basis: BSplines, learners: Learners, y: Array) -> Path | None:
        """The path that a warm start continues; None without a warm start.

        Raises
        ------
        ValueError
            If the data or the effects differ from those of the last fit, or `max_iter`
            is smaller than before.
        """
        if not self.warm_start or not hasattr(self, "path_"):
            return None
        same = (
            (basis.n_basis, basis.degree) == (self.basis_.n_basis, self.basis_.degree)
            and np.array_equal(basis.lower, self.basis_.lower)
            and np.array_equal(basis.upper, self.basis_.upper)
            and np.allclose(on_host(learners.lambda_), self.lambda_, rtol=1e-6)
            and np.isclose(weighted_mean(y, learners.weights), self.intercept_)
        )
        if not same:
            raise ValueError(
                "a warm start needs the data and the effects of the last fit; set "
                "warm_start=False to start again"
            )
        if self.max_iter < len(self.path_):
            raise ValueError(
                f"max_iter must be at least {len(self.path_)}, the number of "
                f"iterations of the last fit, got {self.max_iter}; "
                "predict(X, iteration=...) uses an earlier model"
            )
        return self.path_

    def _keep(self, X: Array, basis: BSplines, learners: Learners, path: Path) -> None:
        """Store the fitted attributes, on the host."""
        rows = np.linspace(0, len(X) - 1, min(RUG, len(X))).astype(np.intp)
        self.n_features_in_ = X.shape[1]
        self.rug_ = on_host(X[namespace(X).asarray(rows)])
        self.lambda_ = on_host(learners.lambda_)
        self.basis_ = basis
        self.path_ = path
        self.intercept_ = path.offset
        self.coef_ = path.coef(len(learners))
        self.selected_ = path.selected
        self.risk_ = path.risk
        self.n_iter_ = len(path)
        self.method_ = path.method

    def _set_names(self, names: NDArray[Any] | None) -> None:
        """Store the names of the features, or delete those of an earlier fit."""
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _covariates(self, X: Any) -> Array:
        """The covariates for a prediction, with the features of the fit."""
        self._check_is_fitted()
        _inputs.check_names(
            _inputs.feature_names(X),
            getattr(self, "feature_names_in_", None),
            type(self).__name__,
        )
        array = _inputs.covariates(X, "auto")
        if array.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input"
            )
        return array

    def _coef_at(self, iteration: int | None) -> NDArray[np.float64]:
        """The coefficients after some iterations, or all."""
        self._check_is_fitted()
        if iteration is None:
            return self.coef_
        check_integer("iteration", iteration)
        if not 0 <= iteration <= self.n_iter_:
            raise ValueError(f"iteration must be 0 to {self.n_iter_}, got {iteration}")
        return self.path_.coef(self.n_features_in_, iteration)

    def _index_of(self, feature: int | str) -> int:
        """The index of a feature, given by its index or its name."""
        if isinstance(feature, str):
            names = list(getattr(self, "feature_names_in_", ()))
            if feature not in names:
                raise ValueError(f"feature must be one of {names}, got {feature!r}")
            return names.index(feature)
        check_integer("feature", feature)
        if not -self.n_features_in_ <= feature < self.n_features_in_:
            raise IndexError(
                f"feature must be -{self.n_features_in_} to {self.n_features_in_ - 1}, "
                f"got {feature}"
            )
        return int(feature)

    def _basis_of(self, feature: int, x: Array) -> CompactBasis:
        """The basis of one feature at `x`, on the device of `x`."""
        column = slice(feature, feature + 1)
        return self.basis_._evaluate(x[:, None], self.outside, features=column)

    def _effect(self, feature: int, x: Array, coef: NDArray[np.float64]) -> Array:
        """The effect of one feature with the given coefficients."""
        basis = self._basis_of(feature, x)
        return basis.multiply(namespace(x).asarray(coef)[None])[0]


def determination(y: Array, prediction: Array, weights: Array) -> float:
    """The coefficient of determination; 1 or 0 if y is constant, see `score`."""
    kept = weights > 0
    y, prediction, weights = y[kept], prediction[kept], weights[kept]
    remaining = weights @ (y - prediction) ** 2
    total = weights @ (y - weights @ y / weights.sum()) ** 2
    rounding = ROUNDING * float(abs(y).max())
    if float(y.max() - y.min()) <= rounding or float(total) == 0:
        return float(abs(y - prediction).max() <= rounding)
    return 1 - float(remaining) / float(total)
