"""Stands in for tqdm if it is not installed: shows no progress bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class tqdm:  # noqa: N801
    """Iterates without a progress bar."""

    def __init__(self, iterable: Iterable[Any] = (), **options: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        pass
