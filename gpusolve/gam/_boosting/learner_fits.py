"""The fits of all learners to the gradient on a CPU, with two ways to ``c = X'Wu``.

`LearnerFits` computes c of all learners from the gradient u in every step, in a single
pass over the rows; see `products`. `Blocks` does so once, for a fit to squared errors.
After a step of the learner j, it subtracts ``X'W X_j`` times the update. This block of
columns is computed when j is first selected, and kept. Of many learners,
`ScreenedFits` fits only learners that may be the best.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.launch import within
from ..._device.threads import Work
from .._terms.rules import Rule
from .batch import Fits
from .problem import PreparedLearners
from .products import Floats, Pairs, Run

Share = Callable[[int, Work], None]
"""`Products.share` with a function that runs work."""

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

    def scores(self, moments: Floats, share: Share) -> Floats:
        """The scores of the members, (F, m), from c of all learners, (F, functions)."""
        c = moments[:, self.functions].reshape(self.matrices.shape[:3])
        if self.rule is not None:
            return self.rule.scores(c, self.matrices)
        if self.matrices.ndim == 3:
            return quadratic_forms(self.matrices, c)
        scores = np.empty(c.shape[:2])

        def write(some: slice) -> None:
            scores[:, some] = quadratic_forms(self.matrices[:, some], c[:, some])

        share(scores.shape[1], write)
        return scores


def quadratic_forms(Q: Floats, c: Floats) -> Floats:
    """``c' Q c``, of (..., k, k) and (..., k); Q of (..., k) is diagonal."""
    if Q.ndim == c.ndim:
        return np.asarray(np.einsum("...k,...k,...k->...", Q, c, c))
    product = np.matmul(Q, c[..., None])[..., 0]
    return np.asarray(np.einsum("...k,...k->...", product, c))


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

    def scores(self, run: Run) -> Floats:
        """The reduction of the sum of squares by each learner, (F, K)."""
        share = partial(self.products.share, run)
        scores = np.empty((self.problem.fits, len(self.problem)))
        for group in self.groups:
            scores[:, group.members] = group.scores(self.c, share)
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
        scores = self.scores(run)[0]
        scores[list(self.blocks)] = -np.inf
        scores[learner] = np.inf
        count = min(COLUMN_BLOCKS, len(scores) - len(self.blocks))
        best = np.argpartition(scores, -count)[-count:]
        self.blocks |= self.products.column_blocks(best, w)


# ---- of many learners, some ----------------------------------------------------------


LEAST_LEARNERS = 64
"""The fewest learners that are worth a selection."""

LEARNERS_PER_PAST = 8
MOST_PAST = 32
PAST_BYTES = 2**26
"""Learners for each earlier gradient that is kept, and limits of these gradients."""

PROBES = 8
"""How many learners are fitted first, of the largest roots when they were last fitted.
"""

ROOT_ERROR = 1e-6
"""What a root may change by rounding errors, as a multiple of the norm of e: the error
of a score is much less than the square."""

AT_ONCE = 32
"""How many matrices are gathered at once: they stay in the cache."""


def past_steps(problem: PreparedLearners) -> int:
    """How many earlier gradients are kept; 0 if all learners must always be fitted."""
    learners = len(problem)
    if any(problem.rules) or learners < LEAST_LEARNERS:
        return 0
    if len({G.shape for G in problem.gram}) > 1:
        return 0
    if problem.designs.columns is not None:  # BLAS multiplies all of them
        return 0
    size = np.float64().nbytes * problem.fits * len(problem.rows[0])
    return min(learners // LEARNERS_PER_PAST, MOST_PAST, PAST_BYTES // size)


class ScreenedFits(LearnerFits):
    """Learners of which a step fits only some: all that may score most.

    Attributes
    ----------
    latest : (F, K) array
        The score of each learner when it was last fitted.
    when : (F, K) integer array
        The index of the gradient at that time; H if this is not kept any more.
    past : (F, H, n) array
        The last gradients, ``W^(1/2) u``, each in the place of the gradient H steps
        before.
    squares : (F, H) array
        The squares of their norms.
    """

    def __init__(self, fits: Fits) -> None:
        super().__init__(fits)
        shape, kept = (self.problem.fits, len(self.problem)), past_steps(self.problem)
        self.c = np.zeros((shape[0], int(self.products.ends[-1])))
        self.latest, self.when = np.zeros(shape), np.full(shape, kept)
        self.past = np.zeros((shape[0], kept, len(self.problem.rows[0])))
        self.squares = np.zeros(self.past.shape[:2])
        self.place = -1
        w = self.problem.weights
        self.root = None if w is None else (w > 0) / np.sqrt(np.where(w > 0, w, 1))

    def project(self, gradient: Callable[[], Floats], run: Run) -> None:
        """Compute the products and the scores of the learners that may be the best."""
        u = np.ascontiguousarray(gradient())
        limit = self.upper_bounds(u)
        probes = self.latest.argpartition(-PROBES, axis=1)[:, -PROBES:]
        fits = np.arange(len(u)).repeat(PROBES)
        self.fit_pairs((fits, probes.ravel()), u)
        best = np.take_along_axis(self.latest, probes, axis=1).max(axis=1)
        chosen = limit >= np.sqrt(np.maximum(best, 0))[:, None]
        chosen[fits, probes.ravel()] = False
        flat = np.flatnonzero(chosen)
        if 2 * len(flat) > chosen.size:
            self.c = self.products.project(u, run)
            self.latest, self.when[:] = super().scores(run), self.place
        else:
            pairs = np.divmod(flat, len(self.problem))
            share = self.products.share
            share(run, len(flat), lambda some: self.fit_pairs(pairs, u, some))

    def upper_bounds(self, u: Floats) -> Floats:
        """What the root of each score is at most, (F, K), for the gradient Wu.

        The gradient is stored among the past gradients.
        """
        e = u if self.root is None else u * self.root
        square = np.einsum("fn,fn->f", e, e)[:, None]
        products = np.matmul(self.past, e[:, :, None])[:, :, 0]
        change = np.sqrt(np.maximum(square + self.squares - 2 * products, 0))
        change = change + ROOT_ERROR * np.sqrt(square)
        change = np.pad(change, ((0, 0), (0, 1)), constant_values=np.inf)
        root = np.sqrt(np.maximum(self.latest, 0))
        limit = root + np.take_along_axis(change, self.when, axis=1)
        kept = self.past.shape[1]
        self.place = (self.place + 1) % kept
        self.when[self.when == self.place] = kept
        self.past[:, self.place], self.squares[:, self.place] = e, square[:, 0]
        return np.asarray(limit)

    def fit_pairs(self, pairs: Pairs, u: Floats, some: slice = slice(None)) -> None:
        """Compute the products and the scores of some pairs of a fit and a learner."""
        (group,) = self.groups
        fits, learners = (np.ascontiguousarray(index[some]) for index in pairs)
        moments = self.c.reshape(*self.latest.shape, -1)
        c = np.zeros((len(fits), moments.shape[2]))
        self.products.project_pairs((fits, learners), u, c)
        moments[fits, learners] = c
        for own in within(slice(0, len(fits)), AT_ONCE):
            at = fits[own], learners[own]
            self.latest[at] = quadratic_forms(group.matrices[at], c[own])
        self.when[fits, learners] = self.place

    def scores(self, run: Run) -> Floats:
        """The last score of each learner, (F, K)."""
        return self.latest
