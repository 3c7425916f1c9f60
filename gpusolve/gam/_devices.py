"""Where the arrays of a call live: what is made from them comes to lie there, too."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from .._arrays import Array, is_cupy
from .._kernels import device_of


def current_device(array: Array) -> AbstractContextManager[object]:
    """Makes the device of an array the one where new arrays come to lie."""
    device = device_of(array)
    return nullcontext() if device is None else device.current()


def on_host(array: Array) -> Array:
    """The array, on the host."""
    return array.get() if is_cupy(array) else np.asarray(array)
