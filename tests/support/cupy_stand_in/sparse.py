"""``cupyx.scipy.sparse``: COO, CSR, CSC and DIA with their arrays on a device."""

from __future__ import annotations

import operator
from functools import partialmethod
from typing import Any

import numpy as np
import scipy.sparse

from .array import from_host, host_value, ndarray
from .functions import asarray


class sparray:  # noqa: N801
    """A sparse array: ``*`` is element-wise."""


class spmatrix:  # noqa: N801
    """A sparse matrix: ``*`` is the matrix product."""


class _spbase:  # noqa: N801
    """A sparse array or matrix with two axes."""

    format = ""
    index_names: tuple[str, ...] = ()

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None) -> None:
        if issparse(arg1):
            arg1 = arg1.get()
        if scipy.sparse.issparse(arg1):
            self._copy_from(arg1.asformat(self.format))
        elif isinstance(arg1[0], (int, np.integer)):
            # An empty matrix, which CuPy makes on the device.
            self._copy_from(self._scipy_class()(arg1, dtype=dtype), from_host)
        else:
            data, *indices = arg1
            if isinstance(indices[0], tuple):
                indices = [*indices[0]]
            for array in (data, *indices):
                if not isinstance(array, ndarray) or array.ndim != 1:
                    raise ValueError("row, column, and data arrays must be 1-D")
            self._set(shape, data, *indices)

    def _copy_from(self, matrix: Any, to_device: Any = asarray) -> None:
        """Copy SciPy's matrix of the same format to the device."""
        arrays = (getattr(matrix, name) for name in ("data", *self.index_names))
        self._set(matrix.shape, *map(to_device, arrays))
        self.has_canonical_format = getattr(matrix, "has_canonical_format", False)

    def _set(self, shape: Any, data: ndarray, *indices: ndarray) -> None:
        self.shape, self.data = tuple(map(int, shape)), data
        for name, array in zip(self.index_names, indices, strict=True):
            setattr(self, name, array)
        self.has_canonical_format = False

    def _class_name(self, format: str) -> str:
        return f"{format}_{'array' if isinstance(self, sparray) else 'matrix'}"

    def _scipy_class(self) -> Any:
        return getattr(scipy.sparse, self._class_name(self.format))

    def _converted(self, format: str) -> Any:
        """The matrix in a format; itself if it has this format."""
        if format == self.format:
            return self
        return globals()[self._class_name(format)](self.get())

    tocoo = partialmethod(_converted, "coo")
    tocsr = partialmethod(_converted, "csr")
    tocsc = partialmethod(_converted, "csc")

    def _computed(self, function: Any, *others: Any) -> Any:
        """A SciPy function of matrices and arrays on the current device."""
        found = function(*[_host(value) for value in (self, *others)])
        if not scipy.sparse.issparse(found):
            return from_host(found)
        return globals()[self._class_name(found.format)](found)

    @property
    def T(self) -> Any:  # noqa: N802
        return self.transpose()

    def transpose(self) -> Any:
        """The transpose, on the same memory."""
        kind = globals()[self._class_name({"csr": "csc", "csc": "csr"}[self.format])]
        indices = [getattr(self, name) for name in self.index_names]
        return kind((self.data, *indices), shape=self.shape[::-1])

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        if not copy and self.dtype == dtype:
            return self
        return self._computed(operator.methodcaller("astype", dtype))

    def copy(self) -> Any:
        return self._computed(operator.methodcaller("copy"))

    def mean(self) -> Any:
        return self._computed(operator.methodcaller("mean"))

    def __matmul__(self, other: Any) -> Any:
        return self._computed(operator.matmul, other)

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key
        if rows != slice(None):
            raise TypeError("the stand-in only selects columns")
        return self._computed(lambda a, chosen: a[:, chosen], columns)

    def sum_duplicates(self) -> None:
        found = self.get()
        found.sum_duplicates()
        self._copy_from(found)

    dtype = property(lambda self: self.data.dtype)
    nnz = property(lambda self: int(self.data.size))
    ndim = property(lambda self: len(self.shape))

    def get(self) -> Any:
        indices = tuple(getattr(self, name).get() for name in self.index_names)
        parts = (indices,) if self.format == "coo" else indices
        return self._scipy_class()((self.data.get(), *parts), shape=self.shape)

    def toarray(self) -> ndarray:
        return asarray(self.get().toarray())


def _host(value: Any) -> Any:
    """The value of a matrix or an array on the current device."""
    if isinstance(value, _spbase):
        host_value(value.data)
        return value.get()
    return host_value(value)


class _compressed(_spbase):  # noqa: N801
    """CuPy searches for duplicates, and for indices that are not sorted."""

    has_canonical_format = property(
        lambda self: bool(self.get().has_canonical_format), lambda self, value: None
    )
    has_sorted_indices = property(lambda self: bool(self.get().has_sorted_indices))


FORMATS: dict[str, tuple[type, tuple[str, ...]]] = {
    "coo": (_spbase, ("row", "col")),
    "csr": (_compressed, ("indices", "indptr")),
    "csc": (_compressed, ("indices", "indptr")),
    "dia": (_spbase, ("offsets",)),
}
"""The base of each format, and the names of its arrays of indices."""

for _format, (_base, _names) in FORMATS.items():
    for _kind, _parent in {"array": sparray, "matrix": spmatrix}.items():
        _members = {"format": _format, "index_names": _names, "__module__": __name__}
        _name = f"{_format}_{_kind}"
        globals()[_name] = type(_name, (_base, _parent), _members)


def issparse(x: object) -> bool:
    return isinstance(x, _spbase)


__all__ = [
    *(f"{name}_{kind}" for name in FORMATS for kind in ("array", "matrix")),
    *("issparse", "sparray", "spmatrix"),
]
