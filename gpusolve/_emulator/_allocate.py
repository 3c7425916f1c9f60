"""Memory allocation on the emulated device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._profile import active_report

POISON = 0xFF


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array: NaN in floating point, -1 in signed integers.

    Examples
    --------
    >>> empty(2, np.float64)
    array([nan, nan])
    """
    if report := active_report():
        report.host.allocations += 1
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = POISON
    return array


def zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros."""
    if report := active_report():
        report.host.allocations += 1
        report.host.memsets += 1
    return np.zeros(shape, dtype)
