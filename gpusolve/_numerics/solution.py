"""Solutions of batches of systems, their statuses, and the defaults of the solvers."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .scaling import Array

CONVERGED = 0
ITERATION_LIMIT = 1
NOT_FINITE = 2
UNCERTIFIED = 3
INFEASIBLE = 4

BY_GRAM = 0
BY_QR = 1


class Solution(NamedTuple):
    """Solutions of a batch of systems; the fields of :class:`gpusolve.NNLSResult`."""

    x: Array
    rnorm: Array
    dual: Array
    kkt: Array
    nit: NDArray[np.int32]
    status: NDArray[np.int32]
    n_updates: NDArray[np.int32]
    n_downdates: NDArray[np.int32]
    repaired: NDArray[np.bool_]
    method: NDArray[np.uint8]

    @classmethod
    def blank(cls, batch: tuple[int, ...], n: int, dtype: np.dtype[Any]) -> Solution:
        """All solutions NaN, all counts 0."""
        reals = ((*batch, n), batch, (*batch, n), batch)
        fields: list[Any] = [np.full(shape, np.nan, dtype) for shape in reals]
        fields += [np.zeros(batch, np.int32) for _ in range(4)]
        fields += [np.zeros(batch, bool), np.full(batch, BY_QR, np.uint8)]
        return cls(*fields)

    def put(self, at: Any, found: tuple[Any, ...]) -> None:
        """Write the solutions of some systems to the indices `at` of the batch."""
        fields: tuple[Any, ...] = self
        for field, values in zip(fields, found, strict=True):
            field[at] = values


class ConstrainedSolution(NamedTuple):
    """Solutions with linear constraints: the fields of a `Solution`, and multipliers.

    Attributes
    ----------
    dual_ub, dual_eq : (..., rows) array
    """

    x: Array
    rnorm: Array
    dual: Array
    kkt: Array
    nit: NDArray[np.int32]
    status: NDArray[np.int32]
    n_updates: NDArray[np.int32]
    n_downdates: NDArray[np.int32]
    repaired: NDArray[np.bool_]
    method: NDArray[np.uint8]
    dual_ub: Array
    dual_eq: Array

    @classmethod
    def blank(
        cls, batch: tuple[int, ...], n: int, dtype: np.dtype[Any], *rows: int
    ) -> ConstrainedSolution:
        """All solutions NaN, all counts 0; `rows` of A_ub and of A_eq."""
        multipliers = [np.full((*batch, count), np.nan, dtype) for count in rows]
        return cls(*Solution.blank(batch, n, dtype), *multipliers)

    def put(self, at: Any, found: tuple[Any, ...]) -> None:
        """Write the solutions of some systems to the indices `at` of the batch."""
        fields: tuple[Any, ...] = self
        for field, values in zip(fields, found, strict=True):
            field[at] = values


AnySolution: TypeAlias = Solution | ConstrainedSolution


def solution_of(fields: dict[str, Any]) -> AnySolution:
    """The solution with these fields."""
    return (ConstrainedSolution if "dual_ub" in fields else Solution)(**fields)


def default_tolerance(dtype: np.dtype[Any]) -> float:
    """``4 eps``; an accurate solution has a `kkt` of about ``eps``."""
    return float(4 * np.finfo(dtype).eps)


def default_limit(n: int) -> int:
    """Ten least-squares solutions per variable; degenerate systems need several."""
    return 10 * n
