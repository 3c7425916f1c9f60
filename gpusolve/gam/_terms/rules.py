"""How a learner is fitted to a gradient if not by the inverse of its matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from ..._device.arrays import Array
from .basis import Matrix, Vector

BY_MATRIX, BY_DIAGONAL, BY_CUT = range(3)
"""``Kind`` in ``stacked_fits.cuh``."""


class Rule(ABC):
    """The fit of a learner with k functions in F fits, from ``c = X'Wu``.

    Rules that are equal are evaluated at once. `inequalities` and `least` are for the
    kernel: see ``LearnerPlace``.
    """

    kind: ClassVar[int]
    inequalities: int = 0
    least: int = 0

    @abstractmethod
    def fitted(self, fit: int, c: Vector, gram: Array) -> Vector:
        """The coefficients of the functions, (k,), in a fit with this ``X'WX``."""

    @abstractmethod
    def scores(self, c: Array, gram: Array) -> Matrix:
        """The reduction of the sum of squares by m learners, (F, m), of (F, m, k) c."""

    def repeated(self, repeat: Callable[[Array], Array]) -> Self:
        """The rule of repeated fits."""
        return self


@dataclass(frozen=True, eq=False)
class Cone(Rule):
    """Coefficients b of the columns with ``C b >= 0``, of a learner in all fits.

    Attributes
    ----------
    constraint : (c, q) array on the host
        The matrix C.
    root : (F, q, q) array on the host
        A root R of ``(X'WX + lambda K)^-1 = R R'``, in the space of the columns.
    transform : (k, q) array on the host or None
        The columns are the functions times this matrix; None for the identity.
    """

    constraint: Matrix
    root: Array
    transform: Matrix | None

    kind = BY_MATRIX

    @classmethod
    def of(cls, constraint: Matrix, inverse: Array, transform: Matrix | None) -> Cone:
        """The rule of a learner with these inverses, (F, q, q)."""
        values, vectors = np.linalg.eigh(inverse)
        root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
        return cls(np.asarray(constraint, np.float64), root, transform)

    @property
    def inequalities(self) -> int:  # type: ignore[override]
        """The number of rows of C."""
        return len(self.constraint)

    def fitted(self, fit: int, c: Vector, gram: Array) -> Vector:
        """The coefficients of the functions, (k,).

        Notes
        -----
        The fit minimises ``b'Ab / 2 - b'c`` over all b with ``C b >= 0``; ``A^-1 = R
        R'``. With multipliers mu >= 0 it is ``b = R (R'c + R'C' mu)``, and mu is the
        solution of a non-negative least-squares problem: it minimises ``|R'C' mu +
        R'c|``. The argument and the result belong to the functions, b and c to the
        columns ``X T``.
        """
        from scipy.optimize import nnls

        T, root = self.transform, self.root[fit]
        c = c if T is None else c @ T
        free = root.T @ c
        multipliers, _ = nnls(root.T @ self.constraint.T, -free)
        b: Vector = root @ (free + root.T @ (multipliers @ self.constraint))
        return b if T is None else T @ b

    def scores(self, c: Array, gram: Array) -> Matrix:
        scores = np.empty(c.shape[:2])
        for at in np.ndindex(scores.shape):
            b = self.fitted(at[0], c[at], gram[at])
            scores[at] = b @ (2 * c[at] - gram[at] @ b)
        return scores

    def repeated(self, repeat: Callable[[Array], Array]) -> Cone:
        return replace(self, root=repeat(self.root))

    def matrices(self) -> Array:
        """``C H`` and ``C H C'`` of each fit for the kernel, (F, c k + c c).

        H = R R' is the inverse of the columns b; the coefficients of the functions are
        ``T b``, for the transform T.
        """
        half = self.constraint @ self.root  # C R
        root = self.root if self.transform is None else self.transform @ self.root
        both = (half @ own.transpose(0, 2, 1) for own in (root, half))
        return np.concatenate([own.reshape(len(own), -1) for own in both], axis=1)


EMPTY_SHARE = 8 * np.finfo(np.float64).eps
"""Shares of the weight below this number times the bins are rounding errors."""


@dataclass(frozen=True)
class Cut(Rule):
    """The best cut of bins, as ``cuda_src/stump.cuh``.

    Bin f has the weight ``g_f`` and the sum ``c_f`` of the weighted gradient. A cut
    after a bin gives both sides the means of the gradient, and reduces the sum of
    squares by ``C^2 / N`` of each side, with the sums C and N of its bins. Each side
    has a least weight, or one side has no rows: the mean of all is a fit, too.
    """

    least: int

    kind = BY_CUT

    def fitted(self, fit: int, c: Vector, gram: Array) -> Vector:
        """The effects of the bins by the first of the best cuts, (bins,)."""
        reduction, left, right = self.sides(c, gram)
        cut = reduction.argmax()
        return np.asarray(np.where(np.arange(len(c)) <= cut, left[cut], right[cut]))

    def scores(self, c: Array, gram: Array) -> Matrix:
        return np.asarray(self.sides(c, gram)[0].max(-1))

    def sides(self, c: Array, g: Array) -> tuple[Array, Array, Array]:
        """Reductions by all cuts, and the means of both sides, each (..., bins).

        A cut that is not allowed reduces by minus infinity; the mean of a side without
        rows is 0.

        Examples
        --------
        >>> Cut(2).sides(np.array([3.0, 1.0, -4.0]), np.array([1.0, 1.0, 2.0]))
        (array([-inf,  16.,   0.]), array([3., 2., 0.]), array([-1., -2.,  0.]))
        """
        C, N = c.cumsum(axis=-1), g.cumsum(axis=-1)
        total, weight = C[..., -1:], N[..., -1:]
        rounding = EMPTY_SHARE * N.shape[-1] * weight
        left, right = (
            np.where(rows > rounding, sums, 0) / np.where(rows > rounding, rows, 1)
            for sums, rows in ((C, N), (total - C, weight - N))
        )
        fewer = np.minimum(N, weight - N)
        allowed = (fewer <= rounding) | (fewer >= self.least - rounding)
        reduction = np.where(allowed, left * C + right * (total - C), -np.inf)
        return reduction, left, right
