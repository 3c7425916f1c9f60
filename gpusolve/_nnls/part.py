"""The arrays of a chunk of the batch, in float64 on the CPU."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace
from .._numerics.scaling import ScaledSystem, scale, weighted
from .inputs import Option, Problem


def gather(array: Array, core: int, batch: tuple[int, ...], chunk: slice) -> Array:
    """The systems of a chunk in float64; an array that all systems share stays shared.

    Parameters
    ----------
    array : (..., *core axes) array
    core : int
        Number of trailing axes that belong to one system.
    batch : tuple of int
        The batch shape, to which the leading axes broadcast.
    chunk : slice
        A range of the flattened batch.
    """
    shape = array.shape[array.ndim - core :]
    if math.prod(array.shape[: array.ndim - core]) == 1:
        return array.reshape(shape).astype(np.float64, copy=False)
    xp, batch = namespace(array), batch or (1,)
    full = (*batch, *shape)
    broadcast = array if array.shape == full else xp.broadcast_to(array, full)
    if len(batch) == 1:
        part = broadcast[chunk]
    else:
        indices = xp.unravel_index(xp.arange(chunk.start, chunk.stop), batch)
        part = broadcast[indices]
    return part.astype(np.float64, copy=False)


class Part(NamedTuple):
    """The arrays of a chunk; arrays that all systems share lack a batch axis."""

    A: Array
    b: Array
    lower: Array
    upper: Array
    l1: Array
    l2: Array
    sum_to: Array | None
    weights: Array | None
    start: Array | None

    @classmethod
    def of(cls, problem: Problem, chunk: slice) -> Part:
        """The arrays of a chunk of the batch."""

        def part(value: Option | None, core: int) -> Any:
            array = None if value is None else np.asarray(value, np.float64)
            if array is None or array.ndim < core:
                return array
            return gather(array, core, problem.batch, chunk)

        b = gather(problem.b, 1, problem.batch, chunk)
        return cls(
            A=gather(problem.A, 2, problem.batch, chunk),
            b=np.broadcast_to(b, (chunk.stop - chunk.start, problem.shape[0])),
            lower=part(problem.lower, 1),
            upper=part(problem.upper, 1),
            l1=part(problem.l1, 1),
            l2=part(problem.l2, 1),
            sum_to=part(problem.sum_to, 0),
            weights=part(problem.weights, 1),
            start=part(problem.start, 1),
        )

    def take(self, systems: NDArray[np.bool_]) -> Part:
        """Select systems; what all systems share stays shared."""
        return Part(
            *[
                array if array is None or array.ndim <= axes else array[systems]
                for array, axes in zip(self, CORE_AXES, strict=True)
            ]
        )

    def weighted(self) -> Part:
        """The systems whose rows have been multiplied by the roots of the weights."""
        if self.weights is None:
            return self
        A, b = weighted(self.A, self.b, self.weights)
        return self._replace(A=A, b=b, weights=None)

    @property
    def has_ridge(self) -> bool:
        """Whether there may be an l2 penalty; it does not depend on other systems."""
        return self.l2.ndim > 0 or bool(self.l2 > 0)

    def is_finite(self) -> NDArray[np.bool_]:
        """Mask of the systems without NaN and infinity; bounds may be infinite.

        There must be no weights: they decide which rows count.
        """
        finite: NDArray[np.bool_] = np.isfinite(self.b).all(axis=-1)
        finite &= np.isfinite(self.A).all(axis=(-2, -1))
        for bound in (self.lower, self.upper):
            finite &= ~np.isnan(bound).any(axis=-1)
        for penalty in (self.l1, self.l2):
            finite &= np.isfinite(penalty).all(axis=-1)
        if self.sum_to is not None:
            finite &= np.isfinite(self.sum_to)
        return finite

    def scaled(self, dtype: np.dtype[Any]) -> ScaledSystem:
        """The scaled systems, for solutions in `dtype`.

        All entries must be finite, and there must be no weights.
        """
        system = scale(
            self.A,
            self.b,
            self.l1,
            self.l2,
            dtype,
            bounds=(self.lower, self.upper),
            sum_to=self.sum_to,
        )
        return system._replace(has_ridge=self.has_ridge)


CORE_AXES = (2, 1, 1, 1, 1, 1, 0, 1, 1)
"""The number of axes of each array of `Part` that belong to one system."""
