"""The element-wise product of two sparse matrices."""

from __future__ import annotations

import math

from .. import reference
from ._inputs import (
    MAX_PLACES,
    Container,
    Coordinates,
    canonical_coo,
    check_container,
    check_one_device,
    coordinates,
    device_of,
)

METHODS = ("linear", "binary", "merge", "gallop")


def multiply(A: Container, B: Container, *, method: str = "auto") -> Container:
    """Multiply two sparse matrices element by element: the Hadamard product.

    Parameters
    ----------
    A, B : (m, n) sparse array or matrix
        Of ``scipy.sparse`` or ``cupyx.scipy.sparse``, in any format and of any two
        dtypes. The entries may be in any order; those at one place count with their
        sum, zeros that are stored as zeros. Neither is changed.
    method : {"auto", "merge", "gallop", "binary", "linear"}, optional
        How a device finds the places that both have. "merge" walks through the entries
        of both, with the same work for every thread wherever the matches are. "gallop"
        looks in the longer operand for each entry of the shorter one. "auto" takes this
        where the one is more than 44 times as long as the other, a figure derived from
        bytes moved and not measured on a GPU yet, and "merge" else. "binary" and
        "linear" are the two kernels of the document, there to be compared: both look in
        B for each entry of A, once to count and once to multiply. A CPU has one way for
        all.

    Returns
    -------
    (m, n) sparse array or matrix
        COO, of the library of A, an array if A is one and a matrix if A is one. In
        canonical format: sorted by row, then by column, no place twice. Zeros are left
        out; NaN and infinities are not. The dtype is ``numpy.result_type`` of both;
        integers wrap.

    Raises
    ------
    TypeError
        For a dense operand, one on the CPU and one on a GPU, or a dtype that no device
        has where one is to compute.
    ValueError
        For shapes that differ (nothing is broadcast), that have not two axes, or that
        have more than 2**63 places; for operands on different GPUs; for an unknown
        method.

    Notes
    -----
    Each entry has the key ``row * n + column``, in 64 bits: the document's 32 bits
    overflow from 46341 x 46341 on, these at no shape of up to 2**31 - 1 a side. An
    operand whose keys do not rise strictly is sorted, and its duplicates are summed, in
    its own dtype.

    As in SciPy, and unlike in CuPy, an infinity or a NaN where the other operand has no
    entry gives NaN: it is multiplied by a zero.

    All entries are read, to see whether they are in order and finite; a device writes a
    key of 8 bytes for each. Then, for p and q of them, p <= q, "merge" reads O(p + q)
    keys and "gallop" O(p log(1 + q / p)). Both write and read 16 bytes for each match,
    with room for (p + q) / 2 matches or p, and then read its two values and its key.
    The products are read once more, to leave out zeros.

    Results are the same by every method and in every run, but for the last bits of sums
    of duplicates and of complex products. CuPy has kernels flush subnormal numbers of
    float32 to zero: such products are left out on a GPU.

    References
    ----------
    .. [1] M. Cupp, "Element-Wise Multiplication Kernel", 2020.
    .. [2] O. Green, R. McColl and D. Bader, "GPU Merge Path: A GPU Merging Algorithm",
       ICS 2012.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> import gpusolve
    >>> A = scipy.sparse.coo_array(np.array([[1, 2, 0], [0, 3, 4]]))
    >>> B = scipy.sparse.coo_array(np.array([[5, 0, 6], [0, 7, 8]]))
    >>> C = gpusolve.sparse.multiply(A, B)
    >>> C.toarray()
    array([[ 5,  0,  0],
           [ 0, 21, 32]])
    >>> C.row, C.col, C.data
    (array([0, 1, 1]...), array([0, 1, 2]...), array([ 5, 21, 32]))
    """
    if method not in ("auto", *METHODS):
        raise ValueError(f"method is {method!r}; one of {('auto', *METHODS)} is wanted")
    _check_operands(A, B)
    device = device_of(A)
    if device is None:
        left, right = coordinates(A), coordinates(B)
        entries = reference.coo_multiply(left[:3], right[:3], left.shape)
        return canonical_coo(Coordinates(*entries, left.shape), A)
    from . import _coo_multiply_kernel

    with device.current():
        left, right = coordinates(A), coordinates(B)
        return canonical_coo(
            _coo_multiply_kernel.multiply(left, right, method, device), A
        )


def _check_operands(A: object, B: object) -> None:
    left, right = check_container(A, "A"), check_container(B, "B")
    check_one_device({"A": left, "B": right})
    if left.shape != right.shape:
        raise ValueError(
            f"A has shape {left.shape} and B {right.shape}; the same is wanted"
        )
    if math.prod(map(int, left.shape)) > MAX_PLACES:
        raise ValueError(f"A has shape {left.shape}; at most 2**63 places are possible")
