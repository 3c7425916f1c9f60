"""Batched matrix times vector."""

from __future__ import annotations

from typing import Any, Literal, get_args, overload

import numpy.typing as npt

from .. import reference
from .._device.arrays import (
    Array,
    OnDevice,
    as_array,
    asarray_like,
    broadcast_shapes,
    check_out,
    floating,
    written,
)
from .._device.kernels import current, device_of
from . import gemv_kernel

PaperVariant = Literal["naive", "threads_per_dot", "threads_per_row"]
Variant = Literal["auto", PaperVariant, "dots", "axpys"]

VARIANTS = get_args(Variant)[1:]


@overload
def gemv(
    A: OnDevice,
    x: object,
    *,
    transpose: bool = False,
    variant: Variant = "auto",
    out: Array | None = None,
) -> Any: ...
@overload
def gemv(
    A: npt.ArrayLike,
    x: npt.ArrayLike,
    *,
    transpose: bool = False,
    variant: Variant = "auto",
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]: ...
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
        The matrices, of any shape and any strides. NumPy or CuPy arrays, or objects
        that support ``__cuda_array_interface__`` or DLPack.
    x : (..., n) array_like, or (..., m) if transposed
        The vectors. The leading axes of `A` and `x` broadcast; an `A` that many `x`
        share is not copied.
    transpose : bool, optional
        Whether to multiply by the transpose of each matrix.
    variant : {"auto", "naive", "threads_per_dot", "threads_per_row", "dots", "axpys"}
        The algorithm on a device. The paper [1]_ has three: one thread per row
        ("naive"); 16 threads of one block per row ("threads_per_dot"); up to 16 threads
        per row in different blocks, each with a segment of `x` in shared memory
        ("threads_per_row"). Two others split long reductions into chunks if the result
        is short: neighbouring threads read along rows ("dots"), or along columns
        ("axpys"). "auto", the default, is "dots" or "axpys", whichever reads along
        the axis that is contiguous in memory. A CPU uses one algorithm for all.
    out : array, optional
        The array for the result, of its shape and dtype, on the device of `A`. It may
        overlap `A` or `x`.

    Returns
    -------
    (..., m) array, or (..., n) if transposed
        On the device of the inputs. Zeros for sums without terms.

    Raises
    ------
    TypeError
        For dtypes that are not real numbers of at most 64 bits, inputs on different
        kinds of device, or an `out` on another device or of another dtype.
    ValueError
        For shapes that do not match, integers that float64 cannot represent, inputs on
        different GPUs, an unknown variant, or an `out` of another shape.

    See Also
    --------
    reduce

    Notes
    -----
    Work 2 m n. float16, float32 and float64 inputs return their own dtype; sums of
    float16 are accumulated in float32 and rounded once. Mixed dtypes return float32 if
    all are float16 or float32, else float64, like integers and booleans; an array of
    another dtype is converted first. NaN and infinity propagate as in
    :func:`numpy.matmul`.

    No floating-point number is added atomically: on a device the same call returns the
    same bits in every run. Variants and memory layouts may differ in the last bits. On
    a GPU, float32 kernels flush subnormal numbers to zero, like all of CuPy's.

    On a device, an `x` whose last axis is not contiguous is copied first, and so is
    an `A` with strides that are not multiples of an element.

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
    if variant not in ("auto", *VARIANTS):
        raise ValueError(
            f"variant must be one of {('auto', *VARIANTS)}, got {variant!r}"
        )
    matrices = as_array(A, "A")
    device = device_of(matrices)
    with current(device):
        given = {"A": matrices, "x": asarray_like(matrices, x)}
        matrices, vectors = floating(given, smallest="f2").values()
        batch = _batch(matrices, vectors, transpose)
        shape = (*batch, matrices.shape[-1 if transpose else -2])
        check_out(out, matrices, "A", matrices.dtype, shape)
        if device is None:
            result = reference.gemv(matrices, vectors, transpose=transpose)
            return written(result, out)
        if transpose:
            matrices = matrices.swapaxes(-1, -2)
        return gemv_kernel.gemv(matrices, vectors, batch, variant, out, device)


def _batch(A: Array, x: Array, transpose: bool) -> tuple[int, ...]:
    """The leading axes of the result; ValueError unless the shapes fit."""
    if A.ndim < 2:
        raise ValueError(f"A must have shape (..., m, n), got {A.shape}")
    if x.ndim < 1:
        raise ValueError("x must be a vector, got a scalar")
    along, axis = ("rows", -2) if transpose else ("columns", -1)
    if x.shape[-1] != A.shape[axis]:
        raise ValueError(
            f"the last axis of x must have the {A.shape[axis]} {along} of A, whose "
            f"shape is {A.shape}; got x of shape {x.shape}"
        )
    try:
        return broadcast_shapes(A.shape[:-2], x.shape[:-1])
    except ValueError:
        raise ValueError(
            f"the batch axes must broadcast, got A {A.shape} and x {x.shape}"
        ) from None
