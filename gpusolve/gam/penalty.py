"""Penalties on the coefficients of a basis, which make an effect smooth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._estimators.conventions import check_choice

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

PENALTIES = ("difference", "ridge", "cyclic", None)


def differences(n_basis: int, order: int, *, cyclic: bool = False) -> Matrix:
    """The matrix that takes differences of neighbouring coefficients, `order` times.

    It has `order` rows less than columns; if cyclic, the last coefficient is a
    neighbour of the first, and the matrix is square.

    Examples
    --------
    >>> differences(4, 2)
    array([[ 1., -2.,  1.,  0.],
           [ 0.,  1., -2.,  1.]])
    """
    D = np.eye(n_basis)
    for _ in range(order):
        D = np.roll(D, -1, axis=0) - D if cyclic else np.diff(D, axis=0)
    return D


def penalty_matrix(n_basis: int, kind: str | None, order: int = 2) -> Matrix:
    """The matrix P of the penalty ``c' P c``.

    Parameters
    ----------
    n_basis : int
        Number of coefficients c of an effect.
    kind : {"difference", "ridge", "cyclic", None}
        What is penalised: differences of neighbouring coefficients, which gives
        P-splines; the coefficients themselves; differences around a ring, in which the
        last coefficient is a neighbour of the first; nothing.
    order : int, optional
        Order of the differences, 1 to 3.

    Returns
    -------
    (n_basis, n_basis) float64 array

    Raises
    ------
    ValueError
        If `kind` or `order` is unknown, or `n_basis` is too small for the order.

    See Also
    --------
    bbs, BSplines

    References
    ----------
    P. H. C. Eilers and B. D. Marx, "Flexible Smoothing with B-splines and Penalties",
    Statistical Science 11 (1996).

    Examples
    --------
    >>> penalty_matrix(3, "difference", order=1)
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    check_choice("penalty", kind, PENALTIES)
    if kind is None:
        return np.zeros((n_basis, n_basis))
    if kind == "ridge":
        return np.eye(n_basis)
    if order not in (1, 2, 3):
        raise ValueError(f"penalty_order must be 1, 2 or 3, got {order}")
    if n_basis <= order:
        raise ValueError(
            f"n_basis must be greater than penalty_order = {order}, got {n_basis}"
        )
    D = differences(n_basis, order, cyclic=kind == "cyclic")
    return D.T @ D


def kronecker_sum(a: Matrix, b: Matrix) -> Matrix:
    """``a (x) I + I (x) b``: the penalty of a row-wise Kronecker product.

    Examples
    --------
    >>> kronecker_sum(np.array([[1.0]]), np.array([[2.0, 0.0], [0.0, 3.0]]))
    array([[3., 0.],
           [0., 4.]])
    """
    return np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b)
