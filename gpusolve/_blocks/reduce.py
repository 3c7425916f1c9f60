"""Reduction of arrays by any monoid, with a map fused in front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import monoid, reference
from .._device.arrays import as_array
from .._device.kernels import device_of
from ..monoid import Map, Monoid, as_monoid
from .inputs import as_rows, check_variant, elements, native, some_axes

VARIANTS = ("tree", "group", "chunked", "atomic")
ORDERED_VARIANTS = VARIANTS[:-1]
ATOMIC_BYTES = 8
"""The largest element that one atomic operation replaces."""


def reduce(
    x: object,
    op: str | Monoid = "add",
    *,
    axis: int | Sequence[int] | None = None,
    map: Map | None = None,
    variant: str = "auto",
) -> Any:
    """Combine the elements of an array by an associative operator.

    ``reduce(op, [x0, x1, ...]) = identity op x0 op x1 op ...``, with the elements in
    their order (C order over several axes), so that `op` need not commute.

    Parameters
    ----------
    x : (..., *element) array_like
        Elements of the monoid, which are numbers for all built-in ones but ``"mssp"``.
        With `map`, numbers.
    op : str or Monoid, optional
        ``"add"``, ``"mul"``, ``"min"``, ``"max"``, ``"logical_and"``,
        ``"logical_or"``, ``"mssp"``, or a monoid of your own.
    axis : int, sequence of int or None, optional
        The axes to reduce, among those before an element's own. All by default.
    map : Map, optional
        Applied to each number as it is read.
    variant : {"auto", "tree", "group", "chunked", "atomic"}, optional
        How a device does it. "tree" launches once for each level of a binary tree,
        "group" shrinks the array by the size of a block in each launch, "chunked" has a
        fixed number of threads fold a chunk each, "atomic" updates one place in memory,
        which needs an operator that commutes, of elements of at most 8 bytes. "auto"
        is "chunked". A CPU has one way for all.

    Returns
    -------
    array or scalar
        Of the dtype of `x`, or that which `map` or the monoid gives; integers wrap.
        It lives where `x` does. Without elements, the identity.

    Raises
    ------
    TypeError
        For a dtype that the monoid does not take.
    ValueError
        For an unknown name, an axis or an element's shape that `x` does not have, or
        "atomic" where it is impossible.

    See Also
    --------
    scan, segmented_reduce, maximum_segment_sum

    Notes
    -----
    Work O(n), depth O(log n). All variants but "atomic" give the same bits on the same
    device in every run. A reduction along axes that are not the last makes a contiguous
    copy first. On a GPU float32 numbers below 1.2e-38 count as zero, also for "min",
    "max" and the logical operators: CuPy compiles kernels so.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019.

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
    operator = as_monoid(op)
    array = elements(x, operator, map)
    check_variant(variant, VARIANTS)
    if variant == "atomic":
        _check_atomic(operator, array.dtype, map)
    leading = array.ndim if map else array.ndim - len(operator.element_shape)
    axes = some_axes(axis, leading)
    device = device_of(array)
    if device is None:
        return reference.reduce(array, operator, axis=axes, map=map)
    from . import reduce_kernel

    with device.current():
        rows = as_rows(array, axes, leading)
        result = reduce_kernel.reduce(rows, operator, map, variant, device)
    kept = tuple(array.shape[k] for k in range(leading) if k not in axes)
    return result.reshape(kept + operator.element_shape)[()]


def _check_atomic(operator: Monoid, given: np.dtype[Any], map: Map | None) -> None:
    if not operator.commutative:
        raise ValueError(
            f"variant is 'atomic', which takes the elements in any order, but "
            f"{operator.name} does not commute"
        )
    dtype = operator.dtype_of(map.dtype_of(given) if map else given)
    size = dtype.itemsize * math.prod(operator.element_shape)
    if size > ATOMIC_BYTES:
        raise ValueError(
            f"variant is 'atomic', for elements of at most {ATOMIC_BYTES} bytes, but "
            f"one of {operator.name} in {dtype} has {size}"
        )


def all(
    x: object,
    predicate: Map | None = None,
    *,
    axis: int | Sequence[int] | None = None,
) -> Any:
    """Whether a predicate holds for all elements.

    Parameters
    ----------
    x : array_like
    predicate : Map, optional
        By default whether the element is not zero. (NaN is not zero.)
    axis : int, sequence of int or None, optional

    Returns
    -------
    bool array or scalar
        True where there are no elements.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> even = gpusolve.Map("even", "x % 2 == 0", lambda x: x % 2 == 0, dtype=bool)
    >>> gpusolve.all(np.array([4, 2, 10]), even)
    np.True_
    """
    return reduce(x, monoid.logical_and, axis=axis, map=predicate)


def any(
    x: object,
    predicate: Map | None = None,
    *,
    axis: int | Sequence[int] | None = None,
) -> Any:
    """Whether a predicate holds for at least one element.

    Parameters
    ----------
    x : array_like
    predicate : Map, optional
        By default whether the element is not zero. (NaN is not zero.)
    axis : int, sequence of int or None, optional

    Returns
    -------
    bool array or scalar
        False where there are no elements.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> gpusolve.any(np.array([[0, 0], [0, 3]]), axis=1)
    array([False,  True])
    """
    return reduce(x, monoid.logical_or, axis=axis, map=predicate)


def maximum_segment_sum(x: object, *, variant: str = "auto") -> Any:
    """The largest sum of a contiguous segment, or 0 if none is positive.

    Parameters
    ----------
    x : (..., n) array_like
        int32, int64, float32 or float64. Each row by itself.
    variant : {"auto", "tree", "group", "chunked"}, optional
        As for `reduce`; "chunked", and so "auto", fuses the map.

    Returns
    -------
    (...) array or scalar
        Of the dtype of `x`. A row with NaN gives NaN. Integer sums wrap.

    Raises
    ------
    TypeError
        For another dtype.
    ValueError
        For an unknown variant, or an array without axes.

    Notes
    -----
    A reduction with the monoid ``"mssp"``, of quadruples that are never in memory.
    Where infinities of both signs meet, the sum of a segment is not defined, and the
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
    rows = native(as_array(x, "x"), "x", "if")
    if rows.dtype.itemsize < 4:
        raise TypeError(
            f"x has dtype {rows.dtype}; int32, int64, float32 or float64 is wanted"
        )
    if rows.ndim == 0:
        raise ValueError("x has no axes; (..., n) is wanted")
    check_variant(variant, ORDERED_VARIANTS)
    quadruples = reduce(
        rows, monoid.mssp, axis=-1, map=monoid.segment_sums_of_one, variant=variant
    )
    return quadruples[..., 0][()]
