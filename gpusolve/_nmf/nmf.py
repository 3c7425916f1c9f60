"""Non-negative matrix factorisation, with scikit-learn's interface."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from .._device.arrays import Array
from .._device.kernels import current_device
from .._estimators.conventions import (
    Estimator,
    check_choice,
    check_integer,
    check_number,
    from_sklearn,
    generator,
)
from .._estimators.inputs import checked_matrix, real_array
from .initial import INITS, initial_components
from .inputs import factor, matrix_of
from .matrix import Matrix, values
from .sweeps import Penalty, Rows, factorise


class NMF(Estimator):
    r"""Non-negative matrix factorisation by alternating exact least squares.

    .. math:: \min_{W, H \ge 0} \tfrac12 |X - W H|^2
              + \alpha_W p \left(\rho |W|_1 + \tfrac{1 - \rho}{2} |W|^2\right)
              + \alpha_H n \left(\rho |H|_1 + \tfrac{1 - \rho}{2} |H|^2\right)

    X is (n, p), and :math:`\rho` is `l1_ratio`. The parameters, the methods and the
    objective are scikit-learn's [1]_. Each half of a sweep is one call of
    :func:`gpusolve.nnls`: all rows of W share H, and all columns of H share W. So each
    half-sweep minimises over W or over H, and the objective does not rise.

    Parameters
    ----------
    n_components : int or "auto", optional
        The number of components. "auto" is the number of rows of a given H, else the
        number of features.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom", None}, optional
        The first H: random numbers; the non-negative parts of singular vectors [2]_,
        whose zeros remain, become the mean of X, or small random numbers; or the H that
        is given to `fit`. By default "nndsvda", or "random" for more components than
        rows or features. The first W is the best for this H.
    tol : float, optional
        The sweeps end when the gradient, where H can follow its descent, is at most
        `tol` of its first value, by the sums of magnitudes.
    max_iter : int, optional
        Limit on the number of sweeps.
    random_state : int, Generator, RandomState or None, optional
        For the random numbers of `init`.
    alpha_W, alpha_H : float, optional
        Weights of the penalties; "same" is `alpha_W`.
    l1_ratio : float, optional
        The share of the l1 penalty, 0 to 1.

    Attributes
    ----------
    components_ : (n_components, n_features) array
        H, on the device of the X of the fit.
    n_components_ : int
        The number of components.
    n_iter_ : int
        The number of sweeps.
    reconstruction_err_ : float
        ``|X - W H|``, by the weights of the entries.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : (n_features,) array of object
        Defined only if `X` was a data frame whose columns are strings.

    See Also
    --------
    gpusolve.nnls : The solver of each half-sweep.

    Notes
    -----
    X is a NumPy or a CuPy array, or a sparse matrix of SciPy or CuPy. A sparse X is
    only multiplied by matrices of `n_components` columns, and never made dense. float32
    stays float32; other real dtypes give float64.

    A dense X may have missing entries: NaN, or weight 0. A half-sweep then has a matrix
    of its own for each row, and takes longer. A row or a column without entries gets
    zeros.

    The problem is not convex: the factors are a stationary point, which depends on
    `init`. A component that becomes zero remains zero.

    References
    ----------
    .. [1] F. Pedregosa et al., "Scikit-learn: Machine Learning in Python", JMLR 12
           (2011).
    .. [2] C. Boutsidis and E. Gallopoulos, "SVD based initialization: A head start for
           nonnegative matrix factorization", Pattern Recognition 41 (2008).
    .. [3] H. Kim and H. Park, "Nonnegative matrix factorization based on alternating
           nonnegativity constrained least squares and active set method", SIAM Journal
           on Matrix Analysis and Applications 30 (2008).

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [1.0, 3.0, 3.0]])
    >>> model = gpusolve.NMF(2, tol=1e-6, random_state=0)
    >>> W = model.fit_transform(X)
    >>> (W @ model.components_).round(4)
    array([[1., 0., 2.],
           [0., 3., 1.],
           [1., 3., 3.]])

    An entry that is missing, and its estimate:

    >>> X[2, 2] = np.nan
    >>> W = model.fit_transform(X)
    >>> model.inverse_transform(W)[2, 2].round(3)
    np.float64(3.0)
    """

    components_: Array
    n_components_: int
    n_iter_: int
    reconstruction_err_: float

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        init: str | None = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: Any = None,
        alpha_W: float = 0.0,
        alpha_H: float | str = "same",
        l1_ratio: float = 0.0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.alpha_W = alpha_W
        self.alpha_H = alpha_H
        self.l1_ratio = l1_ratio

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        W: Any = None,
        H: Any = None,
        weights: Any = None,
    ) -> NMF:
        """Find the components.

        Parameters
        ----------
        X : (n_samples, n_features) array_like or sparse matrix
            Non-negative; NaN is a missing entry of an array.
        y : object
            Not used.
        W : (n_samples, n_components) array_like, optional
            A guess of the first W, which saves time; only with ``init="custom"``.
        H : (n_components, n_features) array_like, optional
            The first components, for ``init="custom"``.
        weights : (n_samples, n_features) array_like, optional
            Weights of the squared residuals, such as inverse variances, or a mask that
            is True for known entries. They broadcast to the shape of X.

        Returns
        -------
        The model itself.

        Raises
        ------
        TypeError
            If a parameter or a dtype has the wrong type.
        ValueError
            If a parameter is out of range, shapes do not match, or an entry or a weight
            is negative or infinite.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` sweeps do not suffice for `tol`: scikit-learn's, or a
            UserWarning without it.
        """
        self.fit_transform(X, y, W=W, H=H, weights=weights)
        return self

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        W: Any = None,
        H: Any = None,
        weights: Any = None,
    ) -> Any:
        """Find the components and W.

        The parameters, errors and warnings are those of `fit`.

        Returns
        -------
        (n_samples, n_components) array
            W, the best for `components_`.
        """
        check_parameters(self)
        matrix = matrix_of(X, weights)
        with current_device(values(matrix.X)):
            first = self._first_components(matrix, H)
            if W is not None:
                W = factor(W, "W", (matrix.X.shape[0], len(first)))
            found = factorise(
                matrix, first, W, self._penalties(matrix), self.tol, self.max_iter
            )
            self.reconstruction_err_ = matrix.error(found.W, found.H)
        self._set_features(X, matrix.X.shape[1])
        self.components_ = found.H
        self.n_components_ = len(found.H)
        self.n_iter_ = found.sweeps
        if self.tol and not found.converged:
            warnings.warn(
                f"{self.max_iter} sweeps, max_iter, do not suffice for tol={self.tol}",
                from_sklearn("exceptions", "ConvergenceWarning", UserWarning),
                stacklevel=2,
            )
        return found.W

    def transform(self, X: Any, *, weights: Any = None) -> Any:
        """The best W for the components of the fit.

        Parameters
        ----------
        X : (n_samples, n_features) array_like or sparse matrix
            As for `fit`, on the device of the components.
        weights : (n_samples, n_features) array_like, optional
            As for `fit`.

        Returns
        -------
        (n_samples, n_components) array
        """
        self._check_is_fitted()
        self._check_feature_names(X)
        matrix = matrix_of(X, weights)
        self._check_number_of_features(matrix.X.shape[1])
        with current_device(values(matrix.X)):
            H = self.components_.astype(matrix.X.dtype, copy=False)
            return Rows.of(matrix, H, self._penalties(matrix)[0]).solve()

    def inverse_transform(self, X: Any) -> Any:
        """``W H`` for a W.

        Parameters
        ----------
        X : (n_samples, n_components) array_like
            W.

        Returns
        -------
        (n_samples, n_features) array
        """
        self._check_is_fitted()
        W = checked_matrix(real_array(X, "X"))
        if W.shape[1] != self.n_components_:
            raise ValueError(
                f"X must have shape (n_samples, {self.n_components_}), got {W.shape}"
            )
        return W @ self.components_

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns of W.

        Parameters
        ----------
        input_features : object
            Not used.

        Returns
        -------
        (n_components,) array of object
        """
        self._check_is_fitted()
        names = [f"nmf{number}" for number in range(self.n_components_)]
        return np.array(names, dtype=object)

    def _first_components(self, matrix: Matrix, H: Any) -> Array:
        """The given H, or the first components by `init`."""
        columns = matrix.X.shape[1]
        count = None if self.n_components == "auto" else int(self.n_components)
        if self.init != "custom":
            rng = generator(self.random_state)
            return initial_components(matrix, count or columns, self.init, rng)
        if H is None:
            raise ValueError("init='custom' needs H, the first components, got None")
        found = factor(H, "H", (count, columns))
        return found.astype(matrix.X.dtype, copy=False)

    def _penalties(self, matrix: Matrix) -> tuple[Penalty, Penalty]:
        """The penalties of a row of W and of a column of H."""
        rows, columns = matrix.X.shape
        alpha_H = self.alpha_W if self.alpha_H == "same" else self.alpha_H
        weights = columns * self.alpha_W, rows * float(alpha_H)
        for_W, for_H = (
            Penalty(weight * self.l1_ratio, weight * (1 - self.l1_ratio))
            for weight in weights
        )
        return for_W, for_H

    def __sklearn_tags__(self) -> Any:
        """The tags by which scikit-learn recognises a transformer."""
        utils = importlib.import_module("sklearn.utils")
        return utils.Tags(
            estimator_type=None,
            target_tags=utils.TargetTags(required=False),
            transformer_tags=utils.TransformerTags(
                preserves_dtype=["float64", "float32"]
            ),
            input_tags=utils.InputTags(allow_nan=True, positive_only=True, sparse=True),
        )


def check_parameters(model: NMF) -> None:
    """TypeError or ValueError for parameters of the wrong type or out of range."""
    check_choice("init", model.init, INITS)
    counts: dict[str, Any] = {"max_iter": model.max_iter}
    if model.n_components != "auto":
        counts["n_components"] = model.n_components
    for name, count in counts.items():
        check_integer(name, count)
        if count < 1:
            raise ValueError(f"{name} must be 1 or more, got {count}")
    numbers: dict[str, Any] = {
        name: getattr(model, name) for name in ("tol", "alpha_W", "l1_ratio")
    }
    if model.alpha_H != "same":
        numbers["alpha_H"] = model.alpha_H
    for name, number in numbers.items():
        check_number(name, number)
        if not 0 <= number < np.inf:
            raise ValueError(f"{name} must be finite and >= 0, got {number}")
    if model.l1_ratio > 1:
        raise ValueError(f"l1_ratio must be at most 1, got {model.l1_ratio}")
