"""Validation of the arguments of ``nnls``, ``lsq_linear`` and ``bounded_qp``."""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

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
from .._numerics.solution import default_limit, default_tolerance
from .axes import batch_axes
from .constraints import constraint_arrays
from .differences import difference_matrix

DOUBLE = np.dtype(np.float64)

EPSILONS: dict[Any, float] = {
    np.dtype(name): float(np.finfo(name).eps) for name in ("f2", "f4", "f8")
}
"""The machine epsilon of floating dtypes."""

Option = float | Array
"""The same number for all systems, or an array."""

NUMBERS = float, int, numbers.Real, np.bool_
"""Types of numbers. The common types are first: `isinstance` finds them sooner."""

NAMES = ("A", "b"), ("G", "c")
"""What messages call A and b: of least squares, and of quadratic programs."""

MAY_BE_NONE = list, tuple, type(None)
"""Types of bounds that are None, or have None."""


class Problem(NamedTuple):
    """Validated arguments; all arrays are on one device.

    Attributes
    ----------
    A, b : array
        Of the same floating dtype.
    batch : tuple of int
        The batch axes, to which the leading axes of all arrays broadcast.
    start : (..., n) array or None
        The warm start.
    bounds : pair of float or (..., n) array
        The lower and the upper bounds.
    l1, l2 : float or (..., n) array
        Arrays of options are float64. Their values are rounded to the dtype of A.
    sum_to : float, (...,) array or None
        The sum of x.
    weights : (..., m) array or None
        The weights of the squared residuals.
    tol, maxiter : float or None, int or None
    rounded_matrix : bool
        Whether A was computed, so that its elements have rounding errors.
    is_gram : bool
        Whether A and b are G and c of ``bounded_qp``.
    L : (..., p, n) array or None
        The matrix of Tikhonov's penalty ``lam |L (x - prior)|^2 / 2``.
    lam : float or (...,) array
    prior : float, (..., n) array or None
        None is 0.
    A_ub, b_ub, A_eq, b_eq : (..., rows, n) or (..., rows) array, or None
        ``A_ub x <= b_ub`` and ``A_eq x = b_eq``.
    eps : float
        The largest machine epsilon of the dtype, and of the bounds and the sum as they
        were given: what they say of x is rounded by that much.
    """

    A: Array
    b: Array
    batch: tuple[int, ...]
    start: Array | None = None
    bounds: tuple[Option, Option] = (0.0, math.inf)
    l1: Option = 0.0
    l2: Option = 0.0
    sum_to: Option | None = None
    weights: Array | None = None
    tol: float | None = None
    maxiter: int | None = None
    rounded_matrix: bool = False
    is_gram: bool = False
    L: Array | None = None
    lam: Option = 1.0
    prior: Option | None = None
    A_ub: Array | None = None
    b_ub: Array | None = None
    A_eq: Array | None = None
    b_eq: Array | None = None
    eps: float = EPSILONS[DOUBLE]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the inputs and of the results."""
        dtype: np.dtype[Any] = self.A.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of each matrix."""
        m, n = self.A.shape[-2:]
        return m, n

    @property
    def lower(self) -> Option:
        """The lower bounds."""
        return self.bounds[0]

    @property
    def upper(self) -> Option:
        """The upper bounds."""
        return self.bounds[1]

    @property
    def has_ridge(self) -> bool:
        """Whether there may be an l2 penalty."""
        return not isinstance(self.l2, float) or self.l2 > 0

    @property
    def has_penalties(self) -> bool:
        """Whether there may be an l1 penalty."""
        return not isinstance(self.l1, float) or self.l1 > 0

    @property
    def has_sum(self) -> bool:
        """Whether the sum of x is fixed."""
        return self.sum_to is not None

    @property
    def has_constraints(self) -> bool:
        """Whether there are linear constraints besides bounds and the sum."""
        return self.A_ub is not None or self.A_eq is not None

    @property
    def is_nnls(self) -> bool:
        """Whether all bounds are 0 and infinity."""
        lower, upper = self.bounds
        are_numbers = isinstance(lower, float) and isinstance(upper, float)
        return are_numbers and lower == 0 and upper == math.inf

    @property
    def rows(self) -> int:
        """Rows of each matrix, of the fixed sum and of the l2 penalty."""
        m, n = self.shape
        return m + self.has_sum + n * self.has_ridge

    @property
    def matrices(self) -> tuple[int, ...]:
        """The batch axes of the matrices with their weights; 1 where they repeat."""
        A, weights = self.A, self.weights
        if weights is None:
            return () if A.ndim == 2 else own_axes(A, 2)
        return broadcast_shapes(own_axes(A, 2), own_axes(weights, 1))

    @property
    def shares_matrix(self) -> bool:
        """Whether all systems have the same matrix and the same weights."""
        return math.prod(self.matrices) == 1

    @property
    def iteration_limit(self) -> int:
        """`maxiter`, or its default."""
        return default_limit(self.shape[1]) if self.maxiter is None else self.maxiter

    @property
    def tolerance(self) -> float:
        """`tol`, or its default for the dtype."""
        return default_tolerance(self.dtype) if self.tol is None else self.tol

    @property
    def cpu_tolerance(self) -> float:
        """`tol`, or its default on the CPU, where all computation is in float64."""
        double = np.dtype(np.float64)
        return default_tolerance(double) if self.tol is None else self.tol

    @property
    def infeasible(self) -> Array | None:
        """Mask of the systems without a solution, or None if all may have a solution.

        Their bounds contradict each other or the sum, or all their weights are zero.
        A mask on a GPU is not read.
        """
        (lower, upper), found = self.bounds, []
        if not (isinstance(lower, float) and isinstance(upper, float)):
            wrong: Array = (lower > upper) | (lower == math.inf)
            wrong = wrong | (upper == -math.inf)
            found.append(wrong.any(axis=-1))
        if self.sum_to is not None:
            for bound, sign in ((lower, 1), (upper, -1)):
                total, rounding = self._total(bound)
                found.append(sign * total > sign * self.sum_to + rounding)
        if self.weights is not None:
            found.append((self.weights == 0).all(axis=-1))
        xp, mask = namespace(self.A), functools.reduce(operator.or_, found, False)
        if mask is False or (xp is np and not np.count_nonzero(mask)):
            return None
        return xp.broadcast_to(xp.asarray(mask), self.batch)

    def simplified(self) -> Problem:
        """A problem with the same solutions, for the solvers.

        Without variables, `infeasible` alone decides whether a sum is possible.
        """
        if self.sum_to is None:
            return self
        if not self.shape[1]:
            return self._replace(sum_to=None)
        return self._replace(sum_to=self.nearest_sum).drop_common_penalty()

    @property
    def nearest_sum(self) -> Option | None:
        """The possible sum next to `sum_to`, which rounding may make impossible.

        Bounds that are numbers are rounded like x, which the certificate allows for.
        """
        lower, upper = self.bounds
        if self.sum_to is None or (
            isinstance(lower, float) and isinstance(upper, float)
        ):
            return self.sum_to
        (least, _), (most, _) = self._total(lower), self._total(upper)
        xp = namespace(self.A)
        total = xp.asarray(self.sum_to)
        nearest = xp.minimum(xp.maximum(total, least), most)
        return xp.where(xp.isfinite(total) & xp.isfinite(nearest), nearest, total)

    def drop_common_penalty(self) -> Problem:
        """The same problem without the part of `l1` that all variables have.

        If the sum of x is fixed, this part is a constant. Next to a small residual, its
        rounding errors would be visible in the multiplier of the sum.
        """
        if not self.has_penalties:
            return self
        if isinstance(self.l1, float):
            return self._replace(l1=0.0)
        xp = namespace(self.l1)
        least = xp.maximum(self.l1.min(axis=-1, keepdims=True), 0)
        most = xp.minimum(self.l1.max(axis=-1, keepdims=True), 0)
        common = least + most
        return self._replace(l1=self.l1 - common)

    def _total(self, bound: Option) -> tuple[Option, Option]:
        """The sum of the bounds of all variables, and its rounding error."""
        n, rounding = self.shape[1], 4 * self.eps
        if isinstance(bound, float):
            total = n * bound if n else 0.0
            return total, rounding * abs(total)
        return bound.sum(axis=-1), rounding * abs(bound).sum(axis=-1)


def own_axes(array: Array, core: int) -> tuple[int, ...]:
    """The batch axes of an array; 1 for an axis that repeats it by a stride of 0.

    Its last `core` axes belong to one system.

    Examples
    --------
    >>> own_axes(np.broadcast_to(np.zeros((4, 1, 3, 2)), (7, 4, 5, 3, 2)), 2)
    (1, 4, 1)
    """
    leading = array.ndim - core
    axes = zip(array.shape[:leading], array.strides[:leading], strict=True)
    return tuple([1 if n and not stride else n for n, stride in axes])


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
    given = {of_A: A, of_b: b}
    A, b = floating(given).values()
    start = None if warm_start is None else _start(A, warm_start)
    if is_gram and (A.ndim < 2 or A.shape[-1] != A.shape[-2]):
        raise ValueError(f"G must have shape (..., n, n), got {A.shape}")
    _check_shapes(A, b, start, names)
    bounds = _bounds(A, lower, upper)
    l1, l2 = _penalty(A, l1, "l1"), _penalty(A, l2, "l2")
    given_dtypes = [getattr(v, "dtype", None) for v in (A, lower, upper, sum_to)]
    eps = max([EPSILONS.get(dtype, 0.0) for dtype in given_dtypes])
    sum_to = None if sum_to is None else _sum(A, sum_to)
    weights = None if weights is None else _weights(A, weights)
    L, lam, prior = _tikhonov(A, L, lam, prior)
    rows = constraint_arrays(A, constraints, of_A)
    named = {
        "A": A,
        "b": b,
        "warm_start": start,
        "lower": bounds[0],
        "upper": bounds[1],
        "l1": l1,
        "l2": l2,
        "sum_to": sum_to,
        "weights": weights,
        "L": L,
        "lam": lam,
        "prior": prior,
        **rows,
    }
    shapes = {
        name: option.shape
        for name, option in named.items()
        if not (option is None or isinstance(option, float))
    }
    return Problem(
        A,
        b,
        batch_of(shapes, names),
        start,
        bounds=bounds,
        l1=l1,
        l2=l2,
        sum_to=sum_to,
        weights=weights,
        tol=None if tol is None else _nonnegative(tol, "tol"),
        maxiter=None if maxiter is None else _count(maxiter, "maxiter"),
        is_gram=is_gram,
        L=L,
        lam=lam,
        prior=prior,
        **rows,
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


def _check_shapes(
    A: Array, b: Array, start: Array | None, names: Sequence[str]
) -> None:
    """ValueError unless the shapes of A, b and the warm start match."""
    of_A, of_b = names
    if A.ndim < 2:
        raise ValueError(f"{of_A} must have shape (..., m, n), got {A.shape}")
    if b.ndim < 1:
        raise ValueError(f"{of_b} must have shape (..., m), got a scalar")
    m, n = A.shape[-2:]
    if b.shape[-1] != m:
        raise ValueError(
            f"{of_b} must have shape (..., {m}) for {of_A} of shape {A.shape}, "
            f"got {b.shape}"
        )
    if m + n >= 2**31:  # kernels number rows and columns by int
        raise ValueError(f"{of_A} must have m + n < 2**31, got shape {A.shape}")
    if start is not None and start.shape[-1:] != (n,):
        raise ValueError(
            f"warm_start must have shape (..., {n}) for {of_A} of shape {A.shape}, "
            f"got {start.shape}"
        )


def _start(A: Array, value: Any) -> Array:
    """A guess in the dtype of A: it says nothing about the precision of the result."""
    found = on_one_device({"A": A, "warm_start": asarray_like(A, value)})["warm_start"]
    check_real(found, "warm_start")
    return found.astype(A.dtype, copy=False)


def _option(A: Array, value: Any, name: str) -> Option:
    """A number as a float, or an array in float64, rounded to the dtype of A."""
    if type(value) is float and A.dtype is DOUBLE:
        return value
    if isinstance(value, NUMBERS) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        return float(A.dtype.type(value))
    found = on_one_device({"A": A, name: asarray_like(A, value)})[name]
    check_real(found, name)
    if found.ndim == 0:  # of another package, or on a device, where it stays
        return found.reshape(1) if is_cupy(found) else _option(A, float(found), name)
    return found.astype(A.dtype, copy=False).astype(np.float64, copy=False)


def _variable_option(A: Array, value: Any, name: str) -> Option:
    option, n = _option(A, value, name), A.shape[-1]
    if isinstance(option, float):
        return option
    if option.shape[-1:] == (n,):
        return option
    if option.shape[-1:] != (1,):
        raise ValueError(
            f"{name} must be a number or have shape (..., {n}) for A of shape "
            f"{A.shape}, got {option.shape}"
        )
    return namespace(A).broadcast_to(option, (*option.shape[:-1], n))


def _bounds(A: Array, lower: Any, upper: Any) -> tuple[Option, Option]:
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
    option = _variable_option(A, value, name)
    if isinstance(option, float):
        return _nonnegative(option, name)
    if option.ndim == 1 and type(option) is np.ndarray:  # for all systems
        for number in option[~((option >= 0) & np.isfinite(option))]:
            _nonnegative(number, name)
    return namespace(A).where(option >= 0, option, math.nan)


def _sum(A: Array, value: Any) -> Option:
    option = _option(A, value, "sum_to")
    if isinstance(option, float) and not math.isfinite(option):
        raise ValueError(f"sum_to must be finite, got {value}")
    return option


def _weights(A: Array, value: Any) -> Array:
    option, m = _option(A, value, "weights"), A.shape[-2]
    if isinstance(option, float) or option.shape[-1:] != (m,):
        shape = () if isinstance(option, float) else option.shape
        raise ValueError(
            f"weights must have shape (..., {m}) for A of shape {A.shape}, got {shape}"
        )
    return option.astype(A.dtype, copy=False)


def _tikhonov(
    A: Array, L: Any, lam: Any, prior: Any
) -> tuple[Array | None, Option, Option | None]:
    """The matrix, the weight and the prior mean of Tikhonov's penalty."""
    if L is None:
        for name, value in (("lam", lam), ("prior", prior)):
            if value is not None:
                raise ValueError(f"L must be given with {name}, got L=None")
        return None, 1.0, None
    matrix = difference_matrix(A, L) if isinstance(L, str) else _matrix(A, L, "L")
    weight = _option(A, 1.0 if lam is None else lam, "lam")
    if isinstance(weight, float):
        weight = _nonnegative(weight, "lam")
    else:
        weight = namespace(A).where(weight >= 0, weight, math.nan)
    if prior is None:
        return matrix, weight, None
    mean = _variable_option(A, prior, "prior")
    if isinstance(mean, float) and not math.isfinite(mean):
        raise ValueError(f"prior must be finite, got {prior}")
    return matrix, weight, mean


def _matrix(A: Array, value: Any, name: str) -> Array:
    """A matrix for the variables of A, rounded to the dtype of A."""
    found, n = on_one_device({"A": A, name: asarray_like(A, value)})[name], A.shape[-1]
    check_real(found, name)
    if found.ndim < 2 or found.shape[-1] != n:
        raise ValueError(
            f"{name} must have shape (..., p, {n}) for A of shape {A.shape}, "
            f"got {found.shape}"
        )
    return found.astype(A.dtype, copy=False)


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
