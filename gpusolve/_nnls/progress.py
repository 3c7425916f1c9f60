"""The progress bar of a batch."""

from __future__ import annotations

from typing import Any

from .._device.threads import is_part

DELAY = 2.0
"""Seconds before a progress bar appears."""


def progress_bar(systems: int, delay: float = 0.0) -> Any:
    """A bar that counts systems, in a terminal; none for a part of a larger batch."""
    from tqdm import tqdm

    return tqdm(
        total=systems,
        desc="nnls",
        unit="system",
        delay=delay,
        disable=is_part() or None,
        leave=False,
    )
