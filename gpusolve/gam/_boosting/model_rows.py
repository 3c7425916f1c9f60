"""The rows of models on a CPU: gradients, curvatures and risks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._families.numerics import weighted_sum
from .batch import Fits
from .learner_fits import LearnerFits
from .path import Path
from .products import Floats, Run


class ModelRows:
    """M models of P predictors: F = M P fits, a model's predictors next to each other.

    `Family.update` says which predictors a step updates.

    Attributes
    ----------
    f : (F, n) array
        The predictors, to which the loop adds the updates.
    nuisance : (F, q) array
        The adaptive parameters of the family at f; zeros for several predictors.
    """

    def __init__(self, fits: Fits, learners: LearnerFits, made: Path) -> None:
        problem, shape = fits.problem, (fits.problem.fits, len(fits.problem.rows[0]))
        self.family, self.learners, self.made = fits.family, learners, made
        self.predictors, self.products = fits.family.predictors, learners.products
        self.rates, self.is_scaled = fits.rates, fits.units is not None
        self.turn, self.allowed = fits.made, fits.allowed
        self.y, self.arranged = fits.y, fits.family.arrange(fits.y)
        has_held_out = fits.out_of_bag is not None
        self.weights, *self.held_out = (
            None if w is None else w[:: self.predictors]
            for w in (problem.weights, *[fits.out_of_bag] * has_held_out)
        )
        self.f = np.array(np.broadcast_to(fits.start, shape), np.float64, order="C")
        self.nuisance = np.zeros((shape[0], self.family.nuisances))
        self.update_nuisance()

    def update_nuisance(self) -> None:
        """Compute the adaptive parameter of each model of one predictor."""
        if self.predictors == 1:
            for fit, y in enumerate(np.broadcast_to(self.y, self.f.shape)):
                w = self.weights_of(fit)
                self.nuisance[fit] = self.family.nuisance(y, self.f[fit], w)

    def weights_of(self, model: int) -> Floats | None:
        """The weights of a model, (n,); None for ones."""
        return None if self.weights is None else self.weights[model]

    def by_predictor(self, f: Floats) -> Floats:
        """The rows of all fits, (F, n), as families read them: (P, M, n), or (M, n)."""
        if self.predictors == 1:
            return f
        return f.reshape(-1, self.predictors, f.shape[1]).swapaxes(0, 1)

    def gradient(self) -> Floats:
        """``Wu`` of all fits, (F, n)."""
        f = self.by_predictor(self.f)
        u: Floats = self.family.weighted_gradient(
            self.arranged, f, self.nuisance, self.weights
        )
        return u if self.predictors == 1 else u.swapaxes(0, 1).reshape(self.f.shape)

    def risks(self, f: Floats, *weights: Floats | None) -> list[Floats]:
        """The risks of all models, (M, 1), with each of the weights."""
        return self.family.risks(self.arranged, f, self.nuisance, *weights)

    def select(self, step: int, run: Run) -> NDArray[np.intp]:
        """The learner that a step updates in each fit, (F,); -1 for none."""
        self.updates: dict[tuple[int, int], Floats] = {}
        self.bends: dict[int, Floats | None] = {}
        self.scales: dict[int, float] = {}
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
            risks[:, p] = self.risks(candidate, self.weights)[0][:, 0]
        return np.where(np.isnan(risks), np.inf, risks)

    def update(self, fit: int, learner: int) -> Floats:
        """What a step adds to the coefficients of a learner."""
        found = self.updates.get((fit, learner))
        if found is None:
            b = self.learners.fitted(fit, learner)
            found = np.asarray(self.rates[fit] / self.curvature(fit, learner, b) * b)
            self.updates[fit, learner] = found
        return found

    def curvature(self, fit: int, learner: int, b: Floats) -> float:
        """The mean curvature of the loss along the fit of a learner.

        Of a joint step of several predictors, it is along the fits of all of them.
        """
        model, predictor = divmod(fit, self.predictors)
        h, w = self.curvatures(model), self.weights_of(model)
        if h is None:
            return 1.0
        if self.predictors == 1:
            return curvature_along(self.products.multiply(learner, b), h, w)
        if self.family.update != "joint":
            return curvature_along(self.products.multiply(learner, b), h[predictor], w)
        if model not in self.scales:
            fits = range(model * self.predictors, (model + 1) * self.predictors)
            fitted = [self.learners.fitted(own, learner) for own in fits]
            d = np.stack([self.products.multiply(learner, own) for own in fitted])
            self.scales[model] = curvature_along(d, h, w)
        return self.scales[model]

    def curvatures(self, model: int) -> Floats | None:
        """The weighted curvatures of a model before the step, (P, n) or (n,), or None.

        None stands for ones.
        """
        if self.is_scaled and model not in self.bends:
            y = self.arranged if self.y.ndim == 1 else self.arranged[model]
            f, s = self.by_predictor(self.f)[..., model, :], self.nuisance[model]
            self.bends[model] = self.family.weighted_curvature(
                y, f, s, self.weights_of(model)
            )
        return self.bends.get(model)

    def record(self, step: int) -> None:
        """Write the risks and the adaptive parameters after some steps."""
        if step > 0 and self.family.adaptive:
            self.update_nuisance()
        assert self.made.nuisance is not None
        self.made.nuisance[:, step] = self.nuisance
        risks = self.risks(self.by_predictor(self.f), self.weights, *self.held_out)
        written = (self.made.risk, self.made.out_of_bag)
        for made, risk in zip(written, risks, strict=False):
            assert made is not None
            made[:: self.predictors, step] = risk[:, 0]


def curvature_along(d: Floats, h: Floats, w: Floats | None) -> float:
    """The mean curvature with the weights ``w d^2``, of curvatures times w; 1 for 0."""
    squares = d * d
    along = float((h * squares).sum())
    return along / float(weighted_sum(squares, w).sum()) if along > 0 else 1.0
