"""The examples of the README run, in the order of the page, and print what it says."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="matplotlib draws the effects").use("Agg")

README = (Path(__file__).parents[1] / "README.md").read_text()
PYTHON = r"^```python\n(.*?)^```\n"
PRINTED = r"(?:\n```\n(.*?)^```)?"
EXAMPLES = re.findall(PYTHON + PRINTED, README, re.MULTILINE | re.DOTALL)


def printed_by(source: str, names: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What each statement of an example prints, and the comment behind it."""
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        output = StringIO()
        code = compile(ast.Module([statement], []), "README.md", "exec")
        with redirect_stdout(output):
            exec(code, names)
        last = lines[(statement.end_lineno or 0) - 1]
        yield output.getvalue(), last.partition("  # ")[2].strip()


def test_examples_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    checked = 0
    for source, block in EXAMPLES:
        if "import cupy" in source or "gpusolve.emulator" in source:
            continue
        output = list(printed_by(source, names))
        if block:
            assert "".join(text for text, _ in output).strip() == block.strip()
            checked += 1
            continue
        for text, comment in output:
            assert comment.startswith(text.strip()), source
            checked += bool(text)
    assert checked >= 15
    assert (tmp_path / "effects.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(shutil.which("c++") is None, reason="the emulator needs a compiler")
def test_example_of_the_emulator() -> None:
    ((source, block),) = [one for one in EXAMPLES if "gpusolve.emulator" in one[0]]
    output = "".join(text for text, _ in printed_by(source, {}))
    assert output.strip() == block.strip()
