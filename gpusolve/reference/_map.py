"""Map, zip and unzip.

``map : (a -> b) -> [n]a -> [n]b``, of work n and depth 1, for functions of an element
or of several elements; ``zip : [n]a -> [n]a -> [n](a, a)`` and its inverse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..monoid import Map

Array = NDArray[Any]


def map(f: Map, *arrays: Array) -> Array:
    """Apply a function to the elements at each index.

    Parameters
    ----------
    f : Map
    *arrays : (...) array
        An array for each parameter of `f`, with equal shapes.

    Returns
    -------
    (...) or (..., k) array
        The second if `f` has k expressions.

    See Also
    --------
    gpusolve.map

    Examples
    --------
    >>> import numpy as np
    >>> plus = Map("plus", "x + y", np.add, parameters=("x", "y"))
    >>> map(plus, np.array([1, 2, 3]), np.array([10, 20, 30]))
    array([11, 22, 33])
    """
    return np.asarray(f.apply(*arrays)).reshape(arrays[0].shape + f.result_shape)


def zip(*arrays: Array) -> Array:
    """An array of structures: the numbers at each index, along the last axis.

    See Also
    --------
    gpusolve.zip

    Examples
    --------
    >>> import numpy as np
    >>> zip(np.array([1, 2]), np.array([3, 4]))
    array([[1, 3],
           [2, 4]])
    """
    return np.stack(arrays, axis=-1)


def unzip(x: Array) -> tuple[Array, ...]:
    """The arrays of an array of structures.

    See Also
    --------
    gpusolve.unzip

    Examples
    --------
    >>> import numpy as np
    >>> unzip(np.array([[1, 3], [2, 4]]))
    (array([1, 2]), array([3, 4]))
    """
    return tuple(np.moveaxis(x, -1, 0))
