"""The number of boosting iterations, by the risk of rows left out of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.kernels import current
from ._boosting.batch import Settings, Training
from ._boosting.folds import (
    Folds,
    check_folds,
    fits_in_batches,
    make_folds,
    mean_losses,
)
from ._boosting.stacked import boost_family
from ._boosting.tasks import fit_tasks
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
        from ._plots.plot import plot_cross_validation

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
