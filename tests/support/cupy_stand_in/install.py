"""Makes the stand-in importable as ``cupy``, and removes it again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpusolve._device import kernels

from . import devices, sparse, special
from .devices import DeviceState

CACHES = kernels._cuda_device, kernels._cuda_kernels, kernels._cuda_module
"""gpusolve's caches of devices and kernels."""


@contextmanager
def installed(count: int = 2, error: str | None = None, **limits: Any) -> Iterator[Any]:
    """Install the stand-in as ``cupy``; the first device is current.

    Parameters
    ----------
    count : int, optional
        Number of devices.
    error : str, optional
        An error that the runtime raises instead of returning the number of devices.
    **limits : int
        `memory` and `shared_memory` of each device in bytes, as for `DeviceState`.
    """
    cupy = sys.modules[__package__]
    scipy = SimpleNamespace(sparse=sparse, special=special)
    modules = {
        "cupy": cupy,
        "cupy.cuda": cupy.cuda,
        "cupyx": SimpleNamespace(scipy=scipy, empty_pinned=np.empty),
        "cupyx.scipy": scipy,
        "cupyx.scipy.sparse": sparse,
        "cupyx.scipy.special": special,
    }
    before = {name: sys.modules.pop(name, None) for name in modules}
    clear_caches()
    devices.states[:] = [DeviceState(**limits) for _ in range(count)]
    devices.error = error
    sys.modules.update(modules)
    try:
        yield cupy
        assert devices.current() == 0, "the current device was not restored"
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update({name: one for name, one in before.items() if one})
        devices.make_first_current()
        devices.states.clear()
        devices.error = devices.NO_DEVICE
        clear_caches()


def clear_caches() -> None:
    """Clear gpusolve's caches."""
    for cached in CACHES:
        cached.cache_clear()
