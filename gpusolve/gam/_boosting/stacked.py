"""Componentwise boosting for any family, of learners of any kind, in several fits.

`boost_on_host` is the specification of ``cuda_src/stacked.cu``. It also makes the steps
that the compiled object does not: see `has_loop`. A step has two parts: the fits of all
learners to the gradient, see `learner_fits`, and the rows of the models, see
`ModelRows`.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import on_host
from ..._device.kernels import Device, device_of
from ..._device.launch import pieces
from ..._device.threads import one_blas_thread, workers
from .._families.numerics import weighted_sum
from ..families import Gaussian
from . import stacked_kernel, stacked_object
from .batch import Fits
from .gram_kernel import DOUBLE
from .learner_fits import Blocks, LearnerFits
from .path import UNWATCHED, Path, Watch
from .problem import PreparedLearners
from .products import Floats

RISK_TOLERANCE = 1e-6
"""Relative difference between two risks up to which they are considered equal. A warm
start on another device, or with another method, has other rounding errors."""


def boost_family(
    fits: Fits,
    steps: int = 100,
    *,
    before: Path | None = None,
    method: str = "stacked",
    watch: Watch = UNWATCHED,
) -> Path:
    """Boost: in each step, fit all learners to the gradient and follow the best.

    Parameters
    ----------
    fits : Fits
        On the current device.
    steps : int
        The number of new steps.
    before : Path, optional
        The steps that the fits have made; the new steps are appended.
    method : {"stacked", "gram", "auto"}
        How the steps are made; see `resolve_method`.
    watch : Watch, optional
        A callback, for "stacked", a progress bar, and whether an interrupt is an error.

    Returns
    -------
    Path
        Of all fits; shorter if the callback or an interrupt ended the steps.

    Raises
    ------
    ValueError
        If a learner has too many functions for the device, if the method is for other
        problems, if a risk becomes infinite, or if the risk is not the risk at the end
        of `before`.

    Notes
    -----
    With the nuisance parameter s of the family at the model f, a step fits all learners
    to ``family.gradient(y, f, s)``, and selects the first learner with the least
    unpenalised sum of squares. The risk is ``sum w family.loss(y, f, s)``, with s at
    the same f. All sums are in float64.
    """
    device = device_of(fits.y)
    if before is not None:
        fits, watch = fits.after(before), watch._replace(first=len(before))
    method = resolve_method(method, fits, steps, device)
    if device is None and method == "stacked" and stacked_object.has_loop(fits):
        made = stacked_object.boost(fits, steps, watch)
    elif device is None:
        made = boost_on_host(fits, steps, method, watch)
    else:
        check_size(fits.problem, device)
        made = stacked_kernel.boost(fits, steps, device, watch)
    made = made._mapped(lambda _, array: on_host(array))
    fits.family.check_risk(made.risk)
    if before is None:
        return made
    check_continued(before, made)
    return before.followed_by(made)


def check_size(problem: PreparedLearners, device: Device) -> None:
    """ValueError if a learner has too many functions for the device."""
    found = stacked_kernel.first_too_large(problem, device)
    if found is not None:
        raise ValueError(
            f"{problem.terms[found].label} must have fewer functions or inequalities "
            f"on this device, got {problem.rows[found].functions} functions"
        )


def check_continued(before: Path, later: Path) -> None:
    """ValueError unless the later steps begin with the last risk of the path."""
    last, risk = before.risk[..., -1], later.risk[..., 0]
    if (np.abs(risk - last) > RISK_TOLERANCE * np.abs(before.risk).max(axis=-1)).any():
        raise ValueError(
            "a warm start needs the data of its path: the risk must be "
            f"{last}, as at the end of the path, got {risk}"
        )


# ---- methods -------------------------------------------------------------------------


Method = Literal["auto", "stacked", "gram"]

METHODS = get_args(Method)

BLOCK_BYTES = 2**31
"""Memory limit for the blocks of ``B'B``, in bytes, for "auto" to choose "gram"."""

ENTRY_COST = 25
"""Cost of computing an entry of a block on a host, in nonzeros that a pass reads.
Measured: see `passes_of_a_block`."""

SCREENED_COST = 0.4
"""Cost of a step that fits only learners that may be the best, in passes over the rows
of all learners. Measured: 1e5 rows of 100 learners, 100 steps."""


def resolve_method(method: str, fits: Fits, steps: int, device: Device | None) -> str:
    """The method that makes the steps; for "auto", the chosen method.

    A device has "stacked" only.

    Raises
    ------
    ValueError
        If the method is for other fits.
    """
    if method == "stacked":
        return method
    problem, has_one_risk = fits.problem, fits.out_of_bag is None
    is_possible = isinstance(fits.family, Gaussian) and problem.is_uniform
    if not (is_possible and has_one_risk):
        if method == "auto":
            return "stacked"
        raise ValueError(
            "method must be 'auto' or 'stacked' unless all learners are equal splines "
            "without missing values, the family is Gaussian and early_stopping is "
            f"False, got {method!r}"
        )
    if device is not None:
        return "stacked"
    return choose_method(problem, steps) if method == "auto" else method


def choose_method(problem: PreparedLearners, steps: int) -> str:
    """The method that "auto" stands for on a host.

    "gram" is chosen if its blocks of ``B'B`` fit in `BLOCK_BYTES`, and are expected to
    cost less than the passes over the rows that "stacked" makes in the steps. A block
    is computed when its learner is first selected. The number of learners that will be
    selected is unknown; it is estimated as twice the square root of the number of
    steps. A fit that selects more learners takes more memory.
    """
    expected = min(len(problem), steps, math.ceil(2 * math.sqrt(steps)))
    if expected * DOUBLE * len(problem) * problem.functions**2 > BLOCK_BYTES:
        return "stacked"
    passes = steps * (SCREENED_COST if stacked_object.past_steps(problem) else 1)
    return "gram" if expected * passes_of_a_block(problem) < passes else "stacked"


def passes_of_a_block(problem: PreparedLearners) -> float:
    """The cost of a block of ``B'B``, in passes over the rows of all learners.

    A block multiplies each of the ``degree + 1`` nonzeros of a row by each nonzero of
    the selected learner. It also writes k x k numbers for each learner, even for few
    rows. With four cores, k = 32 and degree 3, the measured cost of a block was 3.5
    passes of 1e5 rows, and 10 passes of 1e3 rows.
    """
    rows, width = len(problem.rows[0]), problem.rows[0].width
    return float(width + ENTRY_COST * problem.functions**2 / (rows * width))


# ---- on a CPU ------------------------------------------------------------------------


def boost_on_host(
    fits: Fits, steps: int, method: str = "stacked", watch: Watch = UNWATCHED
) -> Path:
    """`boost_family` on the host."""
    count = fits.problem.fits
    made = Path(
        fits.offset,
        np.zeros((count, steps), np.int32),
        np.zeros((count, steps, fits.problem.functions)),
        np.zeros((count, steps + 1)),
        method,
        np.zeros((count, steps + 1, fits.family.nuisances)),
        None if fits.out_of_bag is None else np.zeros((count, steps + 1)),
    )
    with one_blas_thread():
        learners = (Blocks if method == "gram" else LearnerFits)(fits)
        rows = ModelRows(fits, learners, made)
    with workers(*learners.products.work) as run:

        def make(piece: slice) -> None:
            step = piece.start - 1
            if step >= 0:
                learners.project(rows.gradient, run)
                for fit, j in enumerate(rows.select(step).tolist()):
                    made.selected[fit, step] = j
                    if j >= 0:
                        update = rows.update(fit, j)
                        made.updates[fit, step, : len(update)] = update
                        learners.advance(j, update, run)
                        learners.products.add(j, update, rows.f[fit])
            rows.record(piece.start)

        done = watch.follow(steps, pieces(steps + 1, 1), make, made)
    return made.until(done)


# ---- the rows of the models ----------------------------------------------------------


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

    def select(self, step: int) -> NDArray[np.intp]:
        """The learner that a step updates in each fit, (F,); -1 for none."""
        self.updates: dict[tuple[int, int], Floats] = {}
        self.bends: dict[int, Floats | None] = {}
        self.scales: dict[int, float] = {}
        scores = self.learners.scores()
        if self.predictors == 1:
            return np.asarray(scores.argmax(axis=1))
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
        if self.predictors == 1 or self.family.update != "joint":
            own = h if self.predictors == 1 else h[predictor]
            return curvature_along(self.products.multiply(learner, b), own, w)
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
            f, w = self.by_predictor(self.f)[..., model, :], self.weights_of(model)
            s = self.nuisance[model]
            self.bends[model] = self.family.weighted_curvature(y, f, s, w)
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
