"""The Python on the pages runs, and prints what the pages say."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy_stand_in
import pytest

import gpusolve

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
SAID = re.compile(r"print\(.*\) +# (.*)")
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
    if "_build" not in path.parts and FENCE.search(path.read_text())
]


class Recorder:
    """A `print` that compares what it prints with the comment of its line."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.rest = ""

    def __call__(self, *values: Any) -> None:
        text = " ".join(map(str, values))
        said = SAID.search(self.lines[sys._getframe(1).f_lineno - 1])
        if said is None:
            self.rest += f"{text}\n"
        else:
            assert said[1].startswith(text), f"{text!r} is printed, not {said[1]!r}"


@contextlib.contextmanager
def device_for(code: str) -> Iterator[None]:
    """The stand-in for CuPy, for code that imports it."""
    with contextlib.ExitStack() as stack:
        if re.search(r"^import cupy", code, re.M):
            stack.enter_context(cupy_stand_in.installed())
        yield


@pytest.mark.parametrize(
    "path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_the_python_of_a_page_prints_what_it_says(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GPUSOLVE_EMULATE", raising=False)
    monkeypatch.chdir(tmp_path)
    page = path.read_text()
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in FENCE.finditer(page):
        code, output = block.groups()
        for module in re.findall(r"^import (jax)", code, re.M):
            pytest.importorskip(module)
        recorder = names["print"] = Recorder(page.splitlines())
        before = "\n" * page.count("\n", 0, block.start(1))  # the lines of the page
        with device_for(code):
            exec(compile(before + code, str(path), "exec"), names)
        assert output is None or recorder.rest == output


def public_modules() -> set[str]:
    """The package, and what it lists as modules."""
    found = {"gpusolve", "gpusolve.gam.families"}
    for name in gpusolve.__all__:
        if isinstance(getattr(gpusolve, name), type(gpusolve)):
            found.add(f"gpusolve.{name}")
    return found


def test_the_api_has_every_public_module() -> None:
    """The names in each come from its ``__all__``, by the template of the page."""
    page = (ROOT / "docs" / "api.rst").read_text()
    assert set(re.findall(r"^   (gpusolve[\w.]*)$", page, re.M)) == public_modules()
