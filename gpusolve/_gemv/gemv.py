"""Batched matrix times vector."""

from __future__ import annotations

import numpy as np

from .. import reference
from .._blocks.inputs import check_variant
from .._device.arrays import (
    Array,
    aligned,
    as_array,
    beside,
    check_out,
    floating,
    namespace,
    on_one_device,
    written,
)
from .._device.kernels import current, device_of

VARIANTS = ("naive", "threads_per_dot", "threads_per_row")


def gemv(
    A: object,
    x: object,
    *,
    transpose: bool = False,
    variant: str = "auto",
    out: Array | None = None,
) -> Array:
    """Multiply matrices by vectors: ``A x``, or ``A^T x``.

    Parameters
    ----------
    A : (..., m, n) array_like
        The matrices: any shape, any strides. NumPy or CuPy, or whatever speaks
        ``__cuda_array_interface__`` or DLPack.
    x : (..., n) array_like, or (..., m) where transposed
        The vectors. The leading axes of `A` and `x` broadcast; an `A` that is shared
        by many `x` is not copied.
    transpose : bool, optional
        Whether to multiply by the transpose of each matrix.
    variant : {"auto", "naive", "threads_per_dot", "threads_per_row"}, optional
        How a device does it. The paper [1]_ has three ways: a thread to a row
        ("naive"), 16 threads of one block to a row ("threads_per_dot"), and up to 16
        threads of as many blocks to a row, each with a segment of `x` in shared memory
        ("threads_per_row"). "auto" has threads run along whichever axis lies side by
        side in memory, and cuts a reduction into chunks where the result is short. A
        CPU has one way for all.
    out : array, optional
        Where to write: an array of the result's shape and dtype, beside `A`. It may
        overlap `A` or `x`.

    Returns
    -------
    (..., m) array, or (..., n) where transposed
        It lives where the inputs live. Zeros where there is nothing to add up.

    Raises
    ------
    TypeError
        For dtypes that are not real numbers of at most 64 bits, inputs on different
        kinds of device, or an `out` on another device or of another dtype.
    ValueError
        For shapes that do not fit, integers that float64 cannot hold, inputs on
        different GPUs, an unknown variant, or an `out` of another shape.

    See Also
    --------
    reduce

    Notes
    -----
    Work 2 m n. float16, float32 and float64 give their own kind; float16 is added up
    in float32 and rounded once. Of several dtypes it is float32 if all are float16 or
    float32, and otherwise float64, as for integers and booleans; an array of another
    dtype than the result's is converted first. NaN and infinity spread as in
    :func:`numpy.matmul`.

    No atomic operation adds floating-point numbers. On a device the same call gives the
    same bits in every run; the variants, and arrays that lie differently in memory, may
    differ in the last ones. A GPU's float32 takes subnormal numbers for zero, as in all
    of CuPy.

    On a device, an `x` whose last axis is not contiguous is copied first, and so is
    an `A` with strides that are not whole elements.

    References
    ----------
    .. [1] A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models
       with GPU Acceleration", 2023, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> gpusolve.gemv(A, [1, 0, -1])
    array([-2., -2.])
    >>> gpusolve.gemv(A, [[1, 1], [0, 1]], transpose=True)
    array([[5., 7., 9.],
           [4., 5., 6.]])
    """
    check_variant(variant, VARIANTS)
    matrices = as_array(A, "A")
    device = device_of(matrices)
    with current(device):
        arrays = _of_one_dtype({"A": matrices, "x": beside(matrices, x)})
    matrices, vectors = arrays["A"], arrays["x"]
    batch = _batch(matrices, vectors, transpose)
    shape = (*batch, matrices.shape[-1 if transpose else -2])
    check_out(out, matrices, "A", matrices.dtype, shape)
    if device is None:
        result = reference.gemv(matrices, vectors, transpose=transpose)
        return written(result, out)
    from . import gemv_kernel

    if transpose:
        matrices = matrices.swapaxes(-1, -2)
    with device.current():
        direct = out is not None and _can_take(out, matrices, vectors)
        y = out if direct else device.empty(shape, matrices.dtype)
        gemv_kernel.gemv(matrices, vectors, batch, variant, y, device)
        return y if direct else written(y, out)


def _of_one_dtype(given: dict[str, object]) -> dict[str, Array]:
    """As `floating` has them; but float16, if all are so."""
    found = on_one_device(given)
    if all(a.dtype.kind == "f" and a.dtype.itemsize == 2 for a in found.values()):
        return {name: a.astype(np.float16, copy=False) for name, a in found.items()}
    return floating({**found})


def _batch(A: Array, x: Array, transpose: bool) -> tuple[int, ...]:
    """The leading axes of the result; ValueError unless the shapes fit."""
    if A.ndim < 2:
        raise ValueError(f"A has shape {A.shape}; (..., m, n) is wanted")
    if x.ndim < 1:
        raise ValueError("x is a scalar; a vector is wanted")
    along, axis = ("rows", -2) if transpose else ("columns", -1)
    if x.shape[-1] != A.shape[axis]:
        raise ValueError(
            f"x has shape {x.shape}; its last axis must have the {A.shape[axis]} "
            f"{along} of A, whose shape is {A.shape}"
        )
    try:
        return np.broadcast_shapes(A.shape[:-2], x.shape[:-1])
    except ValueError:
        raise ValueError(
            f"the batch axes do not broadcast: A {A.shape}, x {x.shape}"
        ) from None


def _can_take(out: Array, A: Array, x: Array) -> bool:
    """Whether a kernel can write the result where `out` lies."""
    contiguous = out.flags.c_contiguous and aligned(out)
    may_share = namespace(out).may_share_memory
    return contiguous and not may_share(out, A) and not may_share(out, x)
