"""``newton_like``: an interior Newton-like method that allows degenerate solutions.

S. Bellavia, M. Macconi and B. Morini, *An interior point Newton-like method for
non-negative least-squares problems with degenerate solution*, Numerical Linear Algebra
with Applications 13, 2006. The optimality conditions are the equations ``D g = 0`` for
the gradient g, where ``d_j`` is x_j if g_j is not negative, and else 1. A Newton-like
step p of them solves

    ``(S G S + W E) (p / s) = -S g``,    ``w_j = 1 / (d_j + e_j)``,  ``S^2 = W D``,

where e_j is g_j, but 0 where g_j is negative, or where x_j and g_j are of similar size:
so convergence is fast also if both are 0 at the solution. The step is projected, and
shortened to stay inside. It is taken if the model ``p (G + E / D) p / 2 + g p``
decreases by `SUFFICIENT` times what it does along ``-D g``. Otherwise e_j is g_j for
similar sizes, too; and if that does not suffice, the minimum between this step and the
step along ``-D g`` is taken. (The paper takes, at once, the point between both steps at
which the decrease just suffices. That is much slower if columns are nearly dependent.)

x and g are without units here, as ``x_j |a_j| / |b|``, so that the 1 has a meaning.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._numerics.arithmetic import Array, Indices, Mask
from ..._numerics.certificate import ratio
from ..._numerics.system import System
from .found import Found
from .interior_point import LEAST, inside
from .iterate import iterate
from .normal_equations import NormalEquations, newton_step

POWER = 2.0
"""x_j and g_j are of similar size if neither is below this power of the other."""

SHORT = 0.995
"""The least part of a step that is taken, if a longer step would leave the interior."""

SUFFICIENT = 0.3
"""The part of the decrease along ``-D g`` that a step must reach."""


class QuadraticModel(NamedTuple):
    """The model of a batch of systems around x: ``p (G + E / D) p / 2 + g p``.

    Attributes
    ----------
    G : (N, n, n) array
    x, g, D, E : (N, n) array
    """

    G: Array
    x: Array
    g: Array
    D: Array
    E: Array

    def take(self, systems: Indices) -> QuadraticModel:
        """Select systems."""
        return QuadraticModel(*(array[systems] for array in self))

    def times(self, p: Array) -> Array:
        """``(G + E / D) p``."""
        return np.asarray(np.matmul(p[:, None], self.G)[:, 0] + self.E / self.D * p)

    def change(self, p: Array) -> Array:
        """The value of the model."""
        return np.asarray(np.vecdot(p, self.times(p) / 2 + self.g))

    def newton(self) -> Array:
        """The Newton-like step, projected and shortened."""
        W = 1 / (self.D + self.E)
        S = np.sqrt(W * self.D)
        H = S[..., :, None] * self.G * S[..., None, :]
        H += (W * self.E)[..., None] * np.eye(S.shape[1])
        p = S * newton_step(H, -S * self.g)
        p = np.maximum(self.x + p, 0) - self.x
        length = np.linalg.norm(p, axis=1, keepdims=True)
        return np.asarray(p * np.maximum(SHORT, 1 - length))

    def descent(self) -> Array:
        """The step to the minimum along ``-D g``, as far as x stays positive."""
        d = -self.D * self.g
        best = ratio(-np.vecdot(d, self.g), np.vecdot(d, self.times(d)))
        reach = np.divide(-self.x, d, out=np.full_like(d, np.inf), where=d < 0)
        length = np.minimum(best, SHORT * reach.min(axis=1))
        return np.asarray(length[:, None] * d)

    def suffices(self, p: Array) -> Mask:
        """Whether the step p decreases the model sufficiently."""
        return np.asarray(self.change(p) <= SUFFICIENT * self.change(self.descent()))

    def sufficient(self) -> Array:
        """The Newton-like step, or a step that decreases the model sufficiently."""
        p = self.newton()
        return np.where(self.suffices(p)[:, None], p, self.between(p))

    def between(self, p: Array) -> Array:
        """The minimum of the model between p and the step of `descent`."""
        d = self.descent() - p
        slope = np.vecdot(d, self.times(p) + self.g)
        part = np.clip(-ratio(slope, np.vecdot(d, self.times(d))), 0, 1)
        return np.asarray(p + part[:, None] * d)


def newton_like(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from a point inside; `start` has no effect."""
    x, _ = inside(system, start.shape)
    found = iterate(step, system, (x,), tol, maxiter)
    return found._replace(n_updates=0 * found.nit, n_downdates=0 * found.nit)


def step(
    system: System, equations: NormalEquations, w: Array, x: Array
) -> tuple[Array, ...]:
    """A Newton-like step, or a step between it and the step along ``-D g``."""
    norm = np.where(system.norm > 0, system.norm, 1)
    unit = system.magnitude[:, None] / norm
    x, g = np.maximum(x / unit, LEAST), -w / (norm * system.magnitude[:, None])
    G = equations.G / (norm[..., :, None] * norm[..., None, :])
    G = np.broadcast_to(G, (*x.shape, x.shape[1]))
    positive = np.maximum(g, 0)
    similar = (positive >= x**POWER) & (positive**POWER <= x)
    E = np.where(similar, 0, positive)
    model = QuadraticModel(G, x, g, np.where(g >= 0, x, 1), E)
    p = model.newton()
    lacks = np.flatnonzero(~model.suffices(p))
    if lacks.size:
        p[lacks] = model._replace(E=positive).take(lacks).sufficient()
    return (unit * (x + p),)
