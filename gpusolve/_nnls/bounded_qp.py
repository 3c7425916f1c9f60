"""Batched convex quadratic programs within bounds."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Unpack, overload

import numpy as np
import numpy.typing as npt

from .._device.arrays import Array, as_array, floating, namespace
from .._device.interrupts import interruptible, work_of
from .._device.kernels import Device, current, device_of
from .._device.products import transposed
from .._numerics.arithmetic import EPS, remainder
from .._numerics.certificate import (
    CERTIFIED,
    CONVERGED,
    UNCERTIFIED,
    Solution,
    multiplier,
    ratio,
)
from . import constrained
from .arguments import (
    METHODS,
    NON_NEGATIVE,
    MethodName,
    Native,
    QuadraticOptions,
    defaults_of,
    shows,
)
from .constrained import MultiplierTerms
from .covariance import with_ridge
from .labels import Labels
from .problem import EPSILONS, Option, Problem, replace_infeasible
from .result import NNLSResult, make_result
from .solve import (
    KNOWN,
    dispatch,
    key_of,
    remember,
    solve_known,
    solve_problem,
)
from .sparse_matrices import is_sparse
from .validation import is_symmetric, pair, symmetric, validate

NULL = 8.0
"""Eigenvalues of at most this number times ``n eps`` of their sum count as zero."""

MOST = 4.0
"""Limit on elements, if the diagonal elements are less than 2. A larger element, also
infinity and NaN, means a negative eigenvalue, and LAPACK might find no eigenvalue."""

GRAM_UNITS = 16.0
"""Limit on rounding errors of a gradient, in eps of the terms that cancel."""

DEFAULTS = defaults_of(QuadraticOptions)


@overload
def bounded_qp(
    G: Native,
    c: Native,
    bounds: Any = NON_NEGATIVE,
    *,
    method: MethodName = "auto",
    **options: Unpack[QuadraticOptions],
) -> NNLSResult[npt.NDArray[Any]]: ...
@overload
def bounded_qp(
    G: Any,
    c: Any,
    bounds: Any = NON_NEGATIVE,
    *,
    method: MethodName = "auto",
    **options: Unpack[QuadraticOptions],
) -> NNLSResult[Any]: ...
@shows(QuadraticOptions)
def bounded_qp(
    G: Any,
    c: Any,
    bounds: Any = NON_NEGATIVE,
    *,
    method: str = "auto",
    **options: Unpack[QuadraticOptions],
) -> NNLSResult[Any]:
    r"""Solve convex quadratic programs within bounds: least squares from ``A^T A``.

    .. math:: \min_{l \le x \le u} \tfrac12 x \cdot G x - c \cdot x
              + l_1 \cdot x + \tfrac12 \textstyle\sum_j l_{2j} x_j^2

    Parameters
    ----------
    G : (..., n, n) array_like
        Symmetric, positive semidefinite matrices, such as ``A^T A`` plus the inverse
        covariance of a prior. The lower triangle is used; a system whose triangles
        differ by more than 1e-6 (float32: 1e-3), relative to the roots of the diagonal,
        has status 2.
    c : (..., n) array_like
        The linear terms, such as ``A^T b``. The leading axes of all arrays broadcast.
        Weights of the rows of A, such as inverse variances, are part of both:
        ``G = A^T W A`` and ``c = A^T W b``; G and c must contain them.
    bounds : pair of float or (..., n) array_like
        As for :func:`gpusolve.lsq_linear`; 0 and infinity by default.
    A_ub, b_ub, A_eq, b_eq, sum_to, l1, l2
        As for :func:`gpusolve.lsq_linear`.
    method, warm_start, tol, maxiter, devices, out
        As for :func:`gpusolve.lsq_linear`.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``. `residual` is ``c - G x``; `dual` is the same, minus
        the penalties ``l1 + l2 x``, the multiplier of a fixed sum and the pull of
        linear constraints. ``rnorm**2 / 2`` is how far the objective is above its
        minimum without bounds, in the range of G plus the l2 penalty. A system whose G
        has a negative eigenvalue, beyond the rounding of its dtype, has status 2.

        `kkt` is computed from G and c. It is the larger of two numbers. The first
        is the largest violation of the optimality conditions by `dual`, relative to S,
        the size of the gradient; for each variable per root of ``G_jj``. The second is
        a bound of how far the objective is above its minimum, relative to
        ``x G x / 2 + |c x| + eps S**2``. Status 0 means that `kkt` is at most 1e-10
        (float32 G: 1e-4) or `tol`, and that x has the fixed sum and satisfies the
        linear constraints, as for :func:`gpusolve.lsq_linear`.

    Raises
    ------
    TypeError, ValueError
        As for :func:`gpusolve.lsq_linear`; ValueError also if G is not square, or a
        single matrix on the host that is not symmetric.

    See Also
    --------
    nnls, lsq_linear, NNLSResult

    Notes
    -----
    A program of its own G on a CPU, or with linear constraints, is solved by a dual
    active-set method if G is definite beyond rounding. Else ``G = A^T A`` is factorised
    by its eigenvalues, after scaling to a diagonal near 1, and ``|A x - b|`` is
    minimised by the methods of `lsq_linear`. x is certified by the gradient
    ``c - G x``, in twice the working precision.

    Eigenvalues below ``8 n eps`` times their sum count as zero. The part of c along
    their eigenvectors remains as a linear term, unless rounding explains it: the
    objective may then be unbounded below without the bounds, and x may not be found:
    status 3. The same holds if rounding errors of G decide x. If A and b themselves are
    known, `lsq_linear` is more accurate: G has the square of the condition number.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> result = gpusolve.bounded_qp([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0])
    >>> result.x
    array([0.5, 0. ])

    Two shares that add up to 1, the first at least the second:

    >>> given = {"A_ub": [[-1, 1]], "b_ub": [0], "A_eq": [[1, 1]], "b_eq": [1]}
    >>> gpusolve.bounded_qp([[2.0, 1.0], [1.0, 2.0]], [1.0, 2.0], **given).x
    array([0.5, 0.5])
    """
    if is_sparse(G):
        raise TypeError(f"G must be a dense array, got {type(G).__name__}")
    lower, upper = pair(bounds)
    given = {"A": G, "b": c, "lower": lower, "upper": upper, "is_gram": True}
    return dispatch(method, METHODS, given, DEFAULTS, options, solve_programs)


def solve_programs(
    method: str, given: dict[str, Any], labels: Labels | None = None
) -> NNLSResult[Any]:
    """Validate the arguments of ``bounded_qp`` and solve every program.

    The results have the labels. A call that is known is not validated again.
    """
    G = as_array(given["A"], "G")
    target = device_of(G)
    with current(target):
        if G.dtype not in KNOWN:
            G = floating({"G": G})["G"]
        given, key = {**given, "A": G}, None
        if not (target or labels):
            key = key_of(method, given)
            if key is not None and is_symmetric(G):
                known = solve_known(key, method, given)
                if known is not None:
                    return known
        problem = validate(**given)
        problem = problem._replace(A=symmetric(problem))
        # Cholesky factors take less time where programs on a CPU share no G.
        own = math.prod(problem.matrices) == math.prod(problem.batch)
        by_factor = (own and target is None) or problem.has_constraints
        if by_factor and key is not None:
            remember(key, method, problem)
        solve = solve_by_factor if by_factor else solve_by_eigenvalues
        return make_result(solve(problem, target, method), problem._asdict(), labels)


def solve_by_factor(problem: Problem, target: Device | None, method: str) -> Solution:
    """Solve the programs by the solver of constraints; by eigenvalues what is left."""
    found = constrained.solve_by_teams(problem.simplified(), target, method)
    whole = constrained.solve_rest(
        problem, found, lambda some: solve_by_eigenvalues(some, None, method)
    )
    return replace_infeasible(problem, whole)


def solve_by_eigenvalues(
    problem: Problem, target: Device | None, method: str
) -> Solution:
    """Solve the programs as least squares, by the eigenvalues of G."""
    assert problem.gram_dtype is not None
    eps, c = EPSILONS[problem.gram_dtype], problem.b
    if problem.has_penalties:
        c = c.astype(np.float64, copy=False) - problem.l1
    # G keeps its dtype, which x has, too.
    whole = with_ridge(problem.A, problem.l2).astype(problem.dtype, copy=False)
    objective = interruptible(work_of(problem.A), Quadratic.of, whole, c, eps)
    A, b, linear = objective.least_squares()
    factors = problem._replace(
        A=A, b=b, l1=linear, l2=0.0, rounded_matrix=True, gram_dtype=None
    )
    simple = factors.simplified()
    if factors.has_constraints:
        solution, terms = constrained.solve_by_specification(simple)
    else:
        solution, terms = solve_problem(simple, target, method), None
    solution = replace_infeasible(factors, solution)
    return certified(objective, problem, solution, terms)


def certified(
    objective: Quadratic,
    problem: Problem,
    solution: Solution,
    terms: MultiplierTerms | None,
) -> Solution:
    """The solution, with the certificate that G and c give."""
    xp = namespace(problem.A)
    if not problem.shape[1]:
        return solution
    x, status = solution.x, solution.status
    given = objective, x, problem.lower, problem.upper, problem.nearest_sum
    found = certify(*given, terms)
    ended = (status == CONVERGED) | (status == UNCERTIFIED)
    assert problem.gram_dtype is not None
    good = found.accepts(problem.tol, problem.gram_dtype)
    outcome = xp.where(good, xp.int32(CONVERGED), xp.int32(UNCERTIFIED))
    return solution._replace(
        dual=xp.where(ended[..., None], found.dual, solution.dual).astype(x.dtype),
        kkt=found.kkt.astype(x.dtype, copy=False),
        status=xp.where(ended, outcome, status),
    )


# ---- the objective -------------------------------------------------------------------


class Quadratic(NamedTuple):
    """``x G x / 2 - c x`` in float64, in scaled variables.

    Attributes
    ----------
    G : (..., n, n) array
        The diagonal is in [0.5, 2). A variable without curvature has a row of zeros.
    c : (..., n) array
    scale : (..., n) array
        Powers of two: the given variables are the scaled variables times `scale`.
    values, vectors : (..., n), (..., n, n) array
        Eigenvalues and eigenvectors of G.
    least : (..., 1) array
        The largest eigenvalue that counts as zero.
    usable : (...,) array
        Whether G is finite, and no eigenvalue is negative beyond rounding.
    eps : float
        The machine epsilon of the dtype in which G was given: its rounding.
    dtype : dtype
        The dtype of x.
    """

    G: Array
    c: Array
    scale: Array
    values: Array
    vectors: Array
    least: Array
    usable: Array
    eps: float
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, G: Array, c: Array, eps: float) -> Quadratic:
        """Scale the variables, and factorise the matrices."""
        xp, dtype, n = namespace(G), G.dtype, G.shape[-1]
        G, c = G.astype(np.float64, copy=False), c.astype(np.float64, copy=False)
        diagonal = xp.diagonal(G, axis1=-2, axis2=-1)
        curved = diagonal > 0
        exponent = xp.frexp(xp.where(xp.isfinite(diagonal) & curved, diagonal, 1))[1]
        scale = xp.ldexp(xp.ones(diagonal.shape), -(exponent // 2))
        with np.errstate(over="ignore"):
            G = scale[..., :, None] * G * scale[..., None, :]
        within = (xp.abs(G) < MOST).all(axis=(-2, -1))
        G = xp.where(within[..., None, None], G, xp.eye(n))
        values, vectors = xp.linalg.eigh(G)
        least = NULL * n * eps * size(values)
        usable = within & (curved | (G == 0).all(axis=-1)).all(axis=-1)
        usable = usable & (values >= -least).all(axis=-1)
        return cls(G, c * scale, scale, values, vectors, least, usable, eps, dtype)

    @property
    def norm(self) -> Array:
        """The roots of the diagonal of G."""
        xp = namespace(self.G)
        diagonal = xp.diagonal(self.G, axis1=-2, axis2=-1)
        return xp.sqrt(xp.where(diagonal > 0, diagonal, 0))

    @property
    def curved(self) -> Array:
        """Mask of the variables whose row of G is not zero."""
        return self.norm > 0

    def divide_by_norm(self, v: Array) -> Array:
        """v, divided by `norm`; 0 for variables without curvature."""
        xp, curved = namespace(v), self.curved
        return xp.where(curved, v / xp.where(curved, self.norm, 1), 0)

    def least_squares(self) -> tuple[Array, Array, Array]:
        """A, b and p with ``|A x - b|^2 / 2 + p x`` equal up to a constant.

        They are in the given variables and dtype. A is NaN where G is not `usable`.
        Variables without curvature have columns of zeros.
        """
        xp = namespace(self.G)
        curved = self.curved
        positive = self.values > self.least
        root = xp.sqrt(xp.where(positive, self.values, 1))
        along = combined(xp.where(curved, self.c, 0), self.vectors)
        b = xp.where(positive, along / root, 0)
        null = self.outside_range(along, positive)
        linear = xp.where(curved, -combined(null, transposed(self.vectors)), -self.c)
        columns = xp.where(positive, root, 0)[..., :, None] * transposed(self.vectors)
        A = xp.where(curved[..., None, :], columns, 0) / self.scale[..., None, :]
        A = xp.where(self.usable[..., None, None], A, math.nan)
        linear = linear / self.scale
        return A.astype(self.dtype, copy=False), b.astype(self.dtype), linear

    def outside_range(self, along: Array, positive: Array) -> Array:
        """The part of c along eigenvectors of eigenvalue 0; 0 where it is rounding.

        These eigenvectors have errors of eps over the least other eigenvalue. What c
        has along the errors is not rounding: the other eigenvectors are without it.
        """
        xp = namespace(along)
        rounding = self.least * size(along)
        null = xp.where(positive, 0, along)
        return xp.where(xp.abs(null) > rounding, null, 0)


class Certificate(NamedTuple):
    """How far x is from the minimum of a quadratic objective within bounds.

    Attributes
    ----------
    dual : (..., n) array
        ``c - G x`` minus the multiplier of a fixed sum and the pull of constraints, in
        the given variables.
    kkt : (...,) array
    is_feasible : (...,) array
        Whether x has the fixed sum and satisfies the constraints, and all variables
        are within their bounds.
    """

    dual: Array
    kkt: Array
    is_feasible: Array

    def accepts(self, tol: float | None, dtype: np.dtype[Any]) -> Array:
        """Whether x is certified."""
        most = max(CERTIFIED[dtype], 0.0 if tol is None else tol)
        return (self.kkt <= most) & self.is_feasible


@np.errstate(all="ignore")
def certify(
    objective: Quadratic,
    x: Array,
    lower: Option,
    upper: Option,
    total: Option | None,
    rows: MultiplierTerms | None = None,
) -> Certificate:
    """Certify x from the G and c that were given; NaN if x is NaN.

    ``w = c - G x`` is computed in twice the working precision. Let v be the part of w
    that violates the optimality conditions. For every feasible x',

        ``f(x) - f(x') <= v (x' - x) - (x' - x) G (x' - x) / 2 <= v G^-1 v / 2``.

    `kkt` is the larger of two numbers. The first is the largest v_j, relative to
    S = ``|c_j| + |w_j| + sum_k |G_jk z_k|`` for the feasible z next to 0, where v_j and
    S are divided by the root of G_jj, and S is the largest over j. The second is the
    bound of ``f(x) - f(x')``, relative to ``x G x / 2 + |c x| + eps S^2``. It leaves
    out rounding errors of v, and raises eigenvalues to `least`. Neither S nor the terms
    of f grow with an x whose terms cancel.

    Linear constraints take the `slope` of their multipliers from w. Their gap is added
    to the bound of ``f(x) - f(x')``, and their least activity to S. Rounding errors of
    w, of the gap and of their terms are left out.
    """
    xp, scale = namespace(x), objective.scale
    x, lower, upper = x.astype(np.float64) / scale, lower / scale, upper / scale
    rises, falls = x < upper, x > lower
    feasible = ((x >= lower) & (x <= upper)).all(axis=-1)
    w, terms = remainder(objective.c, objective.G, x)
    rest = xp.minimum(xp.maximum(0 * x, lower), upper)
    magnitude = size_of_slopes(objective, w, rest, total)
    if rows is not None:
        magnitude = magnitude + rows.least_activity
    value = xp.abs(((objective.c - w) * x).sum(axis=-1)) / 2
    value = value + xp.abs((objective.c * x).sum(axis=-1))
    value = value + objective.eps * magnitude**2
    gap: Any = 0.0
    rounding: Any = 0.0
    if rows is not None:
        slope, feasible = rows.slope * scale, feasible & rows.is_feasible
        w, rounding = w - slope, GRAM_UNITS * EPS * terms
        gap = xp.abs(rows.gap) - GRAM_UNITS * objective.eps * rows.gap_terms
        gap = xp.maximum(gap, 0)
        terms = terms + xp.abs(slope) + rows.share * scale * magnitude[..., None]
    if total is not None:
        found = multiplier(w / scale, objective.norm / scale, rises, falls)
        shift = found[..., None] * scale
        w, terms = w - shift, terms + xp.abs(shift)
        feasible = feasible & has_sum(objective, x, total)
    v = xp.where((rises & (w > 0)) | (falls & (w < 0)), xp.abs(w), 0)
    v = xp.maximum(v - rounding, 0)
    slope = objective.divide_by_norm(v).max(axis=-1)
    flat = ~objective.curved & (v > GRAM_UNITS * EPS * terms)
    kkt = xp.maximum(
        ratio(slope, magnitude),
        ratio(decrease(objective, v * xp.sign(w), magnitude) + gap, value),
    )
    kkt = xp.where(flat.any(axis=-1), math.inf, kkt)
    return Certificate(w / scale, kkt + 0 * x.sum(axis=-1), feasible)


def size_of_slopes(
    objective: Quadratic, w: Array, rest: Array, total: Option | None
) -> Array:
    """S of `certify`; `rest` is z. With a fixed sum, x - z adds to it."""
    xp, scale = namespace(w), objective.scale
    _, at_rest = remainder(objective.c, objective.G, rest)
    magnitude = objective.divide_by_norm(xp.abs(w) + at_rest).max(axis=-1)
    if total is not None:
        left = xp.abs(xp.asarray(total) - (rest * scale).sum(axis=-1))
        magnitude = magnitude + left * (objective.norm / scale).min(axis=-1)
    return magnitude


def decrease(objective: Quadratic, v: Array, magnitude: Array) -> Array:
    """``v G^-1 v / 2``, without rounding errors of v."""
    xp = namespace(v)
    v = xp.where(objective.curved, v, 0)
    along = xp.abs(combined(v, objective.vectors))
    along = xp.maximum(along - GRAM_UNITS * objective.eps * magnitude[..., None], 0)
    gap = along**2 / xp.maximum(objective.values, objective.least)
    return xp.where(along == 0, 0, gap).sum(axis=-1) / 2


def has_sum(objective: Quadratic, x: Array, total: Option) -> Array:
    """Whether the sum of the given variables is `total`, up to rounding of x."""
    xp = namespace(x)
    row = objective.scale[..., None, :]
    missing, terms = remainder(xp.asarray(total)[..., None], row, x)
    eps = float(np.finfo(objective.dtype).eps)
    return (xp.abs(missing) <= GRAM_UNITS * eps * terms)[..., 0]


def combined(c: Array, vectors: Array) -> Array:
    """``c V`` for each system."""
    return namespace(c).matmul(c[..., None, :], vectors)[..., 0, :]


def size(values: Array) -> Array:
    """The sum of magnitudes along the last axis, which is kept."""
    return namespace(values).abs(values).sum(axis=-1, keepdims=True)
