"""Terms with dense designs: given designs, and radial functions around knots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._device.arrays import Array, namespace, on_host
from .._data.conventions import check_between, check_choice, check_least
from .basis import Matrix
from .frame import Frame
from .rows import Reading, Rows, dense_rows
from .single import Single, learned, plain_numbers


def numeric_columns(term: Single, data: Reading) -> Array:
    """The covariates of all rows, (n, p) of float64."""
    columns = [data.numeric(name) for name in term.covariates]
    return namespace(columns[0]).stack([x.astype(np.float64) for x in columns], axis=1)


@dataclass(frozen=True, repr=False, kw_only=True)
class User(Single):
    """A given design with a given penalty, see `buser`.

    `width` is learned: the number of columns of the design.
    """

    function: str = "buser"
    df: float | None = 4.0
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
        if self.design is None:
            return numeric_columns(self, data)
        columns = [data.numeric(name) for name in self.covariates]
        xp = namespace(columns[0])
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


# ---- kernels -------------------------------------------------------------------------


SPREAD = 2**13
"""The most rows among which knots are chosen."""

ZERO_SHARE = 1e-12
"""Eigenvalues of a kernel matrix below this share of the largest count as zero."""


class Radial(NamedTuple):
    """A kernel of the distance d, in units of the scale.

    Attributes
    ----------
    value : callable
        k(d); k(0) is 1.
    reach : float
        The distance at which k is 0.001.
    """

    value: Callable[[Array], Array]
    reach: float


KERNELS: dict[str, Radial] = {
    "matern": Radial(lambda d: (1 + d) * namespace(d).exp(-d), 9.233413476451543),
    "exponential": Radial(lambda d: namespace(d).exp(-d), 6.907755278982137),
    "rbf": Radial(lambda d: namespace(d).exp(-d * d / 2), 3.7169221888498383),
}
"""The kernels by their names; "matern" has the smoothness 3/2."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Kernel(Single):
    """Functions of a kernel around knots, see `bkernel` and `brad`.

    `positions` and `found_scale` are learned: the knots, and the unit of the distances
    between rows and knots.
    """

    function: str = "bkernel"
    kernel: str | Callable[[Array, Array], Array] = "rbf"
    knots: int | tuple[tuple[float, ...], ...] = 100
    scale: float | None = None
    df: float | None = 4.0
    positions: tuple[tuple[float, ...], ...] = learned(())
    found_scale: float = learned(1.0)

    _defaults: ClassVar = {"brad": {"kernel": "matern"}}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, tuple(KERNELS))
        if self.scale is not None:
            check_between("scale", self.scale, 0, np.inf)
        if isinstance(self.knots, int):
            check_least("knots", self.knots, 1)

    def _learn(self, frame: Frame) -> dict[str, Any]:
        data = Reading(frame, missing="zero")
        points = on_host(numeric_columns(self, data)).astype(np.float64)
        if data.present is not None:
            points = points[on_host(data.present) > 0]
        if not len(points):
            raise ValueError(
                f"the columns of {self.label} must have rows without missing values"
            )
        scale = self.scale
        if scale is None:  # where the kernel reaches across the box of the points
            size = float(np.linalg.norm(np.ptp(points, axis=0)))
            is_known = size > 0 and not callable(self.kernel)
            scale = size / KERNELS[str(self.kernel)].reach if is_known else 1.0
        width, knots = points.shape[1], self.knots
        if isinstance(knots, int):
            knots = tuple(map(tuple, spread_points(points, knots).tolist()))
        elif any(len(point) != width for point in knots):
            raise ValueError(
                f"knots of {self.function} must have shape (m, {width}), got "
                f"({len(knots)}, {len(knots[0])})"
            )
        return {"positions": knots, "found_scale": scale}

    @property
    def _functions(self) -> int:
        return len(self.positions)

    def _plain_rows(self, data: Reading) -> Rows:
        points = numeric_columns(self, data)
        xp = namespace(points)
        knots = xp.asarray(self.positions, np.float64)
        root = inverse_root(on_host(self._values(knots, knots)), self.label)
        functions = self._values(points, knots) @ xp.asarray(root)
        return dense_rows(functions.astype(data.dtype))

    def _values(self, points: Array, knots: Array) -> Array:
        """``k(points, knots)``, (n, knots)."""
        if not callable(self.kernel):
            distance = distances(points, knots) / self.found_scale
            return KERNELS[self.kernel].value(distance)
        values = namespace(points).asarray(self.kernel(points, knots))
        if values.shape != (len(points), len(knots)):
            raise ValueError(
                f"kernel of {self.label} must return shape "
                f"{(len(points), len(knots))}, got {values.shape}"
            )
        return values

    def _penalty(self) -> Matrix:
        return np.eye(self._functions)


def distances(a: Array, b: Array) -> Array:
    """The Euclidean distances of points, (n, p) and (m, p) to (n, m)."""
    xp = namespace(a)
    total = xp.zeros((len(a), len(b)))
    for x, y in zip(a.T, b.T, strict=True):
        total += (x[:, None] - y) ** 2
    return xp.sqrt(total)


def inverse_root(K: Matrix, label: str) -> Matrix:
    """``K^-1/2``, without the directions in which K is zero.

    ValueError unless K is symmetric and positive semidefinite.
    """
    if not np.allclose(K, K.T):
        raise ValueError(f"kernel of {label} must be symmetric")
    values, vectors = np.linalg.eigh(K)
    if not (np.isfinite(values).all() and values[0] >= -1e-8 * values[-1]):
        raise ValueError(f"kernel of {label} must be positive semidefinite")
    kept = values > ZERO_SHARE * values[-1]
    roots = kept / np.sqrt(np.where(kept, values, 1))
    return np.asarray(vectors * roots @ vectors.T)


def spread_points(points: Matrix, count: int) -> Matrix:
    """Some of the points, far from each other, (at most count, p).

    The first is next to the mean; each further point is the farthest from all before.
    The largest distance of a point to the chosen points is at most twice the least
    possible distance. Of many points, some evenly spaced rows are examined.

    References
    ----------
    T. F. Gonzalez, "Clustering to Minimize the Maximum Intercluster Distance",
    Theoretical Computer Science 38 (1985).

    Examples
    --------
    >>> spread_points(np.array([[0.0], [1.0], [2.0], [5.0], [5.0]]), count=3)
    array([[2.],
           [5.],
           [0.]])
    """
    points = np.unique(points[:: -(-len(points) // SPREAD)], axis=0)
    centre = distances(points, points.mean(axis=0, keepdims=True))[:, 0]
    chosen = [int(centre.argmin())]
    nearest = distances(points, points[chosen])[:, 0]
    while len(chosen) < min(count, len(points)):
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, distances(points, points[chosen[-1:]])[:, 0])
    return np.asarray(points[chosen])
