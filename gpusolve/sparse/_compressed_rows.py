"""Compressed sparse rows, made of whatever container."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._arrays import Array, namespace
from .._elements import native
from ..scan import scan
from ._containers import Container, Coordinates, coordinates, library_of


class CompressedRows(NamedTuple):
    """The stored entries, row after row, duplicates and explicit zeros included.

    Attributes
    ----------
    offsets : (m + 1,) array of int32 or int64
        Where each row begins, and where the last one ends.
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


def compressed_rows(container: Container, *, in_order: bool) -> CompressedRows:
    """The rows of a container that has been checked; CSR is not copied.

    Parameters
    ----------
    container : sparse array or matrix
    in_order : bool
        Whether the columns of a row must rise. Entries of one place stay as they were.

    Raises
    ------
    TypeError
        For a dtype that no kernel has.
    """
    if library_of(container) == "scipy.sparse":
        csr = _by_rows(container)
        return _of_csr(_in_order(csr) if in_order else csr)
    if container.format == "csr" and (container.has_sorted_indices or not in_order):
        return _of_csr(container)
    return sorted_rows(coordinates(container))


def _by_rows(container: Container) -> Container:
    """CSR of SciPy's, the entries of a row as they were stored; in linear time."""
    if container.format != "coo":
        return container.tocsr()
    import scipy.sparse

    entries = coordinates(container)
    places = entries.rows, entries.columns
    coo = scipy.sparse.coo_array((entries.values, places), shape=entries.shape)
    coo.has_canonical_format = True  # or else SciPy would add up duplicates
    return coo.tocsr()


def _in_order(csr: Container) -> Container:
    """CSR of SciPy's with rising columns. Each of the two conversions is stable."""
    return csr if csr.has_sorted_indices else csr.tocsc().tocsr()


def _of_csr(container: Container) -> CompressedRows:
    offsets, columns = container.indptr, container.indices
    small = offsets.dtype == np.int32 and columns.dtype == np.int32
    index = np.int32 if small else np.int64
    entries = container.nnz  # there may be room for more
    return CompressedRows(
        offsets.astype(index, copy=False),
        columns[:entries].astype(index, copy=False),
        native(container.data[:entries], "A"),
        (int(container.shape[0]), int(container.shape[1])),
    )


def sorted_rows(entries: Coordinates) -> CompressedRows:
    """By row and column, with the rows' offsets: a scan of their lengths."""
    rows, columns, values, shape = entries
    xp = namespace(rows)
    order = xp.lexsort(xp.stack([columns, rows]))
    lengths = xp.bincount(rows, minlength=shape[0] + 1)
    offsets = scan(lengths, exclusive=True).astype(rows.dtype)
    return CompressedRows(offsets, columns[order], native(values, "A")[order], shape)
