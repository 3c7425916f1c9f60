"""The arguments of the solvers: their checks, and the arrays that they become."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any, Literal, get_args

import numpy as np

from .._device.arrays import (
    Array,
    asarray_like,
    broadcast_shapes,
    check_real,
    floating,
    is_cupy,
    namespace,
    on_one_device,
)
from .arguments import batch_axes
from .problem import DOUBLE, EPSILONS, Option, Problem

NUMBERS = float, int, numbers.Real, np.bool_
"""Types of numbers. The common types are first: `isinstance` finds them sooner."""

NAMES = ("A", "b"), ("G", "c")
"""Names of A and b in messages: of least squares, and of quadratic programs."""

MAY_BE_NONE = list, tuple, type(None)
"""Types of bounds that are None, or have None."""

PAIRS = ("A_ub", "b_ub"), ("A_eq", "b_eq")
"""The arguments of ``A_ub x <= b_ub`` and ``A_eq x = b_eq``."""

Differences = Literal["identity", "first", "second"]
"""Names of matrices L, in the order of the differences: 0, 1 and 2."""

DIFFERENCES = get_args(Differences)

SYMMETRIC = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-3}
"""The largest difference of the triangles of G, by the roots of its diagonal."""

Masked = np.ma.MaskedArray


def pair(bounds: Any) -> tuple[Any, Any]:
    """The lower and the upper bounds; ValueError unless `bounds` is a pair.

    ``scipy.optimize.Bounds`` are a pair, too. None is a bound at infinity.
    """
    try:
        lower, upper = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be a pair (lower, upper), got {bounds!r}"
        ) from None
    if isinstance(lower, MAY_BE_NONE):
        lower = without_none(lower, -math.inf)
    if isinstance(upper, MAY_BE_NONE):
        upper = without_none(upper, math.inf)
    return lower, upper


def without_none(bound: Any, infinity: float) -> Any:
    """The bound or bounds, with `infinity` in place of None."""
    if bound is None:
        return infinity
    return [infinity if value is None else value for value in bound]


def without_masks(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``lsq_linear``, where A and b are without masks.

    A row has weight 0 where its element of b or any element of A is masked.

    Examples
    --------
    >>> b = np.ma.masked_values([1.0, -9.0, 2.0], -9.0)
    >>> without_masks({"A": np.ones((3, 1)), "b": b, "weights": None})["weights"]
    array([1., 0., 1.])
    """
    A, b, weights = given["A"], given["b"], given["weights"]
    hidden: Any = False
    if isinstance(A, Masked):
        hidden, A = np.ma.getmaskarray(A).any(axis=-1), A.filled(0)
    if isinstance(b, Masked):
        rows, b = np.ma.getmaskarray(b), b.filled(0)
        try:
            hidden = hidden | rows
        except ValueError as error:
            raise ValueError(
                "the masks of the rows of A and of b must broadcast, got shapes "
                f"{hidden.shape} and {rows.shape}"
            ) from error
    if hidden is not False:
        weights = np.where(hidden, 0, 1.0 if weights is None else weights)
    return {**given, "A": A, "b": b, "weights": weights}


def validate(
    A: Any,
    b: Any,
    *,
    is_gram: bool = False,
    lower: Any = 0.0,
    upper: Any = math.inf,
    weights: Any = None,
    sum_to: Any = None,
    warm_start: Any = None,
    l1: Any = 0.0,
    l2: Any = 0.0,
    tol: float | None = None,
    maxiter: int | None = None,
    L: Any = None,
    lam: Any = None,
    prior: Any = None,
    **constraints: Any,
) -> Problem:
    """Check the arguments of ``lsq_linear`` and convert the arrays.

    If `is_gram`, A and b are G and c of ``bounded_qp``. The other arguments are the
    linear constraints.
    """
    names = of_A, of_b = NAMES[is_gram]
    gram_dtype = floating({of_A: A})[of_A].dtype if is_gram else None
    A, b = floating({of_A: A, of_b: b}).values()
    _check_system(A, b, names)
    if warm_start is not None:  # it says nothing about the precision of the result
        warm_start = _array(A, warm_start, "warm_start").astype(A.dtype, copy=False)
        _check_shape("warm_start", warm_start, A.shape[-1:], of_A, A)
    given_dtypes = [getattr(v, "dtype", None) for v in (A, lower, upper, sum_to)]
    eps = max([EPSILONS.get(dtype, 0.0) for dtype in given_dtypes])
    lower, upper = _bounds(A, lower, upper)
    l1, l2 = _penalty(A, l1, "l1"), _penalty(A, l2, "l2")
    if sum_to is not None:
        sum_to = _finite(_option(A, sum_to, "sum_to"), "sum_to")
    if weights is not None:
        weights = _array(A, weights, "weights").astype(A.dtype, copy=False)
        _check_shape("weights", weights, A.shape[-2:-1], "A", A)
    if L is not None or lam is not None or prior is not None:
        L, lam, prior = _tikhonov(A, L, lam, prior)
    constraints = {k: v for k, v in constraints.items() if v is not None}
    rows = _constraints(A, constraints, of_A) if constraints else {}
    given: dict[str, Any] = {"A": A, "b": b, "l1": l1, "l2": l2, "sum_to": sum_to}
    given |= {"weights": weights, "L": L, "prior": prior, **rows}
    given["lam"] = 1.0 if lam is None else lam
    named = {**given, "warm_start": warm_start, "lower": lower, "upper": upper}
    shapes = {name: v.shape for name, v in named.items() if hasattr(v, "shape")}
    return Problem(
        **given,
        batch=batch_of(shapes, names),
        start=warm_start,
        bounds=(lower, upper),
        tol=None if tol is None else _nonnegative(tol, "tol"),
        maxiter=None if maxiter is None else _count(maxiter, "maxiter"),
        gram_dtype=gram_dtype,
        eps=eps,
    )


def batch_of(
    shapes: dict[str, tuple[int, ...]], names: tuple[str, str] = ("A", "b")
) -> tuple[int, ...]:
    """The batch axes to which the batch axes of all arguments broadcast.

    Messages call A and b by `names`.
    """
    batches = [batch_axes(name, shape) for name, shape in shapes.items()]
    try:
        return broadcast_shapes(*batches)
    except ValueError as error:
        called = dict(zip(("A", "b"), names, strict=True))
        found = ", ".join(f"{called.get(k, k)} {v}" for k, v in shapes.items())
        raise ValueError(f"batch axes must broadcast, got shapes {found}") from error


def _check_system(A: Array, b: Array, names: tuple[str, str]) -> None:
    """ValueError unless A and b, which messages call by `names`, are systems."""
    of_A, of_b = names
    if of_A == "G" and (A.ndim < 2 or A.shape[-1] != A.shape[-2]):
        raise ValueError(f"G must have shape (..., n, n), got {A.shape}")
    if A.ndim < 2:
        raise ValueError(f"{of_A} must have shape (..., m, n), got {A.shape}")
    if b.ndim < 1:
        raise ValueError(f"{of_b} must have shape (..., m), got a scalar")
    if b.shape[-1] != A.shape[-2]:
        _check_shape(of_b, b, A.shape[-2:-1], of_A, A)
    if sum(A.shape[-2:]) >= 2**31:  # kernels number rows and columns by int
        raise ValueError(f"{of_A} must have m + n < 2**31, got shape {A.shape}")


def _check_shape(
    name: str, array: Array, last: tuple[int | str, ...], of: str, matrix: Array
) -> None:
    """ValueError unless the last axes of an array have these lengths.

    A name is any length. The message says that `matrix`, called `of`, demands them.
    """
    shape = array.shape[-len(last) :]
    fits = [isinstance(k, str) or n == k for n, k in zip(shape, last, strict=False)]
    if len(shape) < len(last) or not all(fits):
        raise ValueError(
            f"{name} must have shape (..., {', '.join(map(str, last))}) for {of} of "
            f"shape {matrix.shape}, got {array.shape}"
        )


def _array(A: Array, value: Any, name: str) -> Array:
    """A value as an array of a real dtype on the device of A."""
    found = on_one_device({"A": A, name: asarray_like(A, value)})[name]
    check_real(found, name)
    return found


def _option(A: Array, value: Any, name: str) -> Option:
    """A number as a float, or an array in float64, rounded to the dtype of A.

    A value beyond the dtype's largest number is infinite.
    """
    if type(value) is float and A.dtype is DOUBLE:
        return value
    if isinstance(value, NUMBERS) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        with np.errstate(over="ignore"):
            return float(A.dtype.type(value))
    found = _array(A, value, name)
    if found.ndim == 0:  # of another package, or on a device, where it stays
        return found.reshape(1) if is_cupy(found) else _option(A, float(found), name)
    with np.errstate(over="ignore"):
        return found.astype(A.dtype, copy=False).astype(np.float64, copy=False)


def _variable_option(A: Array, value: Any, name: str) -> Option:
    """The same for an option with an element for each variable, or for all."""
    option = _option(A, value, name)
    if isinstance(option, float) or option.shape[-1] == A.shape[-1]:
        return option
    if option.shape[-1] != 1:
        raise ValueError(
            f"{name} must be a number or have shape (..., {A.shape[-1]}) for A of "
            f"shape {A.shape}, got {option.shape}"
        )
    return namespace(A).broadcast_to(option, (*option.shape[:-1], A.shape[-1]))


def _bounds(A: Array, lower: Any, upper: Any) -> tuple[Option, Option]:
    """The bounds; ValueError for numbers that contradict each other."""
    found = _variable_option(A, lower, "lower"), _variable_option(A, upper, "upper")
    least, most = found
    if not (isinstance(least, float) and isinstance(most, float)):
        return found
    if not (least <= most and least < math.inf and most > -math.inf):
        raise ValueError(
            "bounds must have lower <= upper, lower < inf and upper > -inf, "
            f"got ({lower}, {upper})"
        )
    return found


def _penalty(A: Array, value: Any, name: str) -> Option:
    """The weights of a penalty; NaN where they are negative in some systems."""
    option = _variable_option(A, value, name)
    if isinstance(option, float):
        return _nonnegative(option, name)
    if option.ndim == 1 and type(option) is np.ndarray:  # for all systems
        for number in option[~((option >= 0) & np.isfinite(option))]:
            _nonnegative(number, name)
    return namespace(A).where(option >= 0, option, math.nan)


def _tikhonov(
    A: Array, L: Any, lam: Any, prior: Any
) -> tuple[Array, Option, Option | None]:
    """The matrix, the weight and the prior mean of Tikhonov's penalty."""
    if L is None:
        name = "prior" if lam is None else "lam"
        raise ValueError(f"L must be given with {name}, got L=None")
    if isinstance(L, str):
        matrix = difference_matrix(A, L)
    else:
        matrix = _array(A, L, "L").astype(A.dtype, copy=False)
        _check_shape("L", matrix, ("p", A.shape[-1]), "A", A)
    weight = _option(A, 1.0 if lam is None else lam, "lam")
    if isinstance(weight, float):
        weight = _nonnegative(weight, "lam")
    else:
        weight = namespace(A).where(weight >= 0, weight, math.nan)
    if prior is None:
        return matrix, weight, None
    return matrix, weight, _finite(_variable_option(A, prior, "prior"), "prior")


def difference_matrix(A: Array, name: str) -> Array:
    """The differences of neighbouring variables, in the dtype and place of A.

    A row of ``"first"`` is ``x[j + 1] - x[j]``; a row of ``"second"`` is
    ``x[j + 2] - 2 x[j + 1] + x[j]``. They are not divided by a distance. Differences of
    order k have n - k rows, or 0 if n is less.

    Examples
    --------
    >>> difference_matrix(np.zeros((1, 4)), "second")
    array([[ 1., -2.,  1.,  0.],
           [ 0.,  1., -2.,  1.]])
    """
    if name not in DIFFERENCES:
        raise ValueError(f"L must be a matrix or one of {DIFFERENCES}, got {name!r}")
    matrix: Any = namespace(A).eye(A.shape[-1], dtype=A.dtype)
    for _ in range(DIFFERENCES.index(name)):
        matrix = matrix[1:] - matrix[:-1]
    return matrix


def _constraints(A: Array, given: dict[str, Any], of_A: str) -> dict[str, Array]:
    """The linear constraints as arrays; a pair that is not given is left out.

    Floating dtypes stay: they tell the rounding of what was given.
    """
    found: dict[str, Array] = {}
    for pair_of in PAIRS:
        values = [given.get(name) for name in pair_of]
        missing = [name for name, v in zip(pair_of, values, strict=True) if v is None]
        if len(missing) == 1:
            (present,) = {*pair_of} - {*missing}
            raise ValueError(f"{missing[0]} must be given with {present}, got None")
        if not missing:
            pairs = zip(pair_of, values, strict=True)
            C, d = (_array(A, value, name) for name, value in pairs)
            _check_shape(pair_of[0], C, ("rows", A.shape[-1]), of_A, A)
            _check_shape(pair_of[1], d, C.shape[-2:-1], pair_of[0], C)
            for name, array in zip(pair_of, (C, d), strict=True):
                is_real = array.dtype.kind == "f"
                found[name] = array if is_real else array.astype(np.float64)
    return found


def _finite(option: Option, name: str) -> Option:
    """The option; ValueError for a number that is not finite."""
    if isinstance(option, float) and not math.isfinite(option):
        raise ValueError(f"{name} must be finite, got {option}")
    return option


def _nonnegative(value: float, name: str) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be finite and non-negative, got {value}")
    return number


def _count(value: int, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not 0 <= number < 2**31:
        raise ValueError(f"{name} must be in [0, 2**31), got {number}")
    return number


# ---- symmetric matrices --------------------------------------------------------------


def is_symmetric(G: Array) -> bool:
    """Whether arrays on the host are square matrices with the same triangles."""
    is_square = G.ndim > 1 and G.shape[-2] == G.shape[-1]
    return is_square and bool((G.swapaxes(-1, -2) == G).all())


def symmetric(problem: Problem) -> Array:
    """The symmetric matrices of the lower triangles; NaN if the triangles differ.

    ValueError for a single matrix on the host whose triangles differ.
    """
    assert problem.gram_dtype is not None
    G = problem.A
    if not is_cupy(G) and is_symmetric(G):
        return G
    xp, other = namespace(G), namespace(G).swapaxes(G, -1, -2)
    root = xp.sqrt(xp.abs(xp.diagonal(G, axis1=-2, axis2=-1)))
    most = SYMMETRIC[problem.gram_dtype] * root[..., :, None] * root[..., None, :]
    with np.errstate(invalid="ignore"):
        differs = (xp.abs(G - other) > most).any(axis=(-2, -1))
    if G.ndim == 2 and not is_cupy(G) and differs:
        raise ValueError(
            "G must be symmetric, got a matrix whose triangles differ by up to "
            f"{np.abs(G - other).max()}"
        )
    index = xp.arange(G.shape[-1])
    lower = xp.where(index[:, None] >= index, G, other)
    return xp.where(differs[..., None, None], math.nan, lower)
