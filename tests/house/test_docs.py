"""The Python of the README and of the pages runs, and prints what they say."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import cupy_stand_in
import pytest

import gpusolve

pytest.importorskip("matplotlib", reason="matplotlib draws the effects").use("Agg")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BUILT = {"_build", "api", "gallery"}

PYTHON = r"^```python\n(.*?)^```\n"
PRINTED = r"(?:\n```(?:text)?\n(.*?)^```)?"
EXAMPLE = re.compile(PYTHON + PRINTED, re.MULTILINE | re.DOTALL)

PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
    if not BUILT & set(page.parts) and EXAMPLE.search(page.read_text())
]
"""The pages that have examples."""


def printed_by(source: str, names: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What each statement of an example prints, and the comment behind it."""
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        output = StringIO()
        code = compile(ast.Module([statement], []), "example", "exec")
        with redirect_stdout(output):
            exec(code, names)
        last = lines[(statement.end_lineno or 0) - 1]
        yield output.getvalue(), last.partition("  # ")[2].strip()


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_print_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the page. CuPy is a stand-in, which a page may import."""
    text = page.read_text()
    monkeypatch.delenv("GPUSOLVE_EMULATE", raising=False)
    monkeypatch.chdir(tmp_path)
    if "gpusolve.emulator" in text and not shutil.which("c++"):
        pytest.skip("the emulator needs a C++ compiler")
    for library in re.findall(r"^import (dask|jax|torch)$", text, re.MULTILINE):
        pytest.importorskip(library)
    names: dict[str, Any] = {}
    checked = 0
    for source, block in EXAMPLE.findall(text):
        stand_in = "import cupy" in source
        with cupy_stand_in.installed() if stand_in else nullcontext():
            output = list(printed_by(source, names))
        if block:
            assert "".join(text for text, _ in output).strip() == block.strip()
            checked += 1
            continue
        for text, comment in output:
            assert comment.startswith(text.strip()), source
            checked += bool(text)
    assert checked
    for figure in tmp_path.glob("*.png"):
        assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_pages_have_the_examples() -> None:
    """The expressions find the examples, on the pages for users and for look-up."""
    assert len(PAGES) >= 15


def test_the_readme_links_to_what_exists() -> None:
    """Links of the pages are checked when the site is built."""
    links = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert len(links) >= 20
    assert [link for link in links if not (ROOT / link).exists()] == []


def public_modules() -> set[str]:
    """The package, its modules for frameworks, and the modules that are listed."""
    found = {"gpusolve", "gpusolve.jax", "gpusolve.torch"}
    for package in (gpusolve, gpusolve.gam):
        for name in package.__all__:
            if isinstance(getattr(package, name), type(gpusolve)):
                found.add(f"{package.__name__}.{name}")
    return found


def test_the_api_has_every_public_module() -> None:
    """The names of a module come from its ``__all__``, by the template of the page."""
    page = (DOCS / "api.rst").read_text()
    assert set(re.findall(r"^   (gpusolve[\w.]*)$", page, re.M)) == public_modules()
