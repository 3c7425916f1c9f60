"""Solutions of batches of systems, their statuses, and the defaults of the solvers."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """Solutions of a batch of systems; the fields of :class:`gpusolve.NNLSResult`.

    The multipliers of linear constraints are None without constraints.
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
    dual_ub: Array | None = None
    dual_eq: Array | None = None

    @classmethod
    def blank(
        cls, batch: tuple[int, ...], n: int, dtype: np.dtype[Any], *rows: int
    ) -> Solution:
        """All solutions NaN, all counts 0; `rows` of A_ub and of A_eq."""
        fields: list[Any] = [
            np.full(shape, np.nan if kind == dtype else 0, kind)
            for shape, kind in solution_fields(batch, n, dtype, *rows)
        ]
        fields[cls._fields.index("method")][...] = BY_QR
        return cls(*fields)

    def arrays(self) -> dict[str, Any]:
        """The fields that are arrays, by name."""
        return {k: field for k, field in self._asdict().items() if field is not None}

    def put(self, at: Any, found: Solution) -> None:
        """Write the solutions of some systems to the indices `at` of the batch."""
        fields: tuple[Any, ...] = self
        for field, values in zip(fields, found, strict=True):
            if field is not None:
                field[at] = values


def solution_fields(
    batch: tuple[int, ...], n: int, dtype: np.dtype[Any], *rows: int
) -> list[tuple[tuple[int, ...], Any]]:
    """The shape and the dtype of each field of a `Solution`."""
    reals = (*batch, n), batch, (*batch, n), batch
    multipliers = [((*batch, count), dtype) for count in rows]
    kinds = *[np.dtype(np.int32)] * 4, np.dtype(np.bool_), np.dtype(np.uint8)
    fields = [*[(shape, dtype) for shape in reals], *[(batch, kind) for kind in kinds]]
    return fields + multipliers


def default_tolerance(dtype: np.dtype[Any]) -> float:
    """``4 eps``; an accurate solution has a `kkt` of about ``eps``."""
    return float(4 * np.finfo(dtype).eps)


def default_limit(n: int) -> int:
    """Ten least-squares solutions per variable; degenerate systems need several."""
    return 10 * n
