"""Systems that share a sparse matrix, in scaled variables, and a change of x."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from .._device.launch import pieces
from .._device.threads import workers
from .._numerics.arithmetic import EPS, Mask, inverse_power_of_two
from .._numerics.system import System, scale
from .problem import Option, Problem, norm
from .sparse_matrices import (
    ENTRIES,
    Container,
    columns_of,
    multiply,
    residual,
    rows_times,
)

LARGEST = float(np.finfo(np.float64).max)

BLOCK_BYTES = 2**26
"""Limit on the residuals that are in memory at once, unless it is a single residual."""


SHIFT = 4.0
"""The shift of the diagonal of G, in units of eps times the number of rows of G."""

MORE = 16.0
"""The factor by which the shift grows until G has a Cholesky factor."""

PATIENCE = 4
"""Block pivots without fewer violations than before after which a system is left."""


class SparseSystem(System):
    """Systems that share a sparse matrix, the weights, L and `lam`.

    A is in compressed sparse rows, with columns and right-hand sides of norms near 1.
    b has an axis of systems; it is not scaled. A, b, residuals and witnesses are where
    the given arrays are; everything else is on the host.
    """

    @classmethod
    def of(cls, problem: Problem, A: Container, b: Array, of_b: Array) -> SparseSystem:
        """Scale the matrix in place, for b of finite norms `of_b`."""
        l1, l2, lower, upper = map(host, (problem.l1, problem.l2, *problem.bounds))
        scaled = scale(
            column_norms(A)[None],
            of_b[:, None],
            l1,
            l2,
            problem.dtype,
            bounds=(lower, upper),
            sum_to=None if problem.sum_to is None else host(problem.sum_to),
        )
        column_scale = namespace(A.data).asarray(scaled.column_scale)
        for part in pieces(A.nnz, ENTRIES):
            A.data[part] *= column_scale[A.indices[part]]
        fields = scaled._replace(A=A, b=b, has_ridge=problem.has_ridge)
        return cls(*fields)

    def data_residual(self, x: Array) -> Array:
        b = self.b * self.there(self.b_scale)[:, None]
        return residual(b, self.A, self.there(x), self.magnitude + self.size(x))

    def product(self, x: Array) -> Array:
        return multiply(self.A, self.there(x))

    def transposed_product(self, r: Array) -> Array:
        return on_host(multiply(self.A.T, r))

    def norms(self, vectors: Array) -> Array:
        return on_host(namespace(vectors).sqrt((vectors * vectors).sum(axis=-1)))

    def there(self, values: Any) -> Any:
        return namespace(self.A.data).asarray(values)

    def below(self, r: Array) -> Array:
        return on_host(super().below(r))

    def with_sum(self, x: Array) -> Array:
        """The points rounded; where the sum is fixed, cheap variables make it up."""
        if self.row is not None:
            row, missing = self.row, self.missing(x)[:, None]
            end = np.where(missing > 0, self.upper, self.lower)
            limit = np.minimum(np.abs(row * (end - x)), np.abs(missing))
            order = np.argsort(self.norm / row + 0 * x, axis=-1)
            limit = np.take_along_axis(limit, order, -1)
            move = np.clip(np.abs(missing) - limit.cumsum(axis=-1) + limit, 0, limit)
            move = np.take_along_axis(move, np.argsort(order, axis=-1), -1)
            x = np.clip(x + np.sign(missing) * move / row, self.lower, self.upper)
        return self.rounded(x)


def host(option: Option) -> Any:
    """An option on the host."""
    return option if isinstance(option, float) else on_host(option)


@np.errstate(all="ignore")
def rows_of(problem: Problem, matrix: Container) -> tuple[Container, Array]:
    """A copy of the matrix in float64, and b, with all rows.

    The systems share the weights, L and `lam`. Rows are multiplied by the roots of the
    weights. A row of weight 0 becomes 0, also if it has NaN or infinity. The rows of
    the penalty, ``sqrt(lam) L``, are below.
    """
    xp, (m, n), root = namespace(matrix.data), matrix.shape, None
    b = xp.broadcast_to(problem.b, (*problem.batch, m))
    if problem.weights is not None:
        root = xp.sqrt(first_of(problem.weights, 1).astype(np.float64))
        b = xp.where(root != 0, b * root, 0)
    entries = [(rows_times(matrix, root), matrix.indices, matrix.indptr)]
    if problem.L is not None:
        lam = first_of(xp.asarray(problem.lam, np.float64), 0)
        L = first_of(problem.L, 2) * xp.sqrt(lam)
        prior = xp.asarray(0.0 if problem.prior is None else problem.prior)
        below = xp.matmul(xp.broadcast_to(prior, (*problem.batch, n)), L.T)
        b, m = xp.concatenate([b, below], axis=-1), m + len(L)
        at, ends = xp.flatnonzero(L), xp.cumsum((L != 0).sum(axis=-1))
        entries.append((L.reshape(-1)[at], at % n, matrix.nnz + ends))
    joined = [
        xp.concatenate([part.astype(parts[0].dtype, copy=False) for part in parts])
        for parts in zip(*entries, strict=True)
    ]
    return type(matrix)(tuple(joined), shape=(m, n)), b


def first_of(array: Array, core: int) -> Array:
    """The array of the first system."""
    return array[(0,) * (array.ndim - core)]


def norms_of(b: Array) -> Array:
    """The norm of each right-hand side, on the host; NaN unless it is finite."""
    xp, found = namespace(b), np.empty(len(b))
    for part in pieces(len(b), systems_at_once(b)):
        rows = b[part].astype(np.float64, copy=False)
        finite = xp.isfinite(rows).all(axis=-1)
        found[part] = on_host(xp.where(finite, xp.minimum(norm(rows), LARGEST), np.nan))
    return found


def systems_at_once(b: Array) -> int:
    """How many residuals are in memory at once."""
    return max(1, BLOCK_BYTES // (8 * int(b.shape[-1]) + 1))


def column_norms(matrix: Container) -> Array:
    """The norm of each column, on the host."""
    data, columns, n = matrix.data, matrix.indices, matrix.shape[1]
    xp = namespace(data)
    most, squares = xp.zeros(n), xp.zeros(n)
    for part in pieces(len(data), ENTRIES):
        xp.maximum.at(most, columns[part], abs(data[part]))
    power = xp.asarray(inverse_power_of_two(on_host(most)))
    for part in pieces(len(data), ENTRIES):
        values = data[part] * power[columns[part]]
        squares += xp.bincount(columns[part], values * values, n)
    return np.minimum(on_host(xp.sqrt(squares) / power), LARGEST)


# ---- a change of x -------------------------------------------------------------------


class Factor(NamedTuple):
    """The Gram matrix of the columns C of a sparse matrix, and its factor.

    Attributes
    ----------
    columns : (k,) integer array
        C, in ascending order.
    G : (k, k) array
    R : (k, k) array
        Upper triangular: ``R^T R = G``, but columns of zeros stay zero.
    """

    columns: NDArray[np.intp]
    G: Array
    R: Array

    @classmethod
    def of(cls, A: Container, columns: NDArray[np.intp]) -> Factor:
        """Factorise the Gram matrix of some columns.

        Rounding errors of G are added to its diagonal, so that the factor of dependent
        columns exists, too.
        """
        A = columns_of(A, columns)
        G = on_host((A.T.tocsr() @ A).toarray())
        diagonal = np.diag_indices(len(G))
        square = G[diagonal]
        shift = np.where(square > 0, SHIFT * len(G) * EPS * square, EPS**3)
        while True:
            G[diagonal] += shift
            try:
                R = np.where(square > 0, np.linalg.cholesky(G).T, 0)
                return cls(columns, G, R)
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
    limited: Mask


# ---- block pivots --------------------------------------------------------------------


def solve_by_pivots(
    factor: Factor, norm: Array, own: list[Array], tol: float, maxiter: int
) -> tuple[Array, NDArray[np.int32], Mask]:
    """Minimise ``z G z / 2 + ridge z^2 / 2 - w z`` of several systems, within bounds.

    Parameters
    ----------
    factor : Factor
        Its G is positive definite.
    norm : (k,) array
        The roots of the diagonal of G, or more; positive.
    own : list of (systems, k) array
        Of each system: ridge, w, and the lower and upper bounds, which include 0.
    tol : float
        A variable enters if the gradient exceeds `tol` times the terms that cancel.
    maxiter : int

    Returns
    -------
    z : (systems, k) array
    counts : (systems, 3) integer array
        Steps, and variables that entered and that left.
    solved : (systems,) array
        Whether z is the minimum; else it is 0.
    """
    z = np.zeros_like(own[0])
    counts, solved = np.zeros((len(z), 3), np.int32), np.zeros(len(z), bool)

    def work(chunk: slice) -> None:
        for k in range(len(z))[chunk]:
            each = [array[k] for array in own]
            z[k], counts[k], solved[k] = pivots(factor.G, norm, each, tol, maxiter)

    with workers(len(z), z.shape[1] ** 2) as run:
        run(work)
    return z, counts, solved


def pivots(
    G: Array, norm: Array, own: list[Array], tol: float, maxiter: int
) -> tuple[Array, tuple[int, ...], bool]:
    """The results of `solve_by_pivots` for one system."""
    ridge, slope, lower, upper = own
    side = np.where(upper <= 0, 1, 0) - np.where(lower >= 0, 1, 0)
    w, z = slope, np.zeros_like(slope)
    largest = np.abs(w / norm).max(initial=0)
    least, patience, entered, left = len(w) + 1, PATIENCE, 0, 0
    for step in range(maxiter):
        noise = tol * norm * (largest + norm @ np.abs(z))
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
        z = np.where(side < 0, lower, np.where(side > 0, upper, 0))
        free = np.flatnonzero(side == 0)
        right = slope[free] - (G @ z)[free] if z.any() else slope[free]
        matrix = G[np.ix_(free, free)]
        matrix[np.diag_indices(len(free))] += ridge[free]
        z[free] = np.linalg.solve(matrix, right)
        w = slope - G @ z - ridge * z
    return 0 * z, (0, 0, 0), False
