"""Products on a CPU: SciPy's own where it has them, else as the specification says."""

from __future__ import annotations

import importlib
import math

from .. import monoid, reference
from .._device.arrays import Array
from ._csr import CompressedRows
from ._semiring import Semiring


def product(matrix: CompressedRows, x: Array, semiring: Semiring) -> Array:
    """(..., n) -> (..., m)."""
    if _is_scipys(semiring):
        return _by_scipy(matrix, x)
    offsets, columns, values, _ = matrix
    add, multiply = semiring.add, semiring.multiply
    return reference.spmv(offsets, columns, values, x, add=add, multiply=multiply)


def _is_scipys(semiring: Semiring) -> bool:
    """Whether it is that of linear algebra, over numbers that SciPy multiplies."""
    add, multiply, factor, _ = semiring
    usual = add is monoid.add and multiply is monoid.mul
    return usual and factor.kind in "iufc" and factor.char != "e"


def _by_scipy(matrix: CompressedRows, x: Array) -> Array:
    offsets, columns, values, shape = matrix
    sparse = importlib.import_module("scipy.sparse")
    csr = sparse.csr_array((values, columns, offsets), shape=shape)
    if x.ndim == 1:
        return csr @ x
    *batch, n = x.shape
    vectors = x.reshape(math.prod(batch), n)
    return (csr @ vectors.T).T.reshape(*batch, shape[0])
