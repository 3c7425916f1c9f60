"""Least squares for several weights of Tikhonov's penalty, and the choice of one."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from .._device.arrays import (
    Array,
    as_array,
    is_dask,
    namespace,
    on_host,
)
from .._device.kernels import current_device
from .labels import Labels, read
from .options import NON_NEGATIVE, PathOptions, defaults_of, shows
from .path import RegularizationPath
from .problem import AXES, batch_axes
from .result import NNLSResult
from .solve import Solve, check_method, completed, least_squares
from .sparse_matrices import SparseMatrices, is_sparse
from .validation import DIFFERENCES, pair, without_masks

DEFAULTS = defaults_of(PathOptions)


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
    from .sparse import solve_sparse

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
