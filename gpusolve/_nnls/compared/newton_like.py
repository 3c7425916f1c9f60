"""``newton_like``: an interior Newton-like method that allows degenerate solutions.

S. Bellavia, M. Macconi and B. Morini, *An interior point Newton-like method for
non-negative least-squares problems with degenerate solution*, Numerical Linear Algebra
with Applications 13, 2006. The optimality conditions are the equations ``D g = 0`` for
the gradient g, where ``d_j`` is x_j if g_j is not negative, and else 1. A Newton-like
step p of them solves

    ``(S G S + W E) (p / s) = -S g``,    ``w_j = 1 / (d_j + e_j)``,  ``S^2 = W D``,

where e_j is g_j, but 0 where x_j and g_j are of similar size; so the matrix stays
bounded if both are 0 at the solution. The step is projected, and shortened to stay
inside. If the model ``p M p / 2 + g p`` with ``M = G + E / D`` decreases less than
`SUFFICIENT` times what it does along ``-D g``, the minimum of the model between both
steps is taken. (The paper takes the point between them where the decrease just
suffices.)

x and g are without units here: ``x_j |a_j| / |b|``, so that the 1 has a meaning.
"""

from __future__ import annotations

import numpy as np

from ...reference._certificate import ratio
from ...reference._scaling import Array, ScaledSystem
from .found import Found
from .interior_point import inside
from .iterate import iterate
from .normal_equations import NormalEquations, newton_step

POWER = 1.001
"""x_j and g_j are of similar size if neither is below this power of the other one. The
paper allows powers in (1, 2]. With 2, the steps of many systems are useless far from
the solution: e_j is 0 almost everywhere."""

SHORT = 0.995
"""The least part of a projected step that is taken."""

SUFFICIENT = 0.3
"""The part of the decrease along ``-D g`` that a step must reach."""


def newton_like(system: ScaledSystem, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from a point inside; `start` has no effect."""
    x, _ = inside(system, start.shape)
    found = iterate(step, system, (x,), tol, maxiter)
    return found._replace(n_updates=0 * found.nit, n_downdates=0 * found.nit)


def step(
    system: ScaledSystem, equations: NormalEquations, w: Array, x: Array
) -> tuple[Array, ...]:
    """A Newton-like step, or one between it and the step along ``-D g``."""
    norm = np.where(system.norm > 0, system.norm, 1)
    unit = system.magnitude[:, None] / norm
    x, g = x / unit, -w / (norm * system.magnitude[:, None])
    G = equations.G / (norm[..., :, None] * norm[..., None, :])
    D = np.where(g >= 0, x, 1)
    similar = (g >= x**POWER) & (np.maximum(g, 0) ** POWER <= x)
    E = np.where((g >= 0) & ~similar, g, 0)
    p = newton_direction(G, g, D, E)
    p = np.maximum(x + p, 0) - x
    p *= np.maximum(SHORT, 1 - np.linalg.norm(p, axis=1, keepdims=True))
    M = G + (E / D)[..., None] * np.eye(x.shape[1])
    return (unit * (x + sufficient(M, g, p, scaled_descent(M, g, D, x))),)


def newton_direction(G: Array, g: Array, D: Array, E: Array) -> Array:
    """The solution p of the Newton-like equations."""
    W = 1 / (D + E)
    S = np.sqrt(W * D)
    H = S[..., :, None] * G * S[..., None, :]
    H += (W * E)[..., None] * np.eye(g.shape[1])
    return np.asarray(S * newton_step(H, -S * g))


def scaled_descent(M: Array, g: Array, D: Array, x: Array) -> Array:
    """The minimum of the model along ``-D g``, as far as x stays positive."""
    d = -D * g
    length = ratio(np.vecdot(d, d / D), quadratic(M, d))
    reach = np.divide(-x, d, out=np.full_like(x, np.inf), where=d < 0).min(axis=1)
    return np.asarray(np.minimum(length, SHORT * reach)[:, None] * d)


def sufficient(M: Array, g: Array, p: Array, cauchy: Array) -> Array:
    """p, moved towards the step `cauchy` if the model decreases too little."""
    least = SUFFICIENT * (quadratic(M, cauchy) / 2 + np.vecdot(g, cauchy))
    lacks = quadratic(M, p) / 2 + np.vecdot(g, p) > least
    d = cauchy - p
    slope = np.vecdot(d, np.matmul(p[:, None], M)[:, 0] + g)
    part = np.where(lacks, np.clip(-ratio(slope, quadratic(M, d)), 0, 1), 0)
    return p + part[:, None] * d


def quadratic(M: Array, p: Array) -> Array:
    """``p M p``."""
    return np.asarray(np.vecdot(np.matmul(p[:, None], M)[:, 0], p))
