"""The bases of all covariates on a device: launches ``cuda_src/basis.cu``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._device.arrays import Array, strided
from ..._device.kernels import CUDA_TYPES, Device
from ..._device.launch import THREADS, WARP, ceil_div, round_up

REALS = (np.dtype(np.float32), np.dtype(np.float64))
"""The dtypes of the covariates and of the values."""

SECTOR_COLUMNS = 8
"""Columns of float32 in a sector of 32 bytes."""


def tile_columns(columns: int) -> int:
    """The number of columns that a block evaluates, at most 32.

    Examples
    --------
    >>> [tile_columns(columns) for columns in (1, 20, 40, 100)]
    [1, 20, 24, 32]
    """
    if columns <= WARP:
        return max(1, columns)
    return round_up(ceil_div(columns, ceil_div(columns, WARP)), SECTOR_COLUMNS)


def instance(covariates: np.dtype[Any], values: np.dtype[Any], width: int) -> str:
    """The name of the kernel with its template arguments."""
    types = f"{CUDA_TYPES[covariates]}, {CUDA_TYPES[values]}"
    return f"evaluate_basis<{types}, {width}, {THREADS}>"


def evaluate_basis(
    X: Array,
    lower: Array,
    upper: Array,
    *,
    cells: int,
    degree: int,
    outside: str,
    dtype: np.dtype[Any],
    device: Device,
) -> tuple[Array, Array, Array | None]:
    """Evaluate the functions of every column of X, in a single launch.

    Parameters
    ----------
    X : (n, K) array
        In any memory layout. Copied only if its dtype is neither float32 nor
        float64, or its strides are not multiples of its elements.
    lower, upper : (K,) float64 array
    dtype : dtype
        float32 or float64, for the values.

    Returns
    -------
    first : (K, n) int32 array
    values : (K, n, degree + 1) array
    is_outside : (1,) uint32 array or None
        1 if an element is outside its range; None unless this is an error.
    """
    rows, columns = X.shape
    width = degree + 1
    first = device.empty((columns, rows), np.int32)
    values = device.empty((columns, rows, width), dtype)
    is_outside = device.zeros((1,), np.uint32) if outside == "error" else None
    if X.size == 0:
        return first, values, is_outside
    X = strided(X if X.dtype in REALS else X.astype(np.float64))
    some = tile_columns(columns)
    tiles = ceil_div(rows, WARP * (WARP // some)) * ceil_div(columns, some)
    instances = (instance(X.dtype, values.dtype, width),)
    (kernel,) = device.kernels("basis", instances)
    kernel(
        (tiles,),
        (THREADS,),
        (
            X,
            *(np.int64(stride // X.itemsize) for stride in X.strides),
            lower,
            upper,
            np.int64(rows),
            np.int32(columns),
            np.int32(cells),
            np.int32(some),
            np.bool_(outside == "linear"),
            is_outside,
            first,
            values,
        ),
    )
    return first, values, is_outside
