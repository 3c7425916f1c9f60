"""Solutions, and their certificates: how far ``|b - A x|`` can be above the minimum.

A *witness* y proves a lower bound. For every feasible x', with w = A^T y,

    |b - A x'| |y| >= y (b - A x') = y (b - A p) - sum_k (x'_k - p_k) w_k.

Here p_k is the bound next to x_k, or 0 if 0 is nearer, or x_k itself if x_k is free. If
w points out of the interval where x_k is at a bound, and is 0 elsewhere, then every
residual is at least ``y (b - A p) / |y|``. For x >= 0 that is ``b y / |y|``, if y makes
no acute angle with any column.

The best witness is the residual of the optimum. A solver supplies its residual, made
orthogonal to the passive columns. The certificate is computed from A, b, x and y alone;
it does not depend on how the solver found x and y. If the sum of x is fixed, all
feasible x satisfy the row of A that says so, and the element of y there is free: it is
the multiplier of the constraint.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arithmetic import Array, Mask, namespace
from .system import System

CONVERGED = 0
ITERATION_LIMIT = 1
NOT_FINITE = 2
UNCERTIFIED = 3
INFEASIBLE = 4

BY_GRAM = 0
BY_QR = 1

CERTIFIED = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}
"""The largest `kkt` of a certified solution, not counting errors due to rounding x."""

HIDDEN = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}
"""Limit on the change of ``A x`` due to rounding x, relative to `magnitude`."""

ROUNDED = 8.0
"""Limit on what rounding x adds to `by_x`, in units of ``eps sum_k |a_k x_k|`` over
`magnitude`."""

CONVINCING = 4.0
"""Limit on `angle`, and on `by_x`, in eps, below which no method improves x."""

SHARE = 1e-4
"""Limit on the violation of a constraint by rounding errors of x, relative to the limit
on violations, for an x with terms of the size of b."""


# ---- solutions -----------------------------------------------------------------------


class Solution(NamedTuple):
    """Solutions of a batch of systems; the fields of :class:`gpusolve.NNLSResult`.

    The multipliers of linear constraints are None without constraints.
    """

    x: Array
    rnorm: Array
    dual: Array
    kkt: Array
    nit: NDArray[np.int32]
    status: NDArray[np.int32]
    n_updates: NDArray[np.int32]
    n_downdates: NDArray[np.int32]
    repaired: NDArray[np.bool_]
    method: NDArray[np.uint8]
    dual_ub: Array | None = None
    dual_eq: Array | None = None

    @classmethod
    def blank(
        cls, batch: tuple[int, ...], n: int, dtype: np.dtype[Any], *rows: int
    ) -> Solution:
        """All solutions NaN, all counts 0; `rows` of A_ub and of A_eq."""
        fields: list[Any] = [
            np.full(shape, np.nan if kind == dtype else 0, kind)
            for shape, kind in solution_fields(batch, n, dtype, *rows)
        ]
        fields[cls._fields.index("method")][...] = BY_QR
        return cls(*fields)

    def arrays(self) -> dict[str, Any]:
        """The fields that are arrays, by name."""
        return {k: field for k, field in self._asdict().items() if field is not None}

    def put(self, at: Any, found: Solution) -> None:
        """Write the solutions of some systems to the indices `at` of the batch."""
        fields: tuple[Any, ...] = self
        for field, values in zip(fields, found, strict=True):
            if field is not None:
                field[at] = values


def solution_fields(
    batch: tuple[int, ...], n: int, dtype: np.dtype[Any], *rows: int
) -> list[tuple[tuple[int, ...], Any]]:
    """The shape and the dtype of each field of a `Solution`."""
    reals = (*batch, n), batch, (*batch, n), batch
    multipliers = [((*batch, count), dtype) for count in rows]
    kinds = *[np.dtype(np.int32)] * 4, np.dtype(np.bool_), np.dtype(np.uint8)
    fields = [*[(shape, dtype) for shape in reals], *[(batch, kind) for kind in kinds]]
    return fields + multipliers


def default_tolerance(dtype: np.dtype[Any]) -> float:
    """``4 eps``; an accurate solution has a `kkt` of about ``eps``."""
    return float(4 * np.finfo(dtype).eps)


def default_limit(n: int) -> int:
    """Ten least-squares solutions per variable; degenerate systems need several."""
    return 10 * n


# ---- the proof -----------------------------------------------------------------------


class Certificate(NamedTuple):
    """The certificate of a feasible point x, from A, b, x and a witness y.

    Attributes
    ----------
    rnorm : (...,) array
        ``|b - A x|``.
    dual : (..., n) array
        ``A^T y - l1 - l2 x``, the negative gradient.
    kkt : (...,) array
        ``by_x + angle``.
    by_x : (...,) array
        How far x is from the point that belongs to y: ``|y - (b - A x)|`` plus
        ``|sum_k (x_k - p_k) dual[k]| / |y|``, divided by ``system.magnitude``, which is
        |b| for x >= 0. The second term is at most ``sqrt(|y|^2 + 2 slack)`` over the
        same, where `slack` is what the penalties may still fall by: no x' is better by
        more than that.
    angle : (...,) array
        The largest violation of the optimality conditions by `dual`, as the cosine of
        the angle between y and a column; at most as large as the second term of `by_x`.
    """

    rnorm: Array
    dual: Array
    kkt: Array
    by_x: Array
    angle: Array


@np.errstate(all="ignore")
def certify(
    system: System,
    x: Array,
    witness: Array,
    r: Array | None = None,
    w: Array | None = None,
) -> Certificate:
    """Certify `x`, given in scaled variables; the result is in the original units.

    If x is not finite, `kkt` is NaN.

    Parameters
    ----------
    system : System
    x : (..., n) array
        The point, within the bounds.
    witness : (..., rows) array
        Of the shape of ``system.residual(x)``.
    r, w : array, optional
        ``system.residual(x)`` and ``system.gradient(witness)``, if already computed.
    """
    r = system.residual(x) if r is None else r
    w = system.gradient(witness) if w is None else w
    fit = system.fit(r)
    slope = ratio(violation(system, x, w), system.norm)
    by_x, angle, _ = distance_to_optimum(
        Terms(
            length=system.length(witness),
            magnitude=system.magnitude,
            apart=system.length(r - witness),
            gap=np.sum(bound_distance(system, x) * w, axis=-1),
            slope=np.max(slope, axis=-1, initial=0),
            slack=penalty_slack(system, x),
        )
    )
    return Certificate(
        rnorm=fit / system.b_scale,
        dual=system.unscale_dual(w),
        kkt=np.asarray(by_x + angle),
        by_x=by_x,
        angle=angle,
    )


class Terms(NamedTuple):
    """The terms of the proof for a witness y, within bounds and linear constraints.

    Attributes
    ----------
    length : (...,) array
        ``|y|``.
    magnitude : (...,) array
        The size of the system, which the certificate is relative to.
    apart : (...,) array
        ``|y - (b - A x)|``.
    gap : (...,) array
        ``w (p - x)``, and the slack of constraints times their multipliers.
    slope : (...,) array
        The largest violation of the optimality conditions by w, per column norm.
    slack : (...,) array
        By how much the penalties of x are above their minimum.
    """

    length: Array
    magnitude: Array
    apart: Array
    gap: Array
    slope: Array
    slack: Array


def distance_to_optimum(terms: Terms) -> tuple[Array, Array, Array]:
    """`by_x` and `angle` of a certificate, and the limit of both that needs no gap.

    Arrays of NumPy or CuPy.
    """
    length, magnitude, apart, gap, slope, slack = terms
    xp = namespace(length)
    limit = ratio(xp.hypot(length, xp.sqrt(2 * slack)), magnitude)
    by_gap = xp.fmin(ratio(ratio(abs(gap), length), magnitude), limit)
    return ratio(apart, magnitude) + by_gap, xp.fmin(ratio(slope, length), limit), limit


def accepts(
    by_x: Array, angle: Array, size: Array, dtype: np.dtype[Any], tol: float
) -> Mask:
    """Whether a certificate accepts points that are rounded to `dtype`.

    `size` is ``sum_k |a_k x_k|`` over `magnitude`. Rounding x adds to `by_x`, and must
    not hide too much.
    """
    most, eps = CERTIFIED[dtype], float(np.finfo(dtype).eps)
    return is_below(by_x, angle, size, (most, ROUNDED * eps), dtype, tol)


def is_below(
    by_x: Array,
    angle: Array,
    size: Array,
    limits: tuple[float, float],
    dtype: np.dtype[Any],
    tol: float,
) -> Mask:
    """Whether both numbers are at most `tol`, or the first of the limits.

    The second limit, times `size`, is allowed for `by_x` in addition.
    """
    (most, per_size), eps = limits, float(np.finfo(dtype).eps)
    xp = namespace(by_x)
    good = (by_x <= xp.maximum(tol, most + per_size * size)) & (angle <= max(tol, most))
    found: Mask = good & (eps * size <= HIDDEN[dtype])
    return found


def keeps_sum(system: System, x: Array) -> NDArray[np.bool_]:
    """Whether x has the fixed sum, to the accuracy of a certified x.

    Only the terms of the sum count: A x hides much larger errors of a variable whose
    column is small.
    """
    if system.row is None or system.total is None:
        return np.ones(x.shape[:-1], bool)
    size = np.abs(system.total) + np.sum(np.abs(system.row * x), axis=-1)
    missing = np.abs(system.missing(x))
    return np.asarray(missing <= CERTIFIED[system.dtype] * size)


def violation(system: System, x: Array, w: Array) -> Array:
    """How far the negative gradient w is from optimal, for each variable.

    At a bound, w must not point into the interval; between bounds it must be 0.
    """
    up = np.where(x < system.upper, w, 0)
    down = np.where(x > system.lower, -w, 0)
    return np.asarray(np.maximum(np.maximum(up, down), 0))


def penalty_slack(system: System, x: Array) -> Array:
    """How much the penalties of x are above their minimum within the bounds."""
    p = system.penalty
    least = np.minimum(p * system.lower, p * system.upper)
    return np.asarray(np.sum(np.where(p != 0, p * x - least, 0), axis=-1))


def bound_distance(system: System, x: Array) -> Array:
    """``x - p``, where p is the nearest bound or 0; 0 unless a bound is finite."""
    above, below = x - system.lower, x - system.upper
    least = np.where(above <= -below, above, below)
    nearer = np.where(np.abs(x) < np.abs(least), x, least)
    return np.asarray(np.where(np.isfinite(least), nearer, 0))


def ratio(part: Array, whole: Array) -> Array:
    """``part / whole``, with ``0 / 0 = 0``."""
    xp = namespace(part)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found: Array = xp.asarray(xp.where(part == 0, 0, part / whole))
        return found


def size_to_b(system: System, x: Array) -> Array:
    """``sum_k |a_k x_k|`` over `magnitude`."""
    return ratio(system.size(x), system.magnitude)


def hidden_by_rounding(system: System, x: Array) -> NDArray[np.bool_]:
    """Whether rounding x may change ``A x`` by more than `HIDDEN`."""
    return np.asarray(~(system.eps * size_to_b(system, x) <= HIDDEN[system.dtype]))


def is_certified(
    system: System, x: Array, found: Certificate, tol: float
) -> NDArray[np.bool_]:
    """Whether the certificate accepts x, up to `tol` and to rounding of x.

    The certificate takes a fixed sum for granted, so it is tested here.
    """
    size = size_to_b(system, x)
    good = accepts(found.by_x, found.angle, size, system.dtype, tol)
    return np.asarray(good & keeps_sum(system, x))


def is_convincing(
    system: System, x: Array, found: Certificate, tol: float
) -> NDArray[np.bool_]:
    """Whether x is so accurate that no other method could improve it."""
    size, most = size_to_b(system, x), CONVINCING * system.eps
    good = is_below(found.by_x, found.angle, size, (most, most), system.dtype, tol)
    return np.asarray(good & keeps_sum(system, x))


@np.errstate(invalid="ignore")
def misfit(system: System, x: Array, rnorm: Array) -> Array:
    """The square root of twice the objective, in scaled variables."""
    penalty = 2 * np.sum(np.where(x != 0, system.penalty * x, 0), axis=-1)
    penalty = penalty + np.sum((system.damping * x) ** 2, axis=-1)
    square = (rnorm * system.b_scale) ** 2 + penalty
    found = np.sign(square) * np.sqrt(np.abs(square))
    return np.asarray(np.where(np.isnan(found), np.inf, found))


def score(system: System, x: Array, rnorm: Array, certified: Any) -> Array:
    """The misfit that another solution must be below to be better.

    A certified x may be slightly worse than an uncertified x. To the
    misfit of an uncertified x, rounding errors of x and of the matrix are added. The
    score is infinite if x does not have the fixed sum.
    """
    slack = CERTIFIED[system.dtype] * system.magnitude
    units = ROUNDED if system.rounded_matrix else 1.0
    rounding = units * system.eps * system.size(x)
    found = misfit(system, x, rnorm) + np.where(certified, -slack, rounding)
    return np.where(keeps_sum(system, x), found, np.inf)


def outcome(
    system: System, x: Array, found: Certificate, status: Any, tol: float
) -> NDArray[np.int32]:
    """The status of solutions, from their certificates and the status of the solver."""
    limited = np.where(is_convincing(system, x, found, tol), CONVERGED, ITERATION_LIMIT)
    ended = np.where(is_certified(system, x, found, tol), CONVERGED, UNCERTIFIED)
    return np.where(np.equal(status, ITERATION_LIMIT), limited, ended).astype(np.int32)


def multiplier(w: Array, norm: Array, rises: Mask, falls: Mask) -> Array:
    """The multiplier of a fixed sum, for the gradient w and the norms of the columns.

    w is the multiplier where a variable is free. A free variable without curvature
    determines it. At a bound, w bounds it from one side.
    """
    xp = namespace(w)
    free = rises & falls
    flat = free & (norm == 0)
    chosen = xp.where(flat.any(axis=-1, keepdims=True), flat, free)
    least = xp.where(chosen, norm, np.inf).min(axis=-1, keepdims=True)
    weight = xp.where(chosen, xp.where(flat, 1, least / norm) ** 2, 0)
    mean = (weight * w).sum(axis=-1) / weight.sum(axis=-1)
    up = xp.where(rises, w, -np.inf).max(axis=-1)
    down = xp.where(falls, w, np.inf).min(axis=-1)
    low, high = xp.minimum(up, down), xp.maximum(up, down)
    bound = xp.where(xp.isfinite(low), low, xp.where(xp.isfinite(high), high, 0))
    mean = xp.where(free.any(axis=-1), mean, bound)
    found: Array = xp.minimum(xp.maximum(mean, low), high)
    return found


def starting_points(system: System, given: Array | None) -> Array:
    """The given points within the bounds, unless rounding hides what they fit.

    Variables whose columns are zero rest: no gradient moves them.
    """
    shape = (*system.b.shape[:-1], system.A.shape[-1])
    if given is None:
        return np.broadcast_to(system.rest, shape).copy()
    start = system.rescale(np.where(np.isfinite(given), given, 0))
    start = np.clip(start, system.lower, system.upper)
    start = np.where(system.norm == 0, system.rest, start)
    return np.where(hidden_by_rounding(system, start)[..., None], system.rest, start)
