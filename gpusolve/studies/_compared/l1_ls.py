"""``l1_ls``: a truncated Newton interior-point method, with conjugate gradients.

S.-J. Kim, K. Koh, M. Lustig, S. Boyd and D. Gorinevsky, *An interior-point method for
large-scale l1-regularized least squares*, IEEE Journal of Selected Topics in Signal
Processing 1(4), 2007: its form for variables that are not negative. x stays positive,
and follows the minimum of ``t (|A x - b|^2 / 2 + l1 x) - sum log x`` while t grows. A
step is Newton's, solved by conjugate gradients with the diagonal as preconditioner, and
halved until the function decreases. After a large step t becomes twice n over the gap,
or twice what it was, if that is less. A step costs ``n^2`` multiplications for each
conjugate gradient.

Without a penalty the paper's gap is useless: it is for a multiple of the residual
whose products with the columns are at most `l1`, and the multiple is 0 at most points.
Here the gap is ``sum |x_j y_j|``, where y is the dual: the same number where the
residual itself is such a multiple. So t begins at n over the gap, not at ``1 / l1``.
The residual of a Newton step is measured by the preconditioner, because variables near
0 would hide the others. Products are with ``A^T A``, the paper's with A and A^T.
"""

from __future__ import annotations

import numpy as np

from ..._numerics.arithmetic import Array
from ..._numerics.certificate import ratio
from ..._numerics.system import System
from .found import Found, extent
from .interior_point import LEAST, inside
from .iterate import iterate
from .normal_equations import NormalEquations
from .pqn import product

GROWTH = 2.0
"""The most by which a step multiplies t."""

LARGE_STEP = 0.5
"""The least part of a Newton step after which t grows."""

DECREASE = 0.01
"""The part of the decrease that the gradient promises, which is sufficient."""

HALVINGS = 50
"""The most times that a step is halved."""

ACCURACY = 0.1
"""The residual of a Newton step is at most this number times its right-hand side, and
times the gap over ``|b|``."""

PRODUCTS = 10
"""The most products of a Newton step, as a multiple of n."""


def l1_ls(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from a point inside; `start` has no effect."""
    x = np.array(inside(system, start.shape)[0])
    t = path(system, x, system.gradient(system.residual(x)))
    found = iterate(step, system, (x, t), tol, maxiter)
    return found._replace(n_updates=0 * found.nit, n_downdates=0 * found.nit)


def gap(x: Array, w: Array) -> Array:
    """How far the objective may be from its minimum, (N, 1)."""
    return np.asarray(np.vecdot(x, np.abs(w))[:, None])


def path(system: System, x: Array, w: Array) -> Array:
    """The t for which x would have its gap on the path, n over the gap; (N, 1).

    A gradient that rounding explains counts as 0.
    """
    rounding = np.finfo(x.dtype).eps * system.norm * extent(system, x)
    known = gap(x, np.maximum(np.abs(w) - rounding, 0))
    return ratio(np.full_like(known, x.shape[1]), known)


def step(
    system: System, equations: NormalEquations, w: Array, x: Array, t: Array
) -> tuple[Array, ...]:
    """A part of a Newton step for this t, and the next t."""
    least = ACCURACY * ratio(gap(x, w), system.magnitude[:, None])
    u, Gu = newton_step(equations, w + 1 / (t * x), 1 / (t * x**2), least)
    part = step_part(w, x, t, u, Gu)
    w = w - part * Gu
    x = np.maximum(x + part * u, LEAST)
    grown = GROWTH * np.minimum(t, path(system, x, w))
    return x, np.where(part >= LARGE_STEP, np.maximum(t, grown), t)


def newton_step(
    equations: NormalEquations, rhs: Array, D: Array, least: Array
) -> tuple[Array, Array]:
    """The solution u of ``(G + D) u = rhs`` to `least`, and ``G u``.

    By conjugate gradients. Systems that are solved wait for the others.
    """
    G, unit = equations.G, 1 / (equations.diagonal + D)
    u, Gu, r = np.zeros_like(rhs), np.zeros_like(rhs), rhs
    p = unit * r
    square = np.vecdot(r, p)[:, None]
    least = np.minimum(least, ACCURACY * np.sqrt(square)) ** 2
    for _ in range(PRODUCTS * rhs.shape[1]):
        busy = square > least
        if not busy.any():
            break
        Gp = product(G, p)
        along = np.vecdot(p, Gp + D * p)[:, None]
        length = np.where(busy, ratio(square, along), 0)
        u, Gu, r = u + length * p, Gu + length * Gp, r - length * (Gp + D * p)
        before, square = square, np.vecdot(r, unit * r)[:, None]
        p = np.where(busy, unit * r + ratio(square, before) * p, p)
    return u, Gu


def step_part(w: Array, x: Array, t: Array, u: Array, Gu: Array) -> Array:
    """The largest part 1, 1/2, 1/4, ... of u that decreases the function; (N, 1)."""
    part = np.ones_like(t)
    slope = np.vecdot(w + 1 / (t * x), u)[:, None]
    curvature = np.vecdot(u, Gu)[:, None]
    for _ in range(HALVINGS):
        change = np.maximum(part * u / x, -1)
        with np.errstate(divide="ignore"):
            logarithms = (np.log1p(change) - change).sum(axis=1, keepdims=True)
        decrease = part * slope - part**2 * curvature / 2 + logarithms / t
        fails = ~(decrease >= DECREASE * part * slope)
        if not fails.any():
            break
        part = np.where(fails, part / 2, part)
    return part
