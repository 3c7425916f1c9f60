"""The smoothing parameters that give every learner the same degrees of freedom.

With ``X'WX = R'R``, the hat matrix of a learner has the eigenvalues
``1 / (1 + lambda d)``, where `d` are those of ``R^-T K R^-1``. So each evaluation of
the degrees of freedom is a sum, and all learners are solved as one batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DEFINITIONS = ("2S-SS", "trace")

LARGEST = 1e15
"""The largest smoothing parameter."""

RIDGE = 1e-9
"""Of the penalty, how much is added to ``X'WX`` before it is factorised."""

NEARLY_SINGULAR = 1.49e-8
TOLERANCE = 1e-10
"""``X'WX`` is shrunk where its least eigenvalue is below their difference."""

NO_RANK = 1e-12
"""Eigenvalues below this part of the largest may be rounding of the sums over rows."""

WIDEST = 1e6
"""How many times the penalty may outweigh the data, or they it, in a factorisation."""


def ranks(gram: Floats) -> NDArray[np.int_]:
    """The numerical rank of each Gram matrix, (K, k, k) to (K,)."""
    eigenvalues = np.linalg.eigvalsh(gram)
    # Of X'WX, not of X: its eigenvalues are squares, so that a direction in which X has
    # less than a millionth of its strength does not count.
    rank = (eigenvalues > NO_RANK * eigenvalues[:, -1:]).sum(axis=-1)
    return np.asarray(rank)


def shrunken(A: Floats) -> Floats:
    """`A` drawn to the identity, as far as makes each matrix positive definite."""
    A = A.copy()
    while True:
        least = np.linalg.eigvalsh(A)[:, 0] - NEARLY_SINGULAR
        singular = least < -TOLERANCE
        if not singular.any():
            return A
        rho = (1 / (1 - least[singular]))[:, None, None]
        A[singular] = rho * A[singular] + (1 - rho) * np.eye(A.shape[-1])


def penalty_spectrum(
    A: Floats, penalty: Floats, null_dimension: int, near: Floats
) -> Floats:
    """The eigenvalues `d` of ``R^-T K R^-1``, ``A = R'R``, ascending, (K, k).

    They are found from ``near K`` as seen from ``A + near K``, which has the
    eigenvalues ``near d / (1 + near d)``. So R may be nearly singular, and those d are
    the most accurate that matter for a smoothing parameter close to `near`, (K,). The
    first `null_dimension` of them are exactly zero.
    """
    K = near[:, None, None] * penalty
    L = np.linalg.cholesky(A + K)
    half = np.linalg.solve(L, K)
    roughness = np.linalg.eigvalsh(np.linalg.solve(L, half.swapaxes(1, 2)))
    roughness = np.clip(roughness, 0, 1 - np.finfo(np.float64).epsneg)
    roughness[:, :null_dimension] = 0
    return np.asarray(roughness / (1 - roughness) / near[:, None])


def degrees_of_freedom(d: Floats, lambda_: Floats, definition: str) -> Floats:
    """The degrees of freedom of each learner.

    Parameters
    ----------
    d : (K, k) array
        What `penalty_spectrum` gives.
    lambda_ : (K,) array
    definition : {"2S-SS", "trace"}
        ``tr(2S - S'S)`` or ``tr(S)``, of the hat matrix S.

    Examples
    --------
    >>> d = np.array([[0.0, 1.0]])
    >>> degrees_of_freedom(d, np.array([1.0]), "trace")
    array([1.5])
    >>> degrees_of_freedom(d, np.array([1.0]), "2S-SS")
    array([1.75])
    """
    s = 1 / (1 + lambda_[:, None] * d)
    return np.asarray((s if definition == "trace" else 2 * s - s * s).sum(axis=-1))


def root(d: Floats, df: float, definition: str) -> Floats:
    """The smoothing parameters of `df` degrees of freedom, by bisection of their logs.

    At most `LARGEST`, where `df` asks for more.
    """
    low = np.log(1e-17 / d.max(axis=-1))
    high = np.full(len(d), np.log(LARGEST))
    for _ in range(64):
        middle = (low + high) / 2
        too_rough = degrees_of_freedom(d, np.exp(middle), definition) > df
        low = np.where(too_rough, middle, low)
        high = np.where(too_rough, high, middle)
    return np.asarray(np.exp(high))


def smoothing_parameters(
    gram: Floats,
    penalty: Floats,
    null_dimension: int,
    df: float,
    definition: str = "2S-SS",
) -> Floats:
    """The smoothing parameter of each learner, all as one batch.

    Parameters
    ----------
    gram : (K, k, k) array
        ``X'WX`` of the learners.
    penalty : (k, k) array
    null_dimension : int
        Dimensions that the penalty leaves free.
    df : float
        Degrees of freedom, positive.
    definition : {"2S-SS", "trace"}, optional
        ``tr(2S - S'S)``, mboost's default, or ``tr(S)``, of the hat matrix S.

    Returns
    -------
    (K,) float64 array
        0 where `df` is at least the rank of a learner.

    Raises
    ------
    ValueError
        For an unknown definition, or a `df` that is not positive, or below the
        dimension of the penalty's null space: no smoothing parameter gives so few.

    References
    ----------
    B. Hofner, A. Mayr, N. Robinzonov and M. Schmid, "Model-based boosting in R: a
    hands-on tutorial using the R package mboost", Computational Statistics 29 (2014).

    Examples
    --------
    >>> gram = 3 * np.eye(2)[None]
    >>> smoothing_parameters(gram, np.eye(2), 0, df=1.0, definition="trace").round(6)
    array([3.])
    """
    if definition not in DEFINITIONS:
        raise ValueError(
            f"df_definition is {definition!r}; one of {DEFINITIONS} is wanted"
        )
    if not df > 0:
        raise ValueError(f"df is {df}; a positive number is wanted")
    lambda_ = np.zeros(len(gram))
    penalised = (ranks(gram) > df) & bool(penalty.any())
    if not penalised.any():
        return lambda_
    if df < null_dimension:
        raise ValueError(
            f"df is {df}, but the penalty leaves {null_dimension} degrees of freedom "
            "untouched; ask for more, or for a ridge penalty"
        )
    A = shrunken(gram[penalised] + RIDGE * penalty)
    balance = np.einsum("kii->k", A) / np.trace(penalty)
    near = balance
    for _ in range(2):
        d = penalty_spectrum(A, penalty, null_dimension, near)
        lambda_[penalised] = root(d, df, definition)
        near = np.clip(lambda_[penalised], balance / WIDEST, balance * WIDEST)
    return lambda_


def inverses(
    gram: Floats, penalty: Floats, null_dimension: int, lambda_: Floats
) -> Floats:
    """``(X'WX + lambda K)^-1`` of each learner.

    Where ``X'WX`` is singular and lambda zero, several coefficients fit as well, and
    those of the least penalty are taken.

    Parameters
    ----------
    gram : (K, k, k) array
    penalty : (k, k) array
    null_dimension : int
        Dimensions that the penalty leaves free.
    lambda_ : (K,) array

    Returns
    -------
    (K, k, k) float64 array
    """
    inverse = penalised_inverses(gram, penalty, null_dimension, lambda_)
    several = (lambda_ == 0) & (ranks(gram) < gram.shape[-1])
    inverse[several] = smoothest_inverses(gram[several], penalty)
    return inverse


def penalised_inverses(
    gram: Floats, penalty: Floats, null_dimension: int, lambda_: Floats
) -> Floats:
    """The inverses, or pseudo-inverses of singular matrices.

    They are scaled to a unit diagonal in the eigenvectors of the penalty first, so that
    a large lambda takes no digits from what the penalty leaves free.
    """
    strength, V = np.linalg.eigh(penalty)
    strength[:null_dimension] = 0
    A = V.T @ gram @ V
    diagonal = np.einsum("kii->ki", A)
    diagonal += lambda_[:, None] * strength
    with np.errstate(divide="ignore"):
        scale = np.where(diagonal > 0, 1 / np.sqrt(diagonal), 0)
    scaled = scale[:, :, None] * A * scale[:, None, :]
    W = V * scale[:, None, :]
    return np.asarray(W @ np.linalg.pinv(scaled, hermitian=True) @ W.swapaxes(1, 2))


def smoothest_inverses(gram: Floats, penalty: Floats) -> Floats:
    """Generalised inverses that fit like any other, with the least penalty."""
    identity = np.eye(gram.shape[-1])
    pseudo = np.linalg.pinv(gram, rcond=NO_RANK, hermitian=True)
    free = identity - pseudo @ gram
    rough = np.linalg.pinv(free @ penalty @ free, rcond=NO_RANK, hermitian=True)
    T = identity - rough @ penalty
    return np.asarray(T @ pseudo @ T.swapaxes(1, 2))
