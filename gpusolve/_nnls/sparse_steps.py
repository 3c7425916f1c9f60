"""Least squares with a sparse matrix, by dense systems for the changes of x.

x + z has errors of the size of z times those of the Gram matrix. So the next change
begins with the true residual: after some changes, x is as accurate as the residual. The
factor of dependent columns is made regular by a shift; the changes are then steps of
the proximal point method.

The columns C are all columns of a matrix of moderate size. Otherwise C grows by the
steepest columns of each system, until the certificate finds no other column. All
systems share C.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, is_cupy
from .._device.interrupts import interruptible
from .._device.kernels import Device
from .._numerics.certificate import (
    Certificate,
    Lengths,
    certificate,
    is_convincing,
    keeps_sum,
    norm,
    outcome,
    size,
    violation,
)
from .._numerics.solution import (
    BY_GRAM,
    CONVERGED,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    Solution,
)
from .quadratic import multiplier
from .sparse_change import Change, Factor, change
from .sparse_systems import Products, SparseSystems

WHOLE = 4096
"""Matrices with at most this number of columns have all of these in C."""

LEAST_GROWTH = 64
"""The most columns that a system adds to C at once, unless C has more already."""

ROUNDS = 50
"""Limit on the changes of x."""

SMALL = 0.125
"""The residual of x + z is computed from the residual of x if A z is at most this part
of it. Otherwise its rounding errors are too large for a witness."""


class Witness(NamedTuple):
    """A witness of some systems: the residual of a point next to x.

    Attributes
    ----------
    point : (systems, n) array
    apart : (systems, n) array
        The point minus x, which may be less than the rounding errors of x.
    length : (systems,) array
        The norm of the residual, without the rows of the l2 penalty.
    w : (systems, n) array
        ``A^T`` times the residual.
    """

    point: Array
    apart: Array
    length: Array
    w: Array


class SparseSteps:
    """The changes of all systems that share a sparse matrix.

    Attributes
    ----------
    solution : Solution
        The best points so far, in scaled variables, and all counts.
    best : (systems,) array
        Their `kkt`; infinite without the fixed sum.
    factor : Factor
        Of the columns C.
    """

    def __init__(self, systems: SparseSystems, target: Device | None) -> None:
        self.systems, self.target = systems, target
        n = systems.problem.shape[1]
        norms = np.broadcast_to(systems.scaled.norm, (systems.number, n))
        self.norm = norms.max(axis=0, initial=0)
        self.best = np.full(systems.number, np.nan)
        self.solution = Solution.blank((systems.number,), n, np.dtype(np.float64))
        self.solution.status[:], self.solution.method[:] = NOT_FINITE, BY_GRAM
        columns = np.flatnonzero((self.norm > 0) & (n <= WHOLE))
        self.factor = self.factorise(columns)

    def run(self, x: Array, todo: NDArray[np.intp]) -> None:
        """Change the points x of the systems `todo` until they cannot be improved."""
        systems, limited = self.systems.take(todo), np.zeros(len(todo), bool)
        self.best[todo] = np.nan
        products = systems.products(x)
        better, done = self.judge(systems, todo, x, products, residual_of(x, products))
        for _ in range(ROUNDS):
            steep = self.steep_columns(systems, x, products)
            left = np.flatnonzero(~done & ~limited & (better | steep.any(axis=-1)))
            if not left.size:
                break
            if steep.any():
                columns = np.union1d(self.factor.columns, np.flatnonzero(steep.any(0)))
                self.factor = self.factorise(columns)
            systems, todo = systems.take(left), todo[left]
            found = change(systems, self.factor, x[left], products.w[left], self.target)
            limited = found.limited
            for k, name in enumerate(("nit", "n_updates", "n_downdates")):
                getattr(self.solution, name)[todo] += found.counts[:, k]
            witness = changed_residual(systems, x[left], products.take(left), found)
            x, products = found.x, systems.products(found.x)
            plain = residual_of(x, products)
            first = self.judge(systems, todo, x, products, plain, limited)
            second = self.judge(systems, todo, x, products, witness, limited)
            better, done = (first[k] | second[k] for k in range(2))
            stopped = todo[limited & (self.solution.status[todo] == UNCERTIFIED)]
            self.solution.status[stopped] = ITERATION_LIMIT

    def factorise(self, columns: NDArray[np.intp]) -> Factor:
        """The factor of some columns."""
        A, k = self.systems.matrix, len(columns)
        work = 0.0 if is_cupy(A.data) else float(A.nnz + k * k) * k
        return interruptible(work, Factor.of, self.systems, columns, self.norm)

    def judge(
        self,
        systems: SparseSystems,
        todo: NDArray[np.intp],
        x: Array,
        products: Products,
        witness: Witness,
        limited: NDArray[np.bool_] | bool = False,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Certify x by a witness, and keep it where it is better than what is known.

        Returns where it is better, and where nothing could improve it.
        """
        solution, scaled, tol = self.solution, systems.scaled, self.tol
        found = certify(systems, x, products.length, witness)
        score = np.where(keeps_sum(scaled, x), found.kkt, np.inf)
        better = ~(self.best[todo] <= score) & ~np.isnan(score)
        status = np.where(limited, ITERATION_LIMIT, CONVERGED)
        status = outcome(scaled, x, found, status, tol)
        at = todo[better]
        self.best[at] = score[better]
        solution.x[at], solution.status[at] = x[better], status[better]
        for name in ("rnorm", "dual", "kkt"):
            getattr(solution, name)[at] = getattr(found, name)[better]
        return better, is_convincing(scaled, x, found, tol)

    @property
    def tol(self) -> float:
        """The tolerance in float64."""
        return self.systems.problem.cpu_tolerance

    def steep_columns(
        self, systems: SparseSystems, x: Array, products: Products
    ) -> NDArray[np.bool_]:
        """Mask of the steepest columns of each system that C does not have."""
        slope = steepness(systems, x, residual_of(x, products))
        slope[:, self.factor.columns] = 0
        slope[:, self.norm == 0] = 0
        np.divide(slope, self.norm, out=slope, where=self.norm > 0)
        steep = slope > self.tol * products.length[:, None]
        most = max(LEAST_GROWTH, len(self.factor.columns))
        if most < slope.shape[1]:
            others = np.argpartition(-slope, most, axis=-1)[:, most:]
            np.put_along_axis(steep, others, False, axis=-1)
        return np.asarray(steep)


def residual_of(x: Array, products: Products) -> Witness:
    """The residual of x as a witness."""
    return Witness(x, 0 * x, products.length, products.w)


def changed_residual(
    systems: SparseSystems, x: Array, products: Products, found: Change
) -> Witness:
    """The residual of x + z as a witness for the rounded x + z; NaN unless z is small.

    The residual itself is not computed, but its norm and its products are.
    """
    z = found.z
    image = systems.images(z)
    along = (z * products.w).sum(axis=-1)
    square = products.length**2 - 2 * along + image.length**2
    is_small = image.length <= SMALL * products.length
    length = np.where(is_small, np.sqrt(np.maximum(square, 0)), np.nan)
    return Witness(x + z, z - (found.x - x), length, products.w - image.w)


@np.errstate(all="ignore")
def certify(
    systems: SparseSystems, x: Array, rnorm: Array, witness: Witness
) -> Certificate:
    """The certificate of x, whose residual has the norm `rnorm`."""
    scaled = systems.scaled
    lengths = Lengths(
        fit=rnorm,
        witness=np.hypot(witness.length, norm(scaled.damping * witness.point)),
        apart=size(scaled, witness.apart),
    )
    return certificate(scaled, x, gradient(systems, x, witness), lengths)


@np.errstate(all="ignore")
def gradient(systems: SparseSystems, x: Array, witness: Witness) -> Array:
    """The negative gradient, minus the multiplier of a fixed sum.

    The multiplier is found from the variables of x that are between their bounds.
    """
    scaled, w = systems.scaled, slopes(systems, witness)
    if systems.total is None:
        return w
    row = scaled.column_scale
    rises, falls = x < scaled.upper, x > scaled.lower
    shift = multiplier(w / row, scaled.norm / row, rises, falls)
    return np.asarray(w - shift[:, None] * row)


def slopes(systems: SparseSystems, witness: Witness) -> Array:
    """The negative gradient, without the multiplier of a fixed sum."""
    scaled = systems.scaled
    w = witness.w - scaled.damping**2 * witness.point - scaled.penalty
    return np.asarray(w)


@np.errstate(all="ignore")
def steepness(systems: SparseSystems, x: Array, witness: Witness) -> Array:
    """How far each variable is from optimal.

    With a fixed sum, a variable moves against the variable that costs least.
    """
    scaled, w = systems.scaled, slopes(systems, witness)
    if systems.total is None:
        return violation(scaled, x, w)
    row = scaled.column_scale
    up = np.where(x < scaled.upper, w / row, -np.inf)
    down = np.where(x > scaled.lower, -w / row, -np.inf)
    gain = up + down.max(axis=-1, keepdims=True)
    gain = np.maximum(gain, down + up.max(axis=-1, keepdims=True))
    return np.asarray(np.maximum(gain, 0) * row)
