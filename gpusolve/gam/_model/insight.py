"""What a fitted model tells: importances, a summary, explanations, survival curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from ..._device.kernels import current_device
from .._boosting.path import FALL, late_share
from .._data import inputs
from .._families.survival import SurvivalFamily
from .._terms.frame import Name
from .._terms.single import Single
from .._terms.spline import ROBUST, Spline
from .._terms.term import Term
from ..families import family_of
from .fitted import FittedModel

Floats = NDArray[np.float64]


# ---- importances ---------------------------------------------------------------------


def reductions(model: FittedModel) -> Floats:
    """The reduction of the risk by each learner in each fit, (F, K).

    It is the sum over the steps that selected the learner, for each row of the data;
    negative for a learner whose steps increased the risk.
    """
    paths = model.paths_
    selected = np.array([path.selected for path in paths])
    risk = np.array([path.risk for path in paths])
    if model.family_.predictors > 1:
        risk = risk_shares(selected, paths[0].risk)
    gains = sums_by_learner(selected, risk[:, :-1] - risk[:, 1:], len(model.terms_))
    return np.asarray(gains / model.n_rows_)


def frequencies(model: FittedModel) -> Floats:
    """The share of the steps that selected each learner in each fit, (F, K)."""
    selected = np.array([path.selected for path in model.paths_])
    counts = sums_by_learner(selected, np.ones(selected.shape), len(model.terms_))
    return np.asarray(counts / max(1, counts.sum()))


def ranked(model: FittedModel, found: Floats) -> dict[str, float]:
    """The sums over all fits, (F, K), by the learners' names, the largest first."""
    names, total = model.names_, found.sum(axis=0)
    order = np.argsort(-total, kind="stable")
    return {names[j]: float(total[j]) for j in order.tolist()}


def feature_importances(model: FittedModel) -> Floats:
    """See `BoostedGAM.feature_importances_`."""
    found = np.zeros(model.n_features_in_)
    position = {name: j for j, name in enumerate(model.columns_)}
    gains = np.maximum(reductions(model).sum(axis=0), 0)
    for term, gain in zip(model.terms_, gains, strict=True):
        columns = [int(position.get(name, name)) for name in term.columns]
        np.add.at(found, columns, gain / len(columns))
    total = found.sum()
    return found / total if total > 0 else found


def sums_by_learner(selected: NDArray[Any], values: Floats, learners: int) -> Floats:
    """The sums of the values of the steps that selected each learner, (F, learners).

    Examples
    --------
    >>> sums_by_learner(np.array([[1, 0, 1, -1]]), np.array([[4.0, 1.0, 2.0, 9.0]]), 3)
    array([[1., 6., 0.]])
    """
    sums = np.zeros((len(selected), learners))
    fit, step = np.nonzero(selected >= 0)
    np.add.at(sums, (fit, selected[fit, step]), values[fit, step])
    return sums


def risk_shares(selected: NDArray[Any], risk: Floats) -> Floats:
    """The risks of P predictors, (P, steps + 1), which add up to the risk of the model.

    The reduction by a step is divided among the predictors that the step updated;
    `selected` is -1 for other predictors, (P, steps).

    Examples
    --------
    >>> risk_shares(np.array([[0, -1], [1, 0]]), np.array([8.0, 4.0, 3.0]))
    array([[4., 2., 2.],
           [4., 2., 1.]])
    """
    updated = selected >= 0
    changes = np.where(updated, np.diff(risk) / updated.sum(axis=0), 0.0)
    start = np.full((len(selected), 1), risk[0] / len(selected))
    return np.concatenate([start, start + changes.cumsum(axis=1)], axis=1)


# ---- a summary -----------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A learner in a summary.

    Attributes
    ----------
    name : str
    df : float or None
        The degrees of freedom of one fit; None without a penalty, or if the smoothing
        parameter was given.
    lambda_ : float
        The smoothing parameter.
    selected : float
        The share of the iterations that selected the learner.
    reduction : float
        By how much these iterations reduced the risk, for each row.
    share : float
        The same as a share of the reduction by all learners.
    """

    name: str
    df: float | None
    lambda_: float
    selected: float
    reduction: float
    share: float


@dataclass(frozen=True)
class Summary:
    """What was fitted, and what each learner contributed; it prints as a table.

    Attributes
    ----------
    facts : dict of str
        The family, the numbers of rows and iterations, the learning rate, the offset
        and the risk for each row before the first iteration and after the last. It is
        called still falling if the last tenth of the iterations have more than 1 % of
        its decrease.
    learners : tuple of Line
        Sorted by the reduction of the risk, the largest first.
    """

    facts: dict[str, str]
    learners: tuple[Line, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        width = max(map(len, self.facts))
        for name, value in self.facts.items():
            yield f"{name:{width}}  {value}"
        yield ""
        width = max(len("learner"), *(len(line.name) for line in self.learners))
        yield (
            f"{'learner':{width}}  {'df':>6}  {'lambda':>10}  {'selected':>8}  "
            f"{'reduction':>10}  {'share':>6}"
        )
        for line in self.learners:
            df = "" if line.df is None else f"{line.df:.4g}"
            yield (
                f"{line.name:{width}}  {df:>6}  {line.lambda_:>10.4g}  "
                f"{line.selected:>8.1%}  {line.reduction:>10.4g}  {line.share:>6.1%}"
            )


def chosen_learners(terms: Sequence[Term]) -> str:
    """What the default learners of numbers are; an empty text without them."""
    default = [term for term in terms if isinstance(term, Single) and term.is_default]
    splines = [term for term in default if isinstance(term, Spline)]
    stumps = any(term.stands_alone for term in default)
    if not splines:
        return "stumps" if stumps else ""
    scored = [str(term.covariates[0]) for term in splines if term.normal_scores]
    df = splines[0].df
    parts = ["splines" if df is None else f"splines of {df:g} degrees of freedom"]
    if any(term.boundary == ROBUST for term in splines):
        parts.append("on robust ranges")
    if scored:
        parts.append(f"of normal scores for {', '.join(scored)}")
    if stumps:
        parts.append("with stumps")
    return ", ".join(parts)


def summary_of(model: FittedModel, lines: list[Line]) -> Summary:
    """The facts of a fit, and the lines of the learners, largest reduction first."""
    risk = np.sum([path.risk for path in model.paths_], axis=0) / model.n_rows_
    offsets = ", ".join(f"{path.offset:.4g}" for path in model.paths_)
    facts = {
        "family": model.family_.name,
        "rows": str(model.n_rows_),
        "iterations": f"{model.n_iter_}, learning rate {model.learning_rate:g}",
        "offset": offsets,
        "risk per row": f"{risk[0]:.4g} to {risk[-1]:.4g}",
    }
    if chosen := chosen_learners(model.terms_):
        facts["learners"] = chosen
    late = late_share(risk)
    if late > FALL:
        facts["still falling"] = (
            f"{late:.1%} of the decrease in the last tenth of the iterations: "
            "max_iter may be too small, see cv_stop"
        )
    return Summary(facts, tuple(sorted(lines, key=lambda line: -line.reduction)))


def lines_of(model: FittedModel, gains: Floats, shares: Floats) -> list[Line]:
    """A line for each learner, from its reduction of the risk and its frequency."""
    total = float(reductions(model).sum())
    return [
        Line(
            name,
            None if term.lambda_ is not None else term.df,
            float(model.lambda_[j]),
            float(shares[j]),
            float(gains[j]),
            float(gains[j] / total) if total else 0.0,
        )
        for j, (name, term) in enumerate(zip(model.names_, model.terms_, strict=True))
    ]


# ---- explanations --------------------------------------------------------------------


def explain(
    model: FittedModel, X: Any, iteration: int | None, offset: Any, fit: int
) -> Explanation:
    """See `BoostedGAM.explain`; `fit` is an index."""
    effects = on_host(model.effects(X, iteration=iteration, fit=fit))
    frame = model._covariates(X)
    with frame.current():
        added = model._offset(X, frame, offset)
        if added is not None and np.ndim(added) == 2:
            added = added[fit]
    start = np.zeros(frame.rows) if added is None else on_host(added)
    intercept = float(model._intercepts()[fit])
    link = intercept + start
    for column in effects.T:
        link = link + column
    return Explanation(
        tuple(model.names_),
        intercept,
        np.broadcast_to(start, link.shape),
        effects,
        link,
        model.family_.response(link) if model.family_.predictors == 1 else link,
        frame.on_host(),
        tuple(term.columns for term in model.terms_),
        model._effect_on(fit),
    )


@dataclass(frozen=True, eq=False)
class Explanation:
    """The predictions of n rows as sums over the K learners; all arrays on the host.

    ``intercept + offset``, and then the contributions in the order of the learners, sum
    to the additive predictor, with the same rounding.

    Attributes
    ----------
    names : tuple of str
        The learners.
    intercept : float
    offset : (n,) array
        Zeros without an offset.
    contributions : (n, K) array
        The effects of the learners on the additive predictor, not centred.
    link : (n,) array
        The additive predictor.
    prediction : (n,) array
        The response for it; for a class among several, before the probabilities are
        divided by their sum; the additive predictor itself if it is not alone, as in
        multinomial models and distributions.
    columns : dict of (n,) array
        What the learners read, by feature.
    read : tuple of tuple
        The features of each learner.
    unit : str
        What the additive predictor is, as "the log mean".

    See Also
    --------
    BoostedGAM.explain, EffectBootstrap

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, bols
    >>> d = {"age": np.array([20.0, 40.0, 60.0]), "sex": np.array(["f", "m", "m"])}
    >>> model = BoostedGAM([bols("age"), bols("sex")], learning_rate=0.1, max_iter=100)
    >>> model = model.fit(d, [1.0, 3.0, 4.0])
    >>> found = model.explain(d)
    >>> found.names, found.contributions.round(1).tolist()
    (('bols(age)', 'bols(sex)'), [[-1.0, -0.7], [0.0, 0.3], [1.0, 0.3]])
    """

    names: tuple[str, ...]
    intercept: float
    offset: Floats
    contributions: Floats
    link: Floats
    prediction: Floats
    columns: dict[Name, NDArray[Any]]
    read: tuple[tuple[Name, ...], ...]
    unit: str

    def to_frame(self) -> Any:
        """The intercept, offset, contributions, link and prediction as columns.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        parts = {"intercept": np.full(len(self.link), self.intercept)}
        parts |= {"offset": self.offset}
        parts |= dict(zip(self.names, self.contributions.T, strict=True))
        return pd.DataFrame(parts | {"link": self.link, "prediction": self.prediction})

    def plot(self, row: int = 0) -> Any:
        """Draw how a prediction is made up: a waterfall of the contributions.

        Parameters
        ----------
        row : int, optional

        Returns
        -------
        matplotlib.figure.Figure
            The largest contributions come first; small contributions are one bar.

        Raises
        ------
        IndexError
            If the row does not exist.
        ImportError
            If matplotlib is not installed.
        """
        from .figures import plot_waterfall

        if not -len(self.link) <= row < len(self.link):
            raise IndexError(f"row must be one of {len(self.link)} rows, got {row}")
        return plot_waterfall(self, row)


# ---- survival curves -----------------------------------------------------------------


def has_curves(model: Any) -> bool:
    """Whether the family of a model, fitted or not, is of survival times."""
    return isinstance(family_of(model.family or model.default_family), SurvivalFamily)


def learn_baseline(model: Any) -> None:
    """Store what curves need from the training data; nothing without the data."""
    vars(model).pop("baseline_", None)
    if not isinstance(model.family_, SurvivalFamily) or not hasattr(model, "_data"):
        return
    data, _ = model._data
    with data.frame.current():
        f = namespace(data.y).zeros((1, data.rows)) + float(model._intercepts()[0])
        if np.ndim(data.offset) == 1:
            f += data.offset
        (f,) = model._add_effects(f, data.frame, model._coefficients(None))
        model.baseline_ = model.family_.learn(data.y, f, data.weights)


def cumulative_hazard(model: Any, f: Array, times: Any) -> Array:
    """The cumulative hazards of the predictors f, (n,), at the times, (T,): (n, T)."""
    if not hasattr(model, "baseline_"):
        raise ValueError(
            "the model must have a baseline: fit it again, a model that was loaded "
            "from a file has the baseline of its last iteration only"
        )
    with current_device(f):
        times = inputs.to_device_of(f, inputs.dense_array(times, "times"))
        if times.ndim != 1:
            raise ValueError(f"times must have shape (T,), got {times.shape}")
        times = inputs.real_array(times, "times")
        if bool((times < 0).any()):
            raise ValueError(f"times must not be negative, got {times.min()}")
        hazard: Array = model.family_.cumulative_hazard(times, f, model.baseline_)
        return hazard
