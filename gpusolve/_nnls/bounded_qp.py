"""Batched convex quadratic programs within bounds."""

from __future__ import annotations

import math
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from .._device.arrays import Array, as_array, floating, is_cupy, namespace
from .._device.interrupts import interruptible, work_of
from .._device.kernels import Device, current, device_of
from .._numerics.certificate import CONVERGED, UNCERTIFIED, Solution
from . import constrained
from .covariance import with_ridge
from .dispatch import dispatch
from .labels import Labels
from .options import (
    METHODS,
    NON_NEGATIVE,
    MethodName,
    Native,
    QuadraticOptions,
    defaults_of,
    shows,
)
from .problem import EPSILONS, Problem
from .quadratic import MultiplierTerms, Quadratic, certify
from .result import NNLSResult
from .solve import (
    KNOWN,
    key_of,
    make_result,
    remember,
    replace_infeasible,
    solve_known,
    solve_problem,
)
from .sparse_matrices import is_sparse
from .validation import pair, validate

SYMMETRIC = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-3}
"""The largest difference of the triangles of G, by the roots of its diagonal."""

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
        by_factor = has_own_matrices(problem, target) or problem.has_constraints
        if by_factor and key is not None:
            remember(key, method, problem)
        solve = solve_by_factor if by_factor else solve_by_eigenvalues
        return make_result(solve(problem, target, method), problem._asdict(), labels)


def has_own_matrices(problem: Problem, target: Device | None) -> bool:
    """Whether programs on a CPU share no G: Cholesky factors take less time then."""
    own = math.prod(problem.matrices) == math.prod(problem.batch)
    return target is None and own


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
    whole, c_whole = with_penalties(problem, problem.A)
    objective = interruptible(
        work_of(problem.A), Quadratic.of, whole, c_whole, EPSILONS[problem.gram_dtype]
    )
    A, b, linear = objective.least_squares()
    factors = problem._replace(
        A=A, b=b, l1=linear, l2=0.0, rounded_matrix=True, gram_dtype=None
    )
    solution, terms = solve_factors(factors.simplified(), target, method)
    solution = replace_infeasible(factors, solution)
    return certified(objective, problem, solution, terms)


def solve_factors(
    factors: Problem, target: Device | None, method: str
) -> tuple[Solution, MultiplierTerms | None]:
    """Solve least squares, and give the terms of the multipliers of constraints."""
    if factors.has_constraints:
        return constrained.solve_by_specification(factors, method)
    return solve_problem(factors, target, method), None


def with_penalties(problem: Problem, G: Array) -> tuple[Array, Array]:
    """G and c of the whole objective. G keeps its dtype, which x has, too."""
    c = problem.b
    if problem.has_penalties:
        c = c.astype(np.float64, copy=False) - problem.l1
    return with_ridge(G, problem.l2).astype(problem.dtype, copy=False), c


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
