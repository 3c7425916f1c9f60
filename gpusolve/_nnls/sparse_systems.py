"""Least-squares systems that share a sparse matrix, in scaled variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, largest, namespace, on_host
from .._device.launch import pieces
from .._numerics.certificate import size
from .._numerics.scaling import ScaledSystem, inverse_power_of_two, scale
from .problem import Option, Problem
from .sparse_matrices import ENTRIES, Container, multiply, residual, rows_times

LARGEST = float(np.finfo(np.float64).max)

BLOCK_BYTES = 2**26
"""Limit on the residuals that are in memory at once, unless it is a single residual."""


class Products(NamedTuple):
    """Products with the residuals of some systems, on the host.

    Attributes
    ----------
    length : (systems,) array
        ``|b - A x|``.
    w : (systems, n) array
        ``A^T (b - A x)``.
    """

    length: Array
    w: Array

    def take(self, systems: Any) -> Products:
        """Select systems."""
        return Products(self.length[systems], self.w[systems])


class SparseSystems(NamedTuple):
    """Some systems of a batch that share a sparse matrix, the weights, L and `lam`.

    Tikhonov's penalty is rows below the matrix. Rows are multiplied by the roots of the
    weights, then columns and right-hand sides by powers of two. Arrays of length m are
    where the given arrays are; everything else is on the host.

    Attributes
    ----------
    problem : Problem
    chosen : (systems,) integer array
        The systems among the flattened batch.
    matrix : container
        The scaled matrix in compressed sparse rows, in float64.
    root : (m,) array or None
        The roots of the weights.
    prior : (systems, p) array or None
        The right-hand sides of the penalty's rows.
    scaled : ScaledSystem
        All that the certificate needs. Its A has the norms of the columns in a row, and
        the row of a fixed sum; its b has norms, too.
    total : (systems,) array or None
        The given sums of x.
    finite : (systems,) array
        Whether A, b and all options of a system are finite. The other systems have
        zeros in place of b and of the options.
    """

    problem: Problem
    chosen: NDArray[np.intp]
    matrix: Container
    root: Array | None
    prior: Array | None
    scaled: ScaledSystem
    total: Array | None
    finite: NDArray[np.bool_]

    @classmethod
    def of(
        cls, problem: Problem, matrix: Container, chosen: NDArray[np.intp]
    ) -> SparseSystems:
        """Scale the systems `chosen`, which share the matrix and its penalty."""
        matrix, root = weighted_matrix(problem, matrix, chosen)
        prior = None
        if problem.L is not None:
            matrix, prior = penalty_rows(problem, matrix, chosen)
        xp = namespace(matrix.data)
        is_finite = bool(xp.isfinite(matrix.data).all())
        if not is_finite:
            matrix.data[:] = 0
        norms = [norms_of(b, root) for b in right_hand_sides(problem, chosen)]
        of_b = np.concatenate(norms)
        if prior is not None:
            of_b = np.hypot(of_b, lengths(prior))
        options = [host_rows(problem, option, 1, chosen) for option in _each(problem)]
        lower, upper, l1, l2 = options
        total = host_rows(problem, problem.sum_to, 0, chosen)
        finite = is_finite & np.isfinite(of_b)
        for option in (l1, l2, *([] if total is None else [total[..., None]])):
            finite = finite & np.isfinite(option).all(axis=-1)
        finite = finite & ~(np.isnan(lower) | np.isnan(upper)).any(axis=-1)
        l1, l2, lower, upper = (
            np.where(finite[:, None], option, 0) for option in (l1, l2, lower, upper)
        )
        if total is not None:
            total = np.where(finite, total, 0)
        scaled = scale(
            column_norms(matrix)[None],
            np.where(finite, of_b, 0)[:, None],
            l1,
            l2,
            problem.dtype,
            bounds=(lower, upper),
            sum_to=total,
        )
        scaled = scaled._replace(has_ridge=problem.has_ridge)
        column_scale = there(matrix.data, scaled.column_scale)
        for part in pieces(matrix.nnz, ENTRIES):
            matrix.data[part] *= column_scale[matrix.indices[part]]
        return cls(problem, chosen, matrix, root, prior, scaled, total, finite)

    @property
    def number(self) -> int:
        """The number of systems."""
        return len(self.chosen)

    def take(self, systems: NDArray[np.intp]) -> SparseSystems:
        """Some of the systems."""
        return self._replace(
            chosen=self.chosen[systems],
            prior=None if self.prior is None else self.prior[systems],
            scaled=self.scaled.take(systems),
            total=None if self.total is None else self.total[systems],
            finite=self.finite[systems],
        )

    def there(self, values: Array) -> Array:
        """An array of the host where the matrix is."""
        return namespace(self.matrix.data).asarray(values)

    def blocks(self) -> Iterator[slice]:
        """Slices of the systems whose residuals fit into `BLOCK_BYTES`."""
        return pieces(self.number, systems_at_once(self.problem))

    def b_of(self, block: slice) -> Array:
        """The scaled right-hand sides of some systems."""
        b = rows_of(self.problem, self.problem.b, 1, self.chosen[block])
        b = weighted_b(b, self.root)
        if self.prior is not None:
            below = self.there(self.prior[block])
            b = namespace(b).concatenate([b, below], axis=-1)
        b_scale = self.there(self.scaled.b_scale[block])
        return b * b_scale[:, None]

    def with_sum(self, x: Array) -> Array:
        """The points rounded; where the sum is fixed, cheap variables make it up."""
        scaled = self.scaled
        if self.total is not None:
            row = scaled.column_scale
            lack = (self.total * scaled.b_scale - (row * x).sum(axis=-1))[:, None]
            end = np.where(lack > 0, scaled.upper, scaled.lower)
            room = np.minimum(np.abs(row * (end - x)), np.abs(lack))
            order = np.argsort(scaled.norm / row + 0 * x, axis=-1)
            room = np.take_along_axis(room, order, -1)
            move = np.clip(np.abs(lack) - room.cumsum(axis=-1) + room, 0, room)
            move = np.take_along_axis(move, np.argsort(order, axis=-1), -1)
            x = np.clip(x + np.sign(lack) * move / row, scaled.lower, scaled.upper)
        return scaled.rounded(x)

    def products(self, x: Array) -> Products:
        """Products with the residuals of x, accurate to a few eps of their size."""
        found = []
        for block in self.blocks():
            r = self.residual(block, x[block])
            found.append((lengths(r), on_host(multiply(self.matrix.T, r))))
        return Products(*map(np.concatenate, zip(*found, strict=True)))

    def misfit(self, x: Array) -> Array:
        """``|b - A x|`` without the rows of the penalty, in the given units."""
        m = self.problem.shape[0]
        found = [lengths(self.residual(k, x[k])[:, :m]) for k in self.blocks()]
        return np.concatenate(found) / self.scaled.b_scale

    def residual(self, block: slice, x: Array) -> Array:
        """``b - A x`` of some systems, accurate to a few eps of its norm."""
        some = self.scaled.take(np.arange(self.number)[block])
        cancelling = some.magnitude + size(some, x)
        return residual(self.b_of(block), self.matrix, self.there(x), cancelling)

    def images(self, z: Array) -> Products:
        """``|A z|`` and ``A^T A z``."""
        found = []
        for block in self.blocks():
            u = multiply(self.matrix, self.there(z[block]))
            found.append((lengths(u), on_host(multiply(self.matrix.T, u))))
        return Products(*map(np.concatenate, zip(*found, strict=True)))


def _each(problem: Problem) -> tuple[Option, ...]:
    return problem.lower, problem.upper, problem.l1, problem.l2


def systems_at_once(problem: Problem) -> int:
    """How many residuals are in memory at once."""
    return max(1, BLOCK_BYTES // (8 * problem.shape[0] + 1))


def right_hand_sides(
    problem: Problem, chosen: NDArray[np.intp]
) -> Iterator[tuple[Array, Array]]:
    """The given right-hand sides of some systems, block by block."""
    for block in pieces(len(chosen), systems_at_once(problem)):
        yield rows_of(problem, problem.b, 1, chosen[block])


@np.errstate(all="ignore")
def penalty_rows(
    problem: Problem, matrix: Container, chosen: NDArray[np.intp]
) -> tuple[Container, Array]:
    """A matrix with the rows ``sqrt(lam) L`` below, and their right-hand sides.

    The systems `chosen` share L and `lam`. The right-hand sides, (systems, p), are
    those of `prior`, on the host.
    """
    assert problem.L is not None
    xp, (m, n) = namespace(matrix.data), matrix.shape
    L = rows_of(problem, problem.L, 2, chosen[:1])[0]
    L = L * float(np.sqrt(host_rows(problem, problem.lam, 0, chosen[:1])[0]))
    prior = 0.0 if problem.prior is None else problem.prior
    below = host_rows(problem, prior, 1, chosen) @ on_host(L).T
    ends = matrix.nnz + xp.cumsum((L != 0).sum(axis=-1))
    at, L = xp.flatnonzero(L), L.reshape(-1)
    entries = [
        (matrix.data, L[at]),
        (matrix.indices, (at % n).astype(matrix.indices.dtype)),
        (matrix.indptr, ends.astype(matrix.indptr.dtype)),
    ]
    joined = tuple(xp.concatenate(parts) for parts in entries)
    return type(matrix)(joined, shape=(m + len(ends), n)), below


def rows_of(
    problem: Problem, array: Array, core: int, chosen: NDArray[np.intp]
) -> Array:
    """The systems `chosen` of an array that broadcasts to the batch, in float64."""
    last = array.shape[array.ndim - core :]
    found = namespace(array).broadcast_to(array, (*problem.batch, *last))
    if problem.batch:
        places = np.unravel_index(chosen, problem.batch)
        found = found[tuple([there(array, place) for place in places])]
    return found.reshape(len(chosen), *last).astype(np.float64, copy=False)


def host_rows(
    problem: Problem, option: Option | None, core: int, chosen: NDArray[np.intp]
) -> Any:
    """The same of an option, on the host; None stays."""
    if option is None:
        return None
    array = on_host(option) if not isinstance(option, float) else np.float64(option)
    if array.ndim < core:
        array = np.full(problem.shape[1:], array)
    return rows_of(problem, array, core, chosen)


def there(array: Array, values: Array) -> Array:
    """An array of the host on the device of `array`."""
    return namespace(array).asarray(values)


def weighted_matrix(
    problem: Problem, matrix: Container, chosen: NDArray[np.intp]
) -> tuple[Container, Array | None]:
    """A copy of the matrix in float64, with weighted rows, and the roots of weights.

    Rows of weight 0 become 0, also if they have NaN or infinity.
    """
    root = None
    with np.errstate(invalid="ignore"):
        if problem.weights is not None:
            weights = rows_of(problem, problem.weights, 1, chosen[:1])[0]
            root = namespace(weights).sqrt(weights)
        entries = rows_times(matrix, root), matrix.indices, matrix.indptr
    return type(matrix)(entries, shape=matrix.shape), root


def weighted_b(b: Array, root: Array | None) -> Array:
    """Right-hand sides with weighted rows."""
    if root is None:
        return b
    with np.errstate(invalid="ignore"):
        return namespace(b).where(root != 0, b * root, 0)


def norms_of(b: Array, root: Array | None) -> Array:
    """The norm of each right-hand side, on the host; NaN unless it is finite."""
    b = weighted_b(b, root)
    most = on_host(largest(namespace(b).abs(b)))
    finite = np.isfinite(most)
    power = inverse_power_of_two(np.where(finite, most, 1))
    norm = lengths(b * there(b, power)[:, None]) / power
    return np.where(finite, np.minimum(norm, LARGEST), np.nan)


def column_norms(matrix: Container) -> Array:
    """The norm of each column, on the host."""
    data, columns, n = matrix.data, matrix.indices, matrix.shape[1]
    xp = namespace(data)
    largest, squares = xp.zeros(n), xp.zeros(n)
    for part in pieces(len(data), ENTRIES):
        xp.maximum.at(largest, columns[part], abs(data[part]))
    power = there(data, inverse_power_of_two(on_host(largest)))
    for part in pieces(len(data), ENTRIES):
        values = data[part] * power[columns[part]]
        squares += xp.bincount(columns[part], values * values, n)
    return np.minimum(on_host(xp.sqrt(squares) / power), LARGEST)


def lengths(vectors: Array) -> Array:
    """2-norms over the last axis, on the host."""
    return on_host(namespace(vectors).sqrt((vectors * vectors).sum(axis=-1)))
