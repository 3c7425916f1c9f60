"""Validation of the data that every estimator is given."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._device.arrays import Array, as_array, floating, namespace
from .._device.frames import named_columns
from .._device.kernels import current_device

ROWS = 2**16
"""The rows that are checked at once."""


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


def real_array(value: object, name: str, *, missing: bool = False) -> Array:
    """A float32 or float64 array without infinity, and without NaN unless `missing`.

    TypeError for a sparse matrix, or a dtype that is not numeric.
    """
    array = dense_array(value, name)
    if array.dtype.kind in "OUST":
        array = array.astype(np.float64)
    with current_device(array):
        array = floating({name: array})[name]
        check_finite(array, name, feature_names(value), missing)
    return array


def check_finite(array: Array, name: str, columns: Any | None, missing: bool) -> None:
    """ValueError for infinity, and for NaN unless `missing`; it names the column.

    Some rows are read at once, so that a file on a disk is not copied to memory.
    """
    xp = namespace(array)
    for begin in range(0, len(array), ROWS):
        rows = array[begin : begin + ROWS]
        bad = xp.isinf(rows) if missing else ~xp.isfinite(rows)
        if bool(bad.any()):
            found = "infinity" if missing else "NaN or infinity"
            where = ""
            if array.ndim == 2:
                j = int(bad.any(axis=0).argmax())
                where = f" in column {j if columns is None else columns[j]}"
            raise ValueError(f"{name} must be finite, got {found}{where}")


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


def check_names(names: Any | None, fitted: Any | None, estimator: str) -> None:
    """ValueError unless the features have the same names as in `fit`.

    If there are names only here or only in `fit`, this is a warning.
    """
    if names is None and fitted is None:
        return
    if fitted is None:
        warnings.warn(
            f"X has feature names, but {estimator} was fitted without feature names",
            stacklevel=4,
        )
    elif names is None:
        warnings.warn(
            f"X does not have valid feature names, but {estimator} was fitted with "
            "feature names",
            stacklevel=4,
        )
    elif list(names) != list(fitted):
        raise ValueError(
            "The feature names should match those that were passed during fit.\n"
            + difference_of_names(list(names), list(fitted))
        )


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
