"""The Python of the README and of the pages runs, and prints what they say."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from operator import attrgetter
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


def names_of_the_api() -> Iterator[str]:
    """The names on the page of the API, with their modules."""
    module = ""
    for line in (DOCS / "api.rst").read_text().splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (.*)", line):
            module = found[1]
        elif found := re.fullmatch(r"   ([\w.]+)", line):
            yield f"{module}.{found[1]}"


WITHOUT_GROUPS = {"gpusolve.reference", "gpusolve.studies"}
"""Modules whose pages list their names."""


either = pytest.mark.parametrize(
    "frameworks", [False, pytest.param(True, marks=pytest.mark.slow)]
)
"""Objects of the package; of its modules for PyTorch and JAX."""


@either
def test_the_api_has_every_public_name_once(frameworks: bool) -> None:
    listed = list(names_of_the_api())
    assert len(set(listed)) == len(listed)
    for module, found in list(public_objects(frameworks)):
        name = f"{module}.{found.__name__}"
        elsewhere = name.replace("gam.", "gam.families.")  # gam has two of their names
        assert module in WITHOUT_GROUPS or {name, elsewhere} & set(listed), name
    assert public_modules() - set(listed) == {"gpusolve"}


FRAMEWORKS = {"gpusolve.jax", "gpusolve.torch"}


def public_objects(frameworks: bool) -> Iterator[tuple[str, Any]]:
    """The functions and classes of the API, each with its module."""
    for module in sorted(FRAMEWORKS if frameworks else public_modules() - FRAMEWORKS):
        names = vars(importlib.import_module(module))
        for name in names["__all__"]:
            if inspect.isroutine(names[name]) or inspect.isclass(names[name]):
                yield module, names[name]


def related(documentation: str) -> list[str]:
    """The names in the section See Also."""
    section = re.search(r"^See Also\n-+\n(.*?)(\n\n|\Z)", documentation, re.M | re.S)
    lines = re.findall(r"^\w[^:]*", section[1], re.M) if section else []
    return re.findall(r"[\w.]+", " ".join(lines))


def exists(name: str, module: str) -> bool:
    """Whether Sphinx finds a name: in the module, or in the package.

    True for names of a framework whose module was not imported: a slow test imports
    all modules.
    """
    framework = name.removeprefix("gpusolve.").partition(".")[0]
    if f"gpusolve.{framework}" in FRAMEWORKS and not hasattr(gpusolve, framework):
        return True  # pytest leaves a module in sys.modules whose import has failed
    for start in (importlib.import_module(module), gpusolve):
        try:
            attrgetter(name.removeprefix("gpusolve."))(start)
        except AttributeError:
            continue
        return True
    return False


@either
def test_every_public_object_has_an_example_and_related_objects(
    frameworks: bool,
) -> None:
    """Examples run as doctests, which the finder of doctest must therefore reach."""
    objects = list(public_objects(frameworks))  # all modules are imported
    for module, found in objects:
        documentation = inspect.getdoc(found) or ""
        name = f"{module}.{found.__name__}"
        assert ">>> " in documentation, name
        assert not hasattr(found, "__wrapped__"), f"{name}: doctest does not look in"
        assert related(documentation), name
        for other in related(documentation):
            assert exists(other, module), f"{name}: {other}"


def test_the_chart_of_the_start_page_has_the_measured_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From records as `nnls.py` writes them: the bars are relative to the longest."""
    monkeypatch.syspath_prepend(DOCS)
    chart = importlib.import_module("start_chart").chart
    records = [
        {"name": name, "shape": shape, "systems": n, "peer": peer, "median": seconds}
        for shape in ([200, 50], [30, 10])
        for name, n, peer, seconds in [
            ("one matrix", 10_000, "SciPy", 0.01 * shape[0]),
            ("one matrix", 10_000, "gpusolve", 0.001 * shape[0]),
            ("one matrix", 1_000, "SciPy", 9.0),
            ("own matrices", 10_000, "SciPy", 9.0),
        ]
    ]
    page = tmp_path / "results.json"
    for load in (0.1, 5.0):
        machine = {"processor": "a CPU", "load": str(load)}
        page.write_text(json.dumps({"machine": machine, "results": records}))
        found = chart(page)
        bars = re.findall(r"--length: ([\d.]+)\">([\d.]+)<", found)
        assert bars == [
            ("1.0000", "2"), ("0.1000", "0.2"), ("0.1500", "0.3"), ("0.0150", "0.03")
        ]  # fmt: skip
        assert ("other programs" in found) == (load > 1.3)
