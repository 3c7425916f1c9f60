"""Base learners: a penalised B-spline of each covariate, prepared for many fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, contiguous, floating, namespace, on_one_device
from .._device.kernels import current_device
from ._boosting.problem import PreparedLearners, designs_of_basis, prepare
from ._boosting.smoothing import check_df
from ._terms.basis import CompactBasis, penalty_matrix
from ._terms.spline import Spline, penalty_options


@dataclass(frozen=True)
class Learners:
    """K penalised least-squares learners, each with k functions.

    The arrays are on the device of the covariates, and float64 where no dtype is given.
    X is the design matrix of a learner; only the nonzero values of its rows are stored.

    Attributes
    ----------
    problem : PreparedLearners
        The learners as `boost` reads them.
    penalty : (q, q) array
        The matrix P of the penalty. It has k columns, or fewer for a cyclic penalty:
        functions a period apart then share a coefficient.
    n_basis : int
        The number k of functions.
    basis : CompactBasis
        The nonzero values of the design matrices.
    gram : (K, k, k) array
        ``X'WX``.
    lambda_ : (K,) array
        The smoothing parameters.
    inverse : (K, k, k) array
        ``(X'WX + lambda P)^-1``, symmetric; for a singular matrix, the generalised
        inverse that gives the fit of least penalty.
    weights : (n,) array or None
        The diagonal of W; None for ones.

    See Also
    --------
    make_learners, boost

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BSplines, make_learners
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> learners = make_learners(BSplines.spanning(X, n_basis=8).evaluate(X), 8)
    >>> learners.inverse.shape
    (1, 8, 8)
    """

    problem: PreparedLearners
    penalty: Array

    def __len__(self) -> int:
        return len(self.problem)

    @property
    def n_basis(self) -> int:
        return self.problem.functions

    @property
    def basis(self) -> CompactBasis:
        assert self.problem.basis is not None
        return self.problem.basis

    @property
    def gram(self) -> Array:
        return join_matrices(self.problem.gram)

    @property
    def lambda_(self) -> Array:
        return self.problem.lambda_[0]

    @property
    def inverse(self) -> Array:
        return join_matrices(self.problem.inverse)

    @property
    def weights(self) -> Array | None:
        w = self.problem.weights
        return None if w is None else w[0]

    @property
    def rows(self) -> int:
        """The number n of observations."""
        return len(self.problem.rows[0])

    def dense(self) -> Array:
        """The dense design matrices, (K, n, k) of float64."""
        return self.basis.dense(self.n_basis).astype(np.float64, copy=False)


def join_matrices(matrices: Sequence[Array]) -> Array:
    """The matrices of all groups of learners, on their device."""
    with current_device(matrices[0]):
        return namespace(matrices[0]).concatenate(matrices)


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
        As for `penalty_matrix`. "cyclic" makes the effects periodic: functions a
        period apart share a coefficient.
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
        If the weights or the basis, but not both, are on a GPU.
    ValueError
        If the basis has functions beyond `n_basis`, or weights have another shape or
        are on another GPU; and as `penalty_matrix` and `smoothing_parameters` do.

    See Also
    --------
    BSplines, penalty_matrix, boost

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam._terms.basis import BSplines
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> basis = BSplines.spanning(X, n_basis=8).evaluate(X)
    >>> learners = make_learners(basis, 8, df=3)
    >>> learners.lambda_.round(2)
    array([12.])
    """
    degree = basis.values.shape[-1] - 1
    cells = n_basis - degree if penalty == "cyclic" else n_basis
    matrix = penalty_matrix(cells, penalty, penalty_order)
    check_df(df, df_definition)
    with current_device(basis.values):
        basis = checked_basis(basis, n_basis)
        if weights is not None:
            weights = checked_weights(weights, basis)
        term = Spline(
            covariates=(0,),
            degree=degree,
            ends=((0.0, 1.0),),
            interior=(n_basis - degree - 1,),
            **penalty_options(penalty, penalty_order, df),
        )
        terms = [term] * len(basis.first)
        problem = prepare(
            designs_of_basis(terms, basis),
            weights,
            lambda_=lambda_,
            df_definition=df_definition,
        )
        return Learners(problem, namespace(basis.values).asarray(matrix))
