"""Least squares with a sparse matrix, by dense systems for the changes of x.

With the Cholesky factor R of ``G = A_C^T A_C``, a change z of the variables C changes
the objective by

    ``|R z - f|^2 / 2 + (l1 + l2 x) z + l2 z^2 / 2``,   ``R^T f = A_C^T (b - A x)``,

up to a constant. On the host, block pivots find z within the bounds that x leaves to
it [1]_. They may cycle: such systems are left to the dense solvers.

x + z has errors of the size of z times those of the Gram matrix. So the next change
begins with the true residual: after some changes, x is as accurate as the residual. The
factor of dependent columns is made regular by a shift; the changes are then steps of
the proximal point method.

The columns C are all columns of a matrix of moderate size. Otherwise C grows by the
steepest columns of each system, until the certificate finds no other column. All
systems share C.

References
----------
.. [1] L. F. Portugal, J. J. Judice and L. N. Vicente, A Comparison of Block Pivoting
       and Interior-Point Algorithms for Linear Least Squares Problems with Nonnegative
       Variables, Mathematics of Computation 63, 1994.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, is_cupy, on_host
from .._device.interrupts import interruptible
from .._device.kernels import Device
from .._device.threads import workers
from .._numerics.certificate import (
    Certificate,
    certificate,
    is_convincing,
    keeps_sum,
    norm,
    outcome,
    size,
    violation,
)
from .._numerics.scaling import exponent, shifted
from .._numerics.solution import (
    BY_GRAM,
    CONVERGED,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    Solution,
)
from .problem import Problem
from .quadratic import multiplier
from .solve import solve_problem
from .sparse_matrices import columns_of
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


EPS = float(np.finfo(np.float64).eps)

SHIFT = 4.0
"""The shift of the diagonal of G, in units of eps times the number of rows of G."""

MORE = 16.0
"""The factor by which the shift grows until G has a Cholesky factor."""

PATIENCE = 4
"""Block pivots without fewer violations than before after which a system is left."""


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
    w, apart = gradient(systems, x, witness), size(scaled, witness.apart)
    length = np.hypot(witness.length, norm(scaled.damping * witness.point))
    return certificate(scaled, x, w, rnorm, length, apart)


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


# ---- a change of x -------------------------------------------------------------------


class Factor(NamedTuple):
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
    return Solution(*map(on_host, found[:10]))


# ---- block pivots --------------------------------------------------------------------


class Quadratics(NamedTuple):
    """``z G z / 2 + ridge z^2 / 2 - w z`` of several systems, within bounds.

    Attributes
    ----------
    G : (n, n) array
        Positive definite.
    norm : (n,) array
        The roots of the diagonal of G, or more; positive.
    tol : float
        A variable enters if the gradient exceeds `tol` times the terms that cancel.
    ridge, w : (systems, n) array
    lower, upper : (systems, n) array
        They include 0.
    """

    G: Array
    norm: Array
    tol: float
    ridge: Array
    w: Array
    lower: Array
    upper: Array

    def take(self, system: int) -> Quadratics:
        """A single system."""
        own = [field[system] for field in self[3:]]
        return Quadratics(self.G, self.norm, self.tol, *own)


class Pivoted(NamedTuple):
    """The minima that were found.

    Attributes
    ----------
    z : (systems, n) array
    counts : (systems, 3) integer array
        Steps, and variables that entered and that left.
    solved : (systems,) array
        Whether z is the minimum; else it is 0.
    """

    z: Array
    counts: NDArray[np.int32]
    solved: NDArray[np.bool_]


def solve_by_pivots(given: Quadratics, maxiter: int) -> Pivoted:
    """Minimise the objective of each system, with at most `maxiter` steps each."""
    systems, n = given.w.shape
    found = Pivoted(
        np.zeros((systems, n)),
        np.zeros((systems, 3), np.int32),
        np.zeros(systems, bool),
    )

    def work(chunk: slice) -> None:
        for k in range(systems)[chunk]:
            one = solve_one(given.take(k), maxiter)
            for field, value in zip(found, one, strict=True):
                field[k] = value

    with workers(systems, n * n) as run:
        run(work)
    return found


def solve_one(given: Quadratics, maxiter: int) -> tuple[Array, tuple[int, ...], bool]:
    """The fields of `Pivoted` for one system."""
    lower, upper = given.lower, given.upper
    side = np.where(upper <= 0, 1, 0) - np.where(lower >= 0, 1, 0)
    w, z = given.w, np.zeros_like(given.w)
    largest = np.abs(w / given.norm).max(initial=0)
    least, patience, entered, left = len(w) + 1, PATIENCE, 0, 0
    for step in range(maxiter):
        noise = given.tol * given.norm * (largest + given.norm @ np.abs(z))
        enters = (side * w < -noise) & (lower < upper)
        leaves = np.where(side == 0, (z > upper) * 1 - (z < lower) * 1, 0)
        violations = int(enters.sum()) + int((leaves != 0).sum())
        if step and not violations:
            return z, (step, entered, left), True
        patience = PATIENCE if violations < least else patience - 1
        least = min(least, violations)
        if patience < 0:
            break
        entered += int(enters.sum())
        left += int((leaves != 0).sum())
        side = np.where(enters, 0, side + leaves)
        z = constrained(given, side)
        w = given.w - given.G @ z - given.ridge * z
    return 0 * z, (0, 0, 0), False


def constrained(given: Quadratics, side: NDArray[np.int64]) -> Array:
    """The minimum where each variable is free, or at its lower or upper bound."""
    free = np.flatnonzero(side == 0)
    z = np.where(side < 0, given.lower, np.where(side > 0, given.upper, 0))
    right = given.w[free]
    if z.any():
        right = right - (given.G @ z)[free]
    G = given.G[np.ix_(free, free)]
    G[np.diag_indices(len(free))] += given.ridge[free]
    z[free] = np.linalg.solve(G, right)
    return np.asarray(z)
