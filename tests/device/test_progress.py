"""Progress bars, and where they are shown."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from together import together

from gpusolve._device.progress import progress_bar

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
    capsys: pytest.CaptureFixture[str],
) -> None:
    on_terminal, in_notebook = where
    shell: Any = SimpleNamespace(kernel=None) if in_notebook else None
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
    monkeypatch.setattr("gpusolve._device.progress.is_part", lambda: is_part)
    capsys.readouterr()
    with progress_bar(3, "boosting", "step", delay=0.0, shown=shown) as bar:
        bar.update(3)
    assert ("boosting" in capsys.readouterr().err) == expected
