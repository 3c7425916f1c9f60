"""``cupyx.scipy.sparse``: COO, CSR, CSC and DIA with their arrays on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from .array import check_device, from_host, host_value, ndarray, refuse_options
from .functions import asarray


class _spbase:  # noqa: N801
    """A sparse array or matrix with two axes."""

    format = ""
    index_names: tuple[str, ...] = ()

    def __init__(
        self,
        arg1: Any,
        shape: Any = None,
        dtype: Any = None,
        copy: bool = False,
        *,
        maxprint: Any = None,
    ) -> None:
        if scipy.sparse.issparse(arg1):
            self._copy_from(arg1.asformat(self.format))
        elif issparse(arg1):
            self._copy_from(arg1.get().asformat(self.format))
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
        self._set(
            matrix.shape,
            to_device(matrix.data),
            *(to_device(getattr(matrix, name)) for name in self.index_names),
        )
        self.has_canonical_format = getattr(matrix, "has_canonical_format", False)

    def _set(self, shape: Any, data: ndarray, *indices: ndarray) -> None:
        self.shape = tuple(map(int, shape))
        self.data = data
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

    def _computed(self, function: Any, *others: Any) -> Any:
        """A SciPy function of matrices and arrays on the current device."""
        found = function(*[_host(value) for value in (self, *others)])
        if not scipy.sparse.issparse(found):
            return from_host(found)
        return globals()[self._class_name(found.format)](found)

    @property
    def T(self) -> Any:  # noqa: N802
        return self.transpose()

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """The transpose, on the same memory."""
        kind = globals()[self._class_name({"csr": "csc", "csc": "csr"}[self.format])]
        indices = [getattr(self, name) for name in self.index_names]
        return kind((self.data, *indices), shape=self.shape[::-1])

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        if not copy and self.dtype == dtype:
            return self
        return self._computed(lambda a: a.astype(dtype))

    def copy(self) -> Any:
        return self._computed(lambda a: a.copy())

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        refuse_options(axis=axis is None, dtype=dtype is None, out=out is None)
        return self._computed(lambda a: a.mean())

    def __matmul__(self, other: Any) -> Any:
        return self._computed(lambda a, b: a @ b, other)

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key
        if rows != slice(None):
            raise TypeError("the stand-in only selects columns")
        return self._computed(lambda a, chosen: a[:, chosen], columns)

    def sum_duplicates(self) -> None:
        found = self.get()
        found.sum_duplicates()
        self._copy_from(found)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def nnz(self) -> int:
        return int(self.data.size)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def get(self, stream: Any = None) -> Any:
        indices = tuple(getattr(self, name).get() for name in self.index_names)
        parts = (indices,) if self.format == "coo" else indices
        return self._scipy_class()((self.data.get(), *parts), shape=self.shape)

    def toarray(self, order: Any = None, out: Any = None) -> ndarray:
        return asarray(self.get().toarray())

    def tocoo(self, copy: bool = False) -> Any:
        return self._converted("coo")

    def tocsr(self, copy: bool = False) -> Any:
        return self._converted("csr")

    def tocsc(self, copy: bool = False) -> Any:
        return self._converted("csc")


def _host(value: Any) -> Any:
    """The value of a matrix or an array on the current device."""
    if isinstance(value, _spbase):
        check_device(value.data)
        return value.get()
    return host_value(value)


class sparray:  # noqa: N801
    """A sparse array: ``*`` is element-wise."""


class spmatrix:  # noqa: N801
    """A sparse matrix: ``*`` is the matrix product."""


class _compressed(_spbase):  # noqa: N801
    index_names = ("indices", "indptr")

    @property
    def has_canonical_format(self) -> bool:
        """CuPy searches for duplicates, and for indices that are not sorted."""
        return bool(self.get().has_canonical_format)

    @has_canonical_format.setter
    def has_canonical_format(self, value: bool) -> None:
        pass

    @property
    def has_sorted_indices(self) -> bool:
        return bool(self.get().has_sorted_indices)


class _csc(_compressed):  # noqa: N801
    def tocsc(self, copy: bool | None = None) -> Any:
        return self


FORMATS: dict[str, tuple[type, tuple[str, ...]]] = {
    "coo": (_spbase, ("row", "col")),
    "csr": (_compressed, ("indices", "indptr")),
    "csc": (_csc, ("indices", "indptr")),
    "dia": (_spbase, ("offsets",)),
}
"""The base of each format, and the names of its arrays of indices."""

for _format, (_base, _names) in FORMATS.items():
    for _kind, _bases in {
        "array": (_base, sparray),
        "matrix": (spmatrix, _base),
    }.items():
        _members = {"format": _format, "index_names": _names, "__module__": __name__}
        _name = f"{_format}_{_kind}"
        globals()[_name] = type(_name, _bases, _members)


def issparse(x: object) -> bool:
    return isinstance(x, _spbase)


__all__ = [
    *(f"{name}_{kind}" for name in FORMATS for kind in ("array", "matrix")),
    *("issparse", "sparray", "spmatrix"),
]
