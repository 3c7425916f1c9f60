"""Residuals of sparse systems, in twice the working precision."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, address_of, is_cupy, namespace, on_host
from .._device.launch import CACHED, round_up
from .._device.objects import load
from .._device.threads import workers
from .._numerics.certificate import ACCURATE
from .._numerics.compensated import two_product, two_sum
from .sparse_matrices import Container, multiply

TOGETHER = 4
"""The number of systems that the compiled object computes at once."""

ENTRIES = 2**14
"""Entries of the rows that NumPy computes at once; they stay in the cache."""

ENTRIES_ON_DEVICE = 2**22
"""The same for CuPy."""


def residual(b: Array, A: Container, x: Array, size: Array) -> Array:
    """``b - A x``, accurate to a few eps of its norm.

    The compiled object computes it in twice the working precision. NumPy and CuPy do so
    for systems in which much cancels only.

    Parameters
    ----------
    b : (systems, m) array
    A : (m, n) matrix in compressed sparse rows
    x : (systems, n) array
    size : (systems,) array
        The size of the terms that cancel, on the host.
    """
    library = None if is_cupy(b) else load()
    if library is not None:
        return compiled_residual(library, b, A, x)
    r = b - multiply(A, x)
    norm = on_host(namespace(r).sqrt((r * r).sum(axis=-1)))
    inaccurate = namespace(b).asarray(np.flatnonzero(ACCURATE * norm < size))
    if inaccurate.size:
        r[inaccurate] = minus_product(b[inaccurate], A, x[inaccurate])
    return r


def compiled_residual(
    library: ctypes.CDLL, b: Array, A: Container, x: Array
) -> NDArray[np.float64]:
    """The residual by ``cpu/sparse_residual.cpp``, on a thread for each core."""
    (systems, m), n = b.shape, x.shape[-1]
    padded = round_up(systems, TOGETHER)
    r, columns = np.zeros((padded, m)), np.zeros((n, padded))
    r[:systems], columns[:, :systems] = b, x.T
    arrays = A.indptr, A.indices, A.data
    subtract, wide = declared(library), A.indices.dtype.itemsize == 8

    def work(rows: slice) -> None:
        where = wide, rows.start, rows.stop, address_of(columns), padded, address_of(r)
        subtract(*map(address_of, arrays), *where, m)

    with workers(m, max(1, len(A.data) * padded // max(1, m))) as run:
        run(work)
    return r[:systems]


@functools.lru_cache(CACHED)
def declared(library: ctypes.CDLL) -> Any:
    """The function of the object with the types of its arguments."""
    address, integer = ctypes.c_void_p, ctypes.c_longlong
    function = library.gpusolve_sparse_residual
    function.argtypes = [*[address] * 3, *[integer] * 3]
    function.argtypes += [address, integer, address, integer]
    return function


def minus_product(b: Array, A: Container, x: Array) -> Array:
    """``b - A x`` in twice the working precision, rounded once, by NumPy or CuPy."""
    xp = namespace(b)
    found = xp.empty_like(b)
    x = xp.ascontiguousarray(-x.T)
    starts = on_host(A.indptr)
    most = ENTRIES_ON_DEVICE if is_cupy(b) else ENTRIES
    for rows in row_blocks(starts, max(1, most // max(1, len(b)))):
        some = slice(int(starts[rows.start]), int(starts[rows.stop]))
        products, errors = two_product(A.data[some, None], x[A.indices[some]])
        ends = A.indptr[rows.start : rows.stop + 1] - some.start
        high, low = row_sums(products, errors, ends)
        total, rounding = two_sum(b[:, rows].T, high)
        found[:, rows] = (total + (low + rounding)).T
    return found


def row_blocks(starts: Array, entries: int) -> Iterator[slice]:
    """Slices of rows that have at most `entries` entries, or are a single row.

    Examples
    --------
    >>> list(row_blocks(np.array([0, 2, 3, 9, 9]), 3))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    first, rows = 0, len(starts) - 1
    while first < rows:
        end = int(np.searchsorted(starts, starts[first] + entries, side="right")) - 1
        last = min(max(end, first + 1), rows)
        yield slice(first, last)
        first = last


def row_sums(high: Array, low: Array, starts: Array) -> tuple[Array, Array]:
    """Sums of the rows of two arrays, where the sums of `high` add their errors to low.

    Neighbours are added until each row has a single value.

    Parameters
    ----------
    high, low : (entries, systems) array
    starts : (rows + 1,) integer array
        Where each row begins.

    Returns
    -------
    tuple of (rows, systems) array
    """
    xp = namespace(high)
    lengths = starts[1:] - starts[:-1]
    while len(high) and int(lengths.max()) > 1:
        lengths = (lengths + 1) // 2
        ends = xp.cumsum(lengths)
        place = xp.arange(int(ends[-1]))
        row = xp.searchsorted(ends, place, side="right")
        first = starts[row] + 2 * (place - (ends - lengths)[row])
        is_pair = (first + 1 < starts[row + 1])[:, None]
        second = xp.minimum(first + 1, len(high) - 1)
        total, rounding = two_sum(high[first], xp.where(is_pair, high[second], 0))
        low = low[first] + xp.where(is_pair, low[second], 0) + rounding
        high, starts = total, xp.concatenate([0 * ends[:1], ends])
    if not len(high):
        return xp.zeros((len(lengths), *high.shape[1:])), xp.zeros(())
    filled = (lengths > 0)[:, None]
    at = xp.minimum(starts[:-1], len(high) - 1)
    return xp.where(filled, high[at], 0), xp.where(filled, low[at], 0)
