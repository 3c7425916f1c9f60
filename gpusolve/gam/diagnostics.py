"""Whether a model fits: calibration, quantile residuals, the paths of its effects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import on_host
from ._data import inputs
from ._data.conventions import check_between, check_integer, check_least, generator
from ._model.figures import bins_of, plot_bins, plot_normal, plot_sizes
from ._model.model import AdditiveModel
from .classifier import BoostedGAMClassifier
from .distribution import BoostedDistribution
from .estimator import BoostedGAM
from .families import FAMILIES, Binomial

Floats = NDArray[np.float64]

TINY = float(np.finfo(np.float64).tiny)
"""Where probabilities underflow, residuals end: at -37.5 and 37.5."""


def quantile_residuals(
    model: AdditiveModel,
    X: Any,
    y: Any,
    *,
    offset: Any = None,
    random_state: Any = None,
) -> Floats:
    """Residuals that are standard normal if the model is right, for any distribution.

    The distribution function of the model at y, as a normal quantile. Where y is a
    count or a class, it is a random number between the values of the function below
    and at y.

    Parameters
    ----------
    model : BoostedGAM, BoostedGAMClassifier or BoostedDistribution
        Of the Gaussian, binomial, Poisson, negative binomial or gamma family; a
        classifier of two classes.
    X : (n, n_features) array_like, data frame or mapping
    y : (n,) array_like
    offset : float, (n,) array_like or dict, optional
        As for the model's ``predict``.
    random_state : int, Generator or RandomState, optional
        For the random numbers.

    Returns
    -------
    (n,) float64 array
        On the host.

    Raises
    ------
    ValueError
        If the family has no distribution, the classifier has several classes, or y is
        not a response of the family.

    See Also
    --------
    plot_residuals

    Notes
    -----
    The variance of the Gaussian family is the mean squared residual of these rows; an
    adaptive parameter of another family is the model's.

    References
    ----------
    P. K. Dunn and G. K. Smyth, "Randomized quantile residuals", Journal of
    Computational and Graphical Statistics 5 (1996).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, quantile_residuals
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((2000, 1))
    >>> y = rng.poisson(np.exp(np.sin(6 * X[:, 0])))
    >>> model = BoostedGAM(family="poisson").fit(X, y)
    >>> residuals = quantile_residuals(model, X, y, random_state=0)
    >>> bool(abs(residuals.mean()) < 0.1 and abs(residuals.std() - 1) < 0.1)
    True
    """
    from scipy.special import ndtri

    means, responses, names = predicted_means(model, X, y, offset)
    if len(means) > 1:
        raise ValueError(f"model must have two classes, got {names}")
    response = responses[0]
    law = distribution_of_rows(model, X, means[0], response, offset)
    mass = law.pmf(response) if hasattr(law, "pmf") else np.zeros(len(response))
    share = generator(random_state).uniform(size=len(response))
    below = np.maximum(law.cdf(response) - share * mass, TINY)
    above = np.maximum(law.sf(response) + share * mass, TINY)
    return np.asarray(np.where(below < above, ndtri(below), -ndtri(above)))


def distribution_of_rows(
    model: AdditiveModel, X: Any, mean: Floats, response: Floats, offset: Any
) -> Any:
    """The distribution of each row, as SciPy has distributions."""
    if isinstance(model, BoostedDistribution):
        found = model.predict_parameters(X, offset=offset)
        return model.family_.frozen({name: on_host(own) for name, own in found.items()})
    family, nuisance = model.family_, model.paths_[0].nuisance
    parameter = family.parameter
    if family.name == "gaussian":
        parameter = float(((response - mean) ** 2).mean())
    elif parameter is None:
        assert nuisance is not None
        parameter = float(np.ravel(nuisance[-1])[0])
    from scipy import stats

    law = (
        Binomial.scipy_law if len(getattr(model, "classes_", ())) else family.scipy_law
    )
    assert law is not None
    return law(stats, mean, parameter)


def plot_residuals(
    model: AdditiveModel,
    X: Any,
    y: Any,
    *,
    offset: Any = None,
    random_state: Any = None,
) -> Any:
    """Draw the `quantile_residuals` against normal quantiles, and their distance.

    If the model is right, 95 % of the points of each plot are within its band. A slope
    of the second plot, a worm plot, is a wrong variance; a bend is a wrong skewness.

    Parameters
    ----------
    model, X, y, offset, random_state
        As for `quantile_residuals`.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        As `quantile_residuals` does.
    ImportError
        If matplotlib is not installed.

    See Also
    --------
    quantile_residuals, plot_calibration

    References
    ----------
    S. van Buuren and M. Fredriks, "Worm plot: a simple diagnostic device for modelling
    growth reference curves", Statistics in Medicine 20 (2001).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, plot_residuals
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> model = BoostedGAM().fit(x, x[:, 0])
    >>> plot_residuals(model, x, x[:, 0]).savefig("residuals.png")  # doctest: +SKIP
    """
    residuals = quantile_residuals(
        model, X, y, offset=offset, random_state=random_state
    )
    return plot_normal(residuals, f"quantile residuals: {model._title(0)}")


def plot_calibration(
    model: AdditiveModel,
    X: Any,
    y: Any,
    *,
    bins: int = 10,
    level: float = 0.95,
    offset: Any = None,
) -> Any:
    """Draw observed against predicted means, of rows with similar predictions.

    Parameters
    ----------
    model : BoostedGAM, BoostedGAMClassifier or BoostedDistribution
        Of a family that predicts means: see `quantile_residuals`.
    X : (n, n_features) array_like, data frame or mapping
        Best of rows that the model has not seen.
    y : (n,) array_like
    bins : int, optional
        The most groups of rows, by quantiles of the predictions.
    level : float, optional
        The level of the intervals of the observed means: Wilson's for classes,
        otherwise by standard errors.
    offset : float, (n,) array_like or dict, optional
        As for the model's ``predict``.

    Returns
    -------
    matplotlib.figure.Figure
        With a curve for the second of two classes, or for each of several.

    Raises
    ------
    ValueError
        If the family does not predict means, y is not a response of the family, bins
        is not positive, or the level is not between 0 and 1.
    ImportError
        If matplotlib is not installed.

    See Also
    --------
    plot_residuals, BoostedGAMClassifier

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, plot_calibration
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> model = BoostedGAM().fit(x, x[:, 0])
    >>> plot_calibration(model, x, x[:, 0]).savefig("means.png")  # doctest: +SKIP
    """
    check_integer("bins", bins)
    check_least("bins", bins, 1)
    check_between("level", level, 0, 1)
    means, responses, names = predicted_means(model, X, y, offset)
    found = [bins_of(*pair, bins, level) for pair in zip(means, responses, strict=True)]
    return plot_bins(found, names, f"calibration: {model.family_.name}")


def plot_path(model: AdditiveModel, *, fit: int | str = 0) -> Any:
    """Draw the size of each effect after each iteration.

    Parameters
    ----------
    model : BoostedGAM, BoostedGAMClassifier or BoostedDistribution
    fit : int or str, optional
        The class of several, or the parameter of a distribution: its index or name.

    Returns
    -------
    matplotlib.figure.Figure
        The standard deviation of each effect over some rows of the training data; the
        ten effects that are largest at the end have names.

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    See Also
    --------
    cv_stop, CrossValidation

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, plot_path
    >>> X = np.random.default_rng(0).random((200, 3))
    >>> model = BoostedGAM().fit(X, X[:, 1])
    >>> plot_path(model).savefig("path.png")  # doctest: +SKIP
    """
    model._check_is_fitted()
    index = model._fit_index(fit)
    unit = f"effect on {model._effect_on(index)}"
    return plot_sizes(effect_sizes(model, index), model._title(index), unit)


def effect_sizes(model: AdditiveModel, fit: int) -> dict[str, Floats]:
    """The standard deviations of the selected effects over the kept rows, by name.

    Each is (n_iter_ + 1,), from before the first iteration.
    """
    path, names = model.paths_[fit], model.names_
    sizes = {}
    for learner in np.unique(path.selected[path.selected >= 0]).tolist():
        rows = model._design_at(learner, model._rug_of(learner))
        is_step = path.selected == learner
        coef = np.cumsum(path.updates[is_step][:, : rows.functions], axis=0)
        deviations = (rows.dense() @ coef.T).std(axis=0)
        steps = np.concatenate([[0], np.cumsum(is_step)])
        sizes[names[learner]] = np.concatenate([[0.0], deviations])[steps]
    return sizes


def predicted_means(
    model: AdditiveModel, X: Any, y: Any, offset: Any
) -> tuple[Floats, Floats, list[str]]:
    """The predicted means and the responses, (C, n) each on the host, and their names.

    C is the number of classes for several classes, else 1.
    """
    model._check_is_fitted()
    if isinstance(model, BoostedGAMClassifier):
        return probabilities_of_classes(model, X, y, offset)
    if isinstance(model, BoostedDistribution):
        mean = on_host(model.predict(X, offset=offset))
    else:
        assert isinstance(model, BoostedGAM)
        if model.family_.scipy_law is None:
            known = [name for name, kind in FAMILIES.items() if kind.scipy_law]
            raise ValueError(
                f"family must be one of {known}, which predict means, "
                f"got {model.family_.name}"
            )
        mean = on_host(model.predict(X, offset=offset))
    response = inputs.target(y, mean)
    model.family_.check(response)
    return mean[None], response[None], [model.family_.name]


def probabilities_of_classes(
    model: BoostedGAMClassifier, X: Any, y: Any, offset: Any
) -> tuple[Floats, Floats, list[str]]:
    """`predicted_means` of a classifier; of the second class alone if it has two."""
    means = np.asarray(on_host(model.predict_proba(X, offset=offset))).T
    classes = model.classes_ if len(means) > 2 else model.classes_[1:]
    labels = inputs.labels(y, means.shape[1])
    unknown = set(labels.tolist()) - set(model.classes_.tolist())
    if unknown:
        raise ValueError(
            f"y must have the classes {model.classes_.tolist()}, got {unknown}"
        )
    responses = (labels == classes[:, None]).astype(np.float64)
    return means[-len(classes) :], responses, [f"class {own}" for own in classes]
