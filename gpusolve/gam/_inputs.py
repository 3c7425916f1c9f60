"""What is asked of the data, checked once."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .._device.arrays import Array, as_array, floating, is_cupy, namespace, on_host
from .._device.kernels import current_device
from ._sklearn import scikit_learns

WHOLE = math.sqrt(np.finfo(np.float64).eps)
"""How far from a whole number a weight may be to count as one, relatively."""

DEVICES = ("auto", "cpu", "cuda")


def feature_names(X: object) -> Any | None:
    """The names of a data frame's columns, (K,) of object; None where there are none.

    Raises
    ------
    TypeError
        For names that are strings in part.
    """
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    strings = [isinstance(name, str) for name in columns]
    if all(strings):
        return np.array(list(columns), dtype=object)
    if any(strings):
        raise TypeError("the names of the columns of X must all be strings, or none")
    return None


def on_device(array: Array, device: str) -> Array:
    """The array where `device` says; "auto" is where it lies."""
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}; one of {DEVICES} is wanted")
    if device == "cpu" and is_cupy(array):
        return array.get()
    if device == "cuda" and not is_cupy(array):
        return uploaded(array)
    return array


def uploaded(array: Array) -> Array:
    """The array, on the current GPU.

    Raises
    ------
    ImportError
        Without CuPy.
    RuntimeError
        Without a GPU, or the driver that CuPy wants.
    """
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "device is 'cuda', which needs CuPy: "
            "pip install gpusolve[cuda12] or gpusolve[cuda13]"
        ) from error
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"device is 'cuda', but CuPy finds no GPU that it can use: {error}"
        ) from error
    return cupy.asarray(array)


def real(value: object, name: str) -> Array:
    """An array of float32 or float64 without NaN and infinity.

    Raises
    ------
    TypeError
        For sparse matrices, and what is no number.
    ValueError
        For complex numbers, NaN and infinity.
    """
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        raise TypeError(f"{name} is sparse; a dense array is wanted: use its toarray()")
    array = as_array(value, name)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is {array.dtype}")
    if array.dtype.kind in "OUST":
        array = array.astype(np.float64)
    with current_device(array):
        array = floating({name: array})[name]
        if not bool(namespace(array).isfinite(array).all()):
            raise ValueError(f"{name} contains NaN or infinity")
    return array


def covariates(X: object, device: str) -> Array:
    """The covariates, (n, K) of float32 or float64 on a device."""
    array = real(X, "X")
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
    return on_device(array, device)


def one_of_each(value: object, name: str, X: Array) -> Array:
    """One number for each row of X, (n,) of float64 beside it."""
    array = real(value, name)
    if array.shape != X.shape[:1]:
        raise ValueError(
            f"{name} has shape {array.shape}; ({len(X)},) is wanted for X of shape "
            f"{X.shape}"
        )
    return moved_beside(X, array).astype(np.float64, copy=False)


def moved_beside(X: Array, array: Array) -> Array:
    """The array where X lives; copied there from the host or another GPU."""
    if not is_cupy(X):
        return on_host(array)
    with current_device(X):
        array = on_device(array, "cuda")
        return array if array.device == X.device else array.copy()


def target(y: object, X: Array) -> Array:
    """The target, (n,) of float64 beside X. A column is taken with a warning."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    array = as_array(y, "y")
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected.",
            scikit_learns("exceptions", "DataConversionWarning", UserWarning),
            stacklevel=4,
        )
        array = array[:, 0]
    return one_of_each(array, "y", X)


def observation_weights(weights: object, X: Array) -> Array | None:
    """The weights, (n,) of float64 beside X; None for ones.

    Those that are not whole numbers, up to rounding, are scaled, so that they add up to
    as many as there are positive ones. That is mboost's rule.

    Raises
    ------
    ValueError
        For negative weights, or where none is positive.
    """
    if weights is None:
        return None
    w = one_of_each(weights, "sample_weight", X)
    if bool((w < 0).any()) or not bool((w > 0).any()):
        raise ValueError("sample_weight must not be negative, and not all of it zero")
    whole = namespace(w).rint(w)
    if bool((abs(w - whole) > WHOLE * whole).any()):
        w = w * ((w > 0).sum() / w.sum())
    return w


def check_names(names: Any | None, fitted: Any | None, estimator: str) -> None:
    """ValueError unless the features have the names that they had in the fit.

    Where they have names in one place only, that is a warning.
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
    """What is wrong with the names, in words."""
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
