"""What sparse array is this, is it valid, and how is the result wrapped.

The containers are those of ``scipy.sparse`` and ``cupyx.scipy.sparse``. Every function
passes its inputs through here once, and nothing below asks again.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple

import numpy as np

from .._device import kernels
from .._device.arrays import Array
from .._device.kernels import Device

Container = Any
"""A sparse array or matrix of SciPy or CuPy, in any format."""

LIBRARIES = ("scipy.sparse", "cupyx.scipy.sparse")

MAX_PLACES = 2**63
"""Of a matrix whose places are numbered in 64 bits with a sign."""


class Coordinates(NamedTuple):
    """The stored entries of a sparse array, in any order, duplicates included.

    Attributes
    ----------
    rows, columns : (n,) array of int32 or int64
        Both of one dtype.
    values : (n,) array
        In native byte order.
    shape : tuple of int
        Rows and columns.
    """

    rows: Array
    columns: Array
    values: Array
    shape: tuple[int, int]


def check_container(value: object, name: str) -> Container:
    """`value`, if it is a sparse array or matrix of two axes.

    Raises
    ------
    TypeError
        If it is dense, or of another library.
    ValueError
        If it does not have two axes.
    """
    if library_of(value) is None:
        raise TypeError(
            f"{name} is a {type(value).__name__}; a sparse array or matrix of SciPy or "
            "CuPy is wanted"
        )
    container: Container = value
    if len(container.shape) != 2:
        raise ValueError(f"{name} has shape {container.shape}; two axes are wanted")
    return container


def library_of(value: object) -> str | None:
    """The library, of `LIBRARIES`, that `value` is a sparse container of."""
    for library in LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and module.issparse(value):
            return library
    return None


def check_one_device(containers: dict[str, Container]) -> None:
    """TypeError, ValueError unless they all lie on the CPU, or all on one GPU."""
    places = {name: _place_of(container) for name, container in containers.items()}
    if len(set(places.values())) <= 1:
        return
    described = ", ".join(f"{name} on {place}" for name, place in places.items())
    error = TypeError if "the CPU" in places.values() else ValueError
    raise error(f"all operands must be on one device; got {described}")


def _place_of(container: Container) -> str:
    if library_of(container) == "scipy.sparse":
        return "the CPU"
    return f"GPU {container.data.device.id}"


def device_of(container: Container) -> Device | None:
    """The device whose kernels serve a container; None where NumPy does."""
    on_cpu = library_of(container) == "scipy.sparse"
    return kernels.device_of(np.empty(0) if on_cpu else container.data)


def coordinates(container: Container) -> Coordinates:
    """The entries of a container that has been checked; nothing is copied needlessly.

    The arrays may be the container's own, and are not to be written.
    """
    coo = container.tocoo()
    rows, columns = coo.row, coo.col
    if rows.dtype != np.int32 or columns.dtype != np.int32:
        rows = rows.astype(np.int64, copy=False)
        columns = columns.astype(np.int64, copy=False)
    values = coo.data.astype(coo.data.dtype.newbyteorder("="), copy=False)
    return Coordinates(rows, columns, values, (int(coo.shape[0]), int(coo.shape[1])))


def is_matrix(container: Container) -> bool:
    """Whether it is a matrix, whose ``*`` is a matrix product, and not an array."""
    module = sys.modules[str(library_of(container))]
    kind = getattr(module, "sparray", None)
    return kind is None or not isinstance(container, kind)


def canonical_coo(entries: Coordinates, like: Container) -> Container:
    """A COO container of the library of `like`, an array if that is one, else a matrix.

    The entries are sorted by row, then by column, and none is there twice.
    """
    module = importlib.import_module(str(library_of(like)))
    kind = module.coo_matrix if is_matrix(like) else module.coo_array
    places = entries.rows, entries.columns
    if library_of(like) == "scipy.sparse":
        result = kind((entries.values, places), shape=entries.shape)
    else:  # given entries, CuPy would look at all of them
        result = kind(entries.shape, dtype=entries.values.dtype)
        result.row, result.col = places
        result.data = entries.values
    result.has_canonical_format = True
    return result
