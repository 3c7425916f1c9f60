"""Least squares for several weights of Tikhonov's penalty, and the choice of one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Literal, Unpack, get_args

import numpy as np

from .._device.arrays import (
    Array,
    ArrayT,
    as_array,
    is_dask,
    namespace,
    on_host,
    unwrapped,
)
from .._device.interrupts import interruptible
from .._device.kernels import current_device
from .arguments import AXES, NON_NEGATIVE, PathOptions, batch_axes, defaults_of, shows
from .blocks import Solve
from .constraint_rows import ActiveRows
from .covariance import fitted_by
from .labels import Labels, label, plain, read
from .path_criteria import cross_validation, curvature, draw_path, largest_within
from .result import NNLSResult
from .solve import check_method, completed, least_squares
from .sparse import solve_sparse
from .sparse_matrices import SparseMatrices, is_sparse
from .validation import DIFFERENCES, pair, without_masks

DEFAULTS = defaults_of(PathOptions)

Criterion = Literal["gcv", "l_curve", "discrepancy", "chi2"]

CRITERIA = get_args(Criterion)


@shows(PathOptions)
def regularization_path(
    A: Any,
    b: Any,
    L: Any,
    lambdas: Any,
    bounds: Any = NON_NEGATIVE,
    *,
    method: str = "auto",
    **options: Unpack[PathOptions],
) -> RegularizationPath[Any]:
    r"""Solve least-squares problems for several weights of Tikhonov's penalty.

    .. math:: \min_{l \le x \le u} \tfrac12 |A x - b|^2
              + \tfrac12 \lambda |L (x - x_0)|^2
              \qquad \textrm{for every } \lambda

    All lambdas and systems are one batch, which starts at the solutions of the lambda
    in the middle. The lambdas are the first axis of the results. The path chooses a
    lambda for each system: by generalised cross-validation, the corner of the L-curve,
    the discrepancy principle, or chi^2.

    Parameters
    ----------
    A : (..., m, n) array_like, sparse matrix, or sequence of sparse matrices
        The matrices; see :func:`gpusolve.nnls`. Sparse matrices stay sparse.
    b : (..., m) array_like
        The right-hand sides. The leading axes of all arrays broadcast.
    L : (..., p, n) array_like or {"identity", "first", "second"}
        The matrix of the penalty, or the order of its differences.
    lambdas : (lambdas,) array_like
        The weights of the penalty, non-negative, in any order; usually
        ``numpy.geomspace``. They multiply the square of the norm: the square of the
        parameter of some textbooks.
    bounds : pair of float or (..., n) array_like
        As for :func:`gpusolve.lsq_linear`. Default: x is non-negative.
    method, weights, sum_to, l1, l2, prior, tol, maxiter
        As for :func:`gpusolve.lsq_linear`. The axes of arrays are axes of systems, not
        of lambdas.

    Returns
    -------
    RegularizationPath
        Its `x`, `rnorm`, `seminorm`, `degrees_of_freedom` and `status` have the axes
        ``(lambdas, ...)``. `choose` finds a lambda for each system, `at` has its
        solution as an :class:`gpusolve.NNLSResult`, and `plot` draws the L-curve.

    Raises
    ------
    TypeError
        For dask arrays, and as for :func:`gpusolve.lsq_linear`.
    ValueError
        Unless `lambdas` are one-dimensional, at least one, finite and non-negative, and
        as for :func:`gpusolve.lsq_linear`.

    See Also
    --------
    RegularizationPath, lsq_linear

    Examples
    --------
    A blurred curve, smoothed as much as its noise of 0.01 allows:

    >>> import numpy as np
    >>> import gpusolve
    >>> t = np.linspace(0, 1, 40)
    >>> A = np.exp(-0.5 * ((t[:, None] - t) / 0.05) ** 2)
    >>> truth = np.sin(np.pi * t) ** 2
    >>> b = A @ truth + 0.01 * np.cos(50 * t**2) * np.sqrt(2)
    >>> path = gpusolve.regularization_path(A, b, "second", np.geomspace(1e-6, 1e4, 21))
    >>> path.x.shape
    (21, 40)
    >>> index = path.choose("discrepancy", sigma=0.01)
    >>> float(path.lambdas[index])
    10.0
    >>> bool(abs(path.at(index).x - truth).max() < 0.1)
    True
    """
    check_method(method)
    if L is None:
        raise ValueError(f"L must be a matrix or one of {DIFFERENCES}, got None")
    lower, upper = pair(bounds)
    given = {"A": A, "b": b, "lower": lower, "upper": upper, "L": L}
    given = completed(given, DEFAULTS, options)
    check_in_memory(given)
    found = checked_lambdas(lambdas)
    given, labels = read(without_masks(given))
    if is_sparse(A):
        solve, entries = sparse_least_squares, SparseMatrices.of(A).rows[0].data
    else:
        solve, entries = least_squares, as_array(given["A"], "A")
        given["A"] = entries
    with current_device(entries):
        column = namespace(entries).asarray(along_first_axis(found, given))
    given = given | {"lam": column, "warm_start": start(solve, method, given, found)}
    result = solve(method, given, labels)
    used: Array = result._given["lam"].reshape(-1)
    return RegularizationPath(used, result)


def sparse_least_squares(
    method: str, given: dict[str, Any], labels: Labels | None = None
) -> NNLSResult[Any]:
    """Solve systems with sparse matrices, where these are."""
    return solve_sparse(method, given, None, None, labels)


def start(
    solve: Solve, method: str, given: dict[str, Any], lambdas: Array
) -> Array | None:
    """The solutions for the lambda in the middle; None for a single lambda."""
    if len(lambdas) == 1:
        return None
    middle = np.sort(lambdas)[len(lambdas) // 2]
    x: Array = solve(method, {**given, "lam": middle, "warm_start": None}).x
    return x


def check_in_memory(given: dict[str, Any]) -> None:
    """Raise TypeError for dask arrays, and for sparse matrices other than A."""
    for name, value in given.items():
        if is_dask(value) or (name != "A" and is_sparse(value)):
            raise TypeError(
                f"{name} must be an array in memory for a path, and only A may be "
                f"sparse, got {type(value).__module__}.{type(value).__name__}"
            )


def checked_lambdas(lambdas: Any) -> Array:
    """The lambdas on the host. ValueError unless they are usable."""
    found = on_host(as_array(lambdas, "lambdas"))
    if found.ndim != 1 or not found.size:
        raise ValueError(
            f"lambdas must have shape (lambdas,) with at least 1, got {found.shape}"
        )
    bad = found[~((found >= 0) & (found < math.inf))]
    if bad.size:
        raise ValueError(f"lambdas must be finite and non-negative, got {bad[0]}")
    return found


def along_first_axis(lambdas: Array, given: dict[str, Any]) -> Array:
    """The lambdas with an axis of length 1 for each axis of the batch."""
    axes = [
        len(batch_axes(name, shape_of(value)))
        for name, value in given.items()
        if name in AXES and value is not None and not isinstance(value, str)
    ]
    return lambdas.reshape(-1, *(1,) * max(axes))


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an argument; a list of sparse matrices has an axis more."""
    if isinstance(value, list | tuple) and is_sparse(value):
        return (len(value), *value[0].shape)
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


# ---- the path ------------------------------------------------------------------------


@dataclass(frozen=True)
class RegularizationPath(Generic[ArrayT]):
    """The solutions of a batch of systems for each lambda.

    It is returned by `regularization_path`. All arrays but `lambdas` have the lambdas
    as their first axis; ``...`` stands for the batch axes, which follow.

    Attributes
    ----------
    lambdas : (lambdas,) array
        In the order in which they were given, rounded to the dtype of A.
    result : NNLSResult
        The solutions, whose batch axes are ``(lambdas, ...)``.

    See Also
    --------
    regularization_path, NNLSResult

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> b = np.array([1.0, 3.0, 2.0])
    >>> path = gpusolve.regularization_path(np.eye(3), b, "identity", [0.0, 1.0])
    >>> path.at(1).x
    array([0.5, 1.5, 1. ])
    """

    lambdas: ArrayT
    result: NNLSResult[ArrayT]

    @property
    def x(self) -> ArrayT:
        """The solutions, (lambdas, ..., n)."""
        return self.result.x

    @property
    def rnorm(self) -> ArrayT:
        """``|b - A x|`` with weights, (lambdas, ...). Its square is chi^2."""
        found: ArrayT = self.result.rnorm
        return found

    @property
    def status(self) -> ArrayT:
        """The status of each solution, as for `NNLSResult`, (lambdas, ...)."""
        found: ArrayT = self.result.status
        return found

    @cached_property
    def seminorm(self) -> ArrayT:
        """``|L (x - prior)|``, (lambdas, ...)."""
        found: ArrayT = self.result.seminorm
        return found

    @cached_property
    def degrees_of_freedom(self) -> ArrayT:
        """The degrees of freedom of each fit, (lambdas, ...), in float64.

        They are the trace of the influence matrix, the derivative of ``A x`` by b,
        where variables at a bound stay there. The first access computes them, which may
        take longer than the solutions: systems with different variables at their bounds
        need a factorisation each.
        """
        given, x = self.result._given, plain(self.x)
        with current_device(x):
            lower, upper = given["bounds"]
            active = ActiveRows.of(given, x, (None, None))
            rows = None if active is None else active.compact
            free = (x > lower) & (x < upper)
            found = interruptible(self.result._work, fitted_by, given, free, rows)
        labelled: ArrayT = self._labelled(found, "degrees_of_freedom")
        return labelled

    @property
    def gcv(self) -> ArrayT:
        """The function of generalised cross-validation, (lambdas, ...).

        ``m rnorm**2 / (m - degrees_of_freedom)**2`` for m rows of positive weight.
        """
        rnorm, fitted = plain(self.rnorm), plain(self.degrees_of_freedom)
        with current_device(rnorm):
            found = cross_validation(rnorm, fitted, self._rows)
        labelled: ArrayT = self._labelled(found, "gcv")
        return labelled

    @property
    def curvature(self) -> ArrayT:
        """The curvature of the L-curve, (lambdas, ...).

        The curve is ``log(seminorm)`` over ``log(rnorm)``. It is the curvature of the
        circle through the points of three neighbouring lambdas. It is minus infinity at
        both ends, and where points are too close together.
        """
        rnorm, size = plain(self.rnorm), plain(self.seminorm)
        with current_device(rnorm):
            found = curvature(self.lambdas, rnorm, size)
        labelled: ArrayT = self._labelled(found, "curvature")
        return labelled

    def choose(
        self, criterion: Criterion, target: Any = None, *, sigma: Any = None
    ) -> Any:
        """Choose a lambda for each system.

        Parameters
        ----------
        criterion : {"gcv", "l_curve", "discrepancy", "chi2"}
            Generalised cross-validation [1]_: the least `gcv`. The corner of the
            L-curve [2]_: the largest `curvature`; take several lambdas per decade. The
            discrepancy principle [3]_: the largest lambda whose `rnorm` is at most
            `target`. ``"chi2"``: the largest lambda whose ``rnorm**2`` is at most
            `target`.
        target : float or (...,) array_like, optional
            For ``"discrepancy"`` the norm of the noise, with weights. For ``"chi2"``
            chi^2; default the number of rows of positive weight, if there are weights,
            which are then inverse variances.
        sigma : float or (...,) array_like, optional
            For ``"discrepancy"`` in place of `target`: the standard deviation of the
            noise in an element of b of weight 1. The target is its product with the
            root of the number of rows.

        Returns
        -------
        (...,) int array
            Indices of `lambdas`. If no lambda reaches the target, the smallest lambda
            is chosen. If a system has no solution, the index means nothing.

        Raises
        ------
        ValueError
            If the criterion is unknown, a target is missing or not used, or if there
            are fewer than three different lambdas for ``"l_curve"``.

        References
        ----------
        .. [1] G. H. Golub, M. Heath and G. Wahba, Generalized Cross-Validation as a
               Method for Choosing a Good Ridge Parameter, Technometrics 21, 1979.
        .. [2] P. C. Hansen, Analysis of Discrete Ill-Posed Problems by Means of the
               L-Curve, SIAM Review 34, 1992.
        .. [3] V. A. Morozov, On the Solution of Functional Equations by the Method of
               Regularization, Soviet Mathematics Doklady 7, 1966.

        Examples
        --------
        >>> import numpy as np
        >>> import gpusolve
        >>> A, b = np.eye(3), np.array([1.0, 2.0, 2.0])
        >>> path = gpusolve.regularization_path(A, b, "identity", [0.1, 0.5, 1, 2])
        >>> path.rnorm.round(3)
        array([0.273, 1.   , 1.5  , 2.   ])
        >>> path.choose("discrepancy", 1.6)
        np.int64(2)
        """
        self._check(criterion, target, sigma)
        rnorm = plain(self.rnorm)
        with current_device(rnorm):
            if criterion == "gcv":
                found = plain(self.gcv).argmin(axis=0)
            elif criterion == "l_curve":
                found = plain(self.curvature).argmax(axis=0)
            else:
                limit = self._limit(criterion, target, sigma)
                found = largest_within(self.lambdas, rnorm, limit)
        return unwrapped(found)

    def at(self, index: Any) -> NNLSResult[ArrayT]:
        """The solutions of chosen lambdas, without the axis of the lambdas.

        Parameters
        ----------
        index : int or (...,) int array_like
            An index of `lambdas` for each system, as from `choose`.

        Returns
        -------
        NNLSResult
            As from `lsq_linear` with ``lam=lambdas[index]``.

        Examples
        --------
        >>> import gpusolve
        >>> A, b = [[1.0]], [[1.0], [2.0]]
        >>> path = gpusolve.regularization_path(A, b, "identity", [1, 3])
        >>> path.at([0, 1]).x
        array([[0.5],
               [0.5]])
        """
        labels, given = self.result._labels, self.result._given
        lambdas: Array = self.lambdas
        batch = given["batch"][1:]
        with current_device(lambdas):
            xp = namespace(lambdas)
            where = xp.broadcast_to(xp.asarray(plain(index)), batch)
            fields = {
                name: label(labels, unwrapped(taken(plain(field), where, name)), name)
                for name, field in self.result._asdict().items()
            }
            given = {**given, "lam": lambdas[where], "batch": batch}
        return replace(self.result, **fields, _given=given)

    def plot(self, system: int | tuple[int, ...] = (), **chosen: Any) -> Any:
        """Draw the L-curve of a system.

        Parameters
        ----------
        system : int or tuple of int
            The index of the system in the batch.
        **chosen : int or (...,) int array_like
            Indices of `lambdas`, as from `choose`, that are marked; the names are in
            the legend.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ImportError
            Without matplotlib.

        Examples
        --------
        >>> figure = path.plot(gcv=path.choose("gcv"))  # doctest: +SKIP
        """
        system = system if isinstance(system, tuple) else (system,)
        where = (slice(None), *system)
        indices = {name: on_host(plain(index)) for name, index in chosen.items()}
        marks = {
            name: int(index[system] if index.ndim else index)
            for name, index in indices.items()
        }
        return draw_path(
            on_host(self.lambdas),
            on_host(plain(self.rnorm))[where],
            on_host(plain(self.seminorm))[where],
            marks,
        )

    def _labelled(self, found: Array, name: str) -> Any:
        return label(self.result._labels, found, name)

    @property
    def _rows(self) -> Array | int:
        """The number of rows of positive weight."""
        given = self.result._given
        if given["weights"] is None:
            return int(given["b"].shape[-1])
        return (given["weights"] > 0).sum(axis=-1)

    def _check(self, criterion: str, target: Any, sigma: Any) -> None:
        """Raise ValueError unless the criterion takes what is given."""
        if criterion not in CRITERIA:
            raise ValueError(f"criterion must be one of {CRITERIA}, got {criterion!r}")
        if criterion == "discrepancy" and (target is None) == (sigma is None):
            raise ValueError(
                'criterion="discrepancy" needs either target or sigma, got '
                f"target={target!r} and sigma={sigma!r}"
            )
        if criterion != "discrepancy" and sigma is not None:
            raise ValueError(f"sigma must be None with {criterion!r}, got {sigma!r}")
        if criterion in ("gcv", "l_curve") and target is not None:
            raise ValueError(f"target must be None with {criterion!r}, got {target!r}")
        unweighted = self.result._given["weights"] is None
        if criterion == "chi2" and target is None and unweighted:
            raise ValueError(
                'criterion="chi2" needs target or a path with weights, got target=None'
            )
        different = len(np.unique(on_host(self.lambdas)))
        if criterion == "l_curve" and different < 3:
            raise ValueError(
                f"l_curve needs at least 3 different lambdas, got {different}"
            )

    def _limit(self, criterion: str, target: Any, sigma: Any) -> Array:
        """The largest `rnorm` that a criterion allows."""
        xp, m = namespace(self.lambdas), self._rows
        if sigma is not None:
            return xp.asarray(plain(sigma)) * xp.sqrt(xp.asarray(m))
        if criterion == "discrepancy":
            return xp.asarray(plain(target))
        return xp.sqrt(xp.asarray(m if target is None else plain(target)))


RegularizationPath.__module__ = "gpusolve"  # pickles stay valid if the class moves


def taken(field: Array, where: Array, name: str) -> Array:
    """The values of a result at an index along its first axis for each system."""
    xp = namespace(field)
    index = where.reshape(1, *where.shape, *(1,) * len(AXES[name]))
    return xp.take_along_axis(field, index, axis=0)[0]
