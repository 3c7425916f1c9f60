"""The boosted additive model as an estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from .._device.kernels import current_device
from . import _inputs
from ._sklearn import Estimator, TakesWeights, check_number, check_whole
from .basis import OUTSIDE, BSplines, CompactBasis
from .boosting import ROUNDING, Path, boost, weighted_mean
from .learners import Learners, make_learners

RUG = 200
"""At most so many rows are kept to be drawn below the effects."""


class BoostedGAM(TakesWeights, Estimator):
    r"""A generalised additive model, fitted by componentwise boosting.

    .. math:: \hat y = \beta_0 + \sum_j f_j(x_j), \qquad
              f_j(x_j) = \sum_i \gamma_{ji} B_{ji}(x_j)

    Every effect is a penalised B-spline. Each iteration fits all of them to the
    residuals and moves the model a little towards the one that fits best, so that
    covariates which do not help are left out.

    Parameters
    ----------
    n_basis : int, optional
        Functions of each effect, at least ``degree + 1``.
    degree : int, optional
        Of the splines, 0 to 5.
    penalty : {"difference", "ridge", "cyclic", None}, optional
        What makes an effect rough: differences of neighbouring coefficients
        (P-splines), the coefficients themselves, differences around a ring, nothing.
        The ring draws the ends of an effect to each other; it does not make them equal.
    penalty_order : int, optional
        Of the differences, 1 to 3.
    df : float, optional
        Degrees of freedom of one fit of an effect; few of them make small steps. All
        effects have as many, so that none is preferred. Without a penalty it is not
        asked: every fit has as many as its functions.
    df_definition : {"2S-SS", "trace"}, optional
        ``tr(2S - S'S)`` or ``tr(S)`` of the hat matrix S.
    learning_rate : float, optional
        How far an iteration goes towards the fit, positive. The risk never rises for
        rates up to 1.
    max_iter : int, optional
        Iterations to make. More of them fit the data more closely.
    method : {"auto", "direct", "stacked", "gram"}, optional
        How the iterations are computed, see `gpusolve.gam.boost`. The model is the
        same.
    device : {"auto", "cpu", "cuda"}, optional
        Where to fit; "auto" is where `X` lies.
    outside : {"linear", "clamp", "error"}, optional
        How effects go on outside of the range of the training data.
    warm_start : bool, optional
        Whether `fit` goes on from the last fit, with the same data and a larger
        `max_iter`, instead of starting afresh.

    Attributes
    ----------
    intercept_ : float
        The weighted mean of y.
    coef_ : (n_features, n_basis) array
        The coefficients of each effect; zero where it was never selected.
    lambda_ : (n_features,) array
        The smoothing parameters.
    selected_ : (n_iter_,) array of int32
        The feature of each iteration.
    risk_ : (n_iter_ + 1,) array
        The weighted sum of squared residuals before the first iteration and after each.
    n_iter_ : int
    path_ : Path
        All iterations, for earlier models and further ones.
    method_ : str
        The method that "auto" chose.
    basis_ : BSplines
        The ranges of the features.
    rug_ : (at most 200, n_features) array
        Some rows of the training data, for plots.
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of object
        Only where `X` was a data frame whose columns have names.

    Notes
    -----
    The model is that of mboost's ``gamboost`` with ``bbs`` learners [1]_, Gaussian
    family. Everything learnt is kept on the host, so that a model which was fitted on
    a GPU can be pickled there and opened anywhere.

    float32 `X` is kept as such while fitting, and halves the memory; all sums are in
    float64.

    - NaN and infinity are errors.
    - A feature that is constant has no effect.
    - A feature of fewer levels than `df`, or fewer rows than that, is fitted without a
      penalty.
    - Where `y` is constant, nothing is left to learn and all coefficients are zero, up
      to the rounding of the mean.
    - Rows of weight zero are as if they were not there. Weights that are whole numbers,
      up to rounding, count rows; others are scaled so that they add up to the number of
      positive ones.

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

    An earlier iteration, without fitting again:

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
            NumPy, CuPy, pandas, or whatever speaks ``__cuda_array_interface__`` or
            DLPack; in any memory layout.
        y : (n,) array_like
        sample_weight : (n,) array_like, optional
            Not negative.

        Returns
        -------
        BoostedGAM
            Itself.

        Raises
        ------
        TypeError
            For data that are no real numbers, and parameters that are none or no whole
            numbers where these are wanted.
        ValueError
            For NaN or infinity, shapes that do not fit, parameters that cannot be, or
            a warm start with other data or fewer iterations.
        ImportError
            For ``device="cuda"`` without CuPy.
        RuntimeError
            For ``device="cuda"`` without a GPU or its driver.
        """
        self._check_parameters()
        names = _inputs.feature_names(X)
        X = _inputs.covariates(X, self.device)
        with current_device(X):
            self._fit(X, y, sample_weight, names)
        return self

    def _fit(
        self, X: Array, y: Any, sample_weight: Any, names: NDArray[Any] | None
    ) -> None:
        """Fit where the covariates live."""
        y = _inputs.target(y, X)
        weights = _inputs.observation_weights(sample_weight, X)
        if weights is not None and not bool(weights.all()):
            kept = weights > 0
            X, y, weights = X[kept], y[kept], weights[kept]
        basis = BSplines.spanning(X, self.n_basis, self.degree)
        learners = make_learners(
            basis.evaluate(X, dtype=X.dtype),
            self.n_basis,
            penalty=self.penalty,
            penalty_order=self.penalty_order,
            df=self.df,
            df_definition=self.df_definition,
            weights=weights,
        )
        start = self._path_to_go_on(learners, basis, weighted_mean(y, weights))
        path = boost(
            learners,
            y,
            learning_rate=self.learning_rate,
            steps=self.max_iter - (0 if start is None else len(start)),
            method=self.method,
            start=start,
        )
        self._learn(learners, basis, path)
        self._describe(X, names)

    def predict(self, X: Any, *, iteration: int | None = None) -> Array:
        """Predict the target.

        Parameters
        ----------
        X : (n, n_features) array_like
        iteration : int, optional
            Of the model after so many iterations, from 0 to ``n_iter_``.

        Returns
        -------
        (n,) float64 array
            Where `X` lives.
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

        Whatever is wrong with `X` is said at once, not at the first iteration.

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
        """The predictions after each iteration, from the one before the first."""
        for step, feature in enumerate(self.path_.selected.tolist()):
            with current_device(prediction):
                change = bases[feature].multiply(updates[step : step + 1])[0]
                prediction = prediction + change
            yield prediction

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination, ``1 - |y - predict|^2 / |y - mean|^2``.

        Where y is constant, up to rounding, 1 if it is predicted up to rounding, and 0
        if it is not. Rows of weight zero do not count.

        Parameters
        ----------
        X : (n, n_features) array_like
        y : (n,) array_like
        sample_weight : (n,) array_like, optional
            Not negative, and not all of it zero.
        """
        prediction = self.predict(X)
        with current_device(prediction):
            y = _inputs.one_of_each(y, "y", prediction)
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
            Its index, or its name where `fit` was given a data frame.
        x : (n,) array_like
            Values of the feature.
        iteration : int, optional
            After so many iterations, from 0 to ``n_iter_``.

        Returns
        -------
        (n,) float64 array
            Where `x` lives.

        Raises
        ------
        TypeError
            For a feature that is neither a whole number nor a name.
        IndexError, ValueError
            For a number or a name that no feature has.
        """
        coef = self._coef_at(iteration)
        index = self._index_of(feature)
        values = _inputs.real(x, "x")
        if values.ndim != 1:
            raise ValueError(f"x has shape {values.shape}; (n,) is wanted")
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
            Without matplotlib.
        """
        from .plot import plot

        self._check_is_fitted()
        return plot(self)

    def _check_parameters(self) -> None:
        for name in ("n_basis", "degree", "penalty_order", "max_iter"):
            check_whole(name, getattr(self, name))
        for name in ("df", "learning_rate"):
            check_number(name, getattr(self, name))
        if not (self.learning_rate > 0 and np.isfinite(self.learning_rate)):
            raise ValueError(
                f"learning_rate is {self.learning_rate}; a positive number is wanted"
            )
        if self.max_iter < 0:
            raise ValueError(f"max_iter is {self.max_iter}; 0 or more is wanted")
        if self.outside not in OUTSIDE:
            raise ValueError(f"outside is {self.outside!r}; one of {OUTSIDE} is wanted")

    def _path_to_go_on(
        self, learners: Learners, basis: BSplines, mean: float
    ) -> Path | None:
        """The path so far, for a warm start; ValueError for what looks different."""
        if not self.warm_start or not hasattr(self, "path_"):
            return None
        same = (
            (basis.n_basis, basis.degree) == (self.basis_.n_basis, self.basis_.degree)
            and np.array_equal(on_host(basis.lower), self.basis_.lower)
            and np.array_equal(on_host(basis.upper), self.basis_.upper)
            and np.allclose(on_host(learners.lambda_), self.lambda_, rtol=1e-6)
            and np.isclose(mean, self.intercept_)
        )
        if not same:
            raise ValueError(
                "a warm start wants the data and the effects of the last fit; set "
                "warm_start=False to start afresh"
            )
        if self.max_iter < len(self.path_):
            raise ValueError(
                f"max_iter is {self.max_iter}, but {len(self.path_)} iterations have "
                "been made; predict(X, iteration=...) gives an earlier model"
            )
        return self.path_

    def _learn(self, learners: Learners, basis: BSplines, path: Path) -> None:
        """Keep what was learnt, on the host."""
        self.basis_ = BSplines(
            on_host(basis.lower), on_host(basis.upper), basis.n_basis, basis.degree
        )
        self.lambda_ = on_host(learners.lambda_)
        self.path_ = path
        self.intercept_ = path.offset
        self.coef_ = path.coef(len(learners))
        self.selected_ = path.selected
        self.risk_ = path.risk
        self.n_iter_ = len(path)
        self.method_ = path.method

    def _describe(self, X: Array, names: NDArray[Any] | None) -> None:
        """Keep what the features are."""
        self.n_features_in_ = X.shape[1]
        rows = np.linspace(0, len(X) - 1, min(RUG, len(X))).astype(np.intp)
        self.rug_ = on_host(X[namespace(X).asarray(rows)])
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _covariates(self, X: Any) -> Array:
        """Covariates to predict from, checked against those of the fit."""
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
        check_whole("iteration", iteration)
        if not 0 <= iteration <= self.n_iter_:
            raise ValueError(f"iteration is {iteration}; 0 to {self.n_iter_} is wanted")
        return self.path_.coef(self.n_features_in_, iteration)

    def _index_of(self, feature: int | str) -> int:
        """The index of a feature, given it or its name."""
        if isinstance(feature, str):
            names = list(getattr(self, "feature_names_in_", ()))
            if feature not in names:
                raise ValueError(f"there is no feature {feature!r}; there are {names}")
            return names.index(feature)
        check_whole("feature", feature)
        if not -self.n_features_in_ <= feature < self.n_features_in_:
            raise IndexError(f"feature is {feature}, of {self.n_features_in_} features")
        return int(feature)

    def _basis_of(self, feature: int, x: Array) -> CompactBasis:
        """The nonzeros of the basis of one feature at `x`, beside it."""
        xp = namespace(x)
        of_feature = BSplines(
            xp.asarray(self.basis_.lower[[feature]]),
            xp.asarray(self.basis_.upper[[feature]]),
            self.basis_.n_basis,
            self.basis_.degree,
        )
        return of_feature.evaluate(x[:, None], outside=self.outside)

    def _effect(self, feature: int, x: Array, coef: NDArray[np.float64]) -> Array:
        """The effect of one feature with some coefficients."""
        basis = self._basis_of(feature, x)
        return basis.multiply(namespace(x).asarray(coef)[None])[0]


def determination(y: Array, prediction: Array, weights: Array) -> float:
    """The coefficient of determination, and what stands for it where y is constant."""
    counts = weights > 0
    y, prediction, weights = y[counts], prediction[counts], weights[counts]
    left = weights @ (y - prediction) ** 2
    total = weights @ (y - weights @ y / weights.sum()) ** 2
    rounding = ROUNDING * float(abs(y).max())
    if float(y.max() - y.min()) <= rounding or float(total) == 0:
        return float(abs(y - prediction).max() <= rounding)
    return 1 - float(left) / float(total)
