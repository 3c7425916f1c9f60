"""Base learners: one penalised B-spline of each covariate, prepared for many fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import (
    Array,
    contiguous,
    floating,
    namespace,
    on_one_device,
)
from .._device.kernels import Device, current, device_of
from .._device.threads import one_blas_thread, workers
from ._boosting import gram_kernel
from ._boosting.products import cross_products, dense_gram
from ._boosting.smoothing import check_df, inverses, smoothing_parameters
from .basis import CompactBasis
from .penalty import Matrix, null_dimension, penalty_matrix


@dataclass(frozen=True)
class Learners:
    """K penalised least-squares learners, each with k functions.

    The arrays are on the device of the covariates, and float64 where no dtype is given.
    X is the design matrix of a learner; only the nonzero values of its rows are stored.

    Attributes
    ----------
    first : (K, n) int32 array
        The first function that is not zero in the row, at most ``k - d - 1``.
    values : (K, n, d + 1) array of float32 or float64
        The values of this function and the following ones.
    n_basis : int
        The number k of functions.
    gram : (K, k, k) array
        ``X'WX``.
    penalty : (k, k) array
        The matrix P of the penalty.
    lambda_ : (K,) array
        The smoothing parameters.
    inverse : (K, k, k) array
        ``(X'WX + lambda P)^-1``, symmetric; for a singular matrix, the generalised
        inverse that gives the fit of least penalty.
    weights : (n,) array or None
        The diagonal of W; None for ones.
    """

    first: Array
    values: Array
    n_basis: int
    gram: Array
    penalty: Array
    lambda_: Array
    inverse: Array
    weights: Array | None = None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def rows(self) -> int:
        """The number n of observations."""
        return int(self.first.shape[1])

    @property
    def basis(self) -> CompactBasis:
        """The nonzero values of the design matrices."""
        return CompactBasis(self.first, self.values)

    @property
    def gain(self) -> Array:
        """The matrices Q, (K, k, k): a fit reduces the risk by ``c' Q c``, c = X'Wu.

        With ``A = X'WX + lambda P`` and the fit ``b = A^-1 c``, the weighted
        ``|u|^2 - |u - X b|^2`` is ``c' (2 A^-1 - A^-1 X'WX A^-1) c``.
        """
        xp = namespace(self.gram)
        shrinkage = xp.matmul(xp.matmul(self.inverse, self.gram), self.inverse)
        return 2 * self.inverse - shrinkage

    def dense(self) -> Array:
        """The dense design matrices, (K, n, k) of float64."""
        return self.basis.dense(self.n_basis).astype(np.float64, copy=False)

    def some(self, which: slice) -> CompactBasis:
        """The nonzero values of some of the design matrices."""
        return CompactBasis(self.first[which], self.values[which])

    def weighted(self, vector: Array) -> Array:
        """``W v``, for a vector (n,)."""
        return vector if self.weights is None else self.weights * vector

    def fitted(self, learner: int, coef: Array) -> Array:
        """``X b`` of one learner, (n,)."""
        return self.some(slice(learner, learner + 1)).multiply(coef[None])[0]


def gram_matrices(
    basis: CompactBasis, n_basis: int, weights: Array | None, device: Device | None
) -> Array:
    """``X'WX`` of every learner, (K, k, k) of float64, on the device of the basis."""
    if device is None:
        return gram_by_cells(basis, n_basis, weights)
    if not gram_kernel.gram_fits(0, n_basis, device):
        return dense_gram(basis, n_basis, weights)
    return gram_kernel.gram_matrices(*basis, weights, n_basis, device)


def gram_by_cells(
    basis: CompactBasis, n_basis: int, weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """`gram_matrices` on the host; the learners are distributed among the cores."""
    learners, rows = basis.first.shape
    gram = np.empty((learners, n_basis, n_basis))

    def write(some: slice) -> None:
        chunk = CompactBasis(basis.first[some], basis.values[some])
        cross_products(chunk, chunk, weights, n_basis, gram[some])

    with workers(learners, max(rows, n_basis**2)) as run:
        run(write)
    return gram


def checked_basis(basis: CompactBasis, n_basis: int) -> CompactBasis:
    """The basis as contiguous arrays, the values float32 or float64.

    Its functions must be among the first `n_basis`: kernels do not check indices. One
    number is read from a device.
    """
    arrays = {"the functions": basis.first, "the values of the basis": basis.values}
    first, values = on_one_device(arrays).values()
    values = floating({"the values of the basis": values}).popitem()[1]
    if values.ndim != 3 or first.shape != values.shape[:2]:
        raise ValueError(
            "basis must have first of shape (K, n) and values of shape "
            f"(K, n, degree + 1), got {first.shape} and {values.shape}"
        )
    most = n_basis - values.shape[-1]
    if not bool(((first >= 0) & (first <= most)).all()):
        raise ValueError(
            f"basis must have only functions 0 to {n_basis - 1} for n_basis = {n_basis}"
        )
    return CompactBasis(contiguous(first, np.int32), contiguous(values))


def checked_weights(weights: Array, basis: CompactBasis) -> Array:
    """The weights as a contiguous float64 array, (n,), on the device of the basis."""
    weights = on_one_device({"the basis": basis.values, "weights": weights})["weights"]
    rows = basis.first.shape[1]
    if weights.shape != (rows,):
        raise ValueError(f"weights must have shape ({rows},), got {weights.shape}")
    return contiguous(weights, np.float64)


def make_learners(
    basis: CompactBasis,
    n_basis: int,
    *,
    penalty: str | None = "difference",
    penalty_order: int = 2,
    df: float = 4.0,
    df_definition: str = "2S-SS",
    lambda_: NDArray[np.float64] | None = None,
    weights: Array | None = None,
) -> Learners:
    """Compute the Gram matrices, smoothing parameters and inverses of the learners.

    Parameters
    ----------
    basis : CompactBasis
        Copied if it is not contiguous.
    n_basis : int
        Number of functions of each learner.
    penalty, penalty_order
        As for `penalty_matrix`.
    df, df_definition
        As for `smoothing_parameters`.
    lambda_ : (K,) array on the host, optional
        The smoothing parameters. Given these, `df` is ignored.
    weights : (n,) array, optional
        The weights of the observations; not negative.

    Returns
    -------
    Learners

    Raises
    ------
    TypeError
        If one of the weights and the basis is on the CPU and the other on a GPU.
    ValueError
        If the basis has functions beyond `n_basis`, or weights have another shape or
        are on another GPU; and as `penalty_matrix` and `smoothing_parameters` do.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam.basis import BSplines
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> basis = BSplines.spanning(X, n_basis=8).evaluate(X)
    >>> learners = make_learners(basis, 8, df=3)
    >>> learners.lambda_.round(2)
    array([12.])
    """
    P = penalty_matrix(n_basis, penalty, penalty_order)
    if lambda_ is None:
        check_df(df, df_definition)
    device = device_of(basis.values)
    with current(device):
        basis = checked_basis(basis, n_basis)
        if weights is not None:
            weights = checked_weights(weights, basis)
        return _make(
            basis,
            n_basis,
            P,
            null_dimension(n_basis, penalty, penalty_order),
            df=df,
            df_definition=df_definition,
            lambda_=lambda_,
            weights=weights,
            device=device,
        )


def _make(
    basis: CompactBasis,
    n_basis: int,
    penalty: Matrix,
    null_dimension: int,
    *,
    df: float,
    df_definition: str,
    lambda_: Array | None = None,
    weights: Array | None,
    device: Device | None,
) -> Learners:
    """`make_learners` without checks, on the current device."""
    gram = gram_matrices(basis, n_basis, weights, device)
    xp = namespace(gram)
    with one_blas_thread():
        if lambda_ is None:
            lambda_ = smoothing_parameters(
                gram, penalty, null_dimension, df, df_definition
            )
        lambda_ = xp.asarray(lambda_, np.float64)
        inverse = inverses(gram, penalty, null_dimension, lambda_)
    return Learners(
        first=basis.first,
        values=basis.values,
        n_basis=n_basis,
        gram=gram,
        penalty=xp.asarray(penalty),
        lambda_=lambda_,
        inverse=inverse,
        weights=weights,
    )
