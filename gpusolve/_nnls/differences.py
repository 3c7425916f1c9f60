"""Matrices of differences, by name: the usual choices of L in ``|L x|^2``."""

from __future__ import annotations

from typing import Any, Literal, get_args

from .._device.arrays import Array, namespace

Differences = Literal["identity", "first", "second"]
"""The names, in the order of the differences: 0, 1 and 2."""

NAMES = get_args(Differences)


def difference_matrix(A: Array, name: str) -> Array:
    """The differences of neighbouring variables, in the dtype and place of A.

    A row of ``"first"`` is ``x[j + 1] - x[j]``; a row of ``"second"`` is
    ``x[j + 2] - 2 x[j + 1] + x[j]``. They are not divided by a distance.

    Parameters
    ----------
    A : (..., m, n) array
    name : str
        Of `NAMES`; else ValueError.

    Returns
    -------
    (p, n) array
        Differences of order k have p = n - k, or 0 if n is less.

    Examples
    --------
    >>> import numpy as np
    >>> difference_matrix(np.zeros((1, 4)), "second")
    array([[ 1., -2.,  1.,  0.],
           [ 0.,  1., -2.,  1.]])
    """
    if name not in NAMES:
        raise ValueError(f"L must be a matrix or one of {NAMES}, got {name!r}")
    matrix: Any = namespace(A).eye(A.shape[-1], dtype=A.dtype)
    for _ in range(NAMES.index(name)):
        matrix = matrix[1:] - matrix[:-1]
    return matrix
