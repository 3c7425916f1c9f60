"""Stability selection: the learners that are selected on most halves of the data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import as_array, namespace, on_host
from .._device.kernels import current
from ._boosting.batch import Settings, Training, make_fits
from ._boosting.folds import fit_tasks, make_folds
from ._boosting.path import Watch
from ._boosting.stacked import boost_family
from ._data.conventions import check_least
from ._data.inputs import whole_or_scaled
from ._model import stability_bounds as bounds
from ._model.model import AdditiveModel
from .cv import training_of

Floats = NDArray[np.float64]

COUNTS = {"SS": 50, "MB": 100}
"""The number of random subsamples of each sampling, if none is given."""


@dataclass(frozen=True)
class StabilitySelection:
    """The result of `stability_selection` for K learners.

    Attributes
    ----------
    names : list of str
        The names of the learners.
    paths : (iterations + 1, K) array
        The share of the fits in which each learner is among the first q that are
        selected, by each iteration; zero before the first.
    q : int
        How many learners count in each fit.
    cutoff : float
        The least probability of a selected learner.
    pfer : float
        An upper bound on the expected number of false selections.

    See Also
    --------
    stability_selection

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import StabilitySelection
    >>> names, paths = ["bbs(0)", "bbs(1)"], np.array([[0.0, 0.0], [0.4, 0.9]])
    >>> StabilitySelection(names, paths, q=1, cutoff=0.8, pfer=0.5).selected
    ['bbs(1)']
    """

    names: list[str]
    paths: Floats
    q: int
    cutoff: float
    pfer: float

    @property
    def probabilities(self) -> Floats:
        """The probabilities after the last iteration, (K,)."""
        found: Floats = self.paths[-1]
        return found

    @property
    def support(self) -> NDArray[np.bool_]:
        """Whether each learner is selected, (K,)."""
        return self.probabilities >= self.cutoff * (1 - bounds.SHARE_ERROR)

    @property
    def selected(self) -> list[str]:
        """The names of the selected learners."""
        return [*compress(self.names, self.support)]

    def __repr__(self) -> str:
        return (
            f"StabilitySelection({len(self.selected)} of {len(self.names)} learners "
            f"selected: {', '.join(self.selected)}; q={self.q}, "
            f"cutoff={self.cutoff:.3g}, pfer={self.pfer:.3g})"
        )

    def plot(self) -> Any:
        """Draw the probabilities by iteration, and their order after the last.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from ._model.figures import plot_stability

        return plot_stability(self)


def stability_selection(
    model: AdditiveModel,
    *,
    q: int | None = None,
    pfer: float | None = None,
    cutoff: float | None = None,
    B: int | None = None,
    sampling: Literal["SS", "MB"] = "SS",
    assumption: Literal["unimodal", "r-concave", "none"] | None = None,
    subsamples: Any = None,
    max_iter: int | None = None,
    random_state: Any = None,
    client: Any = None,
) -> StabilitySelection:
    """Select the learners of a fitted model that are chosen on most halves of the data.

    The model is fitted to random halves of the rows, all as one batch. In each fit, the
    first q different learners that are selected count. A learner whose share of fits
    reaches the cutoff is selected. This is mboost's ``stabsel``.

    Parameters
    ----------
    model : BoostedGAM, BoostedGAMClassifier or BoostedDistribution
        Fitted, but not a classifier of several binomial models; it refers to its
        training data, but not after it was pickled. Each learner of a parameter of a
        distribution is selected by itself, as ``"sigma: bbs(age)"``.
    q : int, optional
        How many learners count in each fit.
    pfer : float, optional
        The largest expected number of false selections.
    cutoff : float, optional
        The share of fits from which a learner is selected, 0.5 to 1. Two of `q`, `pfer`
        and `cutoff` determine the third.
    B : int, optional
        The number of random halves; 50 for "SS" and 100 for "MB" by default.
    sampling : {"SS", "MB"}, optional
        Whether the model is also fitted to the other half of each subsample, as Shah
        and Samworth do [2]_, or not, as Meinshausen and Buehlmann do [1]_.
    assumption : {"unimodal", "r-concave", "none"}, optional
        What is assumed about the distribution of the shares of irrelevant learners. By
        default "unimodal" for "SS"; "MB" has "none" only. The assumption "r-concave"
        gives the smallest bounds.
    subsamples : (n, B) array_like, optional
        Which rows of X are in each subsample, 1 or 0, instead of random halves.
    max_iter : int, optional
        The number of iterations; by default the model's `max_iter`, or
        `n_iter_` if it is "auto". They should select
        q learners.
    random_state : int, Generator or RandomState, optional
        For random halves.
    client : distributed.Client, optional
        A client of Dask: each half is fitted by one task of its workers; see `cv_stop`.

    Returns
    -------
    StabilitySelection

    Raises
    ------
    ValueError
        If the model has no training data or is several models, if an argument is out of
        its range, or if no third number fits two of `q`, `pfer` and `cutoff`.

    See Also
    --------
    StabilitySelection, cv_stop

    Notes
    -----
    Offsets and smoothing parameters are computed for each half; ranges, knots and
    levels are the model's. A selection is false if the learner's chance to count in a
    fit is at most ``q / p``, for p learners. The bound for "unimodal" is proved
    for ``q <= p / sqrt(3)`` [2]_. Where no cutoff up to 1 keeps the bound below `pfer`,
    mboost takes 1 and warns; here this is an error.

    References
    ----------
    .. [1] N. Meinshausen and P. Buehlmann, "Stability selection", JRSS B 72 (2010).
    .. [2] R. D. Shah and R. J. Samworth, "Variable selection with error control:
           another look at stability selection", JRSS B 75 (2013).
    .. [3] B. Hofner, L. Boccuto and M. Goeker, "Controlling false discoveries in
           high-dimensional situations: boosting with stability selection", BMC
           Bioinformatics 16 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, bbs, stability_selection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((200, 10))
    >>> y = np.sin(6 * X[:, 2]) + X[:, 5] + 0.3 * rng.standard_normal(200)
    >>> model = BoostedGAM([bbs(j) for j in range(10)], max_iter=100).fit(X, y)
    >>> stability_selection(model, q=3, pfer=1, random_state=0).selected
    ['bbs(2)', 'bbs(5)']
    """
    assumed = bounds.checked_assumption(sampling, assumption)
    data, settings = training_of(model)
    if len(model.paths_) > model.family_.predictors:
        raise ValueError(
            "the model must be one model, as of one response, of two classes or "
            f"'multinomial': got {len(model.paths_)} models"
        )
    if subsamples is not None:
        subsamples = checked_subsamples(subsamples, len(data.rows_of_x[0]), B)
        B = subsamples.shape[1]
    elif B is None:
        B = COUNTS[sampling]
    check_least("B", B, 1)
    choices = choices_of(model, settings)
    setting = bounds.complete(len(choices), B, assumed, q=q, pfer=pfer, cutoff=cutoff)
    weights = half_weights(data, B, sampling == "SS", subsamples, random_state)
    steps = model._most_iterations() if max_iter is None else max_iter
    select = partial(selected_by_fits, q=setting.q)
    if client is None:
        with current(data.device):
            selected = select(data, settings, weights, steps)
    else:
        parts = (row[None] for row in weights)
        selected = fit_tasks(client, select, data, settings, parts, steps)
    learners = 1 + max(choices.values())
    paths = probabilities(selected, learners, setting.q)[:, [*choices.values()]]
    return StabilitySelection([*choices], paths, *setting)


# ---- learners ------------------------------------------------------------------------


def choices_of(model: AdditiveModel, settings: Settings) -> dict[str, int]:
    """What a step can select: names, and the numbers of `choices_of_steps`."""
    labels = [term.label for term in settings.terms]
    if settings.family.update == "joint":
        return {label: j for j, label in enumerate(labels)}
    return {
        f"{name}: {label}": p * len(labels) + j
        for p, name in enumerate(model._fit_names())
        for j, label in enumerate(labels)
        if settings.allowed is None or settings.allowed[p, j]
    }


def choices_of_steps(selected: NDArray[Any], settings: Settings) -> NDArray[Any]:
    """The choice of each step of M models, (M, steps), from their M P fits.

    It is the learner; of steps that update one of the predictors, as many numbers for
    each predictor as there are learners.
    """
    models = selected.reshape(-1, settings.family.predictors, selected.shape[-1])
    if settings.family.update == "joint":
        return np.asarray(models[:, 0])
    updated = models.argmax(axis=1)  # of the other predictors it is -1
    return np.asarray(updated * len(settings.terms) + models.max(axis=1))


# ---- subsamples ----------------------------------------------------------------------


def checked_subsamples(subsamples: Any, rows: int, B: int | None) -> Floats:
    """The given subsamples, (n, B); ValueError unless they are ones and zeros."""
    matrix: Floats = on_host(as_array(subsamples, "subsamples")).astype(np.float64)
    if matrix.ndim != 2 or len(matrix) != rows or B not in (None, matrix.shape[1]):
        columns = "B" if B is None else B
        raise ValueError(
            f"subsamples must have shape ({rows}, {columns}), got {matrix.shape}"
        )
    if not ((matrix == 0) | (matrix == 1)).all():
        raise ValueError("subsamples must be 0 or 1, got other values")
    return matrix


def half_weights(
    data: Training,
    B: int,
    with_complements: bool,
    subsamples: Floats | None,
    random_state: Any,
) -> Floats:
    """The weights of all fits: B subsamples, then the other rows of each subsample."""
    weights, y = data.rows_of_x
    given = "subsampling" if subsamples is None else subsamples * weights[:, None]
    halves = make_folds(given, weights, y, B, random_state)
    if not with_complements:
        return halves.weights
    others = [whole_or_scaled(weights) for weights in halves.out_of_bag]
    return np.concatenate([halves.weights, others])


def selected_by_fits(
    data: Training, settings: Settings, weights: Floats, steps: int, *, q: int
) -> NDArray[Any]:
    """The learner that each step of each fit selects, (F, steps).

    The fits end when each of a batch has selected q learners; later steps repeat the
    last.
    """
    designs, made, watch = settings.designs(data), [], Watch(learners=q)
    for some in designs.batches(len(weights)):
        there = namespace(data.y).asarray(weights[some])
        fits = make_fits(settings, data, there, designs=designs)
        path = boost_family(fits, steps, watch=watch)
        missing = steps - len(path)
        selected = choices_of_steps(path.selected, settings)
        made.append(np.pad(selected, ((0, 0), (0, missing)), mode="edge"))
    return np.concatenate(made)


# ---- probabilities -------------------------------------------------------------------


def first_steps(selected: NDArray[Any], learners: int) -> NDArray[np.intp]:
    """The step, from 1, that first selected each learner, (F, steps) to (F, learners).

    One more than the number of steps for a learner that was never selected.

    Examples
    --------
    >>> first_steps(np.array([[2, 0, 2], [1, 1, 1]]), learners=3)
    array([[2, 4, 1],
           [4, 1, 4]])
    """
    fits, steps = selected.shape
    first = np.full((fits, learners), steps + 1)
    for step in reversed(range(steps)):
        first[np.arange(fits), selected[:, step]] = step + 1
    return first


def probabilities(selected: NDArray[Any], learners: int, q: int) -> Floats:
    """The share of fits in which each learner is among the first q that are selected.

    `selected`, (F, steps), has the learner of each step of each fit; the result,
    (steps + 1, learners), begins before the first step. A warning tells if a fit
    selected fewer than q learners.

    Examples
    --------
    >>> probabilities(np.array([[2, 0, 1], [2, 2, 1]]), learners=3, q=2)
    array([[0. , 0. , 0. ],
           [0. , 0. , 1. ],
           [0.5, 0. , 1. ],
           [0.5, 0.5, 1. ]])
    """
    fits, steps = selected.shape
    never = steps + 1
    first = first_steps(selected, learners)
    last = np.sort(first, axis=1)[:, q - 1, None]
    short = int((last == never).sum())
    if short:
        warnings.warn(
            f"{short} of {fits} fits selected fewer than q = {q} learners in {steps} "
            "iterations: max_iter should be larger",
            stacklevel=3,
        )
    counted = np.where(first <= last, first, never)
    flat = counted + np.arange(learners) * (never + 1)
    counts = np.bincount(flat.reshape(-1), minlength=learners * (never + 1))
    by_step = counts.reshape(learners, never + 1)[:, :never].cumsum(axis=1)
    return np.ascontiguousarray(by_step.T / fits)
