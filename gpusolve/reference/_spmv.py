"""Sparse matrix times vector, over any semiring.

``spmv : (a -> a -> a) -> (f -> f -> a) -> CSR [m, n]f -> [n]f -> [m]a``: a map over the
entries, followed by a reduction of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..monoid import Monoid, as_monoid
from ._segments import segmented_reduce

Array = NDArray[Any]


def spmv(
    offsets: NDArray[np.integer[Any]],
    columns: NDArray[np.integer[Any]],
    values: Array,
    x: Array,
    *,
    add: str | Monoid = "add",
    multiply: str | Monoid = "mul",
) -> Array:
    """Multiply each entry by the element of `x` in its column, and reduce the rows.

    Parameters
    ----------
    offsets : (m + 1,) array of integers
        The index of the first entry of each row, followed by the number of entries.
    columns : (nnz,) array of integers
    values : (nnz,) array
    x : (..., n) array
    add : str or Monoid
        A monoid of numbers. It combines the products of a row in their order.
    multiply : str or Monoid
        A monoid of numbers. Its first operand is an entry, its second is from `x`.

    Returns
    -------
    (..., m) array
        A row without entries gives the identity of `add`.

    See Also
    --------
    gpusolve.sparse.spmv

    Examples
    --------
    A 3 x 4 matrix with 6 entries:

    >>> import numpy as np
    >>> offsets, columns = np.array([0, 2, 5, 6]), np.array([0, 1, 1, 2, 3, 3])
    >>> values = np.array([2.0, -1.0, -1.0, 2.0, -1.0, 3.0])
    >>> spmv(offsets, columns, values, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 0.,  0., 12.])
    """
    add, multiply = as_monoid(add), as_monoid(multiply)
    factor = multiply.dtype_of(np.result_type(values, x))
    values, x = values.astype(factor, copy=False), x.astype(factor, copy=False)
    y = np.empty((*x.shape[:-1], len(offsets) - 1), add.dtype_of(factor))
    bounds = offsets.astype(np.int64, copy=False)
    for vector in np.ndindex(x.shape[:-1]):
        products = multiply.combine(values, x[vector][columns])
        y[vector] = segmented_reduce(products, bounds, add)
    return y
