"""A sparse matrix made ready once for products with many vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._blocks.inputs import native
from .._device.arrays import Array, as_array, beside, contiguous, on_one_device
from .._device.kernels import Device, current
from ..monoid import Monoid
from . import _spmv_cpu
from ._csr import compressed_rows
from ._inputs import Container, check_container, device_of
from ._semiring import Semiring, of_numbers, semiring

if TYPE_CHECKING:
    from ._spmv_kernel import Path

METHODS = ("fused", "segmented_scan")


class SpMVPlan:
    """A sparse matrix, made ready for products with many vectors.

    Called with vectors it answers as `spmv` does. But only once are the entries sorted
    and parted among the blocks of a device; and for each dtype of the vectors a kernel
    is compiled once.

    Parameters
    ----------
    A : (m, n) sparse array or matrix
        Of SciPy or CuPy. The plan may hold its arrays, so do not write to them.
    add, multiply : str or Monoid, optional
        As for `spmv`.
    method : {"auto", "fused", "segmented_scan"}, optional
        As for `spmv`.

    Attributes
    ----------
    shape : tuple of int
        ``(m, n)``.
    dtype : dtype
        Of the product with a vector that has the dtype of `A`.

    Raises
    ------
    TypeError
        If `A` is dense, or of a dtype that the operators do not take.
    ValueError
        For an unknown name, or operators of elements that are not numbers.

    See Also
    --------
    spmv

    Examples
    --------
    As a linear operator of SciPy's iterative solvers:

    >>> import numpy as np
    >>> import scipy.sparse
    >>> from scipy.sparse.linalg import cg
    >>> import gpusolve.sparse
    >>> A = scipy.sparse.csr_array([[2.0, -1, 0], [-1, 2, -1], [0, -1, 2]])
    >>> plan = gpusolve.sparse.SpMVPlan(A)
    >>> x, failed = cg(plan, np.ones(3))
    >>> np.round(plan @ x, 6), failed
    (array([1., 1., 1.]), 0)
    """

    def __init__(
        self,
        A: Container,
        *,
        add: str | Monoid = "add",
        multiply: str | Monoid = "mul",
        method: str = "auto",
    ) -> None:
        self._add = of_numbers(add, "add")
        self._multiply = of_numbers(multiply, "multiply")
        if method not in ("auto", *METHODS):
            raise ValueError(
                f"method is {method!r}; one of {('auto', *METHODS)} is wanted"
            )
        container = check_container(A, "A")
        self._device = device_of(container)
        with current(self._device):
            self._rows = compressed_rows(container, in_order=not self._add.commutative)
            self.shape = self._rows.shape
            self.dtype = self._semiring(self._rows.values.dtype).result
            self._path = self._split(method)

    def __call__(self, x: object) -> Array:
        """``y_i``, the sum over j of ``A_ij x_j``, for one vector or each of many.

        Parameters
        ----------
        x : (..., n) array_like
            On the device of the matrix.

        Returns
        -------
        (..., m) array

        Raises
        ------
        TypeError
            For an `x` on another device, or of a dtype that the operators do not take.
        ValueError
            For an `x` of another length.
        """
        with current(self._device):
            vectors = self._vectors(x)
            operators = self._semiring(vectors.dtype)
            if self._device is None:
                return _spmv_cpu.product(self._rows, vectors, operators)
            return self._on_device(vectors, operators, self._device)

    def __matmul__(self, x: object) -> Array:
        """As NumPy's ``@``: (n,) -> (m,); columns, (..., n, k) -> (..., m, k)."""
        with current(self._device):
            array = as_array(beside(self._rows.values, x), "x")
        if array.ndim < 2:
            return self(array)
        return self(array.swapaxes(-1, -2)).swapaxes(-1, -2)

    def matvec(self, x: object) -> Array:
        """``plan @ x``, for iterative solvers: (n,) -> (m,) or (n, 1) -> (m, 1)."""
        return self @ x

    def matmat(self, x: object) -> Array:
        """``plan @ x``, for iterative solvers: (n, k) -> (m, k)."""
        return self @ x

    def _split(self, method: str) -> Path | None:
        """The walk of "fused", on a device."""
        if self._device is None or method == "segmented_scan":
            return None
        from ._spmv_kernel import split_path

        return split_path(self._rows, self._device)

    def _vectors(self, x: object) -> Array:
        """`x` beside the matrix; ValueError unless it has its length."""
        values = self._rows.values
        arrays = on_one_device({"A": values, "x": beside(values, x)})
        vectors = native(arrays["x"], "x")
        n = self.shape[1]
        if vectors.shape[-1:] != (n,):
            raise ValueError(
                f"x has shape {vectors.shape}; (..., {n}) is wanted for A of shape "
                f"{self.shape}"
            )
        return vectors

    def _semiring(self, number: np.dtype[Any]) -> Semiring:
        """The operators, for vectors of dtype `number`."""
        return semiring(self._add, self._multiply, self._rows.values.dtype, number)

    def _on_device(self, x: Array, operators: Semiring, device: Device) -> Array:
        from . import _spmv_kernel

        batch, (m, n) = x.shape[:-1], self.shape
        vectors = contiguous(x).reshape(math.prod(batch), n)
        rows, path = self._rows, self._path
        if path is None:
            y = _spmv_kernel.segmented_scan(rows, vectors, operators, device)
        else:
            y = _spmv_kernel.fused(rows, path, vectors, operators, device)
        return y.reshape(*batch, m)
