"""The progress bar of a long call, on a terminal and in a notebook."""

from __future__ import annotations

import sys
from typing import Any

from .threads import is_part

DELAY = 5.0
"""Seconds before a progress bar appears that was not asked for."""


def progress_bar(
    total: int | None,
    name: str,
    unit: str,
    delay: float = DELAY,
    shown: bool | None = None,
) -> Any:
    """A bar that counts to a total, which may be unknown; none for a part of a batch.

    It is shown at once, or never, where `shown` says so.
    """
    from tqdm import tqdm

    return tqdm(
        total=total,
        desc=name,
        unit=unit,
        delay=0.0 if shown else delay,
        disable=is_part() or not (is_seen() if shown is None else shown),
        leave=False,
    )


def is_seen() -> bool:
    """Whether messages are shown while a call runs: on a terminal, in a notebook."""
    ipython = sys.modules.get("IPython")
    in_notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    return in_notebook or sys.stderr.isatty()
