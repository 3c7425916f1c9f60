"""Fits to other weights of the rows: cross-validation, and bootstrap of effects."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import on_host
from .._device.kernels import current
from ._boosting.batch import Settings, Training
from ._boosting.folds import (
    Folds,
    by_fold,
    check_folds,
    fit_tasks,
    fits_in_batches,
    make_folds,
    mean_losses,
)
from ._boosting.path import Path
from ._boosting.stacked import boost_family
from ._data.conventions import check_between
from ._model.model import AdditiveModel


@dataclass(frozen=True)
class CrossValidation:
    """The out-of-bag risk of every fold and iteration.

    Attributes
    ----------
    risk : (B, iterations + 1) array
        The mean loss of the rows that are left out of each fold, before the first
        iteration and after each.

    See Also
    --------
    cv_stop, plot_path

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import CrossValidation
    >>> CrossValidation(np.array([[3.0, 1.0, 2.0], [3.0, 2.0, 2.5]])).best_iteration
    1
    """

    risk: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean over the folds, (iterations + 1,)."""
        return np.asarray(self.risk.mean(axis=0))

    @property
    def best_iteration(self) -> int:
        """The first iteration with the least mean risk; 0 is the offset alone."""
        return int(self.mean.argmin())

    def __repr__(self) -> str:
        folds, iterations = self.risk.shape
        best = self.best_iteration
        advice = "; raise max_iter" if best == iterations - 1 else ""
        return (
            f"CrossValidation({folds} folds, {iterations - 1} iterations: best after "
            f"{best}, with risk {self.mean[best]:.6g}{advice})"
        )

    def plot(self) -> Any:
        """Draw the risk of all folds, their mean, and the best iteration.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from ._model.figures import plot_cross_validation

        return plot_cross_validation(self)


def cv_stop(
    model: AdditiveModel,
    folds: Any = "bootstrap",
    *,
    n_folds: int | None = None,
    max_iter: int | None = None,
    random_state: Any = None,
    client: Any = None,
) -> CrossValidation:
    """Estimate the risk of a fitted model after every iteration, on rows left out.

    The folds are fitted as one batch: on a GPU by one launch, on a CPU by one pass over
    the rows in each iteration. Offsets and smoothing parameters are computed for every
    fold; ranges, knots and levels are the model's. This is mboost's ``cvrisk``.

    Parameters
    ----------
    model : BoostedGAM or BoostedGAMClassifier
        Fitted; it refers to its training data, but not after it was pickled.
    folds : {"bootstrap", "kfold", "subsampling"}, (n, B) array, splitter or iterable
        The kind of random folds; weights instead of the rows' weights, 0 for rows
        that are left out; an object with a method ``split``, as in scikit-learn; or
        pairs of the indices, or masks, of training rows and test rows, such as
        ``GroupKFold(5).split(X, y, groups)``. They are for all n rows of X; rows that
        had the weight 0 in `fit` count in no fold.
    n_folds : int, optional
        The number of random folds: by default 25, or 10 for "kfold".
    max_iter : int, optional
        The number of iterations; by default the model's `max_iter`, or
        `n_iter_` if it is "auto".
    random_state : int, Generator or RandomState, optional
        For random folds.
    client : distributed.Client, optional
        A client of Dask: each fold is fitted by one task of its workers, on one core or
        on the worker's GPU. The data are sent to each worker once.

    Returns
    -------
    CrossValidation

    Raises
    ------
    ValueError
        If the model has no training data, or folds are invalid.

    See Also
    --------
    CrossValidation, aic_stop, stability_selection

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, cv_stop
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((200, 3))
    >>> y = np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(200)
    >>> model = BoostedGAM(max_iter=300).fit(X, y)
    >>> cv = cv_stop(model, "kfold", n_folds=5, random_state=0)
    >>> 0 < cv.best_iteration < 300
    True
    >>> model.stop_at(cv.best_iteration).n_iter_ == cv.best_iteration
    True
    """
    data, settings = training_of(model)
    steps = model._most_iterations() if max_iter is None else max_iter
    made = make_folds(folds, *data.rows_of_x, n_folds, random_state)
    check_folds(made, data, settings.family)
    if client is None:
        with current(data.device):
            risk = risk_of_folds(data, settings, made, steps)
    else:
        parts = (made.some(slice(k, k + 1)) for k in range(len(made.weights)))
        risk = fit_tasks(client, risk_of_folds, data, settings, parts, steps)
    return CrossValidation(risk)


def training_of(model: AdditiveModel) -> tuple[Training, Settings]:
    """The data and the settings of the last fit; ValueError for a loaded model."""
    model._check_is_fitted()
    found: tuple[Training, Settings] | None = getattr(model, "_data", None)
    if found is None:
        raise ValueError(
            "the model must have its training data: fit it again, a model that was "
            "loaded from a file does not keep them"
        )
    return found


def risk_of_folds(
    data: Training, settings: Settings, folds: Folds, steps: int
) -> NDArray[np.float64]:
    """The mean loss of the rows that are left out of each fold, (B, steps + 1)."""
    risks = []
    for part, fits in fits_in_batches(settings, data, folds):
        path = boost_family(fits, steps)
        assert path.out_of_bag is not None
        risks.append(mean_losses(path.out_of_bag, part))
    return np.concatenate(risks)


# ---- bootstrap -----------------------------------------------------------------------


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EffectBootstrap:
    """The effects of a model in bootstrap samples of its training data.

    Attributes
    ----------
    model : BoostedGAM or BoostedGAMClassifier
    coef : (B, n_learners, k) array
        The coefficients of the functions of all learners, for each of B samples. With
        several classes, (B, n_classes, n_learners, k).

    See Also
    --------
    bootstrap_effects, BoostedGAM

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, bootstrap_effects
    >>> X = np.random.default_rng(0).random((50, 2))
    >>> model = BoostedGAM(max_iter=10).fit(X, X[:, 0])
    >>> bootstrap_effects(model, 5, random_state=0).coef.shape[:2]
    (5, 2)
    """

    model: AdditiveModel
    coef: Floats

    def interval(
        self,
        learner: int | str,
        x: Any,
        level: float = 0.95,
        *,
        fit: int = 0,
        center: bool = True,
    ) -> tuple[Floats, Floats]:
        """Bounds of an effect: quantiles of the samples at each point.

        Parameters
        ----------
        learner, x, fit
            As for `BoostedGAM.partial_effect`.
        level : float, optional
            The share of the samples between the bounds, at each point by itself.
        center : bool, optional
            Whether the mean of each effect over the rows of the training data that the
            model keeps is subtracted.

        Returns
        -------
        lower, upper : (n,) array
            On the host.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.
        """
        check_between("level", level, 0, 1)
        index = self.model._index_of(learner)
        coef = self.coef if self.coef.ndim == 3 else self.coef[:, fit]
        at = self.model._design_at(index, x)
        rug = self.model._design_at(index, self.model._rug_of(index))
        coef = coef[:, index, : at.functions]
        effects = np.stack([on_host(at.multiply(own)) for own in coef])
        if center:
            means = [on_host(rug.multiply(own)).mean() for own in coef]
            effects -= np.array(means)[:, None]
        tail = (1 - level) / 2
        lower, upper = np.quantile(effects, [tail, 1 - tail], axis=0)
        return lower, upper


def bootstrap_effects(
    model: AdditiveModel,
    n_samples: int = 100,
    *,
    max_iter: int | None = None,
    choose_steps: bool = False,
    random_state: Any = None,
) -> EffectBootstrap:
    """Fit a model to bootstrap samples of its training data, as a batch.

    Parameters
    ----------
    model : BoostedGAM or BoostedGAMClassifier
        Fitted; see `cv_stop`.
    n_samples : int, optional
        The number B of samples.
    max_iter : int, optional
        The number of iterations; by default the model's ``n_iter_``.
    choose_steps : bool, optional
        Whether each sample has its own number of iterations, at most `max_iter`: the
        number with the least risk of the rows that the sample leaves out. Then the
        bounds include the uncertainty of this number, as in mboost's ``confint``, which
        finds it by another bootstrap inside each sample.
    random_state : int, Generator or RandomState, optional

    Returns
    -------
    EffectBootstrap

    See Also
    --------
    EffectBootstrap, stability_selection

    Notes
    -----
    Boosting shrinks effects, and the intervals do not include the bias of this: they
    show the spread of the fitted effects, not their distance from the truth.

    References
    ----------
    B. Hofner, L. Boccuto and M. Goeker, "Controlling false discoveries in
    high-dimensional situations: boosting with stability selection", BMC Bioinformatics
    16 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, bootstrap_effects
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.2 * rng.standard_normal(300)
    >>> model = BoostedGAM(max_iter=200).fit(X, y)
    >>> samples = bootstrap_effects(model, 50, random_state=0)
    >>> lower, upper = samples.interval(0, np.array([0.25, 0.75]))
    >>> bool(lower[0] > 0 > upper[1])
    True
    """
    data, settings = training_of(model)
    steps = model.n_iter_ if max_iter is None else max_iter
    folds = make_folds("bootstrap", *data.rows_of_x, n_samples, random_state)
    made = []
    with current(data.device):
        for part, fits in fits_in_batches(settings, data, folds):
            path = boost_family(fits, steps)
            last = (
                best_steps(path, len(part.weights)) if choose_steps else repeat(steps)
            )
            pairs = zip(path.each(), last, strict=False)
            made += [own.coef(len(settings.terms), step) for own, step in pairs]
    coef, several = np.stack(made), len(model.paths_) > 1
    return EffectBootstrap(model, by_fold(coef, n_samples) if several else coef)


def best_steps(path: Path, samples: int) -> list[int]:
    """The step of least risk of the rows left out, for each fit of the samples."""
    assert path.out_of_bag is not None
    risk = by_fold(path.out_of_bag, samples)
    best = risk.sum(axis=1).argmin(axis=1)
    return np.repeat(best, len(path.selected) // samples).tolist()
