"""Validation of the data that an estimator is given."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import (
    Array,
    as_array,
    contiguous,
    floating,
    is_cupy,
    is_dask,
    namespace,
    on_host,
)
from ..._device.frames import named_columns
from ..._device.kernels import current_device
from ..._device.launch import pieces

ROWS = 2**16
"""The rows that are checked at once."""


def from_sklearn(module: str, name: str, default: Any) -> Any:
    """An attribute of a module of scikit-learn; the default if it is not installed."""
    try:
        return getattr(import_module(f"sklearn.{module}"), name)
    except ImportError:
        return default


def column_names(X: Any) -> list[Any] | None:
    """The names of the columns of a data frame or a mapping; None for an array."""
    X = named_columns(X)
    columns = X if isinstance(X, Mapping) else getattr(X, "columns", None)
    return None if columns is None else list(columns)


def feature_names(X: object) -> Any | None:
    """The names of the columns, (K,) of object, if they are strings; else None.

    TypeError if only some of the names are strings.
    """
    names = column_names(X)
    strings = [isinstance(name, str) for name in names or ()]
    if names is None or not any(strings):
        return None
    if not all(strings):
        raise TypeError(
            "the names of the columns of X must all be strings, or none of them, got "
            f"{names}"
        )
    return np.array(names, dtype=object)


def real_array(value: object, name: str) -> Array:
    """A float32 or float64 array without NaN and infinity.

    TypeError for a sparse matrix, or a dtype that is not numeric. ValueError for text
    that is not a number. Some rows are read at once, so that a file on a disk is not
    copied to memory.
    """
    array = dense_array(value, name)
    if array.dtype.kind in "OUST":
        try:
            array = array.astype(np.float64)
        except ValueError as error:
            raise ValueError(f"{name} must be numeric: {error}") from None
    with current_device(array):
        array = floating({name: array})[name]
        for rows in pieces(len(array), ROWS):
            if not bool(namespace(array).isfinite(array[rows]).all()):
                raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array


def check_dense(value: object, name: str) -> None:
    """TypeError for a sparse matrix."""
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        raise TypeError(
            f"{name} must be a dense array, got a sparse matrix: use {name}.toarray()"
        )


def unmasked(value: Any) -> Any:
    """A masked array with NaN or None for what is masked; other values as they are."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    array, mask = np.asarray(value.data), np.ma.getmaskarray(value)
    if not mask.any():
        return array
    hidden, made = None, array.astype(object)
    if array.dtype.kind in "biuf":
        hidden, made = np.nan, floating({"a masked array": array}).popitem()[1].copy()
    made[mask] = hidden
    return made


def dense_array(value: object, name: str) -> Array:
    """An array; TypeError for a sparse matrix, ValueError for complex numbers."""
    check_dense(value, name)
    array = as_array(unmasked(value), name)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is {array.dtype}")
    return array


def checked_matrix(array: Array) -> Array:
    """The array; ValueError unless it has two dimensions and is not empty."""
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: X has shape "
            f"{array.shape}. Reshape your data with X.reshape(-1, 1) if it has a "
            "single feature or X.reshape(1, -1) if it contains a single sample."
        )
    rows, columns = array.shape
    for count, what in ((rows, "sample"), (columns, "feature")):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={array.shape}) while a minimum "
                "of 1 is required."
            )
    return array


def difference_of_names(names: list[str], fitted: list[str]) -> str:
    """A description of the difference, in scikit-learn's words."""
    unseen = sorted(set(names) - set(fitted))
    missing = sorted(set(fitted) - set(names))
    lines = [
        "\n- ".join([f"{title}:", *some]) + "\n"
        for title, some in (
            ("Feature names unseen at fit time", unseen),
            ("Feature names seen at fit time, yet now missing", missing),
        )
        if some
    ]
    return "".join(lines) or (
        "Feature names must be in the same order as they were in fit.\n"
    )


MOST_CASES = 1e11
"""Integer weights of a larger sum are not numbers of repetitions: the smoothing
parameters, which grow with the sum, would reach their limit."""

INTEGER_TOLERANCE = math.sqrt(np.finfo(np.float64).eps)
"""Relative difference from an integer up to which a weight counts as an integer."""

DEVICES = ("auto", "cpu", "cuda")


def column_labels(X: Any) -> list[Any]:
    """The names of the columns if they are strings or integers, else their positions.

    ValueError if two columns have the same name.
    """
    names = column_names(X) or []
    if len(set(names)) < len(names):
        raise ValueError(f"the columns of X must have different names, got {names}")
    if names and all(isinstance(name, str | int) for name in names):
        return names
    return list(range(number_of_features(X)))


def to_device(array: Array, device: str) -> Array:
    """The array on a device of `DEVICES`; "auto" does not move it."""
    if device == "cpu":
        return on_host(array)
    return to_gpu(array) if device == "cuda" else array


def to_gpu(array: Array) -> Array:
    """The array on a GPU: the current GPU if it is on the host.

    ImportError without CuPy; RuntimeError without a GPU or a driver.
    """
    if is_cupy(array):
        return array
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "device='cuda' needs CuPy: pip install gpusolve[cuda12] or gpusolve[cuda13]"
        ) from error
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"device='cuda' needs a GPU that CuPy can use: {error}"
        ) from error
    return cupy.asarray(array)


def to_device_of(X: Array, array: Array) -> Array:
    """The array on the device of X, copied from the host or another GPU."""
    if not is_cupy(X):
        return on_host(array)
    with current_device(X):
        array = to_gpu(array)
        return array if array.device == X.device else array.copy()


def start_of(offset: object, X: Array) -> Any:
    """The offset: None, a float, or an (n,) float64 array on the device of X."""
    if offset is None:
        return None
    if isinstance(offset, Real) and not isinstance(offset, bool):
        if not math.isfinite(offset):
            raise ValueError(f"offset must be finite, got {offset}")
        return float(offset)
    return one_per_row(offset, "offset", X)


def labels(y: object, rows: int | None) -> NDArray[Any]:
    """The classes of the rows, (n,) on the host; ValueError for continuous numbers."""
    array: NDArray[Any] = on_host(flat_response(y))
    if array.ndim != 1 or (rows is not None and len(array) != rows):
        raise ValueError(f"y must have shape ({rows},), got {array.shape}")
    if array.dtype.kind == "O":
        array = plain_labels(array)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y is {array.dtype}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ValueError("y must be finite, got NaN or infinity")
        if (array != np.rint(array)).any():
            raise ValueError(
                "Unknown label type: y must be classes, got continuous numbers"
            )
    return array


def plain_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Objects as strings or numbers; TypeError for both, or for other objects."""
    values = labels.tolist()
    if any(value is None or value != value for value in values):
        raise ValueError("y must not have missing values, got None or NaN")
    for kind in (str, Real):
        if all(isinstance(value, kind) for value in values):
            return np.array(values)
    raise TypeError("y must be all strings or all numbers, got objects of other types")


def number_of_features(X: Any) -> int:
    """The number of columns of a matrix, a data frame or a mapping."""
    names = column_names(X)
    if names is not None:
        return len(names)
    return int((X if hasattr(X, "shape") else as_array(X, "X")).shape[1])


def one_per_row(value: object, name: str, X: Array) -> Array:
    """One number for each row of X, (n,) of float64, on the device of X."""
    array = real_array(value, name)
    if array.shape != X.shape[:1]:
        raise ValueError(
            f"{name} must have shape ({len(X)},), one number for each row of X, got "
            f"{array.shape}"
        )
    return to_device_of(X, array).astype(np.float64, copy=False)


def flat_response(y: object) -> Array:
    """The response as an array; a column, (n, 1), becomes (n,) with a warning."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    array = as_array(unmasked(y), "y")
    if array.ndim != 2 or array.shape[1] != 1:
        return array
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected.",
        from_sklearn("exceptions", "DataConversionWarning", UserWarning),
        stacklevel=4,
    )
    return array[:, 0]


def target(y: object, X: Array) -> Array:
    """The target, (n,) of float64, on the device of X."""
    return one_per_row(flat_response(y), "y", X)


def observation_weights(weights: object, X: Array) -> Array | None:
    """The weights, (n,) of float64 and contiguous, on the device of X; None for ones.

    They are scaled by `whole_or_scaled`. ValueError if a weight is negative, all are 0,
    or their sum is infinite.
    """
    if weights is None:
        return None
    w = one_per_row(weights, "sample_weight", X)
    if bool((w < 0).any()) or not bool((w > 0).any()):
        raise ValueError(
            "sample_weight must not be negative, and not all of it zero, got "
            f"{float(w.min())} to {float(w.max())}"
        )
    if not math.isfinite(len(w) * float(w.max())):
        raise ValueError(
            f"sample_weight must have a finite sum, got weights up to {float(w.max())}"
        )
    return contiguous(whole_or_scaled(w))


def whole_or_scaled(w: Array) -> Array:
    """Weights that count repetitions, unchanged; other weights are scaled.

    Weights count repetitions if they are integers, up to rounding, whose sum is at most
    `MOST_CASES`. The sum of scaled weights is the number of positive weights. This is
    mboost's rule, which has no largest sum.
    """
    integers = namespace(w).rint(w)
    is_whole = (abs(w - integers) <= INTEGER_TOLERANCE * integers).all()
    if bool(is_whole) and float(w.sum()) <= MOST_CASES:
        return w
    return w * ((w > 0).sum() / w.sum())


# ---- training data in memory ---------------------------------------------------------


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
    for index in range(X.npartitions):
        for name, column in X.partitions[index].compute().items():
            parts[name].append(column)
    joined = {name: pd.concat(parts.pop(name), ignore_index=True) for name in [*parts]}
    return pd.DataFrame(joined, copy=False)
