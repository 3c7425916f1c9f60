"""``pqn``: projected quasi-Newton steps on the variables that are not fixed at 0.

D. Kim, S. Sra and I. S. Dhillon, *A new projected quasi-Newton approach for the
non-negative least squares problem*, Technical Report TR-06-54, The University of Texas
at Austin, 2006; and *Tackling box-constrained optimization via a new projected
quasi-Newton approach*, SIAM Journal on Scientific Computing 32(6), 2010. S approximates
the inverse of G, by the BFGS formula. Variables at 0 whose gradient is positive, or
which ``S`` times the gradient would make negative, are fixed. The others move along the
projection arc ``max(0, x - beta S g)`` to the first beta of sufficient decrease
(Armijo's rule), and then to the minimum on the line to this point. S learns from the
change of the gradient on the variables that are not 0 afterwards. Where the arc does
not descend, S starts again as a diagonal matrix.

A step costs a few times ``n^2`` multiplications. S takes ``n^2`` numbers per system.
"""

from __future__ import annotations

import numpy as np

from ..._numerics.arithmetic import Array, Mask
from ..._numerics.certificate import ratio
from ..._numerics.system import System
from .found import Found
from .iterate import iterate
from .normal_equations import NormalEquations

DECREASE = 1e-4
"""The part of the decrease that the gradient promises, which is sufficient."""

HALVINGS = 30
"""The most times that beta is halved."""


def pqn(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from the feasible points `start`."""
    S = diagonal_matrices(NormalEquations.of(system), len(start))
    return iterate(step, system, (start, S), tol, maxiter)


def diagonal_matrices(equations: NormalEquations, systems: int) -> Array:
    """The first S of each system: the inverse of the diagonal of G."""
    n = equations.c.shape[1]
    inverse = np.broadcast_to(1 / equations.diagonal, (systems, n))
    return np.asarray(inverse[..., None] * np.eye(n))


def step(
    _system: System, equations: NormalEquations, w: Array, x: Array, S: Array
) -> tuple[Array, ...]:
    """Move x along the projection arc, and update S."""
    move, curved = arc(equations, w, x, direction(w, x, S))
    fails = np.flatnonzero(~descends(w, move, curved))
    if fails.size:
        some = equations.take(fails)
        S[fails] = diagonal_matrices(some, len(fails))
        d = direction(w[fails], x[fails], S[fails])
        move[fails], curved[fails] = arc(some, w[fails], x[fails], d)
    length = ratio(np.vecdot(w, move), np.vecdot(move, curved))
    length = np.clip(np.nan_to_num(length), 0, 1)[:, None]
    x = np.maximum(x + length * move, 0)
    update(S, length * move, np.where(x > 0, length * curved, 0))
    return x, S


def direction(w: Array, x: Array, S: Array) -> Array:
    """``S w`` on the variables that are not fixed."""
    fixed = (x == 0) & (w < 0)
    d = product(S, np.where(fixed, 0, w))
    fixed |= (x == 0) & (d < 0)
    return np.where(fixed, 0, product(S, np.where(fixed, 0, w)))


def arc(
    equations: NormalEquations, w: Array, x: Array, d: Array
) -> tuple[Array, Array]:
    """The move along the arc to a sufficient decrease, and G times the move."""
    beta = np.ones((len(x), 1))
    for _ in range(HALVINGS):
        move = np.maximum(x + beta * d, 0) - x
        curved = product(equations.G, move)
        fails = ~descends(w, move, curved)
        if not fails.any():
            break
        beta[fails] /= 2
    return move, curved


def descends(w: Array, move: Array, curved: Array) -> Mask:
    """Whether a move decreases the objective sufficiently."""
    slope = np.vecdot(w, move)
    decrease = slope - np.vecdot(move, curved) / 2
    return np.asarray((slope > 0) & (decrease >= DECREASE * slope))


def update(S: Array, s: Array, y: Array) -> None:
    """Update the inverses S in place: afterwards ``S y = s`` (BFGS)."""
    curvature = np.vecdot(s, y)
    usable = curvature > 0
    scale = np.where(usable, 1 / np.where(usable, curvature, 1), 0)[:, None]
    z = product(S, y)
    both = (1 + scale * np.vecdot(y, z)[:, None]) * s / 2 - z
    both *= scale
    S += both[:, :, None] * s[:, None, :]
    S += s[:, :, None] * both[:, None, :]


def product(matrices: Array, vectors: Array) -> Array:
    """The products of symmetric matrices with a vector each."""
    return np.asarray(np.matmul(vectors[:, None], matrices)[:, 0])
