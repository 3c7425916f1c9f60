"""The fits of many learners on a CPU: a step fits only learners that may be the best.

The score of a learner is ``e' (2S - S^2) e``, with the gradient u, ``e = W^(1/2) u``,
and the hat matrix S, whose eigenvalues are from 0 to 1. The root of the score is a
seminorm of e: between two steps it changes by at most the norm of the change of e. A
learner is not fitted again as long as its root, plus this norm, is less than the root
of another learner.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._device.launch import within
from .batch import Fits
from .learner_fits import LearnerFits, SizeGroup, quadratic_forms
from .problem import PreparedLearners
from .products import Floats, Pairs, Run

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
    if any(problem.cones) or problem.stumps or learners < LEAST_LEARNERS:
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

    groups: list[SizeGroup]  # type: ignore[assignment]

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
            self.latest[at] = quadratic_forms(group.gain[at], c[own])
        self.when[fits, learners] = self.place

    def scores(self, run: Run) -> Floats:
        """The last score of each learner, (F, K)."""
        return self.latest
