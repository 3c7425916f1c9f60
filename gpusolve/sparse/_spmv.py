"""A sparse matrix times vectors, over any semiring."""

from __future__ import annotations

from .._device.arrays import Array
from ..monoid import Monoid
from ._inputs import Container
from ._plan import SpMVPlan


def spmv(
    A: Container,
    x: object,
    *,
    add: str | Monoid = "add",
    multiply: str | Monoid = "mul",
    method: str = "auto",
) -> Array:
    """Multiply a sparse matrix by a vector, or by each of many.

    ``y_i`` combines, by `add`, ``multiply(A_ij, x_j)`` for every entry ``A_ij`` that is
    stored. So "add" and "mul" are the product of linear algebra; "min" and "add" one
    step along the edges of a graph to shortest paths; "logical_or" and "logical_and"
    one to what can be reached. Such a step leads away from each vertex, and does not
    keep what was known of it, unless it has an edge to itself.

    Parameters
    ----------
    A : (m, n) sparse array or matrix
        Of SciPy or CuPy. CSR is taken as it is, other formats are converted first.
        Duplicates are entries like any other, and explicit zeros are too.
    x : (..., n) array_like
        On the device of `A`.
    add, multiply : str or Monoid, optional
        Of numbers; as for `gpusolve.reduce`. `add` need not commute: it combines a
        row's products in the order of their columns, and those of one place as they
        are stored. Of `multiply` any function of two numbers will do.
    method : {"auto", "fused", "segmented_scan"}, optional
        How a device does it. "fused" reads each entry once and gives every block the
        same work, whatever the rows; it is "auto". "segmented_scan" is the step that
        leads there: products by gather, flags by scatter, a segmented scan, and its
        last element in each row. A CPU has one way for both: SciPy's own product
        where that is asked for, and NumPy for other operators.

    Returns
    -------
    (..., m) array
        The identity of `add` for a row without entries. Of the dtype that
        `numpy.result_type` gives for `A` and `x`, to which both are converted; or of
        the operators' own, as bool for logical ones. Integers wrap, and sums of bool
        are bool. It lives where `A` does.

    Raises
    ------
    TypeError
        If `A` is dense, for a dtype that an operator does not take, or arrays on
        several devices.
    ValueError
        For an unknown name, operators of elements that are not numbers, or shapes that
        do not fit.

    See Also
    --------
    SpMVPlan : the same for many vectors, one after the other.

    Notes
    -----
    Work O(m + nnz) for each vector. "fused" gives the same bits in every run, also of
    sums of floats; "segmented_scan" does as `gpusolve.scan` says. For float32 and
    32-bit indices "fused" moves ``8 nnz + 4 (2 m + n + 1)`` bytes, beside one carry
    for each tile of 1792 rows and entries: of 1280, where entries of `A` have 8 bytes,
    and of 768 for 16. Before it, COO that is not in order is sorted, and the tiles are
    found by a search; a plan does so once. The columns' numbers are not checked.

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

    Lengths of paths of one edge more:

    >>> edges = scipy.sparse.coo_array(([5.0, 2.0], ([1, 2], [0, 1])), shape=(3, 3))
    >>> gpusolve.sparse.spmv(edges, np.array([0, 4, np.inf]), add="min", multiply="add")
    array([inf,  5.,  6.])
    """
    return SpMVPlan(A, add=add, multiply=multiply, method=method)(x)
