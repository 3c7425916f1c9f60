"""The change of x that minimises a sparse least-squares objective, by a dense system.

With the Cholesky factor R of ``G = A_C^T A_C``, a change z of the variables C changes
the objective by

    ``|R z - f|^2 / 2 + (l1 + l2 x) z + l2 z^2 / 2``,   ``R^T f = A_C^T (b - A x)``,

up to a constant. The dense solvers find z within the bounds that x leaves to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, on_host
from .._device.kernels import Device
from .._numerics.scaling import exponent, shifted
from .._numerics.solution import ITERATION_LIMIT, Solution
from .block_pivots import Quadratics, solve_by_pivots
from .inputs import Problem
from .solve import solve_problem
from .sparse_matrices import columns_of
from .sparse_systems import SparseSystems

EPS = float(np.finfo(np.float64).eps)

SHIFT = 4.0
"""What is added to the diagonal of G, in units of eps times the number of rows of G."""

MORE = 16.0
"""The factor by which the shift grows until G has a Cholesky factor."""


@dataclass(frozen=True)
class Factor:
    """The Gram matrix of the columns C of a sparse matrix, and its factor.

    Attributes
    ----------
    columns : (k,) integer array
        C, in ascending order.
    norm : (k,) array
        The norms of the columns, with the l2 penalty.
    G : (k, k) array
    R : (k, k) array
        Upper triangular: ``R^T R = G``, but columns of zeros stay zero.
    """

    columns: NDArray[np.intp]
    norm: Array
    G: Array
    R: Array

    @classmethod
    def of(
        cls, systems: SparseSystems, columns: NDArray[np.intp], norms: Array
    ) -> Factor:
        """Factorise the Gram matrix of some columns; `norms` are those of all columns.

        Rounding errors of G are added to its diagonal, so that the factor of dependent
        columns exists, too.
        """
        A, norm = columns_of(systems.matrix, columns), norms[columns]
        G = on_host((A.T.tocsr() @ A).toarray())
        diagonal = np.diag_indices(len(G))
        square = G[diagonal]
        shift = np.where(square > 0, SHIFT * len(G) * EPS * square, EPS**3)
        while True:
            G[diagonal] += shift
            try:
                R = np.where(square > 0, np.linalg.cholesky(G).T, 0)
                return cls(columns, norm, G, R)
            except np.linalg.LinAlgError:
                shift *= MORE

    def right_side(self, w: Array) -> Array:
        """The vector f for ``w = A_C^T (b - A x)``, (systems, k)."""
        from scipy.linalg import solve_triangular

        regular = self.R + np.diag(self.R.diagonal() == 0)
        found: Array = solve_triangular(regular, w.T, trans="T", check_finite=False)
        return found.T


class Change(NamedTuple):
    """Changed points of some systems, in scaled variables.

    Attributes
    ----------
    z : (systems, n) array
        The changes, before x was rounded.
    x : (systems, n) array
    counts : (systems, 3) integer array
        The solutions that were computed, and variables that entered and that left.
    limited : (systems,) array
        Whether the limit on iterations was reached.
    """

    z: Array
    x: Array
    counts: NDArray[np.int32]
    limited: NDArray[np.bool_]


@np.errstate(all="ignore")
def change(
    systems: SparseSystems, factor: Factor, x: Array, w: Array, target: Device | None
) -> Change:
    """Change the variables C of x; `w` is ``A^T (b - A x)``.

    On the host by block pivots, and what these leave by the dense solvers.
    """
    scaled, columns = systems.scaled, factor.columns
    below, above = scaled.lower - x, scaled.upper - x
    z, counts = np.zeros_like(x), np.zeros((len(x), 3), np.int32)
    left, limited = np.ones(len(x), bool), np.zeros(len(x), bool)
    if target is None and systems.total is None:
        damping = np.broadcast_to(scaled.damping, x.shape)
        slope = w - scaled.penalty - damping**2 * x
        own = (array[:, columns] for array in (damping**2, slope, below, above))
        tol, limit = systems.problem.cpu_tolerance, systems.problem.iteration_limit
        given = Quadratics(factor.G, factor.norm, tol, *own)
        z[:, columns], counts, solved = solve_by_pivots(given, limit)
        left = ~solved
    if left.any():
        some = systems.take(np.flatnonzero(left))
        found = solve_dense(some, factor, x[left], w[left], target)
        given_z = np.zeros((some.number, x.shape[1]))
        given_z[:, columns] = np.where(np.isfinite(found.x), found.x, 0)
        z[left] = some.scaled.rescale(given_z)
        counts[left] = np.stack([found.nit, found.n_updates, found.n_downdates], -1)
        limited[left] = found.status == ITERATION_LIMIT
    moved = np.where(z >= above, scaled.upper, x + z)
    moved = scaled.rounded(np.where(z <= below, scaled.lower, moved))
    return Change(z, np.clip(moved, scaled.lower, scaled.upper), counts, limited)


def solve_dense(
    systems: SparseSystems, factor: Factor, x: Array, w: Array, target: Device | None
) -> Solution:
    """Solve for the changes of the variables C by the dense solvers.

    The changes are in the given variables, whose sum may be fixed.
    """
    scaled, columns, total = systems.scaled, factor.columns, systems.total
    given, there = scaled.unscale(x), systems.there
    below = scaled.unscale(scaled.lower - x)[:, columns]
    above = scaled.unscale(scaled.upper - x)[:, columns]
    column_shift = exponent(scaled.column_scale)[columns]
    b_shift = exponent(scaled.b_scale)[:, None]
    slope = scaled.unscale_dual(scaled.penalty + scaled.damping**2 * x)[:, columns]
    damping = np.broadcast_to(scaled.damping, x.shape)[:, columns]
    damping = shifted(damping, -column_shift)
    problem = Problem(
        there(shifted(factor.R, -column_shift)),
        there(shifted(factor.right_side(w[:, columns]), -b_shift)),
        (systems.number,),
        bounds=(there(below), there(above)),
        l1=there(slope) if slope.any() else 0.0,
        l2=there(damping**2) if systems.problem.has_ridge else 0.0,
        sum_to=None if total is None else there(total - given.sum(axis=-1)),
        tol=systems.problem.tol,
        maxiter=systems.problem.maxiter,
        rounded_matrix=True,
    )
    found = solve_problem(problem.simplified(), target, "auto")
    return Solution(*map(on_host, found))
