"""The degrees of freedom of a boosted model, without its n x n hat matrix.

After m steps the fitted values are ``B_m y``, with ``B_m = B_(m-1) + nu V H (I -
B_(m-1))`` and ``B_0 = 0``. ``H = X A X'W`` is the hat matrix of the learner selected by
step m, and V the diagonal matrix of the curvatures of the loss at the model after that
step; it is the identity for the Gaussian family. The degrees of freedom are tr B_m.

B_m is n x n, but it is not needed. Let Z be the designs of all selected learners side
by side, with D functions. A step reads only ``X'W B_(m-1)``, some of the rows of
``Z'W B_(m-1) = U_(m-1) Z'W``, where U_(m-1) is D x D. Let E be the rows of the D x D
identity with ``E Z'W = X'W``. A step adds ``nu V X R Z'W`` to the hat matrix, with
``R = A (E - E U_(m-1))``; hence ``nu Z'WVX R`` to U, and ``nu tr(R Z'WVX)`` to the
trace.

References
----------
P. Buehlmann and T. Hothorn, "Boosting Algorithms: Regularization, Prediction and Model
Fitting", Statistical Science 22 (2007).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.threads import Work, workers
from .._terms.rows import Rows

Floats = NDArray[np.float64]
Run = Callable[[Work], None]

SPARSE_COST = 16
"""Cost of a stored value in a product of sparse matrices, in values of a dense
matrix."""


class SelectedDesigns:
    """The designs of the selected learners side by side: Z, with D functions."""

    def __init__(self, rows: Sequence[Rows], weights: Floats | None, run: Run) -> None:
        self.designs = [design.csr for design in rows]
        self.weighted = [scale_rows(X, weights).T for X in self.designs]
        ends = np.cumsum([0, *(design.functions for design in rows)]).tolist()
        self.functions = ends[-1]
        self.blocks = [slice(*pair) for pair in pairwise(ends)]
        self.run = run

    def products(self, learner: int, curvature: Floats | None) -> Floats:
        """``Z'WVX`` of a learner, (D, k)."""
        X = scale_rows(self.designs[learner], curvature)
        products = np.empty((self.functions, X.shape[1]))
        is_dense = math.prod(X.shape) <= SPARSE_COST * X.nnz
        if is_dense:
            X = X.toarray()

        def write(some: slice) -> None:
            pairs = zip(self.blocks[some], self.weighted[some], strict=True)
            for block, other in pairs:
                product = other @ X
                products[block] = product if is_dense else product.toarray()

        self.run(write)
        return products


def scale_rows(X: Any, factor: Floats | None) -> Any:
    """A sparse matrix with each row multiplied by a factor."""
    return X if factor is None else X.multiply(factor[:, None]).tocsr()


def degrees_of_freedom(
    rows: Sequence[Rows],
    inverse: Sequence[Floats],
    weights: Floats | None,
    selected: NDArray[Any],
    sizes: NDArray[Any],
    curvatures: Iterator[Floats] | None = None,
) -> Floats:
    """The degrees of freedom after each step, (steps,), on the host.

    Parameters
    ----------
    rows : sequence of K Rows
        The designs of the selected learners.
    inverse : sequence of K arrays, (k, k)
        The coefficients of a fit to u are ``inverse X'Wu``.
    weights : (n,) array or None
    selected : (steps,) integer array
    sizes : (steps,) array
        The factor nu of each step.
    curvatures : iterator of (n,) arrays, optional
        The diagonal of V at the model after each step; the identity by default.

    Notes
    -----
    With D functions of the selected learners, the memory is D x D numbers and Z; a step
    takes 2 D^2 k operations and, unless V is the identity, a pass over Z.
    """
    with workers(len(rows), len(rows[0])) as run:
        designs = SelectedDesigns(rows, weights, run)
        constant = cache(lambda j: designs.products(j, None))
        U = np.zeros((designs.functions, designs.functions))
        increments = []
        for j, size in zip(selected.tolist(), sizes.tolist(), strict=True):
            if curvatures is None:
                products = constant(j)
            else:
                products = designs.products(j, next(curvatures))
            R = -inverse[j] @ U[designs.blocks[j]]
            R[:, designs.blocks[j]] += inverse[j]
            U += size * products @ R
            increments.append(size * float((R * products.T).sum()))
    return np.cumsum(increments)
