"""Sparse inputs: validation, conversion to coordinates, and the result's container.

The containers are from ``scipy.sparse`` and ``cupyx.scipy.sparse``. Public
functions pass their inputs through here once; the code below them does not check them
again.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from .._blocks.inputs import native_dtype
from .._device import kernels
from .._device.arrays import Array, check_gpus, gpu_of, is_cupy, sparse_library
from .._device.kernels import Device

Container = Any
"""A sparse array or matrix of SciPy or CuPy, in any format."""

MAX_PLACES = 2**63
"""The most entries of a matrix, so that int64 keys number them all."""


class Coordinates(NamedTuple):
    """The stored entries of a sparse array, in any order, duplicates included.

    Attributes
    ----------
    rows, columns : (n,) array of int32 or int64
        Of the same dtype.
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
    """Check that `value` is a sparse array or matrix with two axes, and return it.

    Raises
    ------
    TypeError
        If it is dense, or of another library.
    ValueError
        If it does not have two axes.
    """
    if sparse_library(value) is None:
        raise TypeError(
            f"{name} must be a sparse array or matrix of SciPy or CuPy, got "
            f"{type(value).__name__}"
        )
    container: Container = value
    if len(container.shape) != 2:
        raise ValueError(f"{name} must have two axes, got shape {container.shape}")
    return container


def device_of(container: Container) -> Device | None:
    """The device of a container; None if NumPy computes."""
    return kernels.device_of(_data_of(container))


def _data_of(container: Container) -> Array | None:
    """The data array of the container, if its format has it."""
    return getattr(container, "data", None)


def multiply_inputs(A: object, B: object) -> tuple[Container, Container]:
    """The operands of `multiply`, checked.

    Raises
    ------
    TypeError
        For dense operands, operands on a CPU and a GPU, or a dtype that no kernel
        supports, if kernels are to compute.
    ValueError
        For shapes that differ or are too large, or operands on different GPUs.
    """
    left, right = check_container(A, "A"), check_container(B, "B")
    operands = {"A": left, "B": right}
    check_gpus(
        {k: gpu_of(_data_of(matrix)) for k, matrix in operands.items()}, "operands"
    )
    if left.shape != right.shape:
        raise ValueError(
            f"A and B must have the same shape, got {left.shape} and {right.shape}"
        )
    if math.prod(map(int, left.shape)) > MAX_PLACES:
        raise ValueError(
            f"A must have at most 2**63 places, rows times columns, got {left.shape}"
        )
    if device_of(left) is not None:
        native_dtype(left.dtype, "A")
        native_dtype(right.dtype, "B")
    return left, right


def coordinates(container: Container) -> Coordinates:
    """The entries of a checked container, copied only if conversion requires it.

    The arrays may belong to the container: do not write to them.
    """
    if container.format in ("csr", "csc") and len(container.data) > container.nnz:
        container = _trim(container)
    coo = container.tocoo()
    rows, columns = coo.row, coo.col
    if rows.dtype != np.int32 or columns.dtype != np.int32:
        rows = rows.astype(np.int64, copy=False)
        columns = columns.astype(np.int64, copy=False)
    values = coo.data.astype(coo.data.dtype.newbyteorder("="), copy=False)
    return Coordinates(rows, columns, values, (int(coo.shape[0]), int(coo.shape[1])))


def _trim(container: Container) -> Container:
    """CSR or CSC without the elements of its arrays beyond the last entry."""
    data, indices = container.data[: container.nnz], container.indices[: container.nnz]
    kind = type(container)
    return kind((data, indices, container.indptr), shape=container.shape)


def is_matrix(container: Container) -> bool:
    """Whether it is a sparse matrix, not a sparse array."""
    module = sys.modules[str(sparse_library(container))]
    return not isinstance(container, module.sparray)


def canonical_coo(entries: Coordinates, like: Container) -> Container:
    """A COO container of the library and kind, array or matrix, of `like`.

    The entries must be sorted by row, then by column, without duplicates.
    """
    module = sys.modules[str(sparse_library(like))]
    kind = module.coo_matrix if is_matrix(like) else module.coo_array
    places = entries.rows, entries.columns
    if not is_cupy(entries.values):
        result = kind((entries.values, places), shape=entries.shape)
    else:  # CuPy's constructor would check all entries
        result = kind(entries.shape, dtype=entries.values.dtype)
        result.row, result.col = places
        result.data = entries.values
    result.has_canonical_format = True
    return result
