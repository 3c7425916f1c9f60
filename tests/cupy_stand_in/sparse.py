"""``cupyx.scipy.sparse``: COO, CSR and CSC, with their arrays on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from .array import ndarray
from .functions import asarray


class _spbase:  # noqa: N801
    """A sparse array or matrix of two axes."""

    format = ""
    names: tuple[str, ...] = ()

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
            self._take(arg1.asformat(self.format))
        elif issparse(arg1):
            self._take(arg1.get().asformat(self.format))
        elif isinstance(arg1[0], (int, np.integer)):
            self._take(self._scipys()(arg1, dtype=dtype))
        else:
            data, *places = arg1
            if isinstance(places[0], tuple):
                places = [*places[0]]
            for array in (data, *places):
                if not isinstance(array, ndarray) or array.ndim != 1:
                    raise ValueError("row, column, and data arrays must be 1-D")
            self._set(shape, data, *places)

    def _take(self, given: Any) -> None:
        self._set(
            given.shape,
            asarray(given.data),
            *(asarray(getattr(given, name)) for name in self.names),
        )
        self.has_canonical_format = getattr(given, "has_canonical_format", False)

    def _set(self, shape: Any, data: ndarray, *places: ndarray) -> None:
        self.shape = tuple(map(int, shape))
        self.data = data
        for name, array in zip(self.names, places, strict=True):
            setattr(self, name, array)
        self.has_canonical_format = False

    def _scipys(self) -> Any:
        kind = "array" if isinstance(self, sparray) else "matrix"
        return getattr(scipy.sparse, f"{self.format}_{kind}")

    def _as(self, format: str) -> Any:
        """In another format; the entries stay as they are stored."""
        kind = "array" if isinstance(self, sparray) else "matrix"
        return globals()[f"{format}_{kind}"](self.get())

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
        places = [getattr(self, name).get() for name in self.names]
        given = tuple(places) if self.format == "coo" else places
        parts = (given,) if self.format == "coo" else given
        return self._scipys()((self.data.get(), *parts), shape=self.shape)

    def toarray(self, order: Any = None, out: Any = None) -> ndarray:
        return asarray(self.get().toarray())

    def tocoo(self, copy: bool = False) -> Any:
        return self if self.format == "coo" else self._as("coo")

    def tocsr(self, copy: bool = False) -> Any:
        return self if self.format == "csr" else self._as("csr")

    def tocsc(self, copy: bool = False) -> Any:
        return self if self.format == "csc" else self._as("csc")


class sparray:  # noqa: N801
    """An array, whose ``*`` is element-wise."""


class spmatrix:  # noqa: N801
    """A matrix, whose ``*`` is the matrix product."""


class _coo_base(_spbase):  # noqa: N801
    format = "coo"
    names = ("row", "col")


class _compressed(_spbase):  # noqa: N801
    names = ("indices", "indptr")

    @property
    def has_sorted_indices(self) -> bool:
        return bool(self.get().has_sorted_indices)


class coo_matrix(spmatrix, _coo_base):  # noqa: N801
    pass


class coo_array(_coo_base, sparray):  # noqa: N801
    pass


class csr_matrix(spmatrix, _compressed):  # noqa: N801
    format = "csr"


class csr_array(_compressed, sparray):  # noqa: N801
    format = "csr"


class _csc_base(_compressed):  # noqa: N801
    format = "csc"

    def tocsc(self, copy: bool | None = None) -> Any:
        return self


class csc_matrix(spmatrix, _csc_base):  # noqa: N801
    pass


class csc_array(_csc_base, sparray):  # noqa: N801
    pass


class _dia_base(_spbase):  # noqa: N801
    format = "dia"
    names = ("offsets",)


class dia_matrix(spmatrix, _dia_base):  # noqa: N801
    pass


class dia_array(_dia_base, sparray):  # noqa: N801
    pass


def issparse(x: object) -> bool:
    return isinstance(x, _spbase)


__all__ = [
    "coo_array",
    "coo_matrix",
    "csc_array",
    "csc_matrix",
    "csr_array",
    "csr_matrix",
    "dia_array",
    "dia_matrix",
    "issparse",
    "sparray",
    "spmatrix",
]
