"""A sparse matrix times vectors, over any semiring."""

from __future__ import annotations

from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt

from .._blocks.inputs import native
from .._device.arrays import Array, OnDevice, as_array, asarray_like, on_one_device
from .._device.kernels import current
from ..monoid import Monoid, OperatorName
from . import _spmv_cpu, _spmv_kernel
from ._csr import compressed_rows
from ._inputs import Container, check_container, device_of
from ._semiring import Semiring, number_operator, semiring

Method = Literal["auto", "fused", "segmented_scan"]

METHODS = get_args(Method)[1:]


@overload
def spmv(
    A: Container,
    x: OnDevice,
    *,
    add: OperatorName | Monoid = "add",
    multiply: OperatorName | Monoid = "mul",
    method: Method = "auto",
) -> Any: ...
@overload
def spmv(
    A: Container,
    x: npt.NDArray[Any],
    *,
    add: OperatorName | Monoid = "add",
    multiply: OperatorName | Monoid = "mul",
    method: Method = "auto",
) -> npt.NDArray[Any]: ...
def spmv(
    A: Container,
    x: object,
    *,
    add: OperatorName | Monoid = "add",
    multiply: OperatorName | Monoid = "mul",
    method: Method = "auto",
) -> Array:
    """Multiply a sparse matrix by a vector, or by each of many.

    ``y_i`` combines ``multiply(A_ij, x_j)`` by `add`, over all stored entries
    ``A_ij``. With "add" and "mul" this is the product of linear algebra. With "min" and
    "add" it is one step of the shortest paths of a graph, and with "logical_or" and
    "logical_and" one step of reachability. Such a step follows exactly one edge: the
    previous value of a vertex counts only if it has an edge to itself.

    Parameters
    ----------
    A : (m, n) sparse array or matrix
        Of SciPy or CuPy. CSR is used directly; other formats are converted first.
        Duplicates and explicit zeros are entries like all others.
    x : (..., n) array_like
        On the device of `A`.
    add, multiply : str or Monoid, optional
        Operators of numbers, as for `gpusolve.reduce`. `add` need not commute: it
        combines the products of a row in the order of their columns, and duplicates in
        stored order. `multiply` may be any function of two numbers.
    method : {"auto", "fused", "segmented_scan"}, optional
        The algorithm on a device. "fused" reads each entry once and gives every block
        the same work, for any row lengths; "auto" is "fused". "segmented_scan" is
        simpler and slower: products by gather, flags by scatter, a segmented scan, and
        its last element in each row. A CPU uses SciPy for "add" and "mul",
        and NumPy for other operators.

    Returns
    -------
    (..., m) array
        On the device of `A`. The identity of `add` for a row without entries. The
        dtype is ``numpy.result_type(A, x)``, to which both are converted, or the
        dtype of the operators, such as bool for "logical_or". Integers wrap, and sums
        of bool are bool.

    Raises
    ------
    TypeError
        If `A` is dense, for a dtype that an operator does not accept, or arrays on
        different devices.
    ValueError
        For an unknown name, operators of elements that are not numbers, or shapes that
        do not match.

    See Also
    --------
    SpMVPlan : prepares a matrix once, for products with many vectors.

    Notes
    -----
    Work O(m + nnz) for each vector. "fused" returns the same bits in every run, also
    for floating-point sums; for "segmented_scan" see the notes of `gpusolve.scan`. For
    float32 and 32-bit indices "fused" moves ``8 nnz + 4 (2 m + n + 1)`` bytes, and one
    carry for each tile of 1792 rows and entries (1280 if the entries of `A` or of the
    result have 8 bytes, 768 for 16). Before that, unsorted COO is sorted, and the tiles
    are found by a search; a plan does this once. Column indices are not checked.

    References
    ----------
    .. [1] D. Merrill and M. Garland, "Merge-based Parallel Sparse Matrix-Vector
       Multiplication", SC 2016.
    .. [2] C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming",
       2019: "Flat-Parallel Sparse Matrix-Vector Mult".

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> import gpusolve.sparse
    >>> A = scipy.sparse.coo_array([[2, -1, 0, 0], [0, -1, 2, -1], [0, 0, 0, 3]])
    >>> gpusolve.sparse.spmv(A, np.array([1, 2, 3, 4]))
    array([ 0,  0, 12])

    Shortest paths with a further edge:

    >>> edges = scipy.sparse.coo_array(([5.0, 2.0], ([1, 2], [0, 1])), shape=(3, 3))
    >>> gpusolve.sparse.spmv(edges, np.array([0, 4, np.inf]), add="min", multiply="add")
    array([inf,  5.,  6.])
    """
    return SpMVPlan(A, add=add, multiply=multiply, method=method)(x)


class SpMVPlan:
    """A sparse matrix, prepared for products with many vectors.

    A call with vectors returns what `spmv` returns. The entries are sorted and divided
    among the blocks of a device only once, when the plan is made; a call divides them
    again if its results have more bytes than those for vectors of the dtype of `A`.

    A plan stays on one device. A product reads each entry once, and on several devices
    each would need all or most of the vector of the others, on every call: that
    transfer takes longer than the product. Many matrices or many vectors are
    independent calls.

    Parameters
    ----------
    A : (m, n) sparse array or matrix
        Of SciPy or CuPy. The plan may keep its arrays: do not write to them.
    add, multiply : str or Monoid, optional
        As for `spmv`.
    method : {"auto", "fused", "segmented_scan"}, optional
        As for `spmv`.

    Attributes
    ----------
    shape : tuple of int
        ``(m, n)``.
    dtype : dtype
        The dtype of the product with a vector of the dtype of `A`.

    Raises
    ------
    TypeError
        If `A` is dense, or of a dtype that the operators do not accept.
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
        add: OperatorName | Monoid = "add",
        multiply: OperatorName | Monoid = "mul",
        method: Method = "auto",
    ) -> None:
        self._add = number_operator(add, "add")
        self._multiply = number_operator(multiply, "multiply")
        if method not in ("auto", *METHODS):
            raise ValueError(
                f"method must be one of {('auto', *METHODS)}, got {method!r}"
            )
        container = check_container(A, "A")
        self._device = device_of(container)
        with current(self._device):
            self._rows = compressed_rows(container, in_order=not self._add.commutative)
            self.shape: tuple[int, int] = self._rows.shape
            self.dtype: np.dtype[Any] = self._semiring(self._rows.values.dtype).result
            self._path = None
            if self._device is not None and method != "segmented_scan":
                self._path = _spmv_kernel.merge_path(
                    self._rows, self.dtype, self._device
                )

    def __call__(self, x: object) -> Array:
        """Multiply by a vector, or by each of several vectors.

        Parameters
        ----------
        x : (..., n) array_like
            The vectors, on the device of the matrix.

        Returns
        -------
        (..., m) array

        Raises
        ------
        TypeError
            For an `x` on another device, or of a dtype that the operators do not
            accept.
        ValueError
            If the vectors do not have n elements.
        """
        with current(self._device):
            return self._product(x)

    def __matmul__(self, x: object) -> Array:
        """NumPy's ``@``: (n,) -> (m,); columns, (..., n, k) -> (..., m, k)."""
        with current(self._device):
            array = as_array(asarray_like(self._rows.values, x), "x")
            if array.ndim < 2:
                return self._product(array)
            return self._product(array.swapaxes(-1, -2)).swapaxes(-1, -2)

    def matvec(self, x: object) -> Array:
        """``plan @ x``, for iterative solvers: (n,) -> (m,) or (n, 1) -> (m, 1)."""
        return self @ x

    def matmat(self, x: object) -> Array:
        """``plan @ x``, for iterative solvers: (n, k) -> (m, k)."""
        return self @ x

    def _product(self, x: object) -> Array:
        """The product, on the current device."""
        vectors = self._vectors(x)
        operators = self._semiring(vectors.dtype)
        if self._device is None:
            return _spmv_cpu.spmv(self._rows, vectors, operators)
        return _spmv_kernel.spmv(
            self._rows, self._path, vectors, operators, self._device
        )

    def _vectors(self, x: object) -> Array:
        """The vectors as an array on the device; ValueError unless of length n."""
        values = self._rows.values
        arrays = on_one_device({"A": values, "x": asarray_like(values, x)})
        vectors = native(arrays["x"], "x")
        n = self.shape[1]
        if vectors.shape[-1:] != (n,):
            raise ValueError(
                f"x must have shape (..., {n}) for A of shape {self.shape}, got "
                f"{vectors.shape}"
            )
        return vectors

    def _semiring(self, number: np.dtype[Any]) -> Semiring:
        """The semiring for vectors of dtype `number`."""
        return semiring(self._add, self._multiply, self._rows.values.dtype, number)
