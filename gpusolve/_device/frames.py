"""Data frames and columns of other packages, such as polars, pyarrow and pandas.

narwhals reads them. It is imported when it first meets such an object.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

PROTOCOLS = "to_numpy", "__arrow_c_stream__"
"""What frames and columns have: at least one of these."""


def wrapped(value: Any) -> Any:
    """A series or a data frame of narwhals; None for other values."""
    is_labelled = is_from("xarray", value, "DataArray")  # an array, which has both
    if is_labelled or not any(hasattr(value, name) for name in PROTOCOLS):
        return None
    import narwhals as nw

    if is_from("pyarrow", value, "Array"):
        value = sys.modules["pyarrow"].chunked_array([value])
    found = nw.from_native(value, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.Series | nw.DataFrame):
        return found
    if hasattr(value, "__arrow_c_stream__"):
        return nw.DataFrame.from_arrow(value, backend="pyarrow")
    return None


def is_from(package: str, value: object, *classes: str) -> bool:
    """Whether a value has one of the classes of a package. This imports nothing."""
    module = sys.modules.get(package)
    return isinstance(value, tuple(getattr(module, name, ()) for name in classes))


def named_columns(X: Any) -> Any:
    """A data frame as a mapping of its columns; pandas' and other data as they are."""
    if isinstance(X, Mapping) or hasattr(X, "iloc"):
        return X
    frame = wrapped(X)
    if not hasattr(frame, "columns"):
        return X
    return {name: frame[name].to_native() for name in frame.columns}


def array_of(value: Any) -> npt.NDArray[Any] | None:
    """The values of a column, (n,), or a data frame, (n, K); None for other values.

    Missing numbers are NaN, and decimals are floating numbers.
    """
    if is_from("pandas", value, "DataFrame"):  # names may repeat
        if all(isinstance(dtype, np.dtype) for dtype in value.dtypes):
            return np.asarray(value)
        columns: list[Any] = [array_of(value.iloc[:, j]) for j in range(value.shape[1])]
    elif (found := wrapped(value)) is None:
        return None
    elif not hasattr(found, "columns"):
        return column_values(found)
    else:
        columns = [column_values(found[name]) for name in found.columns]
    return np.stack(columns, axis=1) if columns else np.empty((len(value), 0))


def ordered_categories(value: Any) -> tuple[Any, ...] | None:
    """The categories of an ordered column of polars or pyarrow; None for others."""
    series = wrapped(value)
    if series is None or hasattr(series, "columns"):
        return None
    categories = getattr(series.dtype, "categories", None)
    if categories is not None:
        return tuple(categories)
    native = series.to_native()
    if not getattr(getattr(native, "type", None), "ordered", False):
        return None
    chunks = native.unify_dictionaries().chunks
    return tuple(chunks[0].dictionary.to_pylist()) if chunks else ()


def column_values(series: Any) -> npt.NDArray[Any]:
    """The values of a series, (n,); see `array_of`."""
    import narwhals as nw

    dtype, is_pandas = series.dtype, series.implementation.is_pandas_like()
    if dtype.is_decimal():  # as Python rounds decimals
        return np.asarray(series.to_numpy().astype(np.float64))
    if dtype == nw.Boolean and series.null_count():
        series = series.cast(nw.Float64)
    elif dtype in (nw.Categorical, nw.Enum) and not is_pandas:
        series = series.cast(nw.String)  # pyarrow's to_numpy loses missing categories
    return np.asarray(series.to_numpy())
