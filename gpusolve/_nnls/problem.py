"""The problem: the validated arguments of the solvers, and the axes of one system."""

from __future__ import annotations

import functools
import itertools
import math
import numbers
import operator
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

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
from .._device.launch import pieces
from .._numerics.solution import Solution, default_limit, default_tolerance

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
"""Names of A and b in messages: of least squares, and of quadratic programs."""

MAY_BE_NONE = list, tuple, type(None)
"""Types of bounds that are None, or have None."""

PAIRS = ("A_ub", "b_ub"), ("A_eq", "b_eq")
"""The arguments of ``A_ub x <= b_ub`` and ``A_eq x = b_eq``."""

Differences = Literal["identity", "first", "second"]
"""Names of matrices L, in the order of the differences: 0, 1 and 2."""

DIFFERENCES = get_args(Differences)

Masked = np.ma.MaskedArray

# ---- the axes of one system ----------------------------------------------------------

Axis = Literal["row", "variable", "penalty", "inequality", "equality"]

ROW: Axis = "row"
VARIABLE: Axis = "variable"
PENALTY: Axis = "penalty"
INEQUALITY: Axis = "inequality"
EQUALITY: Axis = "equality"

OWN: tuple[Axis, ...] = (PENALTY, INEQUALITY, EQUALITY)
"""Axes that keep these names, whatever names the arguments have."""

AXES: dict[str, tuple[Axis, ...]] = {
    "A": (ROW, VARIABLE),
    "b": (ROW,),
    "weights": (ROW,),
    "lower": (VARIABLE,),
    "upper": (VARIABLE,),
    "l1": (VARIABLE,),
    "l2": (VARIABLE,),
    "warm_start": (VARIABLE,),
    "sum_to": (),
    "L": (PENALTY, VARIABLE),
    "lam": (),
    "prior": (VARIABLE,),
    "A_ub": (INEQUALITY, VARIABLE),
    "b_ub": (INEQUALITY,),
    "A_eq": (EQUALITY, VARIABLE),
    "b_eq": (EQUALITY,),
    "x": (VARIABLE,),
    "rnorm": (),
    "seminorm": (),
    "degrees_of_freedom": (),
    "gcv": (),
    "curvature": (),
    "dual": (VARIABLE,),
    "kkt": (),
    "nit": (),
    "status": (),
    "n_updates": (),
    "n_downdates": (),
    "repaired": (),
    "method": (),
    "dual_ub": (INEQUALITY,),
    "dual_eq": (EQUALITY,),
    "residual": (ROW,),
    "covariance": (VARIABLE, VARIABLE),
}


def batch_axes(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the axes of one system.

    Examples
    --------
    >>> batch_axes("A", (5, 1, 30, 10))
    (5, 1)
    >>> batch_axes("l2", ())
    ()
    """
    return shape[: max(0, len(shape) - len(AXES[name]))]


Block = tuple[slice, ...]
"""A slice of each axis of the batch."""


def part_of_block(array: Array, lengths: tuple[int, ...], block: Block) -> Array:
    """The values of a block in an array with batch axes of these lengths; a view."""
    slices = block[len(block) - len(lengths) :]
    index = tuple(
        slice(None) if length == 1 else part
        for length, part in zip(lengths, slices, strict=True)
    )
    return array[index]


def blocks(shape: tuple[int, ...], most: int) -> Iterator[Block]:
    """Blocks of a batch in order, each of 1 to `most` systems.

    The last axes are whole, one axis is cut, and the axes before it have the length 1.

    Examples
    --------
    >>> list(blocks((2, 3), 2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    steps, left = [], max(1, most)
    for length in reversed(shape):
        steps.append(max(1, min(length, left)))
        left = left // length if 0 < length <= left else 1
    slices = [pieces(n, step) for n, step in zip(shape, reversed(steps), strict=True)]
    yield from itertools.product(*slices)


def systems_of(
    array: Array, core: int, batch: tuple[int, ...], at: slice | Array
) -> Array:
    """Some systems of an array, with a single axis of systems.

    An array that all systems share stays shared, without this axis.

    Parameters
    ----------
    array : (..., *core axes) array
    core : int
        Number of trailing axes that belong to one system.
    batch : tuple of int
        The batch shape, to which the leading axes broadcast.
    at : slice or (systems,) integer array
        Of the flattened batch; an array is on the host.
    """
    last = array.shape[array.ndim - core :]
    if math.prod(array.shape[: array.ndim - core]) == 1:
        return array.reshape(last)
    xp, batch = namespace(array), batch or (1,)
    full = (*batch, *last)
    whole = array if array.shape == full else xp.broadcast_to(array, full)
    if isinstance(at, slice):
        if len(batch) == 1:
            return whole[at]
        at = np.arange(at.start, at.stop)
    return whole[tuple(map(xp.asarray, np.unravel_index(at, batch)))]


def gather(array: Array, core: int, batch: tuple[int, ...], chunk: slice) -> Array:
    """The systems of a chunk in float64; see `systems_of`."""
    return systems_of(array, core, batch, chunk).astype(np.float64, copy=False)


# ---- the problem --------------------------------------------------------------------


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
            return () if A.ndim == 2 else unrepeated_batch_shape(A, 2)
        return broadcast_shapes(
            unrepeated_batch_shape(A, 2), unrepeated_batch_shape(weights, 1)
        )

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

    def part(self, block: Block) -> Problem:
        """The systems of a block."""
        pairs = zip(block, self.batch, strict=True)
        batch = tuple(len(range(*axis.indices(length))) for axis, length in pairs)
        return self._selected(
            batch,
            lambda array, core: part_of_block(
                array, array.shape[: array.ndim - core], block
            ),
        )

    def take(self, at: Array) -> Problem:
        """The systems of these indices of the flattened batch."""
        return self._selected(
            (len(at),), lambda array, core: systems_of(array, core, self.batch, at)
        )

    def _selected(
        self, batch: tuple[int, ...], part: Callable[[Array, int], Array]
    ) -> Problem:
        """The problem with a part of each array, whose last `core` axes are whole."""
        named = {**self._asdict(), "warm_start": self.start}
        named |= {"lower": self.lower, "upper": self.upper}
        found = {}
        for name, axes in AXES.items():
            value = named.get(name)
            if value is not None and not isinstance(value, float):
                found[name] = part(value, min(len(axes), value.ndim))
        bounds = found.pop("lower", self.lower), found.pop("upper", self.upper)
        start = found.pop("warm_start", None)
        return self._replace(batch=batch, bounds=bounds, start=start, **found)

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


def blank_solution(problem: Problem) -> Solution:
    """The results of one system."""
    rows: tuple[int, ...] = ()
    if problem.has_constraints:
        sides = problem.b_ub, problem.b_eq
        rows = tuple(0 if side is None else side.shape[-1] for side in sides)
    return Solution.blank((1,), problem.shape[1], problem.dtype, *rows)


def drop_repeats(array: Array, core: int) -> Array:
    """A view of the array in which axes that repeat it have the length 1."""
    leading = array.ndim - core
    if not leading:
        return array
    axes = zip(array.shape[:leading], array.strides[:leading], strict=True)
    return array[
        tuple(slice(0, 1) if n and not stride else slice(None) for n, stride in axes)
    ]


def unrepeated_batch_shape(array: Array, core: int) -> tuple[int, ...]:
    """The batch axes of an array; 1 for an axis that repeats it by a stride of 0.

    Its last `core` axes belong to one system.

    Examples
    --------
    >>> A = np.broadcast_to(np.zeros((4, 1, 3, 2)), (7, 4, 5, 3, 2))
    >>> unrepeated_batch_shape(A, 2)
    (1, 4, 1)
    """
    shape: tuple[int, ...] = drop_repeats(array, core).shape[: array.ndim - core]
    return shape


# ---- validation ----------------------------------------------------------------------


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
        is_gram=is_gram,
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
    """A number as a float, or an array in float64, rounded to the dtype of A."""
    if type(value) is float and A.dtype is DOUBLE:
        return value
    if isinstance(value, NUMBERS) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        return float(A.dtype.type(value))
    found = _array(A, value, name)
    if found.ndim == 0:  # of another package, or on a device, where it stays
        return found.reshape(1) if is_cupy(found) else _option(A, float(found), name)
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
