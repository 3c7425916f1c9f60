"""Map, and the arrays of structures that it reads and writes: zip and unzip."""

from __future__ import annotations

import functools
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .. import reference
from .._device.arrays import Array, ArrayOrNumber, OnDevice, as_array, unwrapped
from .._device.kernels import current, device_of
from .._device.launch import CACHED
from ..monoid import Map
from . import map_kernel
from .inputs import arrays_of, map_inputs, structures


@overload
def map(f: Map, x: OnDevice, /, *more: object) -> Any: ...
@overload
def map(f: Map, *arrays: npt.ArrayLike) -> ArrayOrNumber: ...
def map(f: Map, *arrays: object) -> Array:
    """Apply a function to each element of an array, or of several.

    ``map(f, [x0, x1, ...], [y0, y1, ...]) = [f(x0, y0), f(x1, y1), ...]``.

    Parameters
    ----------
    f : Map
    *arrays : array_like
        One for each parameter of `f`. They broadcast.

    Returns
    -------
    array or scalar
        Of the broadcast shape, on the device of the first array. If `f` has k
        expressions, its last axis has the k numbers of each result.

    Raises
    ------
    TypeError
        If `f` is not a Map, for unsupported dtypes, or arrays on different devices.
    ValueError
        For another number of arrays, or shapes that do not broadcast.

    See Also
    --------
    reduce, scan, segmented_scan : They take a map as ``map=``, and apply it as they
        read: no intermediate array is stored.
    stable_partition : It takes a predicate in the same way.

    Notes
    -----
    Work O(n), depth O(1). Maps fuse: ``map(f, map(g, x))`` is ``map(f @ g, x)``.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Map Fusion".

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> square = gpusolve.Map("square", "x * x", np.square)
    >>> plus = gpusolve.Map("plus", "x + y", np.add, parameters=("x", "y"))
    >>> gpusolve.map(plus, [1, 2, 3], [10, 20, 30])
    array([11, 22, 33])
    >>> gpusolve.map(square @ plus, [1, 2, 3], 10)
    array([121, 144, 169])
    """
    given = arrays_of(arrays, f, "f")
    device = device_of(given[0])
    with current(device):
        same = map_inputs(f, given)
        if device is None:
            return unwrapped(reference.map(f, *same))
        return unwrapped(map_kernel.map_arrays(f, same, device))


@overload
def zip(x: OnDevice, /, *more: object) -> Any: ...
@overload
def zip(*arrays: npt.ArrayLike) -> npt.NDArray[Any]: ...
def zip(*arrays: Any) -> Array:
    """An array of structures from arrays: ``zip(x, y)[i]`` is ``[x[i], y[i]]``.

    Parameters
    ----------
    *arrays : array_like
        They broadcast, and are converted to their common dtype.

    Returns
    -------
    (..., k) array
        Elements of k numbers, such as elements of a monoid, from k arrays.

    Raises
    ------
    TypeError, ValueError
        As for `map`; ValueError also without arrays.

    See Also
    --------
    unzip, Monoid

    Notes
    -----
    A `scan` or `reduce` of zipped arrays reads them once more than necessary: with a
    `map` of several parameters they read the arrays themselves.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Segmented Inclusive Scan is a Sort of Scan".

    Examples
    --------
    >>> import gpusolve
    >>> gpusolve.zip([1, 2, 3], [4, 5, 6])
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    if not arrays:
        raise ValueError("zip must have at least one array, got none")
    return map(_structure_of(len(arrays)), *arrays)


@overload
def unzip(x: OnDevice) -> tuple[Any, ...]: ...
@overload
def unzip(x: npt.ArrayLike) -> tuple[ArrayOrNumber, ...]: ...
def unzip(x: object) -> tuple[Array, ...]:
    """The arrays of an array of structures, the inverse of `zip`.

    Parameters
    ----------
    x : (..., k) array_like

    Returns
    -------
    tuple of k arrays of shape (...)
        On the device of `x`, contiguous.

    Raises
    ------
    ValueError
        If `x` is a scalar.

    See Also
    --------
    zip, map

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> gpusolve.unzip(np.array([[1, 4], [2, 5], [3, 6]]))
    (array([1, 2, 3]), array([4, 5, 6]))
    """
    array = structures(as_array(x, "x"))
    with current(device_of(array)):
        numbers = range(array.shape[-1])
        return tuple(unwrapped(array[..., k].copy()) for k in numbers)


@functools.lru_cache(CACHED)
def _structure_of(count: int) -> Map:
    """The map of `count` numbers to an element."""
    names = tuple(f"x{k}" for k in range(count))
    return Map("zip", names, lambda *x: np.stack(x, axis=-1), parameters=names)
