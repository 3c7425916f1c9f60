"""A device that sees to it that it is the current one where it serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpusolve._device import kernels


class Watched(kernels.EmulatedDevice):
    """A device that serves only while it is the current one."""

    entered = 0

    @contextmanager
    def current(self) -> Iterator[None]:
        Watched.entered += 1
        yield
        Watched.entered -= 1

    def empty(self, *arguments: Any) -> Any:
        assert Watched.entered
        return super().empty(*arguments)

    def kernel(self, *arguments: Any) -> Any:
        assert Watched.entered
        return super().kernel(*arguments)
