"""Markov random fields: the effects of regions, close to the effects of neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .basis import Matrix
from .frame import Frame, Level, listed
from .rows import Rows, indicator_rows
from .spline import spectral_columns
from .term import Reading, Single, plain_factor

Edge = tuple[int, int]


@dataclass(frozen=True, repr=False, kw_only=True)
class Region(Single):
    """The effects of regions, see `bmrf`.

    The functions are the indicators of the regions. `edges` are pairs of positions
    among the regions.
    """

    function: str = "bmrf"
    df: float | None = 4
    center: bool = False
    regions: tuple[Level, ...] = field(default=(), metadata={"written": False})
    edges: tuple[Edge, ...] = field(default=(), metadata={"written": False})

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.covariates) > 1:
            raise ValueError(
                f"bmrf must be given one column, got {len(self.covariates)}"
            )

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
    if hasattr(neighbours, "index") and hasattr(neighbours, "to_numpy"):
        regions = tuple(neighbours.index.tolist())
        return regions, edges_of_matrix(neighbours.to_numpy())
    if isinstance(neighbours, Mapping):
        return graph_of_lists(neighbours)
    if hasattr(neighbours, "tocoo") or getattr(neighbours, "ndim", 0) == 2:
        return tuple(range(neighbours.shape[0])), edges_of_matrix(neighbours)
    if isinstance(neighbours, str) or not isinstance(neighbours, Iterable):
        raise TypeError(
            "neighbours must be a mapping, a matrix or pairs of regions, got "
            f"{type(neighbours).__name__}"
        )
    pairs = [tuple(pair) for pair in neighbours]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"neighbours must be pairs of regions, got {listed((*pairs,))}"
        )
    regions = tuple(dict.fromkeys(region for pair in pairs for region in pair))
    return regions, edges_between(regions, pairs)


def graph_of_lists(
    neighbours: Mapping[Level, Iterable[Level]],
) -> tuple[tuple[Level, ...], tuple[Edge, ...]]:
    """The graph of a mapping from each region to its neighbours."""
    pairs = [(i, j) for i, others in neighbours.items() for j in others]
    known, given = set(neighbours), set(pairs)
    lonely = [pair for pair in pairs if pair[1] not in known or pair[::-1] not in given]
    if lonely:
        i, j = lonely[0]
        raise ValueError(f"neighbours must be mutual, got {j!r} for {i!r} only")
    regions = tuple(neighbours)
    return regions, edges_between(regions, pairs)


def edges_between(
    regions: tuple[Level, ...], pairs: Iterable[tuple[Level, ...]]
) -> tuple[Edge, ...]:
    """The edges of pairs of regions, each once."""
    place = {region: i for i, region in enumerate(regions)}
    edges = {tuple(sorted((place[i], place[j]))) for i, j in pairs}
    return check_edges(edges)


def edges_of_matrix(matrix: Any) -> tuple[Edge, ...]:
    """The edges of an adjacency matrix, dense or sparse: its entries that are not 0."""
    from scipy.sparse import coo_array

    graph = coo_array(matrix)
    if graph.shape[0] != graph.shape[1]:
        raise ValueError(f"neighbours must be a square matrix, got shape {graph.shape}")
    if (graph != graph.T).nnz:
        raise ValueError("neighbours must be a symmetric matrix")
    pairs = zip(*(index.tolist() for index in graph.nonzero()), strict=True)
    return check_edges({(min(pair), max(pair)) for pair in pairs})


def check_edges(edges: set[Any]) -> tuple[Edge, ...]:
    """The edges in order; ValueError if a region is its own neighbour."""
    own = [i for i, j in edges if i == j]
    if own:
        raise ValueError(
            f"neighbours must be other regions, got region {own[0]} next to itself"
        )
    return tuple(sorted(edges))
