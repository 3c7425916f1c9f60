"""Boosting on a CPU, with two ways to update ``c = B'Wu`` of all learners.

*Stacked* computes c from the residual u at every step, in one pass over all rows and
learners. *Gram* computes it once. After a step of the learner j, it subtracts
``B'W B_j`` times the update. This block of columns is computed when j is first
selected, and kept. The cost of a step then does not depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..._device.threads import Work, workers
from ..learners import Learners
from .products import cross_products, transposed_product

Floats = NDArray[np.float64]
Run = Callable[[Work], None]

PROGRESS_DELAY = 2.0
"""Seconds until a progress bar appears."""


class Stacked:
    """The products ``c = B'Wu``, computed from the residual u at every step."""

    def __init__(self, learners: Learners, residual: Floats, run: Run) -> None:
        self.learners = learners
        self.residual = residual.copy()
        self.run = run
        self.c = np.empty((len(learners), learners.n_basis))
        self.project()

    def project(self) -> None:
        """Compute c from the residual."""
        learners = self.learners
        u = learners.weighted(self.residual)

        def write(some: slice) -> None:
            transposed_product(learners.some(some), u, learners.n_basis, self.c[some])

        self.run(write)

    def subtract(self, learner: int, update: Floats) -> None:
        """Subtract ``B_j update`` from the residual."""
        self.residual -= self.learners.fitted(learner, update)
        self.project()

    def final_residual(self) -> Floats:
        """The residual after all steps."""
        return self.residual


class Gram(Stacked):
    """The products ``c = B'Wu``, computed from their values before the step."""

    def __init__(self, learners: Learners, residual: Floats, run: Run) -> None:
        super().__init__(learners, residual, run)
        self.coef = np.zeros_like(self.c)
        self.blocks: dict[int, Floats] = {}

    def block(self, learner: int) -> Floats:
        """``B_i'W B_j`` of all learners i and one learner j, (K, k, k)."""
        if learner not in self.blocks:
            self.blocks[learner] = self.new_block(learner)
        return self.blocks[learner]

    def new_block(self, learner: int) -> Floats:
        learners = self.learners
        k = learners.n_basis
        other = learners.some(slice(learner, learner + 1))
        block = np.empty((len(learners), k, k))

        def write(some: slice) -> None:
            cross_products(learners.some(some), other, learners.weights, k, block[some])

        self.run(write)
        return block

    def subtract(self, learner: int, update: Floats) -> None:
        self.coef[learner] += update
        self.c -= self.block(learner) @ update

    def final_residual(self) -> Floats:
        residual = self.residual
        for learner in self.blocks:
            residual = residual - self.learners.fitted(learner, self.coef[learner])
        return residual


def best_learner(gain: Floats, c: Floats) -> int:
    """The first learner with the largest ``c' Q c``."""
    scores = np.einsum("ki,ki->k", np.matmul(gain, c[..., None])[..., 0], c)
    return int(scores.argmax())


def risks(decrements: Floats, last: float) -> Floats:
    """The risk after every step, from the last risk and the decrement of each step.

    The sum runs backwards, from small to large numbers, so that no digits cancel.
    """
    return np.cumsum(np.r_[last, decrements[::-1]])[::-1]


def boost(
    learners: Learners, residual: Floats, learning_rate: float, steps: int, method: str
) -> tuple[NDArray[np.int32], Floats, Floats]:
    """Make the steps on the host.

    Parameters
    ----------
    learners : Learners
    residual : (n,) array
    learning_rate : float
    steps : int
    method : {"stacked", "gram"}

    Returns
    -------
    selected : (steps,) int32 array
    updates : (steps, k) array
    risk : (steps + 1,) array
    """
    from tqdm import tqdm

    selected = np.zeros(steps, np.int32)
    updates = np.zeros((steps, learners.n_basis))
    decrements = np.zeros(steps)
    gain = learners.gain
    with workers(len(learners), max(learners.rows, learners.n_basis**2)) as run:
        kind = Gram if method == "gram" else Stacked
        products = kind(learners, residual, run)
        for step in tqdm(
            range(steps),
            desc="boosting",
            delay=PROGRESS_DELAY,
            disable=None,
            leave=False,
        ):
            j = best_learner(gain, products.c)
            update = learning_rate * (learners.inverse[j] @ products.c[j])
            decrements[step] = update @ (2 * products.c[j] - learners.gram[j] @ update)
            products.subtract(j, update)
            selected[step], updates[step] = j, update
        last = products.final_residual()
    return selected, updates, risks(decrements, float(last @ learners.weighted(last)))
