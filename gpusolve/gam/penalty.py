"""What makes an effect rough: penalties on the coefficients of a basis."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

PENALTIES = ("difference", "ridge", "cyclic", None)


def differences(n_basis: int, order: int, *, cyclic: bool = False) -> Matrix:
    """The matrix that takes differences of neighbouring coefficients.

    Parameters
    ----------
    n_basis : int
    order : int
        Differences of differences; 0 is the identity.
    cyclic : bool, optional
        Whether the last coefficient is a neighbour of the first.

    Returns
    -------
    (n_basis - order, n_basis) or, if cyclic, (n_basis, n_basis) array

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
    """The matrix K of the penalty ``c' K c``.

    Parameters
    ----------
    n_basis : int
        Coefficients of an effect.
    kind : {"difference", "ridge", "cyclic", None}
        Differences of neighbours, which makes P-splines; the coefficients themselves;
        differences around a ring, in which the last coefficient is a neighbour of the
        first; nothing. The ring draws the ends of an effect to each other, and no more:
        the basis is not periodic, so f(lower) = f(upper) does not hold exactly.
    order : int, optional
        Of the differences, 1 to 3.

    Returns
    -------
    (n_basis, n_basis) float64 array

    Raises
    ------
    ValueError
        For another kind or order, or fewer coefficients than differences take.

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
    if kind not in PENALTIES:
        raise ValueError(f"penalty is {kind!r}; one of {PENALTIES} is wanted")
    if kind is None:
        return np.zeros((n_basis, n_basis))
    if kind == "ridge":
        return np.eye(n_basis)
    if order not in (1, 2, 3):
        raise ValueError(f"penalty_order is {order}; 1, 2 or 3 is wanted")
    if n_basis <= order:
        raise ValueError(
            f"n_basis is {n_basis}; differences of order {order} need more functions"
        )
    D = differences(n_basis, order, cyclic=kind == "cyclic")
    return D.T @ D


def null_dimension(n_basis: int, kind: str | None, order: int = 2) -> int:
    """How many dimensions of coefficients the penalty leaves free.

    Examples
    --------
    >>> null_dimension(10, "difference", order=2)  # straight lines
    2
    """
    if kind is None:
        return n_basis
    return {"ridge": 0, "cyclic": 1, "difference": order}[kind]
