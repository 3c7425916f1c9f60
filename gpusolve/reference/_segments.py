"""Segments of different lengths in an array: their flags and their reductions.

The *lengths* of the segments may be 0. The *offsets* are the indices at which the
segments begin, followed by the end of the last. *Flags* mark the first element of
each segment; an empty segment gets no flag.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..monoid import Monoid, as_monoid, ufunc_of
from ._partition import replicate, scatter
from ._reduce import converted
from ._scan import scan, segmented_scan

Array = NDArray[Any]


def segment_flags(
    lengths: NDArray[np.integer[Any]], *, total: int | None = None
) -> NDArray[np.bool_]:
    """Mark the first element of each non-empty segment.

    Parameters
    ----------
    lengths : (m,) array of integers
    total : int, optional
        The sum of the lengths.

    Returns
    -------
    (total,) array of bool

    See Also
    --------
    gpusolve.segment_flags

    Examples
    --------
    >>> import numpy as np
    >>> segment_flags(np.array([0, 3, 1, 0, 4, 2, 0])).astype(int)
    array([1, 0, 0, 1, 1, 0, 0, 0, 1, 0])
    """
    lengths = lengths.astype(np.int64)
    starts = np.where(lengths == 0, -1, scan(lengths, exclusive=True))
    flags = replicate(int(lengths.sum()) if total is None else total, False)
    return scatter(flags, starts, replicate(len(lengths), True))


def segmented_reduce(
    x: Array, offsets: NDArray[np.int64], op: str | Monoid = "add"
) -> Array:
    """Combine the elements of each segment.

    Parameters
    ----------
    x : (n, *element) array
    offsets : (m + 1,) array of int64
        Segment k is ``x[offsets[k] : offsets[k + 1]]``.
    op : str or Monoid

    Returns
    -------
    (m, *element) array
        The identity for an empty segment.

    See Also
    --------
    gpusolve.segmented_reduce

    Examples
    --------
    >>> import numpy as np
    >>> segmented_reduce(np.array([3, 1, 4, 1, 5]), np.array([0, 0, 2, 2, 5]))
    array([ 0,  4,  0, 10])
    """
    op = as_monoid(op)
    x = converted(x, op)[: offsets[-1]]
    starts, ends = offsets[:-1], offsets[1:]
    full = starts < ends
    result = np.empty((len(full), *op.element_shape), x.dtype)
    result[...] = op.identity_of(x.dtype)
    ufunc = ufunc_of(op, x.dtype)
    if ufunc is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            result[full] = ufunc.reduceat(x, starts[full], dtype=x.dtype)
    else:
        flags = scatter(replicate(len(x), False), starts[full], full[full])
        result[full] = segmented_scan(x, flags, op)[ends[full] - 1]
    return result
