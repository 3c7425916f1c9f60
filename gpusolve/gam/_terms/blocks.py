"""Training data in memory, column by column, read in blocks of rows.

Only the columns are kept. Files and dask collections need no other memory than a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import is_dask
from ..._device.launch import pieces

BLOCK_NUMBERS = 2**17
"""Numbers of a block of an array: they stay in the cache while they change places."""


def columns_in_memory(X: Any) -> Any:
    """The data with contiguous columns, if they are an array or of dask; else the data.

    An array of float32 or float64 on the host, such as a ``numpy.memmap``, and a dask
    array become an array in the order of columns, a dask data frame becomes a data
    frame of pandas.
    """
    if is_dask(X):
        return dask_array_in_memory(X)
    if hasattr(X, "__dask_graph__") and hasattr(X, "partitions"):
        return dask_frame_in_memory(X)
    if not is_matrix(X) or X.flags.f_contiguous:
        return X
    made = empty_columns(X.shape, X.dtype)
    for rows in pieces(len(X), max(1, BLOCK_NUMBERS // max(1, X.shape[1]))):
        made[rows] = X[rows]
    return made


def is_matrix(X: Any) -> bool:
    """Whether X is a matrix of float32 or float64 on the host."""
    is_array = isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray)
    return is_array and X.ndim == 2 and X.dtype.char in "fd"


def empty_columns(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array in the order of columns, for numbers of a dtype: float32 or float64."""
    single = np.dtype(dtype) == np.float32
    return np.empty(shape, np.float32 if single else np.float64, order="F")


def dask_array_in_memory(X: Any) -> Any:
    """A dask array with contiguous columns; some rows are computed at once."""
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        return X.compute()
    if any(np.isnan(X.shape)):
        X = X.compute_chunk_sizes()
    made = empty_columns(X.shape, X.dtype)
    begin = 0
    for rows in X.chunks[0]:
        made[begin : begin + rows] = X[begin : begin + rows].compute()
        begin += rows
    return made


def dask_frame_in_memory(X: Any) -> Any:
    """A dask data frame as a data frame of pandas, partition by partition."""
    import pandas as pd

    parts: dict[Any, list[Any]] = {name: [] for name in X.columns}
    for part in partitions_of(X):
        for name, column in part.items():
            parts[name].append(column)
    joined = {name: pd.concat(parts.pop(name), ignore_index=True) for name in [*parts]}
    return pd.DataFrame(joined, copy=False)


def partitions_of(X: Any) -> Iterator[Any]:
    """The partitions of a dask data frame as data frames of pandas."""
    for index in range(X.npartitions):
        yield X.partitions[index].compute()
