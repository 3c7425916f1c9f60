"""Products of the designs of all learners with vectors and each other, on a CPU.

``cpu/compact_rows.cpp`` computes them, compiled ahead of time; without the compiled
object SciPy does, with sparse matrices. The rows and the learners are divided into
pieces, one for each call of a thread. The pieces do not depend on the number of
threads, nor do the sums.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from ..._device.arrays import address_of
from ..._device.launch import CACHED, pieces
from ..._device.objects import load
from ..._device.threads import CHUNK_ROWS, Work, one_blas_thread
from .._terms.predictor import nonzero_splines
from .._terms.rows import DesignPart, Part, Rows, SplinePart

Floats = NDArray[np.float64]
Run = Callable[[Work], None]

PIECE_ROWS = 2**16
"""The most rows of a piece: its vectors stay in the cache for all its learners."""

PIECE_WORK = 2**18
"""Rows of all learners of a piece together."""

COMPACT_PART = np.dtype(
    [
        *((name, np.uintp) for name in ("first", "values", "offsets", "shapes")),
        *((name, np.float64) for name in ("lower", "scale")),
        *((name, np.int32) for name in ("width", "cells", "is_float", "unused")),
    ]
)
COMPACT_DESIGNS = np.dtype(
    [(name, np.uintp) for name in ("parts", "begin_part", "begin_function")]
)
"""The structs of ``compact_rows.cpp``."""

SIGNATURES = {
    "gpusolve_project": "aiiiiaiiai",
    "gpusolve_add_product": "aiiiaa",
    "gpusolve_cross": "aiiiiiaa",
}
"""The arguments of its functions: addresses and 64-bit integers."""


class Piece(NamedTuple):
    """Some rows, the number `part` among these, and some learners."""

    part: int
    rows: slice
    learners: slice


class Products:
    """The designs of K learners, n rows each, ready for products.

    Attributes
    ----------
    ends : (K + 1,) integer array
        The learner j has the functions ``ends[j]`` to ``ends[j + 1] - 1``.
    pieces : list of Piece
    """

    def __init__(self, rows: Sequence[Rows]) -> None:
        self.rows, self.count = rows, len(rows[0])
        sizes = [design.functions for design in rows]
        self.ends = np.cumsum([0, *sizes])
        parts = [*pieces(self.count, PIECE_ROWS)]
        at_once = max(1, PIECE_WORK // min(self.count, PIECE_ROWS))
        self.parts = len(parts)
        self.pieces = [
            Piece(part, some, learners)
            for part, some in enumerate(parts)
            for learners in pieces(len(rows), at_once)
        ]
        self._prepare()

    @property
    def work(self) -> tuple[int, int]:
        """The arguments of `workers`: a piece is a chunk."""
        return len(self.pieces), CHUNK_ROWS

    @property
    def functions(self) -> list[slice]:
        """The functions of each learner, counted over all."""
        return [slice(*pair) for pair in zip(self.ends, self.ends[1:], strict=False)]

    def project(self, u: Floats, run: Run) -> Floats:
        """``X'u`` of all learners and of several u, (F, n) to (F, functions)."""
        if self.columns is not None:
            return np.asarray(u @ self.columns.T)
        u = np.ascontiguousarray(u)
        sums = np.zeros((self.parts, len(u), int(self.ends[-1])))

        def write(some: slice) -> None:
            for piece in self.pieces[some]:
                self._project(piece, u, sums[piece.part])

        run(write)
        return joined(sums)

    def multiply(self, learner: int, coef: Floats) -> Floats:
        """The product of a design and coefficients, (n,)."""
        product = np.zeros(self.count)
        self.add(learner, coef, product)
        return product

    def squares(self, weights: Sequence[Floats | None], run: Run) -> list[Floats]:
        """``X'WX`` of each learner for F diagonals W, (F, k, k)."""
        sizes = np.diff(self.ends)
        begins = np.cumsum([0, *sizes**2])
        sums = np.zeros((self.parts, len(weights), int(begins[-1])))

        def write(some: slice) -> None:
            for piece in self.pieces[some]:
                own = slice(*begins[[piece.learners.start, piece.learners.stop]])
                for fit, w in enumerate(weights):
                    self._cross(piece, None, w, sums[piece.part, fit, own])

        run(write)
        total = joined(sums)
        return [
            total[:, begin : begin + k * k].reshape(-1, k, k)
            for begin, k in zip(begins.tolist(), sizes.tolist(), strict=False)
        ]

    def block(self, learner: int, weights: Floats | None, run: Run) -> Floats:
        """``X_i'W X_j`` of all learners i and a learner j, (functions, k)."""
        k = self.rows[learner].functions
        sums = np.zeros((self.parts, int(self.ends[-1]), k))

        def write(some: slice) -> None:
            for piece in self.pieces[some]:
                own = slice(*self.ends[[piece.learners.start, piece.learners.stop]])
                self._cross(piece, learner, weights, sums[piece.part, own])

        run(write)
        return joined(sums)

    def column_blocks(
        self, learners: NDArray[np.intp], weights: Floats | None
    ) -> dict[int, Floats]:
        """`block` of several learners; all designs are columns."""
        assert self.columns is not None
        own = self.columns[learners]
        found = (own if weights is None else weights * own) @ self.columns.T
        return {
            j: row[:, None] for j, row in zip(learners.tolist(), found, strict=True)
        }

    def column_squares(self, weights: Floats | None) -> Floats:
        """``X'WX`` of each design, (K, F, 1); all designs are columns."""
        assert self.columns is not None
        if weights is None:
            weights = np.ones((1, self.count))
        with one_blas_thread():
            return np.asarray((self.columns**2 @ weights.T)[..., None])

    @cached_property
    def columns(self) -> Floats | None:
        """The designs as a matrix, (K, n), if each is a column; BLAS multiplies it."""
        if not all(design.is_column for design in self.rows):
            return None
        parts = [design.parts[0].stored() for design in self.rows]
        return np.stack([part.values[:, 0].astype(np.float64) for part in parts])

    # By SciPy:

    def _prepare(self) -> None:
        some = pieces(self.count, PIECE_ROWS)
        self.matrices = [[X.csr[rows] for X in self.rows] for rows in some]

    def add(self, learner: int, coef: Floats, f: Floats) -> None:
        """Add the product of a design and coefficients to f, (n,)."""
        f += np.concatenate([X[learner] @ coef for X in self.matrices])

    def _project(self, piece: Piece, u: Floats, sums: Floats) -> None:
        """Write ``X'u`` of a piece to (F, functions)."""
        part, rows, learners = piece
        for j in range(learners.start, learners.stop):
            sums[:, self.functions[j]] += u[:, rows] @ self.matrices[part][j]

    def _cross(
        self, piece: Piece, other: int | None, w: Floats | None, sums: Floats
    ) -> None:
        """Write ``X'WX`` or ``X'WY`` of some learners, one after the other."""
        part, rows, learners = piece
        made = []
        for j in range(learners.start, learners.stop):
            Y = self.matrices[part][j if other is None else other].toarray()
            if w is not None:
                Y *= w[rows, None]
            made.append((self.matrices[part][j].T @ Y).reshape(-1))
        sums.reshape(-1)[:] = np.concatenate(made)


class CompiledProducts(Products):
    """`Products` by the compiled object."""

    def _prepare(self) -> None:
        library = load()
        assert library is not None
        self._calls = {name: declared(library, name) for name in SIGNATURES}

    @cached_property
    def _packed(self) -> tuple[NDArray[np.void], Any]:
        """The struct of the designs, and the arrays to which it refers."""
        packed = [[*map(pack, design.parts)] for design in self.rows]
        kept = [kept for own in packed for _, kept in own]
        parts = np.array([struct for own in packed for struct, _ in own], COMPACT_PART)
        begins = np.cumsum([0, *map(len, packed)])
        ends = np.ascontiguousarray(self.ends, np.int64)
        structs = parts, begins.astype(np.int64), ends
        addresses = tuple(address_of(array) for array in structs)
        return np.array([addresses], COMPACT_DESIGNS), (kept, structs)

    @property
    def parts_of_designs(self) -> NDArray[np.void]:
        """``CompactPart`` of all parts."""
        _, (_, structs) = self._packed
        parts: NDArray[np.void] = structs[0]
        return parts

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of the object with arrays and integers."""
        designs, _kept = self._packed
        passed = [
            address_of(value) if isinstance(value, np.ndarray) else value
            for value in (designs, *arguments)
        ]
        if self._calls[name](*passed):
            raise MemoryError("the sums of the learners need more memory than there is")

    def add(self, learner: int, coef: Floats, f: Floats) -> None:
        if self.columns is not None:
            f += coef[0] * self.columns[learner]
            return
        b = np.ascontiguousarray(coef, np.float64)
        self._call("gpusolve_add_product", learner, 0, self.count, b, f)

    def _project(self, piece: Piece, u: Floats, sums: Floats) -> None:
        _, rows, learners = piece
        where = learners.start, learners.stop, rows.start, rows.stop
        pitch = sums.shape[1]
        self._call("gpusolve_project", *where, u, self.count, len(u), sums, pitch)

    def _cross(
        self, piece: Piece, other: int | None, w: Floats | None, sums: Floats
    ) -> None:
        _, rows, learners = piece
        with_other = -1 if other is None else other
        where = learners.start, learners.stop, with_other, rows.start, rows.stop
        self._call("gpusolve_cross", *where, w, sums)


def products_of(rows: Sequence[Rows]) -> Products:
    """The products of designs on the host."""
    return (Products if load() is None else CompiledProducts)(rows)


def joined(sums: Floats) -> Floats:
    """The sums of all parts of the rows."""
    return sums[0] if len(sums) == 1 else np.asarray(sums.sum(axis=0))


def declared(library: ctypes.CDLL, name: str) -> Any:
    """A function of the object with the types of its arguments."""
    types: dict[str, Any] = {"a": ctypes.c_void_p, "i": ctypes.c_longlong}
    function = library[name]
    function.argtypes = [types[code] for code in SIGNATURES[name]]
    return function


def pack(part: Part) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The fields of ``CompactPart``, and the arrays that they refer to."""
    return pack_splines(part) if isinstance(part, SplinePart) else pack_stored(part)


def pack_splines(part: SplinePart) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """`pack` of splines that are computed from the covariate."""
    basis = part.splines
    lower, upper = float(basis.lower[0]), float(basis.upper[0])
    varies = upper > lower
    x, shapes = np.ascontiguousarray(part.x), spline_shapes(basis.degree, varies)
    scale = basis.cells / (upper - lower) if varies else 0.0
    kept = None, x, part.offsets, shapes
    numbers = lower, scale, basis.degree + 1, basis.cells
    return fields(kept, numbers, x), kept


def pack_stored(part: DesignPart) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """`pack` of stored values."""
    first = np.ascontiguousarray(part.first, np.int32)
    values = np.ascontiguousarray(part.values)
    kept = first, values, part.offsets, None
    numbers = 0.0, 0.0, len(part.offsets), int(first.max()) + 1
    return fields(kept, numbers, values), kept


def fields(
    arrays: tuple[Any, ...], numbers: tuple[Any, ...], values: NDArray[Any]
) -> tuple[Any, ...]:
    """The fields of ``CompactPart`` in their order."""
    addresses = [0 if array is None else address_of(array) for array in arrays]
    return (*addresses, *numbers, values.dtype == np.float32, 0)


@lru_cache(CACHED)
def spline_shapes(degree: int, varies: bool) -> Floats:
    """The polynomials of the functions in a cell: the factors of t^i in row i.

    t is the position in the cell, from -1/2 to 1/2. Zeros for an empty range.

    Examples
    --------
    >>> spline_shapes(1, True)
    array([[ 0.5,  0.5],
           [-1. ,  1. ]])
    """
    shapes = np.zeros((degree + 1, degree + 1))
    if varies:
        u = np.array([Polynomial([0.5, 1.0])], object)
        splines, _ = nonzero_splines(u, degree)
        for function, (spline,) in enumerate(splines):
            coef = Polynomial(getattr(spline, "coef", [spline])).coef
            shapes[: len(coef), function] = coef
    return shapes
