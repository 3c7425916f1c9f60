"""The arrays of some systems of a batch with sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from .inputs import Option, Problem


def rows_of(
    problem: Problem, array: Array, core: int, chosen: NDArray[np.intp]
) -> Array:
    """The systems `chosen` of an array that broadcasts to the batch, in float64."""
    last = array.shape[array.ndim - core :]
    found = namespace(array).broadcast_to(array, (*problem.batch, *last))
    if problem.batch:
        places = np.unravel_index(chosen, problem.batch)
        found = found[tuple([there(array, place) for place in places])]
    return found.reshape(len(chosen), *last).astype(np.float64, copy=False)


def host_rows(
    problem: Problem, option: Option | None, core: int, chosen: NDArray[np.intp]
) -> Any:
    """The same of an option, on the host; None stays."""
    if option is None:
        return None
    array = on_host(option) if not isinstance(option, float) else np.float64(option)
    if array.ndim < core:
        array = np.full(problem.shape[1:], array)
    return rows_of(problem, array, core, chosen)


def there(array: Array, values: Array) -> Array:
    """An array of the host on the device of `array`."""
    return namespace(array).asarray(values)
