"""Validation of linear constraints."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import (
    Array,
    asarray_like,
    check_real,
    on_one_device,
)

PAIRS = ("A_ub", "b_ub"), ("A_eq", "b_eq")
"""The arguments of ``A_ub x <= b_ub`` and ``A_eq x = b_eq``."""


def constraint_arrays(
    A: Array, given: dict[str, Any], name: str = "A"
) -> dict[str, Array]:
    """Check the constraints, and convert them to arrays on the device of A.

    Floating dtypes stay: they tell the rounding of what was given. A pair that is not
    given is left out. ValueError unless both arrays of a pair are given and their
    shapes match. Messages call A by `name`.
    """
    found: dict[str, Array] = {}
    for matrix, side in PAIRS:
        if (given.get(matrix) is None) != (given.get(side) is None):
            missing, present = (
                (matrix, side) if given.get(matrix) is None else (side, matrix)
            )
            raise ValueError(f"{missing} must be given with {present}, got None")
        if given.get(matrix) is not None:
            C, d = (real_array(A, given[key], key) for key in (matrix, side))
            check_rows(A, C, d, (name, matrix, side))
            found |= {matrix: C, side: d}
    return found


def real_array(A: Array, value: Any, name: str) -> Array:
    """A value as an array of a floating dtype on the device of A."""
    found = on_one_device({"A": A, name: asarray_like(A, value)})[name]
    check_real(found, name)
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def check_rows(A: Array, C: Array, d: Array, names: tuple[str, str, str]) -> None:
    """ValueError unless C has a column for each column of A, and d an element per row.

    Messages call the arrays by `names`.
    """
    (of_A, matrix, side), n = names, A.shape[-1]
    if C.ndim < 2 or C.shape[-1] != n:
        raise ValueError(
            f"{matrix} must have shape (..., rows, {n}) for {of_A} of shape {A.shape}, "
            f"got {C.shape}"
        )
    rows = C.shape[-2]
    if d.ndim < 1 or d.shape[-1] != rows:
        raise ValueError(
            f"{side} must have shape (..., {rows}) for {matrix} of shape {C.shape}, "
            f"got {d.shape}"
        )
