"""Least-squares systems that share a sparse matrix, in scaled variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import Array, namespace, on_host
from .._device.launch import pieces
from .._numerics.scaling import inverse_power_of_two
from .._numerics.system import System, scale
from .problem import Option, Problem
from .sparse_matrices import ENTRIES, Container, multiply, residual, rows_times
from .tikhonov import norm

LARGEST = float(np.finfo(np.float64).max)

BLOCK_BYTES = 2**26
"""Limit on the residuals that are in memory at once, unless it is a single residual."""


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
            row, lack = self.row, self.missing(x)[:, None]
            end = np.where(lack > 0, self.upper, self.lower)
            room = np.minimum(np.abs(row * (end - x)), np.abs(lack))
            order = np.argsort(self.norm / row + 0 * x, axis=-1)
            room = np.take_along_axis(room, order, -1)
            move = np.clip(np.abs(lack) - room.cumsum(axis=-1) + room, 0, room)
            move = np.take_along_axis(move, np.argsort(order, axis=-1), -1)
            x = np.clip(x + np.sign(lack) * move / row, self.lower, self.upper)
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
