"""Makes the stand-in importable as ``cupy``, and removes it again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
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
    cupyx, scipy = ModuleType("cupyx"), ModuleType("cupyx.scipy")
    cupyx.scipy = scipy  # type: ignore[attr-defined]
    cupyx.empty_pinned = empty_pinned  # type: ignore[attr-defined]
    scipy.sparse, scipy.special = sparse, special  # type: ignore[attr-defined]
    modules = {
        "cupy": cupy,
        "cupy.cuda": cupy.cuda,
        "cupyx": cupyx,
        "cupyx.scipy": scipy,
        "cupyx.scipy.sparse": sparse,
        "cupyx.scipy.special": special,
    }
    before = {name: sys.modules.get(name) for name in modules}
    clear_caches()
    devices.states[:] = [DeviceState(**limits) for _ in range(count)]
    devices.error = error
    sys.modules.update(modules)
    try:
        yield cupy
        assert devices.current() == 0, "the current device was not restored"
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
        devices.make_first_current()
        devices.states.clear()
        devices.error = devices.NO_DEVICE
        clear_caches()


def empty_pinned(shape: Any, dtype: Any = float) -> np.ndarray[Any, Any]:
    """An array in pinned memory, which is ordinary memory here."""
    return np.empty(shape, dtype)


def clear_caches() -> None:
    """Clear gpusolve's caches."""
    for cached in CACHES:
        cached.cache_clear()
