"""``interior_point``: a primal-dual predictor-corrector method.

L. F. Portugal, J. J. Judice and L. N. Vicente, *A comparison of block pivoting and
interior-point algorithms for linear least squares problems with nonnegative variables*,
Mathematics of Computation 63(208), 1994. x and its dual y stay positive. Newton's
method is applied to ``A^T (A x - b) = y`` and ``x_j y_j = mu``: first with ``mu = 0``;
from the x and y that this reaches follow mu and the second-order terms of the second
solve. A step costs two solves with ``G + diag(y / x)``, and a few tens of steps suffice
for any n.
"""

from __future__ import annotations

import numpy as np

from ..._numerics.arithmetic import Array
from ..._numerics.system import System
from .found import Found
from .iterate import iterate
from .normal_equations import NormalEquations, newton_step

SHORT = 0.99995
"""The part of the way to the boundary that a step goes."""

LEAST = 1e-150
"""The least x_j and y_j: their products must not underflow."""


def interior_point(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from a point inside; `start` has no effect."""
    x, y = inside(system, start.shape)
    found = iterate(step, system, (x, y), tol, maxiter)
    return found._replace(n_updates=0 * found.nit, n_downdates=0 * found.nit)


def inside(system: System, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Positive x and y, of the size of b; 0 if b is 0."""
    norm = np.where(system.norm > 0, system.norm, 1)
    size = system.magnitude[:, None]
    return np.broadcast_to(size / norm / shape[1], shape), size * norm + system.penalty


def step(
    _system: System, equations: NormalEquations, w: Array, x: Array, y: Array
) -> tuple[Array, ...]:
    """A predictor and a corrector step of Newton's method."""
    n = x.shape[1]
    D = y / x
    H = equations.G + D[..., None] * np.eye(n)
    u = newton_step(H, w)
    v = -y - D * u
    theta = step_length(x, u, y, v)
    mu = np.vecdot(x + theta * u, y + theta * v)[:, None] / n**2
    target = (mu - u * v) / x
    u = newton_step(H, w + target)
    v = target - y - D * u
    theta = step_length(x, u, y, v)
    return np.maximum(x + theta * u, LEAST), np.maximum(y + theta * v, LEAST)


def step_length(x: Array, u: Array, y: Array, v: Array) -> Array:
    """The step of each system that keeps x and y positive, at most 1; (N, 1)."""
    most = np.ones((len(x), 1))
    for value, change in ((x, u), (y, v)):
        reach = np.divide(-value, change, out=np.full_like(x, np.inf), where=change < 0)
        most = np.minimum(most, SHORT * reach.min(axis=1, keepdims=True))
    return most
