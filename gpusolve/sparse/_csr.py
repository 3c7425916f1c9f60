"""Conversion of sparse containers to compressed sparse rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._blocks.inputs import native
from .._device.arrays import Array, contiguous, namespace, sparse_library
from ._inputs import MAX_PLACES, Container, Coordinates, coordinates


class CompressedRows(NamedTuple):
    """The stored entries by row, with duplicates and explicit zeros.

    All arrays are contiguous.

    Attributes
    ----------
    offsets : (m + 1,) array of int32 or int64
        Where each row begins, and where the last row ends.
    columns : (nnz,) array of the dtype of `offsets`
    values : (nnz,) array
        In native byte order.
    shape : tuple of int
        Rows and columns.
    """

    offsets: Array
    columns: Array
    values: Array
    shape: tuple[int, int]

    @property
    def ends(self) -> Array:
        """Where each row ends."""
        return self.offsets[1:]


def compressed_rows(container: Container, *, in_order: bool) -> CompressedRows:
    """Convert a checked container; CSR is not copied.

    Parameters
    ----------
    container : sparse array or matrix
    in_order : bool
        Whether to sort each row by column. Duplicates keep their order.

    Raises
    ------
    TypeError
        For a dtype that kernels do not support.
    """
    if sparse_library(container) == "scipy.sparse":
        csr = _to_csr(container)
        return _compressed_rows(_sort_columns(csr) if in_order else csr)
    if container.format == "csr" and (not in_order or container.has_sorted_indices):
        return _compressed_rows(container)  # CuPy checks the order of all entries
    return sorted_rows(coordinates(container), in_order=in_order)


def _to_csr(container: Container) -> Container:
    """SciPy's CSR with the entries of a row in stored order, in linear time."""
    if container.format != "coo":
        return container.tocsr()
    import scipy.sparse

    entries = coordinates(container)
    places = entries.rows, entries.columns
    coo = scipy.sparse.coo_array((entries.values, places), shape=entries.shape)
    coo.has_canonical_format = True  # else SciPy sums duplicates
    return coo.tocsr()


def _sort_columns(csr: Container) -> Container:
    """SciPy's CSR with sorted columns. Each of the two conversions is stable."""
    return csr if csr.has_sorted_indices else csr.tocsc().tocsr()


def _compressed_rows(container: Container) -> CompressedRows:
    offsets, columns = container.indptr, container.indices
    small = offsets.dtype == np.int32 and columns.dtype == np.int32
    index = np.int32 if small else np.int64
    entries = container.nnz  # the arrays may be longer
    return CompressedRows(
        contiguous(offsets.astype(index, copy=False)),
        contiguous(columns[:entries].astype(index, copy=False)),
        contiguous(native(container.data[:entries], "A")),
        (int(container.shape[0]), int(container.shape[1])),
    )


def sorted_rows(entries: Coordinates, *, in_order: bool) -> CompressedRows:
    """Sort entries by row and, if `in_order`, by column, unless they are sorted.

    Whether they are sorted is read from the device.
    """
    rows, columns, values, shape = entries
    values = native(values, "A")
    order = _order_of(entries, in_order)
    if order is not None:
        rows, columns, values = rows[order], columns[order], values[order]
    xp = namespace(rows)
    offsets = xp.searchsorted(rows, xp.arange(shape[0] + 1, dtype=rows.dtype))
    index = index_for(rows.dtype, len(values))
    return CompressedRows(
        contiguous(offsets.astype(index, copy=False)),
        contiguous(columns.astype(index, copy=False)),
        contiguous(values),
        shape,
    )


def _order_of(entries: Coordinates, in_order: bool) -> Array | None:
    """The stable permutation that sorts the entries; None if they are sorted."""
    rows, columns, _, shape = entries
    xp = namespace(rows)
    if not in_order:
        keys = rows
    elif shape[0] * shape[1] <= MAX_PLACES:
        keys = rows.astype(np.int64) * shape[1] + columns
    else:
        return xp.lexsort(xp.stack([columns, rows]))
    is_sorted = bool((keys[1:] >= keys[:-1]).all())
    return None if is_sorted else xp.argsort(keys, kind="stable")


def index_for(given: np.dtype[Any], entries: int) -> np.dtype[Any]:
    """The index dtype `given`, or int64 if offsets up to `entries` overflow it."""
    return given if entries <= np.iinfo(given).max else np.dtype(np.int64)
