"""Sparse matrix times vectors on a CPU: SciPy for + and *, else the reference."""

from __future__ import annotations

import importlib
import math

from .. import monoid, reference
from .._device.arrays import Array
from ._csr import CompressedRows
from ._semiring import Semiring


def spmv(matrix: CompressedRows, x: Array, semiring: Semiring) -> Array:
    """(..., n) -> (..., m)."""
    if _suits_scipy(semiring):
        return _multiply_by_scipy(matrix, x)
    offsets, columns, values, _ = matrix
    add, multiply = semiring.add, semiring.multiply
    return reference.spmv(offsets, columns, values, x, add=add, multiply=multiply)


def _suits_scipy(semiring: Semiring) -> bool:
    """Whether it is + and *, of a dtype that SciPy supports."""
    add, multiply, factor, _ = semiring
    usual = add is monoid.add and multiply is monoid.mul
    return usual and factor.kind in "iufc" and factor.char != "e"


def _multiply_by_scipy(matrix: CompressedRows, x: Array) -> Array:
    offsets, columns, values, shape = matrix
    sparse = importlib.import_module("scipy.sparse")
    csr = sparse.csr_array((values, columns, offsets), shape=shape)
    if x.ndim == 1:
        return csr @ x
    *batch, n = x.shape
    vectors = x.reshape(math.prod(batch), n)
    return (csr @ vectors.T).T.reshape(*batch, shape[0])
