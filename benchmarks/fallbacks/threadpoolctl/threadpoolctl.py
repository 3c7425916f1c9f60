"""Stands in for threadpoolctl if it is not installed: BLAS keeps its threads."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


class ThreadpoolController:
    """Limits nothing."""

    def limit(self, **limits: Any) -> AbstractContextManager[None]:
        return nullcontext()


def threadpool_info() -> list[dict[str, Any]]:
    """Finds no library."""
    return []
