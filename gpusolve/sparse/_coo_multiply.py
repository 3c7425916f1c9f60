"""The element-wise product of two sparse matrices."""

from __future__ import annotations

from typing import Literal, get_args

from .._device.kernels import current
from . import _coo_multiply_cpu, _coo_multiply_kernel
from ._inputs import Container, canonical_coo, device_of, multiply_inputs

Version = Literal["linear", "scratchpad", "binary", "even"]
Method = Literal["auto", Version, "merge", "gallop"]

VERSIONS = get_args(Version)
"""The methods of Cupp's document."""

METHODS = get_args(Method)[1:]

BLOCK_SIZES = {1, *range(32, 1025, 32)}
"""The threads that a block of the document's methods may have."""


def multiply(
    A: Container,
    B: Container,
    *,
    method: Method = "auto",
    blocks: int | None = None,
    threads: int = 256,
) -> Container:
    """Multiply two sparse matrices element by element: the Hadamard product.

    Parameters
    ----------
    A, B : (m, n) sparse array or matrix
        Of ``scipy.sparse`` or ``cupyx.scipy.sparse``, in any format and of any two
        dtypes. The entries may be in any order. Duplicates are summed. The operands are
        not changed.
    method : {"auto", "merge", "gallop", "linear", "binary", "scratchpad", "even"}
        How a device finds the places that both operands store. "merge" merges the
        entries of both; every thread has the same work, for any matches.
        "gallop" searches the longer operand for each entry of the shorter. "auto"
        is "gallop" if one operand has more than 1024 times the entries of the other (a
        ratio from counted sectors, not measured on a GPU yet), else "merge".
        The others are methods of the document [1]_, for comparison: all search B for
        each entry of A. "linear" (version 1) and "binary" (version 2) search once to
        count and once to multiply. "scratchpad" (the first attempt) and "even" (what
        the document proposes at its end) search once. A CPU uses SciPy for all, and
        NumPy for float16 and for matrices with far more rows than entries.
    blocks : int, optional
        Blocks of each launch, for the methods of the document only: its tiles. Each has
        an equal part of A; for "even", of the multiplications. All blocks of
        "scratchpad" must be resident at the same time. The default is a thread for each
        entry, but no more blocks than are resident. A CPU ignores it.
    threads : int, optional
        Threads of a block, for the methods of the document only: 1, as its tiles have,
        or a multiple of 32 up to 1024. A CPU ignores it.

    Returns
    -------
    (m, n) sparse array or matrix
        COO, of the library and kind (array or matrix) of A. In canonical format: sorted
        by row, then by column, without duplicates. Zeros are dropped; NaN and infinity
        are kept. The dtype is ``numpy.result_type`` of both; integers wrap.

    Raises
    ------
    TypeError
        For a dense operand, operands on the CPU and on a GPU, or, on a device, a dtype
        that kernels do not support.
    ValueError
        For shapes that differ (nothing is broadcast), that do not have two axes, or
        with more than 2**63 places; for operands on different GPUs; for an unknown
        method; for `blocks` that are not positive, or `threads` that a block cannot
        have; if one of them is given for another method.
    MemoryError
        If a block has more results than the shared memory of "scratchpad" holds.

    See Also
    --------
    spmv, random_coo

    Notes
    -----
    Duplicates are summed in the dtype of their operand.

    On a device, each entry has the key ``row * n + column`` in 64 bits. (The 32-bit
    keys of the document overflow from 46341 x 46341 on; these do not for any shape up
    to 2**31 - 1 per side.) An operand whose keys are not strictly increasing is sorted.

    As in SciPy, and unlike in CuPy, an infinity or a NaN that meets no entry of the
    other operand returns NaN: it is multiplied by zero.

    On a device, "merge" and "gallop" assume that both operands are sorted without
    duplicates, and that each NaN and infinity meets an entry. They check this while
    they multiply, and the host waits for the device once, for the report. Only if it is
    not so, the operands are sorted, completed and multiplied again.

    If they are, p and q entries with k results, of 12 bytes each (indices of 32 bits,
    values of float32), cost "merge" 12 (p + q) + 12 k bytes and a binary search for
    every 1792 entries. "gallop" moves as many, without the values of integers in the
    longer operand, and O(p log(1 + q / p)) sectors of 32 bytes, for p <= q. Both
    allocate min(p, q) results, of which the returned arrays are the first k: the rest
    stays allocated as long as they live; a copy of the product frees it.

    The methods of the document check order, duplicates and finiteness in passes before,
    sort the product if A is not sorted, and drop zeros in the last; the host waits for
    each. "linear" and "scratchpad" take the entries in any order, as they are; "binary"
    and "even" sort B. "linear" reads O(p q) keys, "binary" and "even" O(p log q).
    "scratchpad" has 4 KiB of shared memory for the results of a block, which wait there
    until all blocks have counted theirs: so the number of results is limited. "even"
    stores the matches, and gives each block an equal number of multiplications.

    All methods return the same results in every run, except for rounding in sums of
    duplicates and in complex products. On a GPU, kernels flush subnormal float32
    numbers to zero; such products are dropped.

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
        raise ValueError(f"method must be one of {('auto', *METHODS)}, got {method!r}")
    if blocks is not None and (method not in VERSIONS or blocks < 1):
        raise ValueError(
            f"blocks must be positive, and for methods {VERSIONS} only, got {blocks} "
            f"for {method!r}"
        )
    if threads != 256 and (method not in VERSIONS or threads not in BLOCK_SIZES):
        raise ValueError(
            f"threads must be 1 or a multiple of 32 up to 1024, and for methods "
            f"{VERSIONS} only, got {threads} for {method!r}"
        )
    left, right = multiply_inputs(A, B)
    device = device_of(left)
    with current(device):
        if device is None:
            product = _coo_multiply_cpu.coo_multiply(left, right)
        elif method in VERSIONS:
            from ..studies._coo_versions_kernel import Grid, coo_versions

            product = coo_versions(left, right, method, Grid(blocks, threads), device)
        else:
            product = _coo_multiply_kernel.coo_multiply(left, right, method, device)
        return canonical_coo(product, left)
