"""The smoothing parameters that give every learner the same degrees of freedom.

With ``X'WX = R'R``, the hat matrix of a learner has the eigenvalues
``1 / (1 + lambda d)``, where `d` are the eigenvalues of ``R^-T P R^-1``. The degrees of
freedom are therefore a sum over `d`.

All learners are a batch, which LAPACK computes on the host, also for a fit on a GPU:
some hundred small array operations take less time there than their launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.threads import workers
from .._data.conventions import check_choice
from .._terms.basis import Matrix

Batch = NDArray[Any]
"""Matrices, vectors or numbers of all learners."""

DEFINITIONS = ("2S-SS", "trace")

LARGEST = 1e15
"""The largest smoothing parameter; mboost's."""

RIDGE = 1e-9
"""The multiple of the penalty that is added to ``X'WX`` before it is factorised; also
mboost's."""

NEARLY_SINGULAR = 1.49e-8
TOLERANCE = 1e-10
"""``X'WX`` is shrunk if its least eigenvalue is below NEARLY_SINGULAR - TOLERANCE, as
in mboost."""

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this fraction of the largest count as zero: they may be rounding
errors of the sums over rows."""

PENALISED_TOLERANCE = 1e-15
"""The same fraction for a matrix with a penalty and a unit diagonal."""

REGULAR = 1e-9
"""The largest residual of the inverse of a matrix with a unit diagonal. Matrices with
larger residuals have a pseudo-inverse."""

FLAT = 1e-100
"""The least slope of the degrees of freedom: no quotient overflows."""

MAX_RATIO = 1e6
"""The largest ratio of penalty to data, or of data to penalty, in a factorisation: the
smaller matrix keeps about ten of sixteen digits."""

FAR = 10.0
"""Ratio of a smoothing parameter to its guess up to which the spectrum is accurate."""

CORE_WORK = 2
"""Cost of a matrix entry, in rows of a pass: for parts of 64 matrices of 32 x 32."""

HALVINGS, NEWTON_STEPS = 12, 4
"""Steps for the first digits of a smoothing parameter, and for all others. Halvings
leave a width of about 0.02 in the logarithm; a Newton step squares the error.
"""


def compute_in_parts(
    compute: Callable[..., Batch], gram: Batch, *others: Batch
) -> Batch:
    """``compute(gram, *others)`` of a batch, whose parts are computed on all cores."""
    made: dict[int, Batch] = {}

    def work(some: slice) -> None:
        made[some.start] = compute(gram[some], *(other[some] for other in others))

    with workers(len(gram), CORE_WORK * gram[0].size) as run:
        run(work)
    return np.concatenate([made[begin] for begin in sorted(made)])


def ranks(gram: Batch, units: Matrix) -> Batch:
    """The numerical rank of each Gram matrix, (K, k, k) to (K,); see `Term.units`."""
    scale = unit_scale(gram, units)
    scaled, k = scale.swapaxes(1, 2) * gram * scale, gram.shape[-1]
    if are_positive(scaled - RANK_TOLERANCE * k * np.eye(k)):  # a bound of the largest
        return np.full(len(gram), k)
    # The eigenvalues of X'WX are squared singular values of X: a direction with less
    # than a millionth of the largest singular value does not count.
    eigenvalues = np.linalg.eigvalsh(scaled)
    return np.asarray((eigenvalues > RANK_TOLERANCE * eigenvalues[:, -1:]).sum(axis=-1))


def unit_scale(A: Batch, units: Matrix | None = None) -> Batch:
    """The factors of rows and columns that make a diagonal 1, (K, 1, k); 1 for 0.

    Columns of the same unit have one factor: their largest diagonal element is 1.
    """
    diagonal = A.diagonal(axis1=1, axis2=2)
    if units is not None:
        diagonal = (units * diagonal[:, None, :]).max(axis=-1)
    return (1 / np.sqrt(np.where(diagonal > 0, diagonal, 1)))[:, None, :]


def fill_empty(A: Batch, null_dimension: int) -> tuple[Batch, Batch]:
    """Make matrices regular in the null space of the penalty.

    Several coefficients that the penalty does not affect may give the same function, as
    the two intercepts of ``bbs(x) + bols(f)`` do, or the function 0, as a level
    without rows does. Such directions have neither data nor a penalty. They decouple
    from all others, so their eigenvalue may have any value.

    Parameters
    ----------
    A : (K, k, k) array
        The Gram matrices in the basis of `penalty_eigenvectors`.
    null_dimension : int

    Returns
    -------
    A : (K, k, k) array
        The matrices with columns of other norms in the null space, where no penalty
        depends on these norms: the norm is the root of the trace of the others.
    empty : (K,) array
        The number of directions without data and penalty.
    """
    null = slice(null_dimension)
    total = A.diagonal(axis1=1, axis2=2)[:, null_dimension:].sum(axis=-1)
    total = np.where(total > 0, total, 1)[:, None, None]
    scale = np.ones((len(A), 1, A.shape[-1]))
    scale[..., null] = unit_scale(A[:, null, null]) * np.sqrt(total)
    A = scale.swapaxes(1, 2) * A * scale
    values, vectors = np.linalg.eigh(A[:, null, null])
    empty = values <= RANK_TOLERANCE * values[:, -1:]
    A[:, null, null] += total * spectral_product(vectors, empty)
    return A, empty.sum(axis=-1)


def shrunken(A: Batch) -> Batch:
    """Shrink each matrix that is nearly singular to the identity, as mboost does.

    Its least eigenvalue, from about zero, becomes `NEARLY_SINGULAR`.
    """
    identity = np.eye(A.shape[-1])
    if are_positive(A - NEARLY_SINGULAR * identity):
        return A
    rho = kept_share(np.linalg.eigvalsh(A)[:, 0])[:, None, None]
    return rho * A + (1 - rho) * identity


def are_positive(A: Batch) -> bool:
    """Whether all matrices have a Cholesky factor; cheaper than their eigenvalues."""
    try:
        np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    return True


def kept_share(least: Batch) -> Batch:
    """The shares of matrices that `shrunken` keeps, from their least eigenvalues."""
    least = least - NEARLY_SINGULAR
    return np.where(least < -TOLERANCE, 1 / (1 - least), 1.0)


def penalty_spectrum(
    A: Batch, strength: Batch, null_dimension: int, near: Batch
) -> Batch:
    """The eigenvalues `d` of ``R^-T P R^-1`` with ``A = R'R``, ascending, (K, k).

    P is the diagonal matrix of `strength`, which begins with zeros. The eigenvalues are
    computed from the eigenvalues ``near d / (1 + near d)`` of
    ``near P^(1/2) (A + near P)^-1 P^(1/2)``. R may therefore be nearly singular, and
    the result is most accurate for smoothing parameters close to `near`, (K,). The
    eigenvalues of the null space of P are exactly zero.
    """
    scaled = near[:, None] * strength
    M = A + scaled[:, None, :] * np.eye(len(strength))
    scale = unit_scale(M)
    inverse = np.linalg.inv(scale.swapaxes(1, 2) * M * scale)
    inverse = inverse[:, null_dimension:, null_dimension:]
    root = (scale * np.sqrt(scaled)[:, None, :])[..., null_dimension:]
    roughness = np.linalg.eigvalsh(root.swapaxes(1, 2) * inverse * root)
    roughness = np.clip(roughness, 0, 1 - np.finfo(np.float64).epsneg)
    d = np.zeros(scaled.shape)
    d[:, null_dimension:] = roughness / (1 - roughness) / near[:, None]
    return d


def least_df(gram: Batch, penalty: Matrix, null_dimension: int) -> Batch:
    """The degrees of freedom that the penalty does not affect, (K, k, k) to (K,)."""
    V = penalty_eigenvectors(penalty, null_dimension)[1]
    return null_dimension - fill_empty(congruent(gram, V), null_dimension)[1]


def degrees_of_freedom(d: Batch, lambda_: Batch, definition: str) -> Batch:
    """The degrees of freedom of each learner.

    Parameters
    ----------
    d : (..., k) array
        The result of `penalty_spectrum`.
    lambda_ : (...) array
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
    s = 1 / (1 + lambda_[..., None] * d)
    return np.asarray((s if definition == "trace" else s * (2 - s)).sum(axis=-1))


def slope(d: Batch, lambda_: Batch, definition: str) -> Batch:
    """The derivative of `degrees_of_freedom` by the logarithm of lambda."""
    s = 1 / (1 + lambda_[..., None] * d)
    change = s * (1 - s)
    falls = change if definition == "trace" else 2 * (1 - s) * change
    return -np.asarray(falls.sum(axis=-1))


def solve_lambda(d: Batch, df: Batch | float, definition: str) -> Batch:
    """The smoothing parameters that give `df`, (K, k) to (K,); at most `LARGEST`.

    The first steps halve the interval of the logarithm. Newton's method, within the
    last half, does the rest: in the logarithm, the second derivative of each term is at
    most twice the first, and all first derivatives have the same sign.
    """
    low = np.log(1e-17 / d.max(axis=-1))
    size = math.log(LARGEST) - low
    for _ in range(HALVINGS):
        size = size / 2
        is_rough = degrees_of_freedom(d, np.exp(low + size), definition) > df
        low = low + size * is_rough
    solution = low + size / 2
    for _ in range(NEWTON_STEPS):
        excess = degrees_of_freedom(d, np.exp(solution), definition) - df
        fall = slope(d, np.exp(solution), definition)
        solution = np.clip(solution - excess / np.minimum(fall, -FLAT), low, low + size)
    return np.asarray(np.exp(solution))


def check_df(df: float, definition: str) -> None:
    """ValueError if the definition is unknown or `df` is not positive."""
    check_choice("df_definition", definition, DEFINITIONS)
    if not df > 0:
        raise ValueError(f"df must be positive, got {df}")


def smoothing_parameters(
    gram: Batch,
    penalty: Matrix,
    null_dimension: int,
    df: float,
    definition: str,
    rank: Batch,
) -> Batch:
    """The smoothing parameter of each learner, all in a batch.

    Parameters
    ----------
    gram : (K, k, k) array
        ``X'WX`` of the learners.
    penalty : (k, k) array
    null_dimension : int
        The dimension of the null space of the penalty.
    df : float
        The degrees of freedom, positive, and at least `least_df`.
    definition : {"2S-SS", "trace"}
        ``tr(2S - S'S)``, mboost's default, or ``tr(S)``, of the hat matrix S.
    rank : (K,) array
        The ranks of the learners, see `ranks`.

    Returns
    -------
    (K,) float64 array
        0 for a learner whose rank is at most `df`.

    References
    ----------
    B. Hofner, A. Mayr, N. Robinzonov and M. Schmid, "Model-based boosting in R: a
    hands-on tutorial using the R package mboost", Computational Statistics 29 (2014).

    Examples
    --------
    >>> gram, rank = 3 * np.eye(2)[None], np.array([2])
    >>> smoothing_parameters(gram, np.eye(2), 0, 1.0, "trace", rank).round(6)
    array([3.])
    """
    if not penalty.any():
        return np.zeros(len(gram))
    strength, V = penalty_eigenvectors(penalty, null_dimension)

    def spectral_solution(A: Batch, near: Batch, total: Batch) -> Batch:
        d = penalty_spectrum(A, strength, null_dimension, near)
        return solve_lambda(d, total, definition)

    def solve(gram: Batch, rank: Batch) -> Batch:
        penalised = rank > df
        A, empty = fill_empty(congruent(gram, V), null_dimension)
        total = df + empty
        A = shrunken(A + RIDGE * strength * np.eye(len(strength)))
        A = np.where(penalised[:, None, None], A, np.eye(len(strength)))
        balance = A.diagonal(axis1=1, axis2=2).sum(axis=-1) / strength.sum()
        least, most = balance / MAX_RATIO, balance * MAX_RATIO
        rough = strength / A.diagonal(axis1=1, axis2=2)  # the spectrum of a diagonal A
        guess = solve_lambda(rough, total, definition)
        near = np.clip(guess, least, most)
        lambda_ = spectral_solution(A, near, total)
        nearer = np.clip(lambda_, least, most)
        far = np.flatnonzero((nearer > FAR * near) | (near > FAR * nearer))
        if far.size:
            lambda_[far] = spectral_solution(A[far], nearer[far], total[far])
        return np.where(penalised, lambda_, 0.0)

    return compute_in_parts(solve, gram, rank)


def diagonal_smoothing_parameters(
    gram: Batch, penalty: Batch, df: float, definition: str, rank: Batch
) -> Batch:
    """`smoothing_parameters` of diagonal matrices: of (K, k) and (k,), positive."""
    A = gram + RIDGE * penalty
    rho = kept_share(A.min(axis=-1))[:, None]
    d = penalty / (rho * A + (1 - rho))
    lambda_ = solve_lambda(d, df, definition)
    return np.where(rank > df, lambda_, 0.0)


def penalty_eigenvectors(penalty: Matrix, null_dimension: int) -> tuple[Batch, Matrix]:
    """The eigenvalues, exactly 0 in the null space, and the eigenvectors."""
    strength, vectors = np.linalg.eigh(penalty)
    strength[:null_dimension] = 0
    return np.maximum(strength, 0), vectors


def congruent(A: Batch, T: Matrix | None, *, transposed: bool = False) -> Batch:
    """``T'AT``, or ``TAT'``, of matrices A, (..., k, k); A itself without T."""
    if T is None:
        return A
    right = T.T if transposed else T
    return right.T @ A @ right


def inverses(
    gram: Batch, penalty: Matrix, null_dimension: int, lambda_: Batch, units: Matrix
) -> Batch:
    """``(X'WX + lambda P)^-1`` of each learner.

    If ``X'WX`` is singular and lambda is zero, several vectors of coefficients give the
    same fit; the generalised inverse then gives the vector of least penalty.

    Parameters
    ----------
    gram, penalty, null_dimension
        As for `smoothing_parameters`.
    lambda_ : (K,) array
    units : (k, k) array
        See `Term.units`.

    Returns
    -------
    (K, k, k) float64 array
    """
    strength, V = penalty_eigenvectors(penalty, null_dimension)

    def invert(gram: Batch, lambda_: Batch) -> Batch:
        # With a unit diagonal in the basis of the penalty's eigenvectors, a large
        # lambda costs no accuracy in the penalty's null space.
        A = congruent(gram, V) + lambda_[:, None, None] * np.diag(strength)
        scale = unit_scale(A)
        scaled = regular_inverses(scale.swapaxes(1, 2) * A * scale)
        W = V * scale
        inverse = W @ scaled @ W.swapaxes(1, 2)
        free = np.flatnonzero(lambda_ == 0)
        if free.size:
            several = free[ranks(gram[free], units) < gram.shape[-1]]
            inverse[several] = smoothest_inverses(gram[several], penalty, units)
        return inverse

    return compute_in_parts(invert, gram, lambda_)


def regular_inverses(A: Batch) -> Batch:
    """The inverses of matrices with a unit diagonal, or zeros in it.

    Pseudo-inverses, by eigenvalues, if the residual of an inverse is not small.
    """
    try:
        inverse = np.linalg.inv(A)
    except np.linalg.LinAlgError:
        return pseudo_inverses(A, PENALISED_TOLERANCE)
    inverse = (inverse + inverse.swapaxes(1, 2)) / 2
    residual = abs(A @ inverse - np.eye(A.shape[-1])).max(axis=(1, 2))
    singular = np.flatnonzero(~(residual < REGULAR))
    if singular.size:
        inverse[singular] = pseudo_inverses(A[singular], PENALISED_TOLERANCE)
    return inverse


def smoothest_inverses(gram: Batch, penalty: Matrix, units: Matrix) -> Batch:
    """Generalised inverses that give a least-squares fit of least penalty.

    The coefficients are measured in the units of their columns.
    """
    scale = unit_scale(gram, units)
    both = scale.swapaxes(1, 2) * scale
    reciprocals, vectors = reciprocal_spectrum(both * gram, RANK_TOLERANCE)
    pseudo = spectral_product(vectors, reciprocals)
    free = spectral_product(vectors, reciprocals == 0)  # projects on the null space
    rough = free @ penalty @ free
    T = np.eye(len(penalty)) - pseudo_inverses(rough, RANK_TOLERANCE) @ penalty
    return np.asarray(both * (T @ pseudo @ T.swapaxes(1, 2)))


def pseudo_inverses(A: Batch, tolerance: float) -> Batch:
    """The pseudo-inverses of positive semidefinite matrices, (K, k, k)."""
    reciprocals, vectors = reciprocal_spectrum(A, tolerance)
    return spectral_product(vectors, reciprocals)


def reciprocal_spectrum(A: Batch, tolerance: float) -> tuple[Batch, Batch]:
    """The reciprocals of the eigenvalues, (K, k), and the eigenvectors, (K, k, k).

    The reciprocal is 0 for eigenvalues up to `tolerance` times the largest eigenvalue.
    """
    eigenvalues, vectors = np.linalg.eigh(A)
    kept = eigenvalues > tolerance * eigenvalues[:, -1:]
    return kept / np.where(kept, eigenvalues, 1), vectors


def spectral_product(vectors: Batch, values: Batch) -> Batch:
    """``U diag(v) U'``, of (K, k, k) and (K, k)."""
    return np.asarray((vectors * values[:, None, :]) @ vectors.swapaxes(1, 2))
