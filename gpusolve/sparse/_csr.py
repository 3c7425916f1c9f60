"""Compressed sparse rows, made of whatever container."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._blocks.inputs import native
from .._device.arrays import Array, contiguous, namespace
from ._inputs import MAX_PLACES, Container, Coordinates, coordinates, library_of


class CompressedRows(NamedTuple):
    """The stored entries, row after row, duplicates and explicit zeros included.

    All arrays are contiguous.

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
    if container.format == "csr" and (not in_order or container.has_sorted_indices):
        return _of_csr(container)  # CuPy looks at all entries to see the order
    return sorted_rows(coordinates(container), in_order=in_order)


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
        contiguous(offsets.astype(index, copy=False)),
        contiguous(columns[:entries].astype(index, copy=False)),
        contiguous(native(container.data[:entries], "A")),
        (int(container.shape[0]), int(container.shape[1])),
    )


def sorted_rows(entries: Coordinates, *, in_order: bool) -> CompressedRows:
    """By row, and by column if asked; what is in order is not sorted again.

    That it is, is read back from the device.
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
    """What sorts the entries, those of one place as they are; None for those sorted."""
    rows, columns, _, shape = entries
    xp = namespace(rows)
    if not in_order:
        keys = rows
    elif shape[0] * shape[1] <= MAX_PLACES:
        keys = rows.astype(np.int64) * shape[1] + columns
    else:
        return xp.lexsort(xp.stack([columns, rows]))
    rising = bool((keys[1:] >= keys[:-1]).all())
    return None if rising else xp.argsort(keys, kind="stable")


def index_for(given: np.dtype[Any], entries: int) -> np.dtype[Any]:
    """The dtype of indices that were `given`, where offsets go up to `entries`."""
    return given if entries <= np.iinfo(given).max else np.dtype(np.int64)
