"""Importances, a summary and pictures of a fitted model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import on_host
from .._boosting.trend import FALL, late_share
from .._plots.effects import Samples
from .._plots.plot import Risks, plot
from .._selection.importance import (
    risk_reductions,
    risk_shares,
    selection_frequencies,
)
from ..explanation import Explanation
from ..store import save
from ..summary import Line, Summary
from .export import write_python
from .fitted import FittedModel

Floats = NDArray[np.float64]


class Insight(FittedModel):
    """The methods of a fitted model that explain it."""

    lambda_: Floats
    learning_rate: float
    n_rows_: int

    def _reductions(self) -> Floats:
        """The reduction of the risk by each learner, of all classes together."""
        self._check_is_fitted()
        found = [self._reductions_of(fit) for fit in range(len(self.paths_))]
        return np.asarray(np.sum(found, axis=0))

    def _reductions_of(self, fit: int) -> Floats:
        """The reduction of the risk by each learner, of a class or parameter."""
        risk, paths = self.paths_[fit].risk, self.paths_
        if self.family_.predictors > 1:
            selected = np.array([path.selected for path in paths])
            risk = risk_shares(selected, paths[0].risk)[fit]
        return risk_reductions(
            paths[fit].selected, risk, len(self.terms_), self.n_rows_
        )

    def _risk_of(self, fit: int) -> Floats:
        """The risk of a class; the risk of the model if its predictors share it."""
        return self.paths_[fit if self.family_.predictors == 1 else 0].risk

    def importance(self) -> dict[str, float]:
        """By how much each learner reduced the risk, for each row of the data.

        Returns
        -------
        dict of float
            By the names of the learners, the largest reduction first. mboost's
            ``varimp``. With several classes, the sum over their models.
        """
        return self._ranked(self._reductions())

    def selection_frequencies(self) -> dict[str, float]:
        """The share of the iterations that selected each learner, by its name."""
        self._check_is_fitted()
        return self._ranked(self._frequencies())

    def _ranked(self, found: Floats) -> dict[str, float]:
        """The numbers of all learners by their names, the largest number first."""
        names, order = self.names_, np.argsort(-found, kind="stable")
        return {names[j]: float(found[j]) for j in order.tolist()}

    def _frequencies(self) -> Floats:
        selected = np.concatenate([path.selected for path in self.paths_])
        return selection_frequencies(selected, len(self.terms_))

    @property
    def feature_importances_(self) -> Floats:
        """The share of each feature in the reduction of the risk, (n_features,).

        A learner of several features counts for each of them in equal parts; a learner
        that increased the risk counts as 0.
        """
        reductions = np.maximum(self._reductions(), 0)
        found = np.zeros(self.n_features_in_)
        position = {name: j for j, name in enumerate(self.columns_)}
        for term, reduction in zip(self.terms_, reductions, strict=True):
            columns = [int(position.get(name, name)) for name in term.columns]
            np.add.at(found, columns, reduction / len(columns))
        total = found.sum()
        return found / total if total > 0 else found

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
        index, is_alone = self._fit_index(fit), self.family_.predictors == 1
        effects = on_host(self.effects(X, iteration=iteration, fit=index))
        frame = self._covariates(X)
        with frame.current():
            added = self._offset(X, frame, offset)
            if added is not None and np.ndim(added) == 2:
                added = added[index]
        start = np.zeros(frame.rows) if added is None else on_host(added)
        intercept = float(self._intercepts()[index])
        link = intercept + start
        for column in effects.T:
            link = link + column
        return Explanation(
            tuple(self.names_),
            intercept,
            np.broadcast_to(start, link.shape),
            effects,
            link,
            self.family_.response(link) if is_alone else link,
            frame.on_host(),
            tuple(term.columns for term in self.terms_),
            self._effect_on(index),
        )

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
        risk = np.sum([path.risk for path in self.paths_], axis=0) / self.n_rows_
        offsets = ", ".join(f"{path.offset:.4g}" for path in self.paths_)
        facts = {
            "family": self.family_.name,
            "rows": str(self.n_rows_),
            "iterations": f"{self.n_iter_}, learning rate {self.learning_rate:g}",
            "offset": offsets,
            "risk per row": f"{risk[0]:.4g} to {risk[-1]:.4g}",
        }
        late = late_share(risk)
        if late > FALL:
            facts["still falling"] = (
                f"{late:.1%} of the decrease in the last tenth of the iterations: "
                "max_iter may be too small, see cv_stop"
            )
        lines = sorted(self._lines(), key=lambda line: -line.reduction)
        return Summary(facts, tuple(lines))

    def _lines(self) -> list[Line]:
        """A line of the summary for each learner."""
        return self._lines_of(self._reductions(), self._frequencies())

    def _lines_of(self, reductions: Floats, frequencies: Floats) -> list[Line]:
        """A line for each learner, from its reduction of the risk and its frequency."""
        total = float(self._reductions().sum())
        return [
            Line(
                name,
                None if term.lambda_ is not None else term.df,
                float(self.lambda_[j]),
                float(frequencies[j]),
                float(reductions[j]),
                float(reductions[j] / total) if total else 0.0,
            )
            for j, (name, term) in enumerate(zip(self.names_, self.terms_, strict=True))
        ]

    def plot(
        self,
        learners: Sequence[int | str] | None = None,
        *,
        cv: Risks | None = None,
        samples: Samples | None = None,
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
        return plot(
            self,
            learners,
            cv=cv,
            samples=samples,
            level=level,
            fit=self._fit_index(fit),
            share_scale=share_scale,
        )

    def _title(self, fit: int) -> str:
        """What was fitted, for a picture; also the class or the parameter."""
        names = self._fit_names()
        if len(self.paths_) == 1:  # the second of two classes, or no class alone
            fit, names = -1, names if len(names) == 2 else []
        kind = "class " if hasattr(self, "classes_") else ""
        which = f", {kind}{names[fit]}" if names else ""
        return f"{self.family_.name}{which}, {self.n_iter_} steps"

    def _effect_on(self, fit: int) -> str:
        """What the additive predictor of a class or parameter is."""
        return self.family_.effect_on

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
