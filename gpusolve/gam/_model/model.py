"""The base of boosted additive models: parameters, checks and fits."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import namespace
from ..._device.frames import named_columns
from ..._device.kernels import current
from ..._device.launch import ceil_div
from .._boosting.batch import Fits, Settings, Training, is_vector, make_fits
from .._boosting.path import Path, Watch, first_rise, join_paths
from .._boosting.patience import (
    MOST_STEPS,
    Candidate,
    Candidates,
    Patience,
    Verdict,
    choose_steps,
    fit_patiently,
)
from .._boosting.stacked import Method, boost_family
from .._data import inputs
from .._terms.frame import Frame, Level, Name
from .._terms.term import Term, unique_names
from ..families import Family
from . import insight
from .figures import plot
from .fitted import FittedModel
from .formula import Formula
from .insight import Explanation, Line, Summary
from .interactions import (
    find_pairs,
    learner_of,
    margins_of,
    residuals_of,
)
from .specification import FIRST_DF, Plan, default_terms, plans
from .store import save, write_python

MOST_PAIRS = 16
"""The most pairs that interactions="auto" tries."""

PAIR_GAIN = 0.01
"""The least gain by pairs that counts, as a share of the gain by main effects. The best
pairs are found with all rows, so their gain on the rows left out is a little high."""

RUG = 200
"""The most rows of the training data that are kept for the rug in plots."""


@dataclass(eq=False, repr=False)
class AdditiveModel(FittedModel):
    """A sum of effects, fitted by componentwise boosting; see `BoostedGAM`."""

    learners: Any = None
    _: KW_ONLY
    family: str | Family | None = None
    n_basis: int | None = None
    degree: int = 3
    penalty: Literal["difference", "ridge", "cyclic", None] = "difference"
    penalty_order: int = 2
    df: float | Literal["auto"] = "auto"
    df_definition: Literal["2S-SS", "trace"] = "2S-SS"
    interactions: int | Literal["auto"] = 0
    learning_rate: float = 0.3
    step_rule: Literal["scaled", "mboost"] = "scaled"
    max_iter: int | Literal["auto"] = "auto"
    cv: Any = None
    method: Method = "auto"
    callback: Callable[[int, float], object] | None = None
    progress: bool | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    outside: Literal["linear", "clamp", "error"] = "clamp"
    missing: Literal["error", "zero"] = "error"
    unknown: Literal["error", "zero"] = "error"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 20
    random_state: Any = 0
    warm_start: bool = False

    def _training(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Training:
        """The checked data of a fit; `y` as it is given, or from the formula."""
        vars(self).pop("formula_", None)  # of an earlier fit
        X = named_columns(X)
        if isinstance(self.learners, Formula):
            self.formula_ = self.learners.learned_from(X)
            y = self.formula_.response(X) if y is None else y
            offset = self.formula_.offset(X) if offset is None else offset
        frame = self._frame(inputs.columns_in_memory(X), self.device)
        with frame.current():
            like = frame.like
            return Training(
                frame,
                y,
                inputs.observation_weights(sample_weight, like),
                self._read_offset(offset, like),
            )

    def _fit_to(
        self, X: Any, y: Any, sample_weight: Any, offset: Any, family: Family
    ) -> None:
        """Fit to the data as they are given."""
        data = self._training(X, y, sample_weight, offset)
        with data.frame.current():
            data = replace(data, y=family.prepare(data.y, data.frame.like))
            family.check(data.counted_y)
            self._fit(X, data, family)

    def _fit(self, X: Any, data: Training, family: Family) -> None:
        """Fit to checked data; `X` gives the names of the features."""
        vars(self).pop("validation_risk_", None)  # of an earlier fit
        with current(data.device):
            data = data.with_weight()
            candidates = self._candidates(family, data)
            with np.errstate(over="ignore", invalid="ignore"):
                if self.interactions:
                    candidates = self._with_pairs(candidates, data)
                else:
                    self.interactions_ = []
                settings, fits, path = self._steps(candidates, data)
            self.terms_ = list(settings.terms)
            self.family_ = family
            self.lambda_ = fits.problem.lambda_[0]
            some = slice(None, None, ceil_div(data.rows, RUG))
            self.rug_ = data.frame.take(some).on_host()
            self.has_offset_ = is_vector(data.offset)
            self.level_counts_ = count_levels(self.terms_, data.frame)
        self._warn(path)
        self.n_rows_ = data.rows
        self._data = data, settings
        self._keep_paths(path.each())
        named = X if self.formula_ is None else self.formula_.covariates
        self._set_features(named, inputs.number_of_features(named))
        self.columns_ = inputs.column_labels(named)

    def _settings(self, frame: Frame, family: Family, plan: Plan) -> Settings:
        """The learners with their ranges and levels, and the parameters of the fit."""
        terms = (
            default_terms(self, frame, plan) if self.learners is None else self._bind()
        )
        frame.examine(name for term in terms for name in term.columns)
        return Settings(
            tuple(term.learn(frame) for term in terms),
            family,
            self.learning_rate,
            self.df_definition,
            self.missing,
            self.step_rule,
        )

    def _candidates(self, family: Family, data: Training) -> Candidates:
        """The settings of the plans, without those whose learners were tried before."""
        tried: list[tuple[Term, ...]] = []
        verdict = None
        search = plans(self, float(data.row_weights.sum()))
        with suppress(StopIteration):
            while True:
                plan, kind = search.send(verdict)
                with warnings.catch_warnings():
                    # The folds choose the range that outliers stretch, or do not.
                    if plan.full_range:
                        warnings.simplefilter("ignore", UserWarning)
                    settings = self._settings(data.frame, family, plan)
                if settings.terms in tried:
                    verdict = Verdict.WORSE
                else:
                    tried.append(settings.terms)
                    verdict = yield Candidate(settings, kind)

    def _with_pairs(self, candidates: Candidates, data: Training) -> Candidates:
        """The settings with learners of the pairs that a fit without them lacks.

        The learners have `FIRST_DF` degrees of freedom, or the given number. "auto"
        tries no pair, and the first 1, 2, 4, .. pairs. A warm start keeps the pairs of
        the last fit.
        """
        df = FIRST_DF if self.df == "auto" else self.df
        is_auto = isinstance(self.interactions, str)
        pairs = getattr(self, "interactions_", []) if self.warm_start else []
        if pairs:
            settings = next(candidates).settings
        else:
            settings, fits, path = self._steps(candidates, data, is_last=False)
            pairs = find_pairs(
                MOST_PAIRS if isinstance(self.interactions, str) else self.interactions,
                margins_of(settings.terms, self.outside),
                settings,
                residuals_of(fits.after(path), data.frame),
                df=df,
                random_state=self.random_state,
            )
        margins = margins_of(settings.terms, self.outside)
        learners = [learner_of(pair, margins, data.frame, df) for pair in pairs]
        names = [learner.columns for learner in learners]

        def with_first(count: int) -> Candidate:
            terms = (*settings.terms, *learners[:count])
            return Candidate(replace(settings, terms=terms), least_gain=PAIR_GAIN)

        self.interactions_ = [] if is_auto else names
        yield with_first(len(self.interactions_))
        count = 1
        verdict: Verdict | None = Verdict.BETTER
        while is_auto and count <= len(pairs) and verdict is not Verdict.WORSE:
            verdict = yield with_first(count)
            if verdict is Verdict.BETTER:
                self.interactions_ = names[:count]
            count *= 2

    def _steps(
        self, candidates: Candidates, data: Training, *, is_last: bool = True
    ) -> tuple[Settings, Fits, Path]:
        """Make the steps of the best settings; see `choose_steps`.

        For a warm start, after the steps of the last fit. Only the last of several
        calls continues a fit, is watched by the callback, and keeps its steps if it is
        interrupted.
        """
        patience = Patience(self._most_steps(), self.n_iter_no_change)
        held_out = {
            "fraction": self.validation_fraction,
            "random_state": self.random_state,
            "progress": self.progress,
        }
        if self.early_stopping:
            settings = next(candidates).settings
            fits, path, self.validation_risk_ = fit_patiently(
                settings, data, patience, method=self.method, **held_out
            )
            return settings, fits, path
        if self.max_iter == "auto":
            settings, steps, self.validation_risk_ = choose_steps(
                candidates, data, patience, cv=self.cv, **held_out
            )
        else:
            settings, steps = next(candidates).settings, patience.steps
        fits, before = make_fits(settings, data, data.weights), None
        if is_last and self.warm_start and hasattr(self, "paths_"):
            self._check_warm(fits)
            before, steps = join_paths(self.paths_), steps - self.n_iter_
        callback = self.callback if is_last else None
        watched = "stacked" if callback is not None else self.method
        watch = Watch(callback, self.progress, keeps_steps=is_last)
        made = boost_family(fits, steps, before=before, method=watched, watch=watch)
        return settings, fits, made

    def _most_steps(self) -> int:
        """The given number of iterations, or the most that "auto" makes."""
        return MOST_STEPS if self.max_iter == "auto" else self.max_iter

    def _most_iterations(self) -> int:
        """The given number of iterations, or the number that "auto" has chosen."""
        return self.n_iter_ if self.max_iter == "auto" else self.max_iter

    def _warn(self, path: Path) -> None:
        """Warn if the steps were too large, or too few."""
        step = first_rise(path.risk)
        if step is not None and self.family_.has_one_loss:
            warnings.warn(
                f"the risk of the training data rose at iteration {step}: "
                f"learning_rate should be smaller than {self.learning_rate:g}",
                stacklevel=5,
            )
        held_out = getattr(self, "validation_risk_", None)
        if held_out is not None and 0 < held_out.argmin() == self._most_steps():
            warnings.warn(
                "the risk of the rows held out was least after the last iteration: "
                "max_iter should be larger",
                stacklevel=5,
            )

    def _check_warm(self, fits: Fits) -> None:
        """ValueError unless the last fit had these learners and offsets."""
        same = (
            fits.problem.terms == tuple(self.terms_)
            and fits.family == self.family_
            and np.shape(fits.offset) == np.shape(self._intercepts())
            and np.allclose(fits.problem.lambda_[0], self.lambda_, rtol=1e-6)
            and np.allclose(fits.offset, self._intercepts())
        )
        if not same:
            raise ValueError(
                "a warm start needs the data and the effects of the last fit; set "
                "warm_start=False to start again"
            )
        if self._most_steps() < self.n_iter_:
            raise ValueError(
                f"max_iter must be at least {self.n_iter_}, the number of iterations "
                f"of the last fit, got {self.max_iter}; predict(X, iteration=...) uses "
                "an earlier model"
            )

    # ---- insight ---------------------------------------------------------------------

    def importance(self) -> dict[str, float]:
        """By how much each learner reduced the risk, for each row of the data.

        Returns
        -------
        dict of float
            By the names of the learners, the largest reduction first. mboost's
            ``varimp``. With several classes, the sum over their models.
        """
        self._check_is_fitted()
        return insight.ranked(self, insight.reductions(self))

    def selection_frequencies(self) -> dict[str, float]:
        """The share of the iterations that selected each learner, by its name."""
        self._check_is_fitted()
        return insight.ranked(self, insight.frequencies(self))

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The share of each feature in the reduction of the risk, (n_features,).

        A learner of several features counts for each of them in equal parts; a learner
        that increased the risk counts as 0.
        """
        self._check_is_fitted()
        return insight.feature_importances(self)

    def explain(
        self,
        X: Any,
        *,
        iteration: int | None = None,
        offset: Any = None,
        fit: int | str = 0,
    ) -> Explanation:
        """What each learner contributes to the prediction of each row.

        Parameters
        ----------
        X, iteration, offset
            As for `BoostedGAM.predict`.
        fit : int or str, optional
            The class of several, or the parameter of a distribution: its index or name.

        Returns
        -------
        Explanation
            A table, and a picture for each row.

        Examples
        --------
        >>> import numpy as np
        >>> from gpusolve.gam import BoostedGAM, bbs, bols
        >>> X = np.random.default_rng(0).random((200, 2))
        >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
        >>> model = BoostedGAM([bbs(0), bols(1)], max_iter=100).fit(X, y)
        >>> found = model.explain(X[:2])
        >>> found.names, found.contributions.shape
        (('bbs(0)', 'bols(1)'), (2, 2))
        >>> total = found.intercept + found.contributions.sum(axis=1)
        >>> np.allclose(total, model.predict(X[:2]), rtol=1e-14)
        True
        """
        return insight.explain(self, X, iteration, offset, self._fit_index(fit))

    def summary(self) -> Summary:
        """The fit and the contribution of each learner; it prints as a table.

        Examples
        --------
        >>> import numpy as np
        >>> from gpusolve.gam import BoostedGAM, bbs, bols
        >>> X = np.random.default_rng(0).random((500, 2))
        >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
        >>> learners = [bbs(0), bols(1)]
        >>> model = BoostedGAM(learners, max_iter=100, learning_rate=0.1)
        >>> print(model.fit(X, y).summary())
        family        gaussian
        rows          500
        iterations    100, learning rate 0.1
        offset        0.4192
        risk per row  0.6312 to 0.00124
        <BLANKLINE>
        learner      df      lambda  selected   reduction   share
        bbs(0)        4        2035     75.0%      0.5424   86.1%
        bols(1)                   0     25.0%     0.08753   13.9%
        """
        self._check_is_fitted()
        return insight.summary_of(self, self._lines())

    def _lines(self) -> list[Line]:
        """A line of the summary for each learner."""
        found = insight.reductions(self), insight.frequencies(self)
        return insight.lines_of(self, *(each.sum(axis=0) for each in found))

    def plot(
        self,
        learners: Sequence[int | str] | None = None,
        *,
        cv: Any = None,
        samples: Any = None,
        level: float = 0.95,
        fit: int | str = 0,
        share_scale: bool = True,
    ) -> Any:
        """Draw the effects, the risk, and how much each learner reduced it.

        Parameters
        ----------
        learners : sequence of int or str, optional
            The learners to draw, in this order; by default at most 24 of the selected
            learners, by their reductions of the risk.
        cv : CrossValidation, optional
            The result of `cv_stop`; the risk of its folds is drawn, too.
        samples : EffectBootstrap, optional
            The result of `bootstrap_effects`; bounds of the effects are drawn.
        level : float, optional
            The share of the samples between the bounds.
        fit : int or str, optional
            The class of several, or the parameter of a distribution: its index or name.
        share_scale : bool, optional
            Whether all effects are drawn on the same scale, or each on its own.

        Returns
        -------
        matplotlib.figure.Figure
            A curve for a numeric feature, with points at whole numbers, bars for a
            factor with the numbers of rows, a curve for each level of a factor, and a
            map for two numeric features, within the convex hull of some training data.
            Of many levels, the extremes or the largest curves are named. Each effect is
            centred over these data; but the effect of a feature that multiplies others
            (``by=``) is its coefficient, which has its own scale. Maps share their
            colours.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        self._check_is_fitted()
        index = self._fit_index(fit)
        gains = insight.reductions(self)[index]
        return plot(self, learners, index, gains, cv, samples, level, share_scale)

    def to_python(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a Python module that needs NumPy only.

        Its functions ``predict(X, offset)`` and ``predict_link`` return what the
        methods of the model return on a CPU, bit for bit; of a classifier also
        ``predict_proba``. `X` is a matrix, a data frame or a mapping of columns. The
        columns of a formula have the names in the learners: a transformation is not in
        the module, but a column, such as ``"log(x)"``; an offset of the rows must be
        given if the model was fitted with one.

        Parameters
        ----------
        path : str or path-like
            Such as ``"scorer.py"``.

        Raises
        ------
        TypeError
            For a kernel learner, or a function of yours.
        ValueError
            For a family whose response the module does not have.

        Examples
        --------
        >>> import runpy
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> import numpy as np
        >>> from gpusolve.gam import BoostedGAM
        >>> X = np.random.default_rng(0).random((100, 2))
        >>> model = BoostedGAM(max_iter=100).fit(X, np.sin(6 * X[:, 0]))
        >>> path = Path(mkdtemp()) / "scorer.py"
        >>> model.to_python(path)
        >>> scorer = runpy.run_path(str(path))
        >>> np.array_equal(scorer["predict"](X), model.predict(X))
        True
        """
        self._check_is_fitted()
        write_python(self, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file; see `gpusolve.gam.save`."""
        save(self, path)


def count_levels(terms: list[Term], frame: Frame) -> dict[Name, dict[Level, int]]:
    """The number of rows of each level of the factors that the terms read."""
    found = {}
    for name in unique_names(name for term in terms for name in term.known_levels):
        factor = frame.factor(name)
        present = factor.codes[factor.codes >= 0]
        counts = namespace(present).bincount(present, minlength=len(factor.levels))
        found[name] = dict(zip(factor.levels, counts.tolist(), strict=True))
    return found
