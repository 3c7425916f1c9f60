"""Progress bars, and where they are shown."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stderr
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from together import together

# A public call shows its bar only after seconds.
from gpusolve._device.progress import progress_bar
from gpusolve._device.threads import part_of_batch


class Screen(StringIO):
    """What is written to stderr, perhaps on a terminal."""

    def __init__(self, on_terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: on_terminal  # type: ignore[method-assign]


NOWHERE, TERMINAL, NOTEBOOK = (False, False), (True, False), (False, True)


@together(
    ("where", "shown", "is_part", "expected"),
    [
        (NOWHERE, None, False, False),
        (TERMINAL, None, False, True),
        (NOTEBOOK, None, False, True),
        (NOWHERE, True, False, True),
        (TERMINAL, False, False, False),
        (TERMINAL, True, True, False),
    ],
)
def test_a_bar_is_shown_where_somebody_sees_it(
    where: tuple[bool, bool],
    shown: bool | None,
    is_part: bool,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_terminal, in_notebook = where
    shell: Any = SimpleNamespace(kernel=None) if in_notebook else None
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    screen = Screen(on_terminal)
    part = part_of_batch() if is_part else nullcontext()
    with (
        redirect_stderr(screen),
        part,
        progress_bar(3, "boosting", "step", delay=0.0, shown=shown) as bar,
    ):
        bar.update(3)
    assert ("boosting" in screen.getvalue()) == expected
