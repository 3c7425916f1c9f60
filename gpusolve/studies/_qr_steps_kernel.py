"""One change of a QR factorisation on a device: launches ``cuda_src/qr_steps.cu``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._device.arrays import Array, namespace
from .._device.kernels import CUDA_TYPES, Device

ROWS = 512
"""The rows of A."""

MOST_COLUMNS = 128

UPDATE, DOWNDATE = 0, 1

THREADS = {"as_published": ROWS, "as_solved": 128}
"""A thread for each row; four rows for each thread, as `nnls` launches it."""


class QRSteps(NamedTuple):
    """``A[:, order] = Q R``, in which Q and R lack the last column of A.

    A and Q are (ROWS, n), of at most `MOST_COLUMNS` columns. R is (n, n), and `order`
    lists its slots.
    """

    A: Array
    Q: Array
    R: Array


def qr_steps(
    name: str,
    given: QRSteps,
    device: Device,
    change: int,
    *,
    steps: int = 1,
    position: int = 0,
    printed: bool = False,
    apart: int = ROWS,
) -> tuple[QRSteps, Array]:
    """Launch a block that changes a factorisation.

    Parameters
    ----------
    name : {"as_published", "as_solved"}
    given : QRSteps
    device : Device
    change : {UPDATE, DOWNDATE}
        An update appends the last column of A; a downdate removes a column.
    steps : {0, 1}
        How often the change is made.
    position : int
        Of the column that a downdate removes.
    printed : bool
        Whether an update takes R from products with the column itself, as printed.
    apart : int
        The distance between two arrays for sums; 0 is the listing's single array.

    Returns
    -------
    changed : QRSteps
    order : (n,) int32 array
        The slots in order.
    """
    xp, (A, Q, R) = namespace(given.A), given
    n = A.shape[1]
    b = device.zeros((ROWS,), A.dtype)
    b[...] = 1
    order = device.zeros((n,), np.int32)
    columns, columns_of_A = (xp.array(matrix.T, order="C") for matrix in (Q, A))
    numbers = [np.int32(value) for value in (n, change, steps, position)]
    if name == "as_published":
        stored = R.copy()
        options = [np.int32(printed), np.int32(apart)]
        arguments = [columns_of_A, b, *numbers, *options, columns, stored, order]
    else:
        stored = xp.array(xp.pad(R, ((0, 0), (0, 2))).T, order="C")
        norm = xp.linalg.norm(A, axis=0)
        arguments = [columns_of_A, b, norm, *numbers, columns, stored, order]
    (kernel,) = device.kernels("qr_steps", (instance(name, A.dtype),))
    kernel((1,), (THREADS[name],), tuple(arguments))
    if name == "as_solved":
        stored = stored[:n].T
    return QRSteps(A, columns.T, stored), order


def instance(name: str, dtype: np.dtype[np.floating]) -> str:
    """The kernel's name with its template argument."""
    return f"{name}<{CUDA_TYPES[dtype]}>"
