"""Validation of the arguments of ``nnls``."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, broadcast_shapes, floating
from ..reference._nnls_qr import default_limit, default_tolerance


class Problem(NamedTuple):
    """Validated arguments; all arrays are on one device and of one floating dtype."""

    A: Array
    b: Array
    start: Array | None
    batch: tuple[int, ...]
    l1: float
    l2: float
    tol: float | None
    maxiter: int | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the inputs and of the results."""
        dtype: np.dtype[Any] = self.A.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of each matrix."""
        m, n = self.A.shape[-2:]
        return m, n

    @property
    def rows(self) -> int:
        """Rows of each matrix, with those of the l2 penalty."""
        m, n = self.shape
        return m + (n if self.l2 > 0 else 0)

    @property
    def iteration_limit(self) -> int:
        """`maxiter`, or its default."""
        return default_limit(self.shape[1]) if self.maxiter is None else self.maxiter

    @property
    def tolerance(self) -> float:
        """`tol`, or its default for the dtype."""
        return default_tolerance(self.dtype) if self.tol is None else self.tol


def validate(
    A: Any,
    b: Any,
    warm_start: Any,
    l1: float,
    l2: float,
    tol: float | None,
    maxiter: int | None,
) -> Problem:
    """Check the arguments of ``nnls`` and convert the arrays to one dtype."""
    given = {"A": A, "b": b}
    if warm_start is not None:
        given["warm_start"] = warm_start
    arrays = floating(given)
    A, b, start = arrays["A"], arrays["b"], arrays.get("warm_start")
    if A.ndim < 2:
        raise ValueError(f"A must have shape (..., m, n), got {A.shape}")
    if b.ndim < 1:
        raise ValueError("b must have shape (..., m), got a scalar")
    m, n = A.shape[-2:]
    if b.shape[-1] != m:
        raise ValueError(
            f"b must have shape (..., {m}) for A of shape {A.shape}, got {b.shape}"
        )
    if m + n >= 2**31:
        raise ValueError(f"A must have m + n < 2**31, got shape {A.shape}")
    if start is not None and start.shape[-1:] != (n,):
        raise ValueError(
            f"warm_start must have shape (..., {n}) for A of shape {A.shape}, "
            f"got {start.shape}"
        )
    try:
        batch = broadcast_shapes(
            A.shape[:-2], b.shape[:-1], () if start is None else start.shape[:-1]
        )
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"batch axes must broadcast, got shapes {shapes}") from error
    return Problem(
        A,
        b,
        start,
        batch,
        _nonnegative(l1, "l1"),
        _nonnegative(l2, "l2"),
        None if tol is None else _nonnegative(tol, "tol"),
        None if maxiter is None else _count(maxiter, "maxiter"),
    )


def _nonnegative(value: float, name: str) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be finite and non-negative, got {value}")
    return number


def _count(value: int, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not 0 <= number < 2**31:
        raise ValueError(f"{name} must be in [0, 2**31), got {number}")
    return number
