"""Where the arrays of a call live: what is made from them comes to lie there, too."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np

from .._arrays import Array, is_cupy
from .._kernels import current, device_of


def current_device(array: Array) -> AbstractContextManager[object]:
    """Makes the device of an array the one where new arrays come to lie."""
    return current(device_of(array))


def on_host(array: Array) -> Array:
    """The array, on the host."""
    return array.get() if is_cupy(array) else np.asarray(array)
