"""Puts the stand-in where ``import cupy`` finds it, and takes it away again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from gpusolve._device import kernels

from . import devices, sparse
from .devices import Facts

CACHES = kernels._attributes, kernels._cuda_kernel, kernels._cuda_module
"""What gpusolve remembers of devices."""


@contextmanager
def installed(
    count: int = 2, error: str | None = None, **of_each: Any
) -> Iterator[Any]:
    """The stand-in as ``cupy``, with some devices; the first one is current.

    Parameters
    ----------
    count : int, optional
    error : str, optional
        What the runtime says instead of the number of devices.
    **of_each : int
        As for `Facts`: `memory`, `shared_memory`, in bytes.
    """
    cupy = sys.modules[__package__]
    cupyx, scipy = ModuleType("cupyx"), ModuleType("cupyx.scipy")
    cupyx.scipy, scipy.sparse = scipy, sparse  # type: ignore[attr-defined]
    modules = {
        "cupy": cupy,
        "cupyx": cupyx,
        "cupyx.scipy": scipy,
        "cupyx.scipy.sparse": sparse,
    }
    before = {name: sys.modules.get(name) for name in modules}
    forget()
    devices.facts[:] = [Facts(**of_each) for _ in range(count)]
    devices.error = error
    sys.modules.update(modules)
    try:
        yield cupy
        assert devices.current() == 0, "the current device is another one than before"
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
        devices.make_first_current()
        devices.facts.clear()
        devices.error = devices.NO_DEVICE
        forget()


def forget() -> None:
    """Have gpusolve ask for everything again."""
    for cached in CACHES:
        cached.cache_clear()
