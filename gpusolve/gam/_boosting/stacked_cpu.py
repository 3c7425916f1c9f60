"""Componentwise boosting on a CPU, with two ways to update ``c = X'Wu``.

`Passes` computes c of all learners from the gradient u in every step, in a single pass
over the rows; see `products`.
`Blocks` does so once, for a fit to squared errors. After a step of the learner j, it
subtracts ``X'W X_j`` times the update. This block of columns is computed when j is
first selected, and kept. The cost of a step then does not depend on the number of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.threads import is_part, one_blas_thread, workers
from .._families.location import apply_weights, weighted_sum
from .batch import Fits
from .path import Path
from .problem import Cone, PreparedLearners
from .products import Floats, Run
from .stump import fitted_stump, sides_of

PROGRESS_DELAY = 2.0
"""Seconds until a progress bar appears."""


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

    def scores(self, moments: Floats) -> Floats:
        """``c' Q c`` of each member, (F, m), from c of all learners, (F, functions)."""
        c = moments[:, self.functions].reshape(self.gain.shape[:3])
        if self.gain.ndim == 3:
            return np.asarray((self.gain * c * c).sum(axis=-1))
        product = np.matmul(self.gain, c[..., None])[..., 0]
        return np.asarray(np.einsum("fmk,fmk->fm", product, c))


class StumpGroup(NamedTuple):
    """Stumps with as many bins.

    Attributes
    ----------
    members, functions : array or slice
        As for `SizeGroup`.
    weights : (F, m, k) array
        The weights of the bins.
    """

    members: NDArray[np.intp] | slice
    functions: NDArray[np.intp] | slice
    weights: Floats

    def scores(self, moments: Floats) -> Floats:
        """The reduction of the sum of squares by each member, (F, m)."""
        c = moments[:, self.functions].reshape(self.weights.shape)
        return np.asarray(sides_of(c, self.weights).reduction.max(axis=-1))


def groups_of(
    problem: PreparedLearners, begins: NDArray[np.intp]
) -> list[SizeGroup | StumpGroup]:
    """The learners without a constraint, grouped by their number of functions."""
    sizes: dict[tuple[int, bool, bool], list[int]] = {}
    for j, design in enumerate(problem.rows):
        if problem.cones[j] is None:
            key = design.functions, problem.is_diagonal(j), j in problem.stumps
            sizes.setdefault(key, []).append(j)
    groups: list[SizeGroup | StumpGroup] = []
    for (k, _, are_stumps), members in sizes.items():
        place: Any = slice(None), slice(None)
        if len(members) < len(problem):
            functions = (begins[members][:, None] + np.arange(k)).reshape(-1)
            place = np.array(members), functions
        each = [problem.gram[j] if are_stumps else problem.gain(j) for j in members]
        kind: Any = StumpGroup if are_stumps else SizeGroup
        groups.append(kind(*place, np.stack(each, axis=1)))
    return groups


class Passes:
    """F fits whose products c are computed from the gradients in every step."""

    def __init__(self, fits: Fits, made: Path) -> None:
        self.problem = problem = fits.problem
        self.family = fits.family
        self.out_of_bag = fits.out_of_bag
        self.rates = fits.rates
        self.is_scaled = fits.units is not None
        self.made = made
        shape = problem.fits, len(problem.rows[0])
        self.y, self.responses = fits.y, np.broadcast_to(fits.y, shape)
        weights = problem.weights
        self.weights = [None] * problem.fits if weights is None else weights
        self.f = np.array(np.broadcast_to(fits.start, shape), np.float64, order="C")
        self.products = problem.products
        self.functions = self.products.functions
        self.groups = groups_of(problem, self.products.ends[:-1])
        self.constrained = [j for j, cone in enumerate(problem.cones) if cone]
        self.c: Floats
        self.nuisance = np.zeros((problem.fits, 1))
        self.update_nuisance()

    def update_nuisance(self) -> None:
        """Compute the adaptive parameter of each fit at its model."""
        rows = zip(self.responses, self.f, self.weights, strict=True)
        for fit, (y, f, w) in enumerate(rows):
            self.nuisance[fit] = self.family.nuisance(y, f, w)

    def gradient(self) -> Floats:
        """``Wu`` of all fits, (F, n)."""
        u: Floats = self.family.gradient(self.y, self.f, self.nuisance)
        w = self.problem.weights
        return u if w is None else apply_weights(u, w)

    def project(self, run: Run) -> None:
        """Compute ``c = X'Wu`` of all learners, (F, functions)."""
        self.c = self.products.project(self.gradient(), run)

    def scores(self) -> Floats:
        """The reduction of the sum of squares by each learner, (F, K)."""
        scores = np.empty((self.problem.fits, len(self.problem)))
        for group in self.groups:
            scores[:, group.members] = group.scores(self.c)
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
            return fitted_stump(c, self.problem.gram[learner][fit])
        inverse: Floats = self.problem.inverse[learner][fit]
        multiply = np.multiply if inverse.ndim == 1 else np.matmul
        return np.asarray(multiply(inverse, c))

    def step(self, step: int, run: Run) -> None:
        """Make a step of all fits."""
        self.project(run)
        for fit, j in enumerate(self.scores().argmax(axis=1).tolist()):
            b = self.fitted(fit, j)
            update = self.rates[fit] / self.curvature(fit, j, b) * b
            self.made.selected[fit, step] = j
            self.made.updates[fit, step, : len(update)] = update
            self.advance(fit, j, update, run)

    def curvature(self, fit: int, learner: int, b: Floats) -> float:
        """The mean curvature of the loss along the fit of a learner."""
        y, f, s = self.responses[fit], self.f[fit], self.nuisance[fit]
        h = self.family.curvature(y, f, s) if self.is_scaled else None
        if h is None:
            return 1.0
        d = np.zeros(len(f))
        self.products.add(learner, b, d)
        return curvature_along(d, h, self.weights[fit])

    def advance(self, fit: int, learner: int, update: Floats, run: Run) -> None:
        """Add the update of a learner to the model of a fit."""
        self.products.add(learner, update, self.f[fit])

    def record(self, step: int) -> None:
        """Write the risks and the adaptive parameters after some steps."""
        if step > 0 and self.family.adaptive:
            self.update_nuisance()
        losses = self.family.loss(self.y, self.f, self.nuisance)
        losses = np.broadcast_to(losses, self.f.shape)
        self.made.risk[:, step] = weighted_sum(losses, self.problem.weights)[:, 0]
        assert self.made.nuisance is not None
        self.made.nuisance[:, step] = self.nuisance[:, 0]
        if self.made.out_of_bag is not None:
            self.made.out_of_bag[:, step] = weighted_sum(losses, self.out_of_bag)[:, 0]

    def finish(self) -> None:
        """Complete the path after the last step."""


class Blocks(Passes):
    """A fit to squared errors, whose c are updated from step to step."""

    def __init__(self, fits: Fits, made: Path) -> None:
        super().__init__(fits, made)
        self.coef = np.zeros(self.products.ends[-1])
        self.blocks: dict[int, Floats] = {}
        self.decrements: list[float] = []

    def project(self, run: Run) -> None:
        if not self.decrements:
            super().project(run)

    def advance(self, fit: int, learner: int, update: Floats, run: Run) -> None:
        own = self.functions[learner]
        c, gram = self.c[fit, own], self.problem.gram[learner][fit]
        self.decrements.append(float(update @ (2 * c - gram @ update)))
        self.coef[own] += update
        if learner not in self.blocks:
            w = self.weights[0]
            self.blocks[learner] = self.products.block(learner, w, run)
        self.c[fit] -= self.blocks[learner] @ update

    def record(self, step: int) -> None:
        """Nothing: `finish` computes the risks."""

    def finish(self) -> None:
        """Compute all risks from the last risk and the decrement of each step.

        The sum runs backwards, from small to large numbers, so that no digits cancel.
        """
        residual = self.y - self.f[0]
        for j in self.blocks:
            self.products.add(j, -self.coef[self.functions[j]], residual)
        w = self.weights[0]
        last = residual @ (residual if w is None else w * residual)
        risks = np.cumsum([last, *self.decrements[::-1]])
        self.made.risk[0] = risks[::-1]


def curvature_along(d: Floats, h: Floats, w: Floats | None) -> float:
    """The mean of the curvatures h with the weights ``w d^2``; 1 where it is 0."""
    squares = d * d
    along = float(weighted_sum(h * squares, w))
    return along / float(weighted_sum(squares, w)) if along > 0 else 1.0


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


def boost(fits: Fits, steps: int, method: str = "stacked") -> Path:
    """`boost_family` on the host."""
    from tqdm import tqdm

    count, has_passes = fits.problem.fits, method == "stacked"
    made = Path(
        fits.offset,
        np.zeros((count, steps), np.int32),
        np.zeros((count, steps, fits.problem.functions)),
        np.zeros((count, steps + 1)),
        method,
        np.zeros((count, steps + 1)) if has_passes else None,
        None if fits.out_of_bag is None else np.zeros((count, steps + 1)),
    )
    with one_blas_thread():
        state = Passes(fits, made) if has_passes else Blocks(fits, made)
    with workers(*state.products.work) as run:
        state.record(0)
        for step in tqdm(
            range(steps),
            desc="boosting",
            delay=PROGRESS_DELAY,
            disable=is_part() or None,
            leave=False,
        ):
            state.step(step, run)
            state.record(step + 1)
        state.finish()
    return made
