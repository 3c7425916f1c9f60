"""The rows of models on a CPU: gradients, curvatures and risks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._families.family import CoupledFamily
from .._families.numerics import apply_weights, weighted_sum
from .batch import Fits
from .learner_fits import LearnerFits
from .path import Path
from .products import Floats, Run


class SingleRows:
    """F models of one predictor.

    Attributes
    ----------
    f : (F, n) array
        The models, to which the loop adds the updates.
    nuisance : (F, q) array
        The adaptive parameters of the family at f.
    """

    def __init__(self, fits: Fits, learners: LearnerFits, made: Path) -> None:
        problem, shape = fits.problem, (fits.problem.fits, len(fits.problem.rows[0]))
        self.family, self.learners, self.made = fits.family, learners, made
        self.products = learners.products
        self.rates, self.is_scaled = fits.rates, fits.units is not None
        self.y, self.responses = fits.y, np.broadcast_to(fits.y, shape)
        self.arranged = fits.family.arrange(fits.y)
        self.all_weights = problem.weights
        self.weights = [None] * shape[0] if problem.weights is None else problem.weights
        has_held_out = fits.out_of_bag is not None
        self.weights_of_risks = [problem.weights] + [fits.out_of_bag] * has_held_out
        self.f = np.array(np.broadcast_to(fits.start, shape), np.float64, order="C")
        self.nuisance = np.zeros((shape[0], self.family.nuisances))
        self.update_nuisance()

    def update_nuisance(self) -> None:
        """Compute the adaptive parameter of each fit at its model."""
        rows = zip(self.responses, self.f, self.weights, strict=True)
        for fit, (y, f, w) in enumerate(rows):
            self.nuisance[fit] = self.family.nuisance(y, f, w)

    def gradient(self) -> Floats:
        """``Wu`` of all fits, (F, n)."""
        u: Floats = self.family.weighted_gradient(
            self.arranged, self.f, self.nuisance, self.all_weights
        )
        return u

    def select(self, step: int, run: Run) -> NDArray[np.intp]:
        """The learner that a step updates in each fit, (F,); -1 for none."""
        return np.asarray(self.learners.scores(run).argmax(axis=1))

    def update(self, fit: int, learner: int) -> Floats:
        """What a step adds to the coefficients of a learner."""
        b = self.learners.fitted(fit, learner)
        return np.asarray(self.rates[fit] / self.curvature(fit, learner, b) * b)

    def curvature(self, fit: int, learner: int, b: Floats) -> float:
        """The mean curvature of the loss along the fit of a learner."""
        if not self.is_scaled:
            return 1.0
        y = self.arranged if self.y.ndim == 1 else self.arranged[fit]
        f, s, w = self.f[fit], self.nuisance[fit], self.weights[fit]
        h = self.family.weighted_curvature(y, f, s, w)
        if h is None:
            return 1.0
        d = self.products.multiply(learner, b)
        return curvature_along(d, h, w)

    def record(self, step: int) -> None:
        """Write the risks and the adaptive parameters after some steps."""
        if step > 0 and self.family.adaptive:
            self.update_nuisance()
        assert self.made.nuisance is not None
        self.made.nuisance[:, step] = self.nuisance
        self.write_risks(
            step,
            self.family.risks(
                self.arranged, self.f, self.nuisance, *self.weights_of_risks
            ),
        )

    def write_risks(self, step: int, risks: list[Floats]) -> None:
        """Write the risks of all models, (M, 1), and of the rows that are held out."""
        first = slice(None, None, self.family.predictors)
        self.made.risk[first, step] = risks[0][:, 0]
        if self.made.out_of_bag is not None:
            self.made.out_of_bag[first, step] = risks[1][:, 0]


def curvature_along(d: Floats, h: Floats, w: Floats | None) -> float:
    """The mean curvature with the weights ``w d^2``, of curvatures times w; 1 for 0."""
    squares = d * d
    along = float((h * squares).sum())
    return along / float(weighted_sum(squares, w).sum()) if along > 0 else 1.0


# ---- several predictors --------------------------------------------------------------


class CoupledRows(SingleRows):
    """M models of P predictors: F = M P fits."""

    family: CoupledFamily

    def __init__(self, fits: Fits, learners: LearnerFits, made: Path) -> None:
        super().__init__(fits, learners, made)
        self.predictors = fits.family.predictors
        self.turn, self.allowed = fits.made, fits.allowed
        self.weights_of_risks = [
            None if w is None else w[:: self.predictors] for w in self.weights_of_risks
        ]

    def by_predictor(self, f: Floats) -> Floats:
        """The rows of all fits, (F, n), as (P, M, n); a view."""
        return f.reshape(-1, self.predictors, f.shape[1]).swapaxes(0, 1)

    def gradient(self) -> Floats:
        of_predictors = self.family.gradient(
            self.y, self.by_predictor(self.f), self.nuisance
        )
        u: Floats = of_predictors.swapaxes(0, 1).reshape(self.f.shape)
        w = self.all_weights
        return u if w is None else apply_weights(u, w)

    def update(self, fit: int, learner: int) -> Floats:
        found = self.updates.get((fit, learner))
        if found is None:
            found = self.updates[fit, learner] = super().update(fit, learner)
        return found

    def curvature(self, fit: int, learner: int, b: Floats) -> float:
        """The mean along the fit; of a joint step, along the fits of all predictors."""
        if not self.is_scaled:
            return 1.0
        model, predictor = divmod(fit, self.predictors)
        assert self.bends is not None
        own = self.bends[:, model], self.weights[fit]
        if self.family.update != "joint":
            d = self.products.multiply(learner, b)
            return curvature_along(d, own[0][predictor], own[1])
        found = self.scales.get(model)
        if found is None:
            fits = range(fit - predictor, fit - predictor + self.predictors)
            d = self.fitted_rows(fits, learner)
            found = self.scales[model] = curvature_along(d, *own)
        return found

    def fitted_rows(self, fits: range, learner: int) -> Floats:
        """The fits of a learner to the gradients of some predictors, (len(fits), n)."""
        multiply = self.products.multiply
        return np.stack(
            [multiply(learner, self.learners.fitted(fit, learner)) for fit in fits]
        )

    def losses(self, f: Floats) -> Floats:
        """The loss of each model and row, (M, n), at the predictors (P, M, n)."""
        return np.asarray(self.family.loss(self.y, f, self.nuisance))

    def select(self, step: int, run: Run) -> NDArray[np.intp]:
        self.updates: dict[tuple[int, int], Floats] = {}
        self.scales: dict[int, float] = {}
        if self.is_scaled:
            f = self.by_predictor(self.f)
            self.bends = self.family.weighted_curvature(
                self.y, f, self.nuisance, self.weights_of_risks[0]
            )
        scores = self.learners.scores(run)
        scores = scores.reshape(-1, self.predictors, scores.shape[1])
        if self.family.update == "joint":
            return np.repeat(scores.sum(axis=1).argmax(axis=1), self.predictors)
        if self.allowed is not None:
            scores = np.where(self.allowed, scores, -np.inf)
        best: NDArray[np.intp] = scores.argmax(axis=2)
        if self.family.update == "cyclic":
            updated = np.full(len(best), (self.turn + step) % self.predictors)
        else:
            updated = self.candidate_risks(best).argmin(axis=1)
        selected = np.full_like(best, -1)
        models = np.arange(len(best))
        selected[models, updated] = best[models, updated]
        return selected.ravel()

    def candidate_risks(self, learners: NDArray[np.intp]) -> Floats:
        """The risk of each model if one predictor is updated by its learner, (M, P)."""
        risks = np.empty(learners.shape)
        f = self.by_predictor(self.f)
        for p in range(self.predictors):
            candidate = f.copy()
            for model, j in enumerate(learners[:, p].tolist()):
                update = self.update(model * self.predictors + p, j)
                candidate[p, model] += self.products.multiply(j, update)
            risks[:, p] = weighted_sum(
                self.losses(candidate), self.weights_of_risks[0]
            )[:, 0]
        return np.where(np.isnan(risks), np.inf, risks)

    def record(self, step: int) -> None:
        losses = self.losses(self.by_predictor(self.f))
        risks = [weighted_sum(losses, w) for w in self.weights_of_risks]
        self.write_risks(step, risks)
