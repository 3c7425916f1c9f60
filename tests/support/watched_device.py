"""A device that checks that it is current when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpusolve._device import kernels


class Watched(kernels.EmulatedDevice):
    """Allocates memory and compiles kernels only while it is the current device."""

    depth = 0
    """Number of active `current` contexts."""

    @contextmanager
    def current(self) -> Iterator[None]:
        Watched.depth += 1
        yield
        Watched.depth -= 1

    def empty(self, *args: Any) -> Any:
        assert Watched.depth
        return super().empty(*args)

    def zeros(self, *args: Any) -> Any:
        assert Watched.depth
        return super().zeros(*args)

    def kernels(self, *args: Any) -> Any:
        assert Watched.depth
        return super().kernels(*args)
