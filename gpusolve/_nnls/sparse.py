"""Least squares with sparse matrices, by dense systems for the changes of x.

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

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, floating, is_cupy, is_dask, namespace, on_host
from .._device.interrupts import interruptible
from .._device.kernels import Device, current, device_of
from .._device.launch import pieces
from .._numerics.arithmetic import Mask, exponent, shifted
from .._numerics.certificate import (
    BY_GRAM,
    CONVERGED,
    INFEASIBLE,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    Solution,
    certify,
    is_convincing,
    keeps_sum,
    multiplier,
    outcome,
    starting_points,
    violation,
)
from .blocks import Batch, allocated, check_host
from .dense import solve_within_bounds
from .labels import Labels
from .problem import Problem, replace_infeasible
from .result import NNLSResult, make_result
from .sparse_matrices import Container, SparseMatrices
from .sparse_system import (
    Change,
    Factor,
    SparseSystem,
    norms_of,
    rows_of,
    solve_by_pivots,
    systems_at_once,
)
from .validation import PAIRS, validate

METHODS = "auto", "gram"
"""The methods for sparse matrices, which are the same."""

WHOLE = 4096
"""Matrices with at most this number of columns have all of these in C."""

AT_ONCE = 16
"""The most systems that share columns C of a matrix with more than `WHOLE` columns."""

LEAST_GROWTH = 64
"""The most columns that a system adds to C at once, unless C has more already."""

ROUNDS = 50
"""Limit on the changes of x."""

SMALL = 0.125
"""The residual of x + z is computed from the residual of x if A z is at most this part
of it. Otherwise its rounding errors are too large for a witness."""


def solve_sparse(
    method: str,
    given: dict[str, Any],
    devices: Any,
    out: Any,
    labels: Labels | None,
) -> NNLSResult[Any]:
    """Validate the arguments of ``lsq_linear`` for a sparse A, and solve."""
    check_options(method, given, devices)
    A = SparseMatrices.of(given["A"])
    target = device_of(A.rows[0].data)
    with current(target):
        # An array that takes no memory stands for A as the arguments are validated.
        b = floating({"b": given["b"], **A.named_data()})["b"]
        A, blank = A.astype(b.dtype), A.blank(b.dtype)
        problem = validate(**{**given, "b": b, "A": blank})
        fields = None if out is None else fields_for(problem, out)
        found = replace_infeasible(problem, solve(A, problem, target))
    if fields is not None:
        fields.put(..., found)
        found = fields
    return make_result(found, {**problem._asdict(), "A": A}, labels)


def check_options(method: str, given: dict[str, Any], devices: Any) -> None:
    """Raise ValueError for what sparse matrices do not support."""
    if method not in METHODS:
        raise ValueError(
            f"method must be one of {METHODS} for a sparse A, got {method!r}"
        )
    if devices is not None:
        raise ValueError(
            "devices must be None for a sparse A, whose systems are solved where it "
            f"is, got {devices!r}"
        )
    dense = [name for name in sum(PAIRS, ()) if given.get(name) is not None]
    if dense:
        name = dense[0]
        raise ValueError(
            f"{name} must be None for a sparse A, got {type(given[name]).__name__}; "
            "call A.toarray() first"
        )
    lazy = [name for name, value in given.items() if is_dask(value)]
    if lazy:
        raise TypeError(
            f"{lazy[0]} must be an array in memory for a sparse A, got a dask array: "
            f"call {lazy[0]}.compute() first"
        )


def fields_for(problem: Problem, out: dict[str, Array]) -> Solution:
    """Arrays for the solution: from `out`, and new arrays for the other fields."""
    blank = Solution.blank((1,), problem.shape[1], problem.dtype)
    batch = Batch({"b": problem.b}, {}, problem.batch, blank, solve=solve_sparse)
    check_host(batch)
    return allocated(batch, out)


@np.errstate(all="ignore")
def solve(A: SparseMatrices, problem: Problem, target: Device | None) -> Solution:
    """Solve the systems of each matrix, in the dtype of the problem."""
    systems, infeasible = int(np.prod(problem.batch)), problem.infeasible
    solution = Solution.blank((systems,), problem.shape[1], problem.dtype)
    solution.method[:], solution.status[:] = BY_GRAM, NOT_FINITE
    possible = np.ones(systems, bool)
    if infeasible is not None:
        possible &= ~on_host(infeasible).reshape(-1)
    problem = problem.simplified()
    for k, at in groups(A, problem):
        some = problem.take(at)
        matrix, b = rows_of(some, A.rows[k])
        of_b = norms_of(b)
        finite = is_finite(some, matrix.data) & np.isfinite(of_b)
        solution.status[at[finite]] = INFEASIBLE
        good = np.flatnonzero(finite & possible[at])
        if len(good) < len(at):
            some, b = some.take(good), b[namespace(b).asarray(good)]
        if good.size:
            system = SparseSystem.of(some, matrix, b, of_b[good])
            solution.put(at[good], SparseSteps(system, some, target).solve())
    xp = namespace(problem.b)
    return Solution(
        *[
            xp.asarray(field.reshape(problem.batch + field.shape[1:]))
            for field in solution.arrays().values()
        ]
    )


def is_finite(problem: Problem, data: Array) -> Mask:
    """Mask of the systems with a finite matrix and finite options; bounds may not be.

    The norms of the right-hand sides say the same of b and of the prior.
    """
    xp = namespace(data)
    good = np.full(problem.batch, bool(xp.isfinite(data).all()))
    for bound in map(on_host, map(xp.asarray, problem.bounds)):
        good &= ~np.isnan(bound).any(axis=-1) if bound.ndim else ~np.isnan(bound)
    for option in (problem.l1, problem.l2):
        values = on_host(xp.asarray(option))
        good &= np.isfinite(values).all(axis=-1) if values.ndim else bool(values >= 0)
    if problem.sum_to is not None:
        good &= np.isfinite(on_host(xp.asarray(problem.sum_to)))
    return good


def groups(
    A: SparseMatrices, problem: Problem
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each matrix and the systems that share it, the weights, L and `lam`."""
    batch = problem.batch
    matrices = np.arange(len(A.rows))
    of_matrix = np.broadcast_to(matrices if A.ndim == 3 else matrices[0], batch)
    keys = [of_matrix.reshape(-1)]
    for array, core in ((problem.weights, 1), (problem.L, 2), (problem.lam, 0)):
        if array is not None and not isinstance(array, float):
            leading = array.shape[: array.ndim - core]
            numbers = np.arange(int(np.prod(leading))).reshape(leading)
            keys.append(np.broadcast_to(numbers, batch).reshape(-1))
    found, place = np.unique(np.stack(keys), axis=1, return_inverse=True)
    for k, matrix in enumerate(found[0]):
        yield int(matrix), np.flatnonzero(place.reshape(-1) == k)


# ---- the changes of x ----------------------------------------------------------------


class SparseSteps:
    """The changes of all systems that share a sparse matrix.

    Attributes
    ----------
    systems : SparseSystem
    problem : Problem
        Of these systems.
    norm : (n,) array
        The largest norm of each column over all systems.
    solution : Solution
        The best points so far, in scaled variables, and all counts.
    best : (systems,) array
        Their `kkt`; infinite without the fixed sum.
    factor : Factor
        Of the columns C with which every search begins.
    """

    def __init__(
        self, systems: SparseSystem, problem: Problem, target: Device | None
    ) -> None:
        self.systems, self.problem, self.target = systems, problem, target
        self.tol, (count, n) = problem.cpu_tolerance, (len(systems.b), problem.shape[1])
        norm = np.broadcast_to(systems.norm, (count, n))
        self.norm = norm.max(axis=0, initial=0)
        self.best = np.full(count, np.nan)
        self.solution = Solution.blank((count,), n, np.dtype(np.float64))
        self.solution.status[:], self.solution.method[:] = NOT_FINITE, BY_GRAM
        self.factor = self.factorise(np.flatnonzero((self.norm > 0) & (n <= WHOLE)))

    def solve(self) -> Solution:
        """The solutions of all systems, in the given variables.

        Systems that are not solved from their warm start are solved without it.
        """
        systems, start = self.systems, self.problem.start
        given = None if start is None else on_host(start).astype(np.float64)
        most = systems_at_once(systems.b)
        if self.problem.shape[1] > WHOLE:
            most = min(most, AT_ONCE)
        for guess in [None] if given is None else [given, None]:
            x = systems.with_sum(starting_points(systems, guess))
            todo = np.flatnonzero(self.solution.status != CONVERGED)
            for part in pieces(len(todo), most):
                self.run(x[todo[part]], todo[part])
        if self.problem.L is not None:
            self.drop_penalty(most)
        return self.solution._replace(x=systems.unscale(self.solution.x))

    def drop_penalty(self, most: int) -> None:
        """Let `rnorm` be ``|b - A x|`` without the rows of the penalty."""
        m = self.problem.shape[0]
        for part in pieces(len(self.best), most):
            some = self.systems.take(np.arange(len(self.best))[part])
            r = some.data_residual(self.solution.x[part])
            self.solution.rnorm[part] = some.norms(r[:, :m]) / some.b_scale

    def run(self, x: Array, todo: NDArray[np.intp]) -> None:
        """Change the points x of the systems `todo` until they cannot be improved."""
        systems, factor, m = (
            self.systems.take(todo),
            self.factor,
            self.systems.b.shape[-1],
        )
        self.best[todo], limited = np.nan, np.zeros(len(todo), bool)
        r = systems.residual(x)
        along = systems.transposed_product(r[:, :m])
        w = slope(systems, x, along)
        better, done = self.judge(systems, todo, x, r, r, w, limited)
        for _ in range(ROUNDS):
            steep = self.steep_columns(systems, factor, x, r, w)
            left = np.flatnonzero(~done & ~limited & (better | steep.any(axis=-1)))
            if not left.size:
                break
            if steep.any():
                steepest = np.flatnonzero(steep.any(axis=0))
                factor = self.factorise(np.union1d(factor.columns, steepest))
            systems, todo = systems.take(left), todo[left]
            x, along, r = x[left], along[left], r[namespace(r).asarray(left)]
            found = self.change(systems, factor, x, along)
            for k, name in enumerate(("nit", "n_updates", "n_downdates")):
                getattr(self.solution, name)[todo] += found.counts[:, k]
            witness = changed(systems, r, found.z)
            x, limited = found.x, found.limited
            r = systems.residual(x)
            along = systems.transposed_product(r[:, :m])
            w = slope(systems, x, along)
            first = self.judge(systems, todo, x, r, r, w, limited)
            other = systems.gradient(witness)
            second = self.judge(systems, todo, x, r, witness, other, limited)
            better, done = (first[k] | second[k] for k in range(2))
            stopped = todo[limited & (self.solution.status[todo] == UNCERTIFIED)]
            self.solution.status[stopped] = ITERATION_LIMIT

    def factorise(self, columns: NDArray[np.intp]) -> Factor:
        """The factor of some columns."""
        A: Container = self.systems.A
        k = len(columns)
        work = 0.0 if is_cupy(A.data) else float(A.nnz + k * k) * k
        return interruptible(work, Factor.of, A, columns)

    def judge(
        self,
        systems: SparseSystem,
        todo: NDArray[np.intp],
        x: Array,
        r: Array,
        witness: Array,
        w: Array,
        limited: Mask,
    ) -> tuple[Mask, Mask]:
        """Certify x by a witness, and keep it where it is better than what is known.

        r is the residual of x, and w the gradient of the witness. Returns where x is
        better, and where nothing could improve it.
        """
        solution = self.solution
        found = certify(systems, x, witness, r, without_multiplier(systems, x, w))
        score = np.where(keeps_sum(systems, x), found.kkt, np.inf)
        better = ~(self.best[todo] <= score) & ~np.isnan(score)
        status = np.where(limited, ITERATION_LIMIT, CONVERGED)
        status = outcome(systems, x, found, status, self.tol)
        at = todo[better]
        self.best[at] = score[better]
        solution.x[at], solution.status[at] = x[better], status[better]
        for name in ("rnorm", "dual", "kkt"):
            getattr(solution, name)[at] = getattr(found, name)[better]
        return better, is_convincing(systems, x, found, self.tol)

    def steep_columns(
        self, systems: SparseSystem, factor: Factor, x: Array, r: Array, w: Array
    ) -> Mask:
        """Mask of the steepest columns of each system that C does not have."""
        steepness = steepness_of(systems, x, w)
        steepness[:, factor.columns] = 0
        steepness[:, self.norm == 0] = 0
        np.divide(steepness, self.norm, out=steepness, where=self.norm > 0)
        steep = steepness > self.tol * systems.fit(r)[:, None]
        most = max(LEAST_GROWTH, len(factor.columns))
        if most < steepness.shape[1]:
            others = np.argpartition(-steepness, most, axis=-1)[:, most:]
            np.put_along_axis(steep, others, False, axis=-1)
        return np.asarray(steep)

    def change(
        self, systems: SparseSystem, factor: Factor, x: Array, along: Array
    ) -> Change:
        """Change the variables C of x; `along` is ``A^T (b - A x)``.

        On the host by block pivots, and what these leave by the dense solvers.
        """
        columns = factor.columns
        below, above = systems.lower - x, systems.upper - x
        z, counts = np.zeros_like(x), np.zeros((len(x), 3), np.int32)
        left, limited = np.ones(len(x), bool), np.zeros(len(x), bool)
        if self.target is None and not systems.has_sum:
            ridge = np.broadcast_to(systems.damping**2, x.shape)
            own = ridge, slope(systems, x, along), below, above
            z[:, columns], counts, solved = solve_by_pivots(
                factor,
                self.norm[columns],
                [array[:, columns] for array in own],
                self.tol,
                self.problem.iteration_limit,
            )
            left = ~solved
        if left.any():
            some = systems.take(np.flatnonzero(left))
            found = self.solve_dense(some, factor, x[left], along[left])
            given_z = np.zeros((len(found.x), x.shape[1]))
            given_z[:, columns] = np.where(np.isfinite(found.x), found.x, 0)
            z[left] = some.rescale(given_z)
            counts[left] = np.stack([found.nit, found.n_updates, found.n_downdates], -1)
            limited[left] = found.status == ITERATION_LIMIT
        moved = np.where(z >= above, systems.upper, x + z)
        moved = systems.rounded(np.where(z <= below, systems.lower, moved))
        return Change(z, np.clip(moved, systems.lower, systems.upper), counts, limited)

    def solve_dense(
        self, systems: SparseSystem, factor: Factor, x: Array, along: Array
    ) -> Solution:
        """Solve for the changes of the variables C by the dense solvers.

        The changes are in the given variables, whose sum may be fixed.
        """
        columns, there = factor.columns, systems.there
        below = systems.unscale(systems.lower - x)[:, columns]
        above = systems.unscale(systems.upper - x)[:, columns]
        column_shift = exponent(systems.column_scale)[columns]
        b_shift = exponent(systems.b_scale)[:, None]
        of_x = systems.penalty + systems.damping**2 * x
        linear = systems.unscale_dual(of_x)[:, columns]
        damping = np.broadcast_to(systems.damping, x.shape)[:, columns]
        damping = shifted(damping, -column_shift)
        total = None
        if systems.has_sum:
            unit = systems.column_scale.max() / systems.b_scale
            total = there(systems.missing(x) * unit)
        problem = Problem(
            there(shifted(factor.R, -column_shift)),
            there(shifted(factor.right_side(along[:, columns]), -b_shift)),
            (len(x),),
            bounds=(there(below), there(above)),
            l1=there(linear) if linear.any() else 0.0,
            l2=there(damping**2) if systems.has_ridge else 0.0,
            sum_to=total,
            tol=self.problem.tol,
            maxiter=self.problem.maxiter,
            rounded_matrix=True,
        )
        found = solve_within_bounds(problem.simplified(), self.target, "auto")
        return Solution(*map(on_host, found[:10]))


def changed(systems: SparseSystem, r: Array, z: Array) -> Array:
    """The residual of x + z as a witness for the rounded x + z; NaN unless z is small.

    r is the residual of x.
    """
    xp, image = namespace(r), systems.image(z)
    is_small = systems.fit(image) <= SMALL * systems.fit(r)
    return xp.where(systems.there(is_small)[:, None], r - image, np.nan)


def slope(systems: SparseSystem, x: Array, along: Array) -> Array:
    """The negative gradient at x, without the multiplier of a fixed sum.

    `along` is ``A^T (b - A x)``.
    """
    return along - systems.damping**2 * x - systems.penalty


def without_multiplier(systems: SparseSystem, x: Array, w: Array) -> Array:
    """The negative gradient w, minus the multiplier of a fixed sum.

    The multiplier is found from the variables of x that are between their bounds.
    """
    row = systems.row
    if row is None:
        return w
    rises, falls = x < systems.upper, x > systems.lower
    shift = multiplier(w / row, systems.norm / row, rises, falls)
    return np.asarray(w - shift[:, None] * row)


def steepness_of(systems: SparseSystem, x: Array, w: Array) -> Array:
    """How far each variable is from optimal, by the negative gradient w.

    With a fixed sum, a variable moves against the variable that costs least.
    """
    row = systems.row
    if row is None:
        return violation(systems, x, w)
    up = np.where(x < systems.upper, w / row, -np.inf)
    down = np.where(x > systems.lower, -w / row, -np.inf)
    gain = up + down.max(axis=-1, keepdims=True)
    gain = np.maximum(gain, down + up.max(axis=-1, keepdims=True))
    return np.asarray(np.maximum(gain, 0) * row)
