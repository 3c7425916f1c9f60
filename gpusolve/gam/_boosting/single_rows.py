"""The rows of models of one predictor on a CPU: gradients, curvatures and risks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._families.sums import weighted_sum
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
