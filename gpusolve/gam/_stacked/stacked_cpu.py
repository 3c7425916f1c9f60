"""Componentwise boosting for any family on a CPU: a pass over the rows in each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.threads import Work, is_part, workers
from .._boosting.boosting_cpu import PROGRESS_DELAY
from .._families.location import apply_weights
from .._terms.rows import Rows, side_by_side
from ..families import Family
from .cones import fitted_in_cone
from .problem import PreparedLearners

Floats = NDArray[np.float64]
Run = Callable[[Work], None]

CHUNK_WIDTH = 32
"""The most values in a row of learners that are multiplied together."""


class Chunk(NamedTuple):
    """Some learners, as one sparse matrix: a pass over the rows reads u once for all.

    Neighbouring values of a row are then added to different sums, so that one addition
    does not wait for another.

    Attributes
    ----------
    design : csr_array
        (n, functions of all members).
    functions : slice
        Their functions, among those of all learners.
    """

    design: Any
    functions: slice


def chunks_of(designs: Sequence[Rows]) -> list[Chunk]:
    """The learners in chunks, in their order."""
    chunks: list[Chunk] = []
    members: list[Rows] = []
    begin = 0
    for index, design in enumerate(designs):
        members.append(design)
        width = sum(member.width for member in members)
        last = index + 1 == len(designs)
        if last or width + designs[index + 1].width > CHUNK_WIDTH:
            joined = side_by_side(*members)
            end = begin + joined.functions
            chunks.append(Chunk(joined.csr, slice(begin, end)))
            members, begin = [], end
    return chunks


class SizeGroup(NamedTuple):
    """The learners with k functions: all products with their matrices at once.

    Attributes
    ----------
    members : (m,) array
        The indices of the learners, ascending.
    gain : (F, m, k, k) array
        See `PreparedLearners.gain`.
    """

    members: NDArray[np.intp]
    gain: Floats


def groups_of(problem: PreparedLearners) -> list[SizeGroup]:
    """The learners without a constraint, grouped by their number of functions."""
    sizes = np.array([design.functions for design in problem.rows])
    free = np.array([cone is None for cone in problem.cones])
    groups = []
    for k in np.unique(sizes[free]):
        members = np.flatnonzero(free & (sizes == k))
        groups.append(
            SizeGroup(
                members, np.stack([problem.gain(int(j)) for j in members], axis=1)
            )
        )
    return groups


class BoostingState:
    """The state of F fits."""

    def __init__(
        self,
        problem: PreparedLearners,
        chunks: list[Chunk],
        family: Family,
        y: Floats,
        start: Floats,
        run: Run,
    ) -> None:
        self.problem = problem
        self.family = family
        rows = len(problem.rows[0])
        self.y = y
        self.f = np.array(np.broadcast_to(start, (problem.fits, rows)), np.float64)
        self.run = run
        self.chunks = chunks
        self.groups = groups_of(problem)
        ends = np.cumsum([0, *(design.functions for design in problem.rows)])
        self.joined = np.empty((int(ends[-1]), problem.fits))
        self.moments: list[Floats] = [
            self.joined[slice(*pair)].T for pair in pairwise(ends.tolist())
        ]
        self.nuisance = np.zeros((problem.fits, 1))
        self.update_nuisance()

    def weights_of(self, fit: int) -> Floats | None:
        """The weights of one fit."""
        weights: Floats | None = self.problem.weights
        return None if weights is None else weights[fit]

    def update_nuisance(self) -> None:
        """Compute the adaptive parameter of each fit at its model."""
        for fit, f in enumerate(self.f):
            y = self.y if self.y.ndim == 1 else self.y[fit]
            self.nuisance[fit] = self.family.nuisance(y, f, self.weights_of(fit))

    def project(self) -> None:
        """Compute ``X'Wu`` of all learners from the gradient u."""
        u = self.family.gradient(self.y, self.f, self.nuisance)
        if self.problem.weights is not None:
            u = apply_weights(u, self.problem.weights)
        columns = np.ascontiguousarray(u.T)

        def write(some: slice) -> None:
            for chunk in self.chunks[some]:
                self.joined[chunk.functions] = chunk.design.T @ columns

        self.run(write)

    def scores(self) -> Floats:
        """The reduction of the sum of squares by each learner, (F, K)."""
        scores = np.empty((self.problem.fits, len(self.problem)))
        for members, gain in self.groups:
            c = np.stack([self.moments[j] for j in members], axis=1)
            product = np.matmul(gain, c[..., None])[..., 0]
            scores[:, members] = np.einsum("fmk,fmk->fm", product, c)
        for j, cone in enumerate(self.problem.cones):
            if cone is not None:
                for fit in range(self.problem.fits):
                    b, c = self.fitted(fit, j), self.moments[j][fit]
                    scores[fit, j] = b @ (2 * c - self.problem.gram[j][fit] @ b)
        return scores

    def fitted(self, fit: int, learner: int) -> Floats:
        """The coefficients of a learner that is fitted to the gradient."""
        c = self.moments[learner][fit]
        cone = self.problem.cones[learner]
        if cone is not None:
            return fitted_in_cone(cone, fit, c)
        coef: Floats = self.problem.inverse[learner][fit] @ c
        return coef

    def step(self, learning_rate: float) -> tuple[NDArray[np.intp], list[Floats]]:
        """Make one step of all fits: the selected learners, and their updates."""
        self.project()
        selected = self.scores().argmax(axis=1)
        updates = []
        for fit, j in enumerate(selected.tolist()):
            update = learning_rate * self.fitted(fit, j)
            self.f[fit] += self.problem.rows[j].csr @ update
            updates.append(update)
        if self.family.adaptive:
            self.update_nuisance()
        return selected, updates

    def losses(self) -> Floats:
        """The loss of each row, (F, n)."""
        losses = self.family.loss(self.y, self.f, self.nuisance)
        return np.broadcast_to(losses, self.f.shape)


def risk(losses: Floats, weights: Floats | None) -> Floats:
    """The weighted sums of losses, (F, n) to (F,)."""
    own = losses if weights is None else apply_weights(losses, weights)
    total: Floats = own.sum(axis=1)
    return total


def boost(
    problem: PreparedLearners,
    family: Family,
    y: Floats,
    start: Floats,
    learning_rate: float,
    steps: int,
    out_of_bag: Floats | None,
) -> tuple[NDArray[np.int32], Floats, Floats, Floats | None, Floats]:
    """`boost_family` on the host: the arrays of `Paths`."""
    from tqdm import tqdm

    fits = problem.fits
    selected = np.zeros((fits, steps), np.int32)
    updates = np.zeros((fits, steps, problem.functions))
    risks, nuisance = np.zeros((2, fits, steps + 1))
    second = None if out_of_bag is None else np.zeros((fits, steps + 1))
    chunks = chunks_of(problem.rows)
    rows = len(problem.rows[0]) * fits * len(problem) // len(chunks)
    with workers(len(chunks), rows) as run:
        state = BoostingState(problem, chunks, family, y, start, run)

        def record(step: int) -> None:
            losses = state.losses()
            risks[:, step] = risk(losses, problem.weights)
            nuisance[:, step] = state.nuisance[:, 0]
            if second is not None:
                second[:, step] = risk(losses, out_of_bag)

        record(0)
        for step in tqdm(
            range(steps),
            desc="boosting",
            delay=PROGRESS_DELAY,
            disable=is_part() or None,
            leave=False,
        ):
            selected[:, step], made = state.step(learning_rate)
            for fit, update in enumerate(made):
                updates[fit, step, : len(update)] = update
            record(step + 1)
    return selected, updates, risks, second, nuisance
