"""Terms whose design and penalty the user gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._device.arrays import Array, namespace
from .basis import Matrix
from .frame import Frame
from .rows import Rows, dense_rows
from .term import Reading, Single, learned, plain_numbers


@dataclass(frozen=True, repr=False, kw_only=True)
class User(Single):
    """A given design with a given penalty, see `buser`.

    `width` is learned: the number of columns of the design.
    """

    function: str = "buser"
    df: float | None = 4
    K: tuple[tuple[float, ...], ...] | None = None
    design: Callable[..., Array] | None = None
    width: int = learned(0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.K is None:
            return
        K = np.array(self.K)
        if K.ndim != 2 or K.shape[0] != K.shape[1] or not np.allclose(K, K.T):
            raise ValueError(
                f"K must be a symmetric matrix, got {K.tolist()} of shape {K.shape}"
            )
        if np.linalg.eigvalsh(K)[0] < -1e-8 * np.abs(K).max():
            raise ValueError(
                "K must be positive semidefinite, got a negative eigenvalue"
            )

    def _learn(self, frame: Frame) -> dict[str, Any]:
        width = self._matrix(Reading(frame, missing="zero")).shape[1]
        if self.K is not None and len(self.K) != width:
            raise ValueError(
                f"K of {self.label} must have shape ({width}, {width}), got "
                f"({len(self.K)}, {len(self.K)})"
            )
        return {"width": width}

    @property
    def _functions(self) -> int:
        return self.width

    @property
    def _null_dimension(self) -> int:
        if self.K is None:
            return 0
        return self.width - int(np.linalg.matrix_rank(np.array(self.K), hermitian=True))

    def _plain_rows(self, data: Reading) -> Rows:
        return dense_rows(self._matrix(data).astype(data.dtype))

    def _matrix(self, data: Reading) -> Array:
        """The design matrix of the columns, (n, width)."""
        columns = [data.numeric(name) for name in self.covariates]
        xp = namespace(columns[0])
        if self.design is None:
            return xp.stack([x.astype(np.float64) for x in columns], axis=1)
        matrix = xp.asarray(self.design(*columns))
        if matrix.ndim != 2 or len(matrix) != len(columns[0]):
            raise ValueError(
                f"design of {self.label} must return a matrix of {len(columns[0])} "
                f"rows, got shape {matrix.shape}"
            )
        if not bool(xp.isfinite(matrix).all()):
            raise ValueError(
                f"design of {self.label} must return finite numbers, got NaN or "
                "infinity"
            )
        return matrix

    def _exported(self) -> dict[str, Any]:
        if self.design is not None:
            raise TypeError(f"design of {self.label} must not be given to be exported")
        return plain_numbers(*self.covariates)

    def _penalty(self) -> Matrix:
        return np.eye(self.width) if self.K is None else np.array(self.K)
