"""The fits of all learners to the gradient on a CPU, with two ways to ``c = X'Wu``.

`LearnerFits` computes c of all learners from the gradient u in every step, in a single
pass over the rows; see `products`. `Blocks` does so once, for a fit to squared errors.
After a step of the learner j, it subtracts ``X'W X_j`` times the update. This block of
columns is computed when j is first selected, and kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._terms.rules import Rule
from .batch import Fits
from .problem import PreparedLearners
from .products import Floats, Run

COLUMN_BLOCKS = 8
"""How many blocks of columns are computed at once."""


class Group(NamedTuple):
    """Learners with k functions and the same rule, whose scores are computed at once.

    Attributes
    ----------
    members : (m,) array or slice
        The indices of the learners, ascending.
    functions : (m * k,) array or slice
        Their functions, counted over all learners.
    rule : Rule or None
        See `PreparedLearners.rules`.
    matrices : (F, m, k, k) or (F, m, k) array
        `PreparedLearners.gain`; with a rule, ``X'WX``.
    """

    members: NDArray[np.intp] | slice
    functions: NDArray[np.intp] | slice
    rule: Rule | None
    matrices: Floats

    def scores(self, moments: Floats) -> Floats:
        """The scores of the members, (F, m), from c of all learners, (F, functions)."""
        c = moments[:, self.functions].reshape(self.matrices.shape[:3])
        if self.rule is not None:
            return self.rule.scores(c, self.matrices)
        if self.matrices.ndim == c.ndim:
            return np.asarray(np.einsum("fmk,fmk,fmk->fm", self.matrices, c, c))
        product = np.matmul(self.matrices, c[..., None])[..., 0]
        return np.asarray(np.einsum("fmk,fmk->fm", product, c))


def groups_of(problem: PreparedLearners, begins: NDArray[np.intp]) -> list[Group]:
    """The learners, grouped by their number of functions and their rule."""
    alike: dict[tuple[int, bool, Rule | None], list[int]] = {}
    for j, (design, rule) in enumerate(zip(problem.rows, problem.rules, strict=True)):
        key = design.functions, problem.is_diagonal(j), rule
        alike.setdefault(key, []).append(j)
    groups = []
    for (k, _, rule), members in alike.items():
        place: Any = slice(None)
        functions: Any = slice(None)
        if len(members) < len(problem):
            place = np.array(members)
            functions = (begins[members][:, None] + np.arange(k)).reshape(-1)
        if rule is None:
            matrices = problem.gain(members)
        else:
            matrices = np.stack([problem.gram[j] for j in members], axis=1)
        groups.append(Group(place, functions, rule, matrices))
    return groups


class LearnerFits:
    """K learners in F fits; c is computed from the gradients in every step."""

    def __init__(self, fits: Fits) -> None:
        self.problem = fits.problem
        self.products = self.problem.designs.products
        self.functions = self.products.functions
        self.groups = groups_of(self.problem, self.products.ends[:-1])
        self.c: Floats

    def project(self, gradient: Callable[[], Floats], run: Run) -> None:
        """Compute ``c = X'Wu`` of all learners, (F, functions), for Wu, (F, n)."""
        self.c = self.products.project(gradient(), run)

    def scores(self) -> Floats:
        """The reduction of the sum of squares by each learner, (F, K)."""
        scores = np.empty((self.problem.fits, len(self.problem)))
        for group in self.groups:
            scores[:, group.members] = group.scores(self.c)
        return scores

    def fitted(self, fit: int, learner: int) -> Floats:
        """The coefficients of a learner that is fitted to the gradient."""
        c = self.c[fit, self.functions[learner]]
        rule = self.problem.rules[learner]
        if rule is not None:
            return rule.fitted(fit, c, self.problem.gram[learner][fit])
        inverse: Floats = self.problem.inverse[learner][fit]
        multiply = np.multiply if inverse.ndim == 1 else np.matmul
        return np.asarray(multiply(inverse, c))

    def advance(self, learner: int, update: Floats, run: Run) -> None:
        """Called after an update; c is computed again in the next step."""


class Blocks(LearnerFits):
    """Learners of a fit to squared errors, whose c are updated from step to step."""

    def __init__(self, fits: Fits) -> None:
        super().__init__(fits)
        self.blocks: dict[int, Floats] = {}
        self.is_first = True

    def project(self, gradient: Callable[[], Floats], run: Run) -> None:
        if self.is_first:
            super().project(gradient, run)
            self.is_first = False

    def advance(self, learner: int, update: Floats, run: Run) -> None:
        if learner not in self.blocks:
            self.compute_blocks(learner, run)
        self.c[0] -= self.blocks[learner] @ update

    def compute_blocks(self, learner: int, run: Run) -> None:
        """Compute the block of a learner; of columns, of the next best learners, too.

        The next steps select some of these, and a pass over all columns costs about as
        much for several blocks as for one.
        """
        weights = self.problem.weights
        w = None if weights is None else weights[0]
        if self.products.columns is None:
            self.blocks[learner] = self.products.block(learner, w, run)
            return
        scores = self.scores()[0]
        scores[list(self.blocks)] = -np.inf
        scores[learner] = np.inf
        count = min(COLUMN_BLOCKS, len(scores) - len(self.blocks))
        best = np.argpartition(scores, -count)[-count:]
        self.blocks |= self.products.column_blocks(best, w)
