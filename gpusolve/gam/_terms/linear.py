"""Linear effects of covariates, and effects of levels, of regions and of bins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._device.arrays import Array, namespace, on_host
from .._data.conventions import check_choice, check_least
from .basis import Matrix, Vector, differences
from .frame import Frame, Level, check_levels, listed, present_values
from .rows import Reading, Rows, dense_rows, indicator_rows
from .rules import Cut
from .single import Single, learned, plain_factor, plain_numbers
from .spline import spectral_columns


def helmert(levels: int) -> Matrix:
    """Column j, from 1: -1 for the first j levels, j for the next level."""
    column = np.arange(1, levels)
    level = np.arange(levels)[:, None]
    return np.where(level < column, -1.0, np.where(level == column, column, 0.0))


def treatment_coefficients(effects: Matrix) -> Matrix:
    first = effects[..., :1]
    return np.concatenate([first, effects[..., 1:] - first], axis=-1)


def sum_coefficients(effects: Matrix) -> Matrix:
    mean = effects.mean(axis=-1, keepdims=True)
    return np.concatenate([mean, effects[..., :-1] - mean], axis=-1)


def helmert_coefficients(effects: Matrix) -> Matrix:
    mean = effects.mean(axis=-1, keepdims=True)
    count = np.arange(1, effects.shape[-1])
    before = effects[..., :-1].cumsum(axis=-1) / count
    contrasts = (effects[..., 1:] - before) / (count + 1)
    return np.concatenate([mean, contrasts], axis=-1)


class Coding(NamedTuple):
    """The columns of a factor of L levels: an intercept and L - 1 contrasts.

    Attributes
    ----------
    contrasts : callable
        The contrasts of each level, (L, L - 1), from the number L.
    coefficients : callable
        The coefficients of the intercept and the contrasts from the effects of the
        levels, (..., L) each. The intercept is 0 for effects of contrasts alone.
    """

    contrasts: Callable[[int], Matrix]
    coefficients: Callable[[Matrix], Matrix]


CONTRASTS: dict[str, Coding | None] = {
    "treatment": Coding(lambda levels: np.eye(levels)[:, 1:], treatment_coefficients),
    "sum": Coding(
        lambda levels: np.vstack([np.eye(levels - 1), -np.ones(levels - 1)]),
        sum_coefficients,
    ),
    "helmert": Coding(helmert, helmert_coefficients),
    "dummy": None,
}
"""The coding of a factor; None: an indicator of each level, without an intercept."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Linear(Single):
    """A linear effect of numeric columns or of a factor, see `bols` and `brandom`.

    The functions of a factor are the indicators of its levels. `found_levels` and
    `ordered` are learned; without levels the columns are numeric.
    """

    function: str = "bols"
    intercept: bool = True
    contrasts: str = "treatment"
    levels: tuple[Level, ...] | None = None
    found_levels: tuple[Level, ...] | None = learned()
    ordered: bool = learned(False)

    _most_columns: ClassVar = {"brandom": 1}
    _defaults: ClassVar = {"brandom": {"df": 4, "contrasts": "dummy"}}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("contrasts", self.contrasts, tuple(CONTRASTS))
        if self.levels is not None and len(set(self.levels)) < len(self.levels):
            raise ValueError(f"levels must be different, got {listed(self.levels)}")

    def _learn(self, frame: Frame) -> dict[str, Any]:
        name, *others = self.covariates
        needs_levels = self.levels is not None or self.function == "brandom"
        if others or not (needs_levels or frame.is_factor(name)):
            for numeric in self.covariates:
                frame.numeric(numeric)
            return {"found_levels": None, "ordered": False}
        factor = frame.factor(name)
        levels = factor.levels if self.levels is None else self.levels
        known = set(levels)
        unknown = tuple(level for level in factor.levels if level not in known)
        if unknown:
            raise ValueError(
                f"{name} must have the levels {listed(levels)}, got {listed(unknown)}"
            )
        least = 1 if self.intercept or self.contrasts == "dummy" else 2
        check_levels(name, levels, least)
        return {"found_levels": levels, "ordered": factor.ordered}

    @property
    def covariate_levels(self) -> tuple[Level, ...] | None:
        return self.found_levels

    @property
    def _functions(self) -> int:
        if self.found_levels is None:
            return len(self.covariates) + self.intercept
        return len(self.found_levels)

    def _plain_rows(self, data: Reading) -> Rows:
        if self.found_levels is not None:
            (name,) = self.covariates
            codes = data.codes(name, self.found_levels)
            return indicator_rows(codes, self._functions, data.dtype)
        columns = [data.numeric(name) for name in self.covariates]
        xp = namespace(columns[0])
        if self.intercept:
            columns.insert(0, xp.ones(len(columns[0])))
        columns = [x.astype(data.dtype, copy=False) for x in columns]
        is_single = len(columns) == 1
        return dense_rows(columns[0][:, None] if is_single else xp.stack(columns, 1))

    def _exported(self) -> dict[str, Any]:
        if self.found_levels is None:
            return plain_numbers(*self.covariates, intercept=self.intercept)
        return plain_factor(self.covariates[0], self.found_levels)

    def _transform(self) -> Matrix | None:
        """The intercept and the contrasts, by the indicators of the levels."""
        coding = self._coding
        if coding is None:
            return None
        levels = self._functions
        intercept = np.ones((levels, int(self.intercept)))
        return np.hstack([intercept, coding.contrasts(levels)])

    @property
    def _coding(self) -> Coding | None:
        """The coding of a factor; None if the functions have the coefficients."""
        return None if self.found_levels is None else CONTRASTS[self.contrasts]

    def _diagonal(self) -> Vector | None:
        """Zeros for unpenalised effects of all levels, ones for a ridge on these."""
        if self._coding is not None:
            is_free = self.intercept and self.fixed_lambda == 0
            return np.zeros(self._functions) if is_free else None
        is_disjoint = self.found_levels is not None or self._functions == 1
        return np.ones(self._functions) if is_disjoint else None

    def _column_coefficients(self, coef: Matrix) -> Matrix:
        if self._coding is None:
            return coef
        return self._coding.coefficients(coef)[..., int(not self.intercept) :]

    def _penalty(self) -> Matrix:
        """The ridge; of an ordered factor, the differences of neighbouring effects."""
        T = self._transform()
        columns = self._functions if T is None else T.shape[1]
        if not (self.ordered and self.contrasts == "treatment"):
            return np.eye(columns)
        C = differences(columns + 1, 1)[:, 1:]
        return C.T @ C


# ---- regions -------------------------------------------------------------------------


Edge = tuple[int, int]


@dataclass(frozen=True, repr=False, kw_only=True)
class Region(Single):
    """The effects of regions, see `bmrf`.

    The functions are the indicators of the regions. `edges` are pairs of positions
    among the regions.
    """

    function: str = "bmrf"
    df: float | None = 4.0
    center: bool = False
    regions: tuple[Level, ...] = field(default=(), metadata={"written": False})
    edges: tuple[Edge, ...] = field(default=(), metadata={"written": False})
    _most_columns: ClassVar = {"bmrf": 1}

    def _learn(self, frame: Frame) -> dict[str, Any]:
        (name,) = self.covariates
        found = set(frame.factor(name).levels)
        unknown = tuple(sorted(found.difference(self.regions), key=str))
        if unknown:
            raise ValueError(
                f"{name} must have regions among the neighbours, "
                f"{listed(self.regions)}, got {listed(unknown)}"
            )
        return {}

    @property
    def covariate_levels(self) -> tuple[Level, ...]:
        return self.regions

    @property
    def _functions(self) -> int:
        return len(self.regions)

    @property
    def _null_dimension(self) -> int:
        return 0 if self.center else self._components

    @property
    def _components(self) -> int:
        """The number of groups of regions that have no neighbours in other groups."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        begins, ends = np.reshape(self.edges, (-1, 2)).astype(np.int64).T
        shape = (self._functions, self._functions)
        graph = coo_array((np.ones(len(begins)), (begins, ends)), shape)
        return int(connected_components(graph, directed=False)[0])

    def _plain_rows(self, data: Reading) -> Rows:
        (name,) = self.covariates
        codes = data.codes(name, self.regions)
        return indicator_rows(codes, self._functions, data.dtype)

    def _exported(self) -> dict[str, Any]:
        return plain_factor(self.covariates[0], self.regions)

    @property
    def _incidence(self) -> Matrix:
        """A row for each edge: 1 at a region and -1 at its neighbour."""
        incidence = np.zeros((len(self.edges), self._functions))
        for row, (i, j) in zip(incidence, self.edges, strict=True):
            row[[i, j]] = 1, -1
        return incidence

    def _transform(self) -> Matrix | None:
        if not self.center:
            return None
        return spectral_columns([self._incidence], self._components)

    def _penalty(self) -> Matrix:
        if self.center:
            return np.eye(self._functions - self._components)
        return self._incidence.T @ self._incidence


def graph_of(neighbours: Any) -> tuple[tuple[Level, ...], tuple[Edge, ...]]:
    """The regions and the edges, from the forms that `bmrf` accepts.

    TypeError or ValueError for other forms, and for relations that are not mutual.
    """
    if isinstance(neighbours, Mapping):
        regions = [*neighbours]
        pairs = [(i, j) for i, others in neighbours.items() for j in others]
    elif hasattr(neighbours, "tocoo") or getattr(neighbours, "ndim", 0) == 2:
        regions, pairs = pairs_of_matrix(neighbours)
    elif isinstance(neighbours, str) or not isinstance(neighbours, Iterable):
        raise TypeError(
            "neighbours must be a mapping, a matrix or pairs of regions, got "
            f"{type(neighbours).__name__}"
        )
    else:
        pairs = [tuple(pair) for pair in neighbours]
        if not pairs or any(len(pair) != 2 for pair in pairs):
            raise ValueError(
                f"neighbours must be pairs of regions, got {listed((*pairs,))}"
            )
        regions = [*dict.fromkeys(region for pair in pairs for region in pair)]
        pairs += [(j, i) for i, j in pairs]
    place, given = {region: at for at, region in enumerate(regions)}, set(pairs)
    for i, j in pairs:
        if j not in place or (j, i) not in given:
            raise ValueError(f"neighbours must be mutual, got {j!r} for {i!r} only")
        if i == j:
            raise ValueError(
                f"neighbours must be other regions, got {i!r} next to itself"
            )
    edges = {(place[i], place[j]) for i, j in pairs if place[i] < place[j]}
    return tuple(regions), tuple(sorted(edges))


def pairs_of_matrix(matrix: Any) -> tuple[list[Level], list[tuple[Level, ...]]]:
    """The regions of an adjacency matrix, and its pairs that are not 0.

    The matrix is dense or sparse. The regions are the index of a frame, or 0, 1, ..
    """
    from scipy.sparse import coo_array

    graph = coo_array(matrix)
    if graph.shape[0] != graph.shape[1]:
        raise ValueError(f"neighbours must be a square matrix, got shape {graph.shape}")
    regions = [*getattr(matrix, "index", range(graph.shape[0]))]
    rows, columns = graph.nonzero()
    return regions, [
        (regions[i], regions[j]) for i, j in zip(rows, columns, strict=True)
    ]


# ---- stumps --------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, kw_only=True)
class Stump(Single):
    """A step function with one jump, see `btree`.

    The functions are the indicators of the bins between the learned `cuts`; a value
    that equals a cut belongs to the bin below it.
    """

    function: str = "btree"
    bins: int = 255
    min_rows: int = 4
    cuts: tuple[float, ...] = learned(())
    _most_columns: ClassVar = {"btree": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.bins <= MAX_BINS:
            raise ValueError(f"bins must be 2 to {MAX_BINS}, got {self.bins}")
        check_least("min_rows", self.min_rows, 1)

    stands_alone = True

    def rule(self, inverse: Array) -> Cut:
        return Cut(self.min_rows)

    def _learn(self, frame: Frame) -> dict[str, Any]:
        (name,) = self.covariates
        x = on_host(present_values(name, frame)).astype(np.float64)
        return {"cuts": tuple(cuts_of(x, self.bins).tolist())}

    @property
    def _functions(self) -> int:
        return len(self.cuts) + 1

    def _plain_rows(self, data: Reading) -> Rows:
        (name,) = self.covariates
        x = data.numeric(name)
        xp = namespace(x)
        cuts = xp.asarray(self.cuts, np.float64)
        codes: Array = xp.searchsorted(cuts, x.astype(np.float64), side="left")
        return indicator_rows(codes, self._functions, data.dtype)

    def _exported(self) -> dict[str, Any]:
        return {"kind": "bins", "column": self.covariates[0], "cuts": [*self.cuts]}

    def _penalty(self) -> Matrix:
        return np.zeros((self._functions, self._functions))

    def _diagonal(self) -> Vector:
        return np.zeros(self._functions)


MAX_BINS = 255
"""The most bins: as in the histograms of other packages."""


def cuts_of(x: Vector, bins: int) -> Vector:
    """Where a column is cut: between its values, or at quantiles if these are many.

    Examples
    --------
    >>> cuts_of(np.array([3.0, 1.0, 2.0, 1.0]), bins=4)
    array([1.5, 2.5])
    >>> cuts_of(np.arange(8.0), bins=4)
    array([1.5, 3.5, 5.5])
    """
    values = np.unique(x)
    if len(values) > bins:
        shares = np.arange(1, bins) / bins
        below = np.unique(np.searchsorted(values, np.quantile(x, shares), "right"))
        below = below[(below > 0) & (below < len(values))]
    else:
        below = np.arange(1, len(values))
    return (values[below - 1] + values[below]) / 2
