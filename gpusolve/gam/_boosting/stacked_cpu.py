"""Componentwise boosting on a CPU, with two ways to update ``c = X'Wu``.

`Passes` computes c of all learners from the gradient u in every step, in a single pass
over the rows; see `products`.
`Blocks` does so once, for a fit to squared errors. After a step of the learner j, it
subtracts ``X'W X_j`` times the update. This block of columns is computed when j is
first selected, and kept. The cost of a step then does not depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.launch import pieces
from ..._device.threads import Work, one_blas_thread, workers
from .._families.sums import weighted_sum
from .batch import Fits
from .path import Path
from .problem import Cone, PreparedLearners
from .products import Floats, Run
from .stump import fitted_stump, sides_of
from .watch import UNWATCHED, Watch

Share = Callable[[int, Work], None]
"""`Products.share` with a function that runs work."""

COLUMN_BLOCKS = 8
"""How many blocks of columns are computed at once."""


class SizeGroup(NamedTuple):
    """Learners with k functions: all products with their matrices at once.

    Attributes
    ----------
    members : (m,) array or slice
        The indices of the learners, ascending.
    functions : (m * k,) array or slice
        Their functions, counted over all learners.
    gain : (F, m, k, k) or (F, m, k) array
        See `PreparedLearners.gain`.
    """

    members: NDArray[np.intp] | slice
    functions: NDArray[np.intp] | slice
    gain: Floats

    def scores(self, moments: Floats, share: Share) -> Floats:
        """``c' Q c`` of each member, (F, m), from c of all learners, (F, functions)."""
        c = moments[:, self.functions].reshape(self.gain.shape[:3])
        if self.gain.ndim == 3:
            return quadratic_forms(self.gain, c)
        scores = np.empty(c.shape[:2])

        def write(some: slice) -> None:
            scores[:, some] = quadratic_forms(self.gain[:, some], c[:, some])

        share(scores.shape[1], write)
        return scores


def quadratic_forms(Q: Floats, c: Floats) -> Floats:
    """``c' Q c``, of (..., k, k) and (..., k); Q of (..., k) is diagonal."""
    if Q.ndim == c.ndim:
        return np.asarray(np.einsum("...k,...k,...k->...", Q, c, c))
    product = np.matmul(Q, c[..., None])[..., 0]
    return np.asarray(np.einsum("...k,...k->...", product, c))


class StumpGroup(NamedTuple):
    """Stumps with as many bins.

    Attributes
    ----------
    members, functions : array or slice
        As for `SizeGroup`.
    weights : (F, m, k) array
        The weights of the bins.
    least : int
        The least weight of a side.
    """

    members: NDArray[np.intp] | slice
    functions: NDArray[np.intp] | slice
    weights: Floats
    least: int

    def scores(self, moments: Floats, share: Share) -> Floats:
        """The reduction of the sum of squares by each member, (F, m)."""
        c = moments[:, self.functions].reshape(self.weights.shape)
        return np.asarray(sides_of(c, self.weights, self.least).reduction.max(-1))


def groups_of(
    problem: PreparedLearners, begins: NDArray[np.intp]
) -> list[SizeGroup | StumpGroup]:
    """The learners without a constraint, grouped by their number of functions."""
    sizes: dict[tuple[int, bool, int | None], list[int]] = {}
    for j, design in enumerate(problem.rows):
        if problem.cones[j] is None:
            key = design.functions, problem.is_diagonal(j), problem.stumps.get(j)
            sizes.setdefault(key, []).append(j)
    groups: list[SizeGroup | StumpGroup] = []
    for (k, _, least), members in sizes.items():
        place: Any = slice(None)
        functions: Any = slice(None)
        if len(members) < len(problem):
            place = np.array(members)
            functions = (begins[members][:, None] + np.arange(k)).reshape(-1)
        if least is not None:
            weights = np.stack([problem.gram[j] for j in members], axis=1)
            groups.append(StumpGroup(place, functions, weights, least))
        else:
            groups.append(SizeGroup(place, functions, problem.gain(members)))
    return groups


class Passes:
    """F fits whose products c are computed from the gradients in every step."""

    def __init__(self, fits: Fits, made: Path) -> None:
        self.problem = problem = fits.problem
        self.family = fits.family
        has_held_out = fits.out_of_bag is not None
        self.weights_of_risks = [problem.weights] + [fits.out_of_bag] * has_held_out
        self.rates = fits.rates
        self.is_scaled = fits.units is not None
        self.made = made
        shape = problem.fits, len(problem.rows[0])
        self.y, self.responses = fits.y, np.broadcast_to(fits.y, shape)
        self.arranged = fits.family.arrange(fits.y)
        weights = problem.weights
        self.weights = [None] * problem.fits if weights is None else weights
        self.f = np.array(np.broadcast_to(fits.start, shape), np.float64, order="C")
        self.products = problem.designs.products
        self.functions = self.products.functions
        self.groups = groups_of(problem, self.products.ends[:-1])
        self.constrained = [j for j, cone in enumerate(problem.cones) if cone]
        self.c: Floats
        self.nuisance = np.zeros((problem.fits, self.family.nuisances))
        self.update_nuisance()

    def update_nuisance(self) -> None:
        """Compute the adaptive parameter of each fit at its model."""
        rows = zip(self.responses, self.f, self.weights, strict=True)
        for fit, (y, f, w) in enumerate(rows):
            self.nuisance[fit] = self.family.nuisance(y, f, w)

    def gradient(self) -> Floats:
        """``Wu`` of all fits, (F, n)."""
        w = self.problem.weights
        u: Floats = self.family.weighted_gradient(
            self.arranged, self.f, self.nuisance, w
        )
        return u

    def project(self, run: Run) -> None:
        """Compute ``c = X'Wu`` of all learners, (F, functions)."""
        self.c = self.products.project(self.gradient(), run)

    def scores(self, run: Run) -> Floats:
        """The reduction of the sum of squares by each learner, (F, K)."""
        share = partial(self.products.share, run)
        scores = np.empty((self.problem.fits, len(self.problem)))
        for group in self.groups:
            scores[:, group.members] = group.scores(self.c, share)
        for j in self.constrained:
            for fit in range(self.problem.fits):
                b, c = self.fitted(fit, j), self.c[fit, self.functions[j]]
                scores[fit, j] = b @ (2 * c - self.problem.gram[j][fit] @ b)
        return scores

    def fitted(self, fit: int, learner: int) -> Floats:
        """The coefficients of a learner that is fitted to the gradient."""
        c = self.c[fit, self.functions[learner]]
        cone = self.problem.cones[learner]
        if cone is not None:
            return fitted_in_cone(cone, fit, c)
        if learner in self.problem.stumps:
            least = self.problem.stumps[learner]
            return fitted_stump(c, self.problem.gram[learner][fit], least)
        inverse: Floats = self.problem.inverse[learner][fit]
        multiply = np.multiply if inverse.ndim == 1 else np.matmul
        return np.asarray(multiply(inverse, c))

    def step(self, step: int, run: Run) -> None:
        """Make a step of all fits."""
        self.project(run)
        for fit, j in enumerate(self.select(step, run).tolist()):
            self.made.selected[fit, step] = j
            if j >= 0:
                update = self.update(fit, j)
                self.made.updates[fit, step, : len(update)] = update
                self.advance(fit, j, update, run)

    def select(self, step: int, run: Run) -> NDArray[np.intp]:
        """The learner that a step updates in each fit, (F,); -1 for none."""
        return np.asarray(self.scores(run).argmax(axis=1))

    def update(self, fit: int, learner: int) -> Floats:
        """What a step adds to the coefficients of a learner."""
        b = self.fitted(fit, learner)
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

    def advance(self, fit: int, learner: int, update: Floats, run: Run) -> None:
        """Add the update of a learner to the model of a fit."""
        self.products.add(learner, update, self.f[fit])

    def record(self, step: int) -> None:
        """Write the risks and the adaptive parameters after some steps."""
        if step > 0 and self.family.adaptive:
            self.update_nuisance()
        assert self.made.nuisance is not None
        self.made.nuisance[:, step] = self.nuisance
        risk, *held_out = self.family.risks(
            self.arranged, self.f, self.nuisance, *self.weights_of_risks
        )
        self.made.risk[:, step] = risk[:, 0]
        if self.made.out_of_bag is not None:
            self.made.out_of_bag[:, step] = held_out[0][:, 0]

    def finish(self, made: Path) -> None:
        """Complete the path of the steps that were made."""


class Blocks(Passes):
    """A fit to squared errors, whose c are updated from step to step."""

    def __init__(self, fits: Fits, made: Path) -> None:
        super().__init__(fits, made)
        self.blocks: dict[int, Floats] = {}
        self.decrements: list[float] = []

    def project(self, run: Run) -> None:
        if not self.decrements:
            super().project(run)

    def advance(self, fit: int, learner: int, update: Floats, run: Run) -> None:
        own = self.functions[learner]
        c, gram = self.c[fit, own], self.problem.gram[learner][fit]
        self.decrements.append(float(update @ (2 * c - gram @ update)))
        if learner not in self.blocks:
            self.compute_blocks(learner, run)
        self.c[fit] -= self.blocks[learner] @ update

    def compute_blocks(self, learner: int, run: Run) -> None:
        """Compute the block of a learner; of columns, of the next best learners, too.

        The next steps select some of these, and a pass over all columns costs about as
        much for several blocks as for one.
        """
        w = self.weights[0]
        if self.products.columns is None:
            self.blocks[learner] = self.products.block(learner, w, run)
            return
        scores = self.scores(run)[0]
        scores[list(self.blocks)] = -np.inf
        scores[learner] = np.inf
        count = min(COLUMN_BLOCKS, len(scores) - len(self.blocks))
        best = np.argpartition(scores, -count)[-count:]
        self.blocks |= self.products.column_blocks(best, w)

    def record(self, step: int) -> None:
        """Nothing: `finish` computes the risks."""

    def finish(self, made: Path) -> None:
        """Compute all risks from the last risk and the decrement of each step.

        The sum runs backwards, from small to large numbers, so that no digits cancel.
        """
        residual, (coef,) = self.y - self.f[0], made.coef(len(self.problem))
        for j in np.unique(made.selected).tolist():
            own = coef[j, : self.problem.rows[j].functions]
            self.products.add(j, -own, residual)
        w = self.weights[0]
        last = residual @ (residual if w is None else w * residual)
        risks = np.cumsum([last, *self.decrements[: len(made)][::-1]])
        made.risk[0] = risks[::-1]


def curvature_along(d: Floats, h: Floats, w: Floats | None) -> float:
    """The mean curvature with the weights ``w d^2``, of curvatures times w; 1 for 0."""
    squares = d * d
    along = float((h * squares).sum())
    return along / float(weighted_sum(squares, w).sum()) if along > 0 else 1.0


def fitted_in_cone(cone: Cone, fit: int, moments: Floats) -> Floats:
    """The coefficients of the functions, from ``X'Wu`` of the functions, (k,).

    Notes
    -----
    The fit minimises ``b'Ab / 2 - b'c`` over all b with ``C b >= 0``; ``A^-1 = R R'``.
    With multipliers mu >= 0 it is ``b = R (R'c + R'C' mu)``, and mu is the solution of
    a non-negative least-squares problem: it minimises ``|R'C' mu + R'c|``. `moments`
    and the result belong to the functions, b and c to the columns ``X T``.
    """
    from scipy.optimize import nnls

    T, root = cone.transform, cone.root[fit]
    c = moments if T is None else moments @ T
    free = root.T @ c
    multipliers, _ = nnls(root.T @ cone.constraint.T, -free)
    b: Floats = root @ (free + root.T @ (multipliers @ cone.constraint))
    return b if T is None else T @ b


def boost(
    fits: Fits,
    steps: int,
    method: str = "stacked",
    watch: Watch = UNWATCHED,
    passes: type[Passes] = Passes,
) -> Path:
    """`boost_family` on the host."""
    count, has_passes = fits.problem.fits, method == "stacked"
    nuisances = fits.family.nuisances
    made = Path(
        fits.offset,
        np.zeros((count, steps), np.int32),
        np.zeros((count, steps, fits.problem.functions)),
        np.zeros((count, steps + 1)),
        method,
        np.zeros((count, steps + 1, nuisances)) if has_passes else None,
        None if fits.out_of_bag is None else np.zeros((count, steps + 1)),
    )
    with one_blas_thread():
        state = passes(fits, made) if has_passes else Blocks(fits, made)
    with workers(*state.products.work) as run:

        def make(piece: slice) -> None:
            if piece.start > 0:
                state.step(piece.start - 1, run)
            state.record(piece.start)

        done = watch.follow(steps, pieces(steps + 1, 1), make, made)
        made = made.until(done)
        state.finish(made)
    return made
