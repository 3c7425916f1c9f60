"""The normal equations ``G x = c`` of a batch, and of their passive parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._numerics.arithmetic import Array, Indices, Mask
from ..._numerics.system import System
from .found import extent, relative

SINGULAR = 4.0
"""A passive part of G is singular if a pivot of its Cholesky factor is at most this
number times ``n eps`` of the diagonal entry."""


class NormalEquations(NamedTuple):
    """``G = A^T A + diag(l2)`` and ``c = A^T b - l1``.

    Attributes
    ----------
    G : (n, n) or (N, n, n) array
        Shared if A and the penalties are. Columns of zeros have a 1 on the diagonal.
    c : (N, n) array
    """

    G: Array
    c: Array

    @classmethod
    def of(cls, system: System) -> NormalEquations:
        """The normal equations of scaled systems."""
        A = system.A
        G = np.matmul(np.swapaxes(A, -1, -2), A)
        diagonal = system.damping**2 + (system.norm == 0)
        G = G + diagonal[..., None] * np.eye(A.shape[-1])
        return cls(G, np.matmul(system.b[:, None], A)[:, 0] - system.penalty)

    @property
    def diagonal(self) -> Array:
        """The diagonal of G, (n,) or (N, n)."""
        return np.asarray(np.diagonal(self.G, axis1=-2, axis2=-1))

    def take(self, systems: Indices) -> NormalEquations:
        """Select systems; a shared G stays shared."""
        G = self.G if self.G.ndim == 2 else self.G[systems]
        return NormalEquations(G, self.c[systems])

    def gradient(self, at: Indices, x: Array) -> Array:
        """``c - G x`` for some systems."""
        G, c = self.take(at)
        return np.asarray(c - np.matmul(x[:, None], G)[:, 0])

    def slope(self, system: System, at: Indices, x: Array) -> Array:
        """The gradient without units, for some of the systems."""
        some = system.take(at)
        return relative(some, self.gradient(at, x), extent(some, x))

    def solve(self, at: Indices, passive: Mask, grouped: bool = True) -> Array:
        """The solutions on the passive variables, (len(at), n); 0 for the others.

        NaN where the passive part of G is singular. If `grouped`, systems that share G
        and the passive set share a factorisation. Each right-hand side is multiplied
        by itself, so no solution depends on the others.
        """
        y = np.zeros(passive.shape)
        for group, variables in self.groups(passive, grouped):
            inverse = inverse_factor(self.part(at[group[0]], variables))
            c = self.c[np.ix_(at[group], variables)]
            along = np.matmul(inverse, c[..., None])
            y[np.ix_(group, variables)] = np.matmul(inverse.T, along)[..., 0]
        return y

    def independent(self, at: Indices, passive: Mask) -> Mask:
        """The passive variables of some systems, without dependent columns.

        By Cholesky factorisations with pivots, of G scaled to a unit diagonal.
        """
        from scipy.linalg.lapack import dpstrf

        kept = np.zeros_like(passive)
        for group, variables in self.groups(passive, grouped=True):
            G = self.part(at[group[0]], variables)
            scale = 1 / np.sqrt(np.diagonal(G))
            least = 2 * SINGULAR * len(G) * np.finfo(G.dtype).eps
            _, pivots, rank, _ = dpstrf(scale[:, None] * G * scale, tol=least)
            kept[np.ix_(group, variables[pivots[:rank] - 1])] = True
        return kept

    def part(self, system: int, variables: Indices) -> Array:
        """The part of a system's G that belongs to some variables."""
        G = self.G if self.G.ndim == 2 else self.G[system]
        return G[np.ix_(variables, variables)]

    def groups(self, passive: Mask, grouped: bool) -> Iterator[tuple[Indices, Indices]]:
        """The systems of each group, and its passive variables."""
        if grouped and self.G.ndim == 2:
            packed = np.packbits(passive, axis=1)
            group = np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1)
        else:
            group = np.arange(len(passive))
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order])) + 1
        for systems in np.split(order, starts):
            if systems.size and passive[systems[0]].any():
                yield systems, np.flatnonzero(passive[systems[0]])


def inverse_factor(G: Array) -> Array:
    """The inverse of the Cholesky factor of G; NaN if G is singular."""
    try:
        factor = np.linalg.cholesky(G)
    except np.linalg.LinAlgError:
        return np.full_like(G, np.nan)
    least = SINGULAR * len(G) * np.finfo(G.dtype).eps * np.diagonal(G)
    if not (np.diagonal(factor) ** 2 > least).all():
        return np.full_like(G, np.nan)
    return np.asarray(np.linalg.inv(factor))


def newton_step(H: Array, rhs: Array) -> Array:
    """Solve ``H u = rhs`` for a batch of positive semidefinite matrices.

    They are scaled to a unit diagonal, to which rounding errors are added, so that no
    matrix is singular.
    """
    n = H.shape[-1]
    scale = 1 / np.sqrt(np.einsum("...jj->...j", H))
    unit = scale[..., :, None] * H * scale[..., None, :]
    unit = unit + n * np.finfo(H.dtype).eps * np.eye(n)
    return np.asarray(scale * np.linalg.solve(unit, (scale * rhs)[..., None])[..., 0])
