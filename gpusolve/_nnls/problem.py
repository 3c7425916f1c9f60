"""The problem: the validated arguments of the solvers, and the axes of one system."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from .._device.arrays import (
    Array,
    broadcast_shapes,
    namespace,
)
from .._device.launch import pieces
from .._numerics.certificate import Solution, default_limit, default_tolerance

DOUBLE = np.dtype(np.float64)

EPSILONS: dict[Any, float] = {
    np.dtype(name): float(np.finfo(name).eps) for name in ("f2", "f4", "f8")
}
"""The machine epsilon of floating dtypes."""

Option = float | Array
"""The same number for all systems, or an array."""

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


def joined(parts: Sequence[Array], core: int) -> Array:
    """Arrays joined along the first of their last `core` axes; batch axes broadcast."""
    xp = namespace(parts[0])
    batch = broadcast_shapes(*[part.shape[: part.ndim - core] for part in parts])
    return xp.concatenate(
        [xp.broadcast_to(v, (*batch, *v.shape[v.ndim - core :])) for v in parts],
        axis=-core,
    )


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
    gram_dtype : dtype or None
        The dtype in which the G of ``bounded_qp`` was given: A and b are G and c.
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
    gram_dtype: np.dtype[Any] | None = None
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
    def row_counts(self) -> tuple[int, int]:
        """The rows of A_ub and of A_eq."""
        below, equal = (0 if d is None else d.shape[-1] for d in (self.b_ub, self.b_eq))
        return below, equal

    @property
    def dual_lengths(self) -> tuple[int, ...]:
        """The lengths of `dual_ub` and `dual_eq`; empty without linear constraints."""
        return self.row_counts if self.has_constraints else ()

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


def blank_solution(problem: Problem, batch: tuple[int, ...] = (1,)) -> Solution:
    """Results of systems that are not solved, by default of one system."""
    n, lengths = problem.shape[1], problem.dual_lengths
    return Solution.blank(batch, n, problem.dtype, *lengths)


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
