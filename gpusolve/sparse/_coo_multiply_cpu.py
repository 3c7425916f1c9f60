"""The element-wise product on a CPU: SciPy's if its CSR is small, else NumPy's."""

from __future__ import annotations

import numpy as np

from .. import reference
from ._inputs import Container, Coordinates, coordinates

ROWS_PER_ENTRY = 4
"""SciPy is used for at most this many rows per entry: its CSR stores every row."""


def coo_multiply(A: Container, B: Container) -> Coordinates:
    """The product, sorted by row and column, without zeros."""
    if _suits_scipy(A, B):
        with np.errstate(all="ignore"):
            return coordinates(_canonical_csr(A).multiply(_canonical_csr(B)))
    a, b = coordinates(A), coordinates(B)
    return Coordinates(*reference.coo_multiply(a[:3], b[:3], a.shape), a.shape)


def _suits_scipy(A: Container, B: Container) -> bool:
    """Whether SciPy supports the dtypes, and CSR takes little memory."""
    supported = all(matrix.dtype.newbyteorder("=") != np.float16 for matrix in (A, B))
    return supported and A.shape[0] <= ROWS_PER_ENTRY * (A.nnz + B.nnz)


def _canonical_csr(container: Container) -> Container:
    """SciPy's CSR, sorted and without duplicates; the container is not changed.

    Without this, SciPy would sum duplicates in the dtype of the product, and allocate
    arrays as long as a row.
    """
    csr = container.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr
