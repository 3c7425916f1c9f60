"""The problem: the validated arguments of the solvers.

Tikhonov's penalty ``lam |L (x - prior)|^2 / 2`` is rows below those of A. The matrix
``[A; L]`` is made once for all systems that share A and L; `lam` is the weight of the
rows of L, and kernels apply weights as they read rows. Where systems have matrices of
their own, they are solved in blocks: the memory for stacked matrices does not depend on
the size of the batch.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, broadcast_shapes, largest, namespace, on_host
from .._device.products import product
from .._numerics.certificate import (
    INFEASIBLE,
    NOT_FINITE,
    Solution,
    default_limit,
    default_tolerance,
)
from .arguments import (
    AXES,
    Block,
    blocks,
    drop_repeats,
    joined,
    part_of_block,
    systems_of,
    unrepeated_batch_shape,
)

DOUBLE = np.dtype(np.float64)

EPSILONS: dict[Any, float] = {
    np.dtype(name): float(np.finfo(name).eps) for name in ("f2", "f4", "f8")
}
"""The machine epsilon of floating dtypes."""

Option = float | Array
"""The same number for all systems, or an array."""

STACKED = 2**26
"""The most elements of the stacked matrices that are made at once."""

RESIDUALS = 2**22
"""The most elements of the residuals that are computed at once."""


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

    def take(self, at: Array, *, to_host: bool = False) -> Problem:
        """The systems of these indices of the flattened batch, perhaps on the host."""

        def part(array: Array, core: int) -> Array:
            some = systems_of(array, core, self.batch, at)
            return on_host(some) if to_host else some

        return self._selected((len(at),), part)

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


def replace_infeasible(problem: Problem, solution: Solution) -> Solution:
    """Replace the results of infeasible systems."""
    mask = problem.infeasible
    if mask is None:
        return solution
    xp, mask = namespace(problem.A), mask & (solution.status != NOT_FINITE)
    reals = {
        name: xp.where(mask[..., None] if AXES[name] else mask, math.nan, array)
        for name, array in solution.arrays().items()
        if array.dtype.kind == "f"
    }
    status = xp.where(mask, xp.int32(INFEASIBLE), solution.status)
    return solution._replace(**reals, status=status)


# ---- Tikhonov's penalty --------------------------------------------------------------


def solve_stacked(problem: Problem, solve: Callable[[Problem], Solution]) -> Solution:
    """Solve every system of a problem with L; `solve` is for problems without L.

    ``rnorm`` is the residual of A and b alone.
    """
    parts = []
    for block in cut(problem):
        part = problem.part(block)
        solution = solve(stacked(part))
        rnorm = misfit(part, solution.x)
        parts.append((block, solution._replace(rnorm=rnorm)))
    if len(parts) == 1:
        return parts[0][1]
    xp, batch = namespace(problem.A), problem.batch
    blank = blank_solution(problem).arrays()
    fields = {k: xp.empty((*batch, *f.shape[1:]), f.dtype) for k, f in blank.items()}
    whole = Solution(**fields)
    for block, solution in parts:
        whole.put(block, solution)
    return whole


def cut(problem: Problem) -> Iterator[Block]:
    """Blocks of the batch whose stacked matrices have at most `STACKED` elements."""
    matrices = [problem.A] if problem.L is None else [problem.A, problem.L]
    size = sum(math.prod(matrix.shape[-2:]) for matrix in matrices)
    own = broadcast_shapes(*[unrepeated_batch_shape(matrix, 2) for matrix in matrices])
    own = (*(1,) * (len(problem.batch) - len(own)), *own)
    for block in blocks(own, STACKED // max(1, size)):
        pairs = zip(block, own, strict=True)
        yield tuple(slice(None) if length == 1 else part for part, length in pairs)


def stacked(problem: Problem) -> Problem:
    """The same systems without L: its rows are below those of A, with weights `lam`."""
    if problem.L is None:
        return problem
    A, L = drop_repeats(problem.A, 2), drop_repeats(problem.L, 2)
    return problem._replace(
        A=joined([A, L], 2),
        b=joined([problem.b, penalty_target(L, problem.prior)], 1),
        weights=stacked_weights(problem, L.shape[-2]),
        L=None,
        lam=1.0,
        prior=None,
    )


@np.errstate(all="ignore")
def penalty_target(L: Array, prior: Option | None) -> Array:
    """``L prior``, a (..., p) array in the dtype of L."""
    xp = namespace(L)
    if prior is None:
        return xp.zeros(L.shape[-2], L.dtype)
    mean = xp.asarray(prior)
    mean = xp.broadcast_to(mean, (*mean.shape[:-1], L.shape[-1]))
    return product(L.astype(np.float64, copy=False), mean).astype(L.dtype, copy=False)


def stacked_weights(problem: Problem, p: int) -> Array | None:
    """The weights of the rows of A, then `lam` for p rows; None if all are 1."""
    weights, lam = problem.weights, problem.lam
    if weights is None and isinstance(lam, float) and lam == 1:
        return None
    xp = namespace(problem.A)
    if weights is None:
        weights = xp.ones(problem.shape[0], problem.dtype)
    of_L = xp.asarray(lam, problem.dtype)[..., None]
    return joined([weights, xp.broadcast_to(of_L, (*of_L.shape[:-1], p))], 1)


@np.errstate(all="ignore")
def misfit(problem: Problem, x: Array) -> Array:
    """``|b - A x|`` with weights, in float64 and rounded to the dtype of x."""
    xp, batch = namespace(x), problem.batch
    found = xp.empty(batch, x.dtype)
    for block in blocks(batch, RESIDUALS // max(1, problem.shape[0])):
        part = problem.part(block)
        A, b = (array.astype(np.float64, copy=False) for array in (part.A, part.b))
        r = b - product(A, x[block])
        if part.weights is not None:
            root = xp.sqrt(part.weights.astype(np.float64, copy=False))
            r = xp.where(root == 0, 0, root * r)
        found[block] = norm(r)
    return found


def norm(r: Array) -> Array:
    """The 2-norm of the last axis, without overflow."""
    xp = namespace(r)
    most = largest(xp.abs(r), keepdims=True)
    scale = xp.where((most > 0) & (most < math.inf), most, 1)
    return scale[..., 0] * xp.sqrt(((r / scale) ** 2).sum(axis=-1))


@np.errstate(all="ignore")
def seminorm(given: dict[str, Any], x: Array) -> Array:
    """``|L (x - prior)|``; `given` has the fields of a `Problem`."""
    L: Array = given["L"].astype(np.float64, copy=False)
    prior: Option = 0.0 if given["prior"] is None else given["prior"]
    found: Array = norm(product(L, x - prior)).astype(x.dtype, copy=False)
    return found
