"""What is asked of NNLS, checked once."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, floating
from ..reference._nnls_qr import default_limit, default_tolerance


class Problem(NamedTuple):
    """Validated inputs, all on one device and of one floating dtype."""

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
        """Rows and columns of a system."""
        m, n = self.A.shape[-2:]
        return m, n

    @property
    def iteration_limit(self) -> int:
        """`maxiter`, or the default."""
        return default_limit(self.shape[1]) if self.maxiter is None else self.maxiter

    @property
    def tolerance(self) -> float:
        """`tol`, or the default for the dtype."""
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
    """Check everything that the caller gave, once."""
    given = {"A": A, "b": b}
    if warm_start is not None:
        given["warm_start"] = warm_start
    arrays = floating(given)
    A, b, start = arrays["A"], arrays["b"], arrays.get("warm_start")
    if A.ndim < 2:
        raise ValueError(f"A has shape {A.shape}; (..., m, n) is wanted")
    if b.ndim < 1:
        raise ValueError("b is a scalar; (..., m) is wanted")
    m, n = A.shape[-2:]
    if b.shape[-1] != m:
        raise ValueError(
            f"b has shape {b.shape}; its last axis must have the {m} rows of A, "
            f"whose shape is {A.shape}"
        )
    if m + n >= 2**31:
        raise ValueError(f"A has shape {A.shape}; m + n must be below 2**31")
    if start is not None and start.shape[-1:] != (n,):
        raise ValueError(
            f"warm_start has shape {start.shape}; its last axis must have the {n} "
            f"columns of A, whose shape is {A.shape}"
        )
    try:
        batch = np.broadcast_shapes(
            A.shape[:-2], b.shape[:-1], () if start is None else start.shape[:-1]
        )
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"the batch axes do not broadcast: {shapes}") from error
    return Problem(
        A,
        b,
        start,
        batch,
        _weight(l1, "l1"),
        _weight(l2, "l2"),
        None if tol is None else _weight(tol, "tol"),
        None if maxiter is None else _count(maxiter, "maxiter"),
    )


def _weight(value: float, name: str) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} is {value}; a finite number >= 0 is wanted")
    return number


def _count(value: int, name: str) -> int:
    number = operator.index(value)
    if not 0 <= number < 2**31:
        raise ValueError(f"{name} is {value}; an integer in [0, 2**31) is wanted")
    return number
