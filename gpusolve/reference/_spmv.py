"""A sparse matrix times vectors, over any semiring.

``spmv : (a -> a -> a) -> (f -> f -> a) -> CSR [m, n]f -> [n]f -> [m]a``: a map over the
entries, and a reduction of each row.
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
    """Combine the products of each row's entries with the numbers in their columns.

    Parameters
    ----------
    offsets : (m + 1,) array of integers
        Where each row begins among the entries, and where the last one ends.
    columns : (nnz,) array of integers
    values : (nnz,) array
    x : (..., n) array
    add : str or Monoid
        Of numbers. It combines the products of a row in the order of the entries.
    multiply : str or Monoid
        Of numbers: of a value first, then of one of `x`.

    Returns
    -------
    (..., m) array
        The identity of `add` for a row without entries.

    Examples
    --------
    The slides' matrix:

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
