"""Reduction of arrays by any monoid, with a map fused into the read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args, overload

import numpy.typing as npt

from .. import monoid, reference
from .._device.arrays import ArrayOrNumber, OnDevice, as_array, unwrapped
from .._device.kernels import current, device_of
from ..monoid import Map, Monoid, OperatorName
from . import reduce_kernel
from .inputs import (
    UNORDERED_VARIANTS,
    arrays_of,
    check_variant,
    maximum_segment_sum_inputs,
    reduce_inputs,
)

OrderedVariant = Literal["auto", "tree", "group", "chunked"]
Variant = Literal[OrderedVariant, "reduce512", "atomic", "atomic_each"]

ORDERED_VARIANTS = get_args(OrderedVariant)[1:]
VARIANTS = (*ORDERED_VARIANTS, *UNORDERED_VARIANTS)


@overload
def reduce(
    x: OnDevice,
    op: OperatorName | Monoid = "add",
    *,
    axis: int | Sequence[int] | None = None,
    map: Map | None = None,
    variant: Variant = "auto",
) -> Any: ...
@overload
def reduce(
    x: npt.ArrayLike,
    op: OperatorName | Monoid = "add",
    *,
    axis: int | Sequence[int] | None = None,
    map: Map | None = None,
    variant: Variant = "auto",
) -> ArrayOrNumber: ...
def reduce(
    x: object,
    op: str | Monoid = "add",
    *,
    axis: int | Sequence[int] | None = None,
    map: Map | None = None,
    variant: str = "auto",
) -> Any:
    """Combine the elements of an array by an associative operator.

    ``reduce(op, [x0, x1, ...]) = identity op x0 op x1 op ...``. The order of the
    elements is kept (C order over several axes), so `op` need not commute.

    Parameters
    ----------
    x : (..., *element) array_like
        Elements of the monoid: numbers for all built-in monoids except ``"mssp"``. If
        `map` is given, numbers; a sequence of arrays, which broadcast, if `map` has
        several parameters.
    op : str or Monoid, optional
        ``"add"``, ``"mul"``, ``"min"``, ``"max"``, ``"logical_and"``,
        ``"logical_or"``, ``"mssp"``, or a monoid of your own.
    axis : int, sequence of int or None, optional
        The axes to reduce, among those before the axes of an element. Default: all.
    map : Map, optional
        Applied to each number as it is read.
    variant : str, optional
        The algorithm on a device. "tree" launches once for each level of a binary
        tree. "group" divides the length by the block size in each launch. In
        "chunked", each warp folds a chunk, and all warps run at once. "auto" is
        "chunked". Three more variants require an operator that commutes: "reduce512"
        is "group" with blocks of 512 and the tree in shared memory of [2]_, for
        elements of at most 64 bytes; "atomic" updates one value in memory for each 32
        elements, and "atomic_each" for each element, of at most 8 bytes. A CPU uses one
        algorithm for all.

    Returns
    -------
    array or scalar
        On the device of `x`. Its dtype is the dtype of `x`, or the dtype that `map` or
        the monoid returns; integers wrap. For no elements, the identity.

    Raises
    ------
    TypeError
        For a dtype that the monoid does not accept.
    ValueError
        For an unknown name, an invalid axis, a shape of `x` that does not end with
        the shape of an element, or an operator that the variant does not support.

    See Also
    --------
    scan, segmented_reduce, maximum_segment_sum

    Notes
    -----
    Work O(n), depth O(log n). All variants except those by atomics return the same bits
    on the same device in every run. A reduction along axes other than the last axes
    makes a contiguous copy first. On a GPU, float32 numbers below 1.2e-38 are treated
    as zero, also by "min", "max" and the logical operators, because CuPy compiles
    kernels with flush-to-zero.

    References
    ----------
    .. [1] C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming",
       2019: "Four implementations of summing".
    .. [2] Y. Luo and R. Duraiswami, "Efficient Parallel Non-Negative Least Squares on
       Multi-Core Architectures", SIAM J. Sci. Comput. 33(5), 2011: Algorithm 4.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> x = np.array([[3.0, 1.0], [2.0, 5.0]])
    >>> gpusolve.reduce(x)
    np.float64(11.0)
    >>> gpusolve.reduce(x, "max", axis=0)
    array([3., 5.])
    """
    check_variant(variant, VARIANTS)
    arrays = arrays_of(x, map)
    device = device_of(arrays[0])
    with current(device):
        given = reduce_inputs(arrays, op, axis, map, variant)
        if device is None:
            return reference.reduce(given.mapped(), given.monoid, axis=given.axes)
        return unwrapped(reduce_kernel.reduce(given, variant, device))


@overload
def all(
    x: OnDevice,
    predicate: Map | None = None,
    *,
    axis: int | Sequence[int] | None = None,
) -> Any: ...
@overload
def all(
    x: npt.ArrayLike,
    predicate: Map | None = None,
    *,
    axis: int | Sequence[int] | None = None,
) -> ArrayOrNumber: ...
def all(
    x: Any,
    predicate: Map | None = None,
    *,
    axis: int | Sequence[int] | None = None,
) -> Any:
    """Test whether a predicate holds for all elements.

    Parameters
    ----------
    x : array_like
    predicate : Map, optional
        Default: whether the element is not zero. (NaN is not zero.)
    axis : int, sequence of int or None, optional

    Returns
    -------
    bool array or scalar
        True for no elements.

    See Also
    --------
    any, reduce

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> even = gpusolve.Map("even", "x % 2 == 0", lambda x: x % 2 == 0, dtype=bool)
    >>> gpusolve.all(np.array([4, 2, 10]), even)
    np.True_
    """
    return reduce(x, monoid.logical_and, axis=axis, map=predicate)


@overload
def any(
    x: OnDevice,
    predicate: Map | None = None,
    *,
    axis: int | Sequence[int] | None = None,
) -> Any: ...
@overload
def any(
    x: npt.ArrayLike,
    predicate: Map | None = None,
    *,
    axis: int | Sequence[int] | None = None,
) -> ArrayOrNumber: ...
def any(
    x: Any,
    predicate: Map | None = None,
    *,
    axis: int | Sequence[int] | None = None,
) -> Any:
    """Test whether a predicate holds for at least one element.

    Parameters
    ----------
    x : array_like
    predicate : Map, optional
        Default: whether the element is not zero. (NaN is not zero.)
    axis : int, sequence of int or None, optional

    Returns
    -------
    bool array or scalar
        False for no elements.

    See Also
    --------
    all, reduce

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> gpusolve.any(np.array([[0, 0], [0, 3]]), axis=1)
    array([False,  True])
    """
    return reduce(x, monoid.logical_or, axis=axis, map=predicate)


@overload
def maximum_segment_sum(x: OnDevice, *, variant: OrderedVariant = "auto") -> Any: ...
@overload
def maximum_segment_sum(
    x: npt.ArrayLike, *, variant: OrderedVariant = "auto"
) -> ArrayOrNumber: ...
def maximum_segment_sum(x: object, *, variant: str = "auto") -> Any:
    """The largest sum of a contiguous segment, or 0 if none is positive.

    Parameters
    ----------
    x : (..., n) array_like
        Rows of int32, int64, float32 or float64.
    variant : {"auto", "tree", "group", "chunked"}, optional
        As for `reduce`; "chunked", and so "auto", fuses the map into the read.

    Returns
    -------
    (...) array or scalar
        Of the dtype of `x`. A row with NaN returns NaN. Integer sums wrap.

    Raises
    ------
    TypeError
        For another dtype.
    ValueError
        For an unknown variant, or a scalar.

    See Also
    --------
    reduce, segmented_reduce

    Notes
    -----
    A reduction with the monoid ``"mssp"``; its quadruples are never stored in memory.
    If a segment contains infinities of both signs, its sum is not defined, and the
    result is NaN or infinite.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Maximum Segment Sum (MSSP)".

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> gpusolve.maximum_segment_sum(np.array([1, -2, 3, 4, -1, 5, -6, 1]))
    np.int64(11)
    """
    check_variant(variant, ORDERED_VARIANTS)
    array = as_array(x, "x")
    device = device_of(array)
    with current(device):
        given = maximum_segment_sum_inputs(array)
        if device is None:
            return reference.maximum_segment_sum(given.x)
        return unwrapped(reduce_kernel.reduce(given, variant, device)[..., 0])
