"""Values that hold for the launches in a `with` statement."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Setting(Generic[Value]):
    """A value that a `with` statement chooses; outside of them the default holds."""

    def __init__(self, name: str, default: Callable[[], Value]) -> None:
        self._chosen: ContextVar[Value | None] = ContextVar(name, default=None)
        self._default = default

    def value(self) -> Value:
        """The present value."""
        return self._chosen.get() or self._default()

    @contextlib.contextmanager
    def to(self, value: Value) -> Iterator[Value]:
        """Choose a value for this `with` statement."""
        token = self._chosen.set(value)
        try:
            yield value
        finally:
            self._chosen.reset(token)


def switch(variable: str) -> Setting[bool]:
    """A setting that is on in `with` statements, or by an environment variable."""
    return Setting(variable, lambda: os.environ.get(variable, "") not in ("", "0"))
