"""Base learners: one penalised B-spline of each covariate, ready to be fitted often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import (
    Array,
    contiguous,
    floating,
    namespace,
    on_host,
    on_one_device,
)
from .._device.kernels import current_device, device_of
from .._device.threads import one_blas_thread, workers
from .basis import CompactBasis
from .penalty import null_dimension, penalty_matrix
from .products import cross_products, dense_gram
from .smoothing import inverses, smoothing_parameters


@dataclass(frozen=True)
class Learners:
    """K penalised least-squares learners, all with k functions.

    The arrays live where the covariates do; those that are not said to be otherwise
    are float64. A learner has a design matrix X, of whose rows the nonzeros are kept.

    Attributes
    ----------
    first : (K, n) int32 array
        The first function that is not zero in the row, at most ``k - d - 1``.
    values : (K, n, d + 1) array of float32 or float64
        Its value, and those of the next ones.
    n_basis : int
        The number k of functions.
    gram : (K, k, k) array
        ``X'WX``.
    penalty : (k, k) array
        The matrix K of the penalty.
    lambda_ : (K,) array
        The smoothing parameters.
    inverse : (K, k, k) array
        ``(X'WX + lambda K)^-1``, symmetric; where there is none, the generalised
        inverse of the smoothest fit.
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
        """The nonzeros of the design matrices."""
        return CompactBasis(self.first, self.values)

    @property
    def gain(self) -> Array:
        """What a fit gains is ``c' Q c`` for ``c = X'Wu``: the matrices Q, (K, k, k).

        ``|u|^2 - |u - X b|^2``, weighted, with ``b = A^-1 c`` and ``A = G + lambda K``,
        is ``c' (2 A^-1 - A^-1 G A^-1) c``.
        """
        xp = namespace(self.gram)
        shrinkage = xp.matmul(xp.matmul(self.inverse, self.gram), self.inverse)
        return 2 * self.inverse - shrinkage

    def dense(self) -> Array:
        """The design matrices in full, (K, n, k) of float64."""
        return self.basis.dense(self.n_basis).astype(np.float64, copy=False)

    def some(self, which: slice) -> CompactBasis:
        """The nonzeros of some design matrices."""
        return CompactBasis(self.first[which], self.values[which])

    def weighted(self, vector: Array) -> Array:
        """``W v``, for a vector (n,)."""
        return vector if self.weights is None else self.weights * vector

    def fitted(self, learner: int, coef: Array) -> Array:
        """``X b`` of one learner, (n,)."""
        return self.some(slice(learner, learner + 1)).multiply(coef[None])[0]


def gram_matrices(
    basis: CompactBasis, n_basis: int, weights: Array | None = None
) -> Array:
    """``X'WX`` of every learner, (K, k, k) of float64, where the basis lives."""
    device = device_of(basis.values)
    if device is None:
        return gram_by_cells(basis, n_basis, weights)
    from . import _gram_kernel

    if not _gram_kernel.gram_warps(0, n_basis, device.shared_memory_per_block):
        return dense_gram(basis, n_basis, weights)
    return _gram_kernel.own_gram(*basis, weights, n_basis, device)


def gram_by_cells(
    basis: CompactBasis, n_basis: int, weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """`gram_matrices` on the host, its learners shared among the cores."""
    learners, rows = basis.first.shape
    gram = np.empty((learners, n_basis, n_basis))

    def write(some: slice) -> None:
        chunk = CompactBasis(basis.first[some], basis.values[some])
        cross_products(chunk, chunk, weights, n_basis, gram[some])

    with workers(learners, max(rows, n_basis**2)) as run:
        run(write)
    return gram


def contiguous_basis(basis: CompactBasis) -> CompactBasis:
    """The basis as the kernels read it: each array without gaps, in C order."""
    values = floating({"the values of the basis": basis.values}).popitem()[1]
    return CompactBasis(contiguous(basis.first, np.int32), contiguous(values))


def checked_weights(weights: Array, basis: CompactBasis) -> Array:
    """The weights, (n,) of float64 without gaps, where the basis lives."""
    weights = on_one_device({"the basis": basis.values, "weights": weights})["weights"]
    rows = basis.first.shape[1]
    if weights.shape != (rows,):
        raise ValueError(f"weights has shape {weights.shape}; ({rows},) is wanted")
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
    """Set up the learners: their Gram matrices, smoothing parameters and inverses.

    Parameters
    ----------
    basis : CompactBasis
        Copied where it is not contiguous.
    n_basis : int
    penalty, penalty_order
        As for `penalty_matrix`.
    df, df_definition
        As for `smoothing_parameters`.
    lambda_ : (K,) array on the host, optional
        The smoothing parameters, instead of those that give `df`.
    weights : (n,) array, optional
        Of the observations; not negative.

    Returns
    -------
    Learners

    Raises
    ------
    TypeError
        For weights on the CPU and a basis on a GPU, or the other way round.
    ValueError
        For weights of another shape or on another GPU; and as `penalty_matrix` and
        `smoothing_parameters` do.

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
    K = penalty_matrix(n_basis, penalty, penalty_order)
    free = null_dimension(n_basis, penalty, penalty_order)
    with current_device(basis.values):
        basis = contiguous_basis(basis)
        if weights is not None:
            weights = checked_weights(weights, basis)
        gram = gram_matrices(basis, n_basis, weights)
        G = on_host(gram)
        with one_blas_thread():
            if lambda_ is None:
                lambda_ = smoothing_parameters(G, K, free, df, df_definition)
            inverse = inverses(G, K, free, np.asarray(lambda_))
        xp = namespace(gram)
        return Learners(
            first=basis.first,
            values=basis.values,
            n_basis=n_basis,
            gram=gram,
            penalty=xp.asarray(K),
            lambda_=xp.asarray(lambda_, np.float64),
            inverse=xp.asarray(inverse),
            weights=weights,
        )
