"""The smoothing parameters that give every learner the same degrees of freedom.

With ``X'WX = R'R``, the hat matrix of a learner has the eigenvalues
``1 / (1 + lambda d)``, where `d` are the eigenvalues of ``R^-T P R^-1``. The degrees of
freedom are therefore a sum over `d`, and all learners are solved as one batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DEFINITIONS = ("2S-SS", "trace")

LARGEST = 1e15
"""The largest smoothing parameter."""

RIDGE = 1e-9
"""The multiple of the penalty that is added to ``X'WX`` before it is factorised."""

NEARLY_SINGULAR = 1.49e-8
TOLERANCE = 1e-10
"""``X'WX`` is shrunk if its least eigenvalue is below NEARLY_SINGULAR - TOLERANCE."""

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this fraction of the largest count as zero: they may be rounding
errors of the sums over rows."""

MAX_RATIO = 1e6
"""The largest ratio of penalty to data, or of data to penalty, in a factorisation."""


def ranks(gram: Floats) -> NDArray[np.int_]:
    """The numerical rank of each Gram matrix, (K, k, k) to (K,)."""
    eigenvalues = np.linalg.eigvalsh(gram)
    # The eigenvalues of X'WX are squared singular values of X: a direction with less
    # than a millionth of the largest singular value does not count.
    rank = (eigenvalues > RANK_TOLERANCE * eigenvalues[:, -1:]).sum(axis=-1)
    return np.asarray(rank)


def shrunken(A: Floats) -> Floats:
    """Shrink each matrix to the identity until it is positive definite."""
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
    """The eigenvalues `d` of ``R^-T P R^-1`` with ``A = R'R``, ascending, (K, k).

    They are computed from the generalised eigenvalues of ``near P`` and ``A + near P``,
    which are ``near d / (1 + near d)``. R may therefore be nearly singular, and the
    result is most accurate for smoothing parameters close to `near`, (K,). The first
    `null_dimension` eigenvalues are exactly zero.
    """
    P = near[:, None, None] * penalty
    L = np.linalg.cholesky(A + P)
    half = np.linalg.solve(L, P)
    roughness = np.linalg.eigvalsh(np.linalg.solve(L, half.swapaxes(1, 2)))
    roughness = np.clip(roughness, 0, 1 - np.finfo(np.float64).epsneg)
    roughness[:, :null_dimension] = 0
    return np.asarray(roughness / (1 - roughness) / near[:, None])


def degrees_of_freedom(d: Floats, lambda_: Floats, definition: str) -> Floats:
    """The degrees of freedom of each learner.

    Parameters
    ----------
    d : (K, k) array
        The result of `penalty_spectrum`.
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


def solve_lambda(d: Floats, df: float, definition: str) -> Floats:
    """The smoothing parameters that give `df`, by bisection of their logarithms.

    `LARGEST` if a larger one would be necessary.
    """
    low = np.log(1e-17 / d.max(axis=-1))
    high = np.full(len(d), np.log(LARGEST))
    for _ in range(64):
        middle = (low + high) / 2
        too_rough = degrees_of_freedom(d, np.exp(middle), definition) > df
        low = np.where(too_rough, middle, low)
        high = np.where(too_rough, high, middle)
    return np.asarray(np.exp(high))


def check_df(df: float, definition: str) -> None:
    """ValueError if the definition is unknown or `df` is not positive."""
    if definition not in DEFINITIONS:
        raise ValueError(
            f"df_definition must be one of {DEFINITIONS}, got {definition!r}"
        )
    if not df > 0:
        raise ValueError(f"df must be positive, got {df}")


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
        The dimension of the null space of the penalty.
    df : float
        The degrees of freedom, positive.
    definition : {"2S-SS", "trace"}, optional
        ``tr(2S - S'S)``, mboost's default, or ``tr(S)``, of the hat matrix S.

    Returns
    -------
    (K,) float64 array
        0 for a learner whose rank is at most `df`.

    Raises
    ------
    ValueError
        If `df` is less than the dimension of the penalty's null space: no smoothing
        parameter gives so few degrees of freedom.

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
    lambda_ = np.zeros(len(gram))
    penalised = (ranks(gram) > df) & bool(penalty.any())
    if not penalised.any():
        return lambda_
    if df < null_dimension:
        raise ValueError(
            f"df must be at least {null_dimension}, the degrees of freedom that the "
            f"penalty does not affect, got {df}; penalty='ridge' allows fewer"
        )
    A = shrunken(gram[penalised] + RIDGE * penalty)
    balance = np.einsum("kii->k", A) / np.trace(penalty)
    near = balance
    for _ in range(2):
        d = penalty_spectrum(A, penalty, null_dimension, near)
        lambda_[penalised] = solve_lambda(d, df, definition)
        near = np.clip(lambda_[penalised], balance / MAX_RATIO, balance * MAX_RATIO)
    return lambda_


def inverses(
    gram: Floats, penalty: Floats, null_dimension: int, lambda_: Floats
) -> Floats:
    """``(X'WX + lambda P)^-1`` of each learner.

    If ``X'WX`` is singular and lambda is zero, several vectors of coefficients give the
    same fit; the generalised inverse then chooses the one of least penalty.

    Parameters
    ----------
    gram : (K, k, k) array
    penalty : (k, k) array
    null_dimension : int
        The dimension of the null space of the penalty.
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

    The matrices are first scaled to a unit diagonal in the basis of the penalty's
    eigenvectors. A large lambda then costs no accuracy in the penalty's null space.
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
    """Generalised inverses that give a least-squares fit of least penalty."""
    identity = np.eye(gram.shape[-1])
    pseudo = np.linalg.pinv(gram, rcond=RANK_TOLERANCE, hermitian=True)
    free = identity - pseudo @ gram
    rough = np.linalg.pinv(free @ penalty @ free, rcond=RANK_TOLERANCE, hermitian=True)
    T = identity - rough @ penalty
    return np.asarray(T @ pseudo @ T.swapaxes(1, 2))
