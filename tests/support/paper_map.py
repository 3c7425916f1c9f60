"""The map of the papers, docs/papers.md, and the tests that hold its claims.

A test that holds a claim of a row is marked::

    @pytest.mark.paper("Cupp, Figure 12")

with the document and the row's first cell. The claim is the first paragraph of the
test's docstring; a test of several claims has each in its marker, after the row.
``make tables`` writes the claims and the names of the tests into the column "holds
here". Markers are read from the source, so no test is imported.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "papers.md"

COLUMNS = ("part", "what", "code", "holds here", "shown in", "known")
HOLDS = COLUMNS.index("holds here")

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


class Marker(NamedTuple):
    """A claim, and the test that holds it.

    Attributes
    ----------
    row : str
        The document and the part, as "Cupp, Figure 12".
    claim : str
    test : str
        As "tests/room/test_x.py::test_name".
    numbers : frozenset of float
        The numbers that the test names.
    """

    row: str
    claim: str
    test: str
    numbers: frozenset[float]


class Row(NamedTuple):
    """A row of the map: its document and its cells."""

    document: str
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        """The document and the part, as markers have them."""
        return f"{self.document}, {self.cells[0]}"


@functools.cache
def markers() -> list[Marker]:
    """All markers of the tests, by file and line."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [marker for file in files for marker in markers_of(file)]


def markers_of(file: Path) -> Iterator[Marker]:
    """The markers of a file's tests."""
    tree = ast.parse(file.read_text())
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(target, ast.Name)
    }
    for test in tree.body:
        if not isinstance(test, ast.FunctionDef):
            continue
        name = f"{file.relative_to(ROOT)}::{test.name}"
        marks = [mark for mark in test.decorator_list if is_marker(mark)]
        for mark in marks:
            row, *given = map(ast.literal_eval, mark.args)
            claim = given[0] if given else claim_of(test)
            yield Marker(
                row, claim, name, frozenset(numbers_of(test, marks, constants))
            )


def claim_of(test: ast.FunctionDef) -> str:
    """The first paragraph of a test's docstring, without its last full stop."""
    paragraph = (ast.get_docstring(test) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).removesuffix(".")


def is_marker(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether a decorator is ``pytest.mark.paper(...)``."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.paper"


def numbers_of(
    test: ast.FunctionDef, marks: list[ast.Call], constants: dict[str, ast.expr]
) -> Iterator[float]:
    """The numbers in a test, but for its claims, and in constants that it names."""
    document, body = ast.get_docstring(test), test.body
    if document and any(len(mark.args) == 1 for mark in marks):
        body = body[1:]
        yield from map(parse_float, NUMBER.findall(document.partition("\n\n")[2]))
    nodes = [*body, *(node for node in test.decorator_list if node not in marks)]
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Name) and node.id in constants:
            yield from literals(constants[node.id])
        else:
            yield from literals(node, deep=False)


def literals(tree: ast.AST, deep: bool = True) -> Iterator[float]:
    """The numbers of an expression, also those in its strings."""
    for node in ast.walk(tree) if deep else [tree]:
        match node:
            case ast.Constant(value=int() | float() as value):
                yield float(value)
            case ast.Constant(value=str() as text):
                yield from map(parse_float, NUMBER.findall(text))


def parse_float(text: str) -> float:
    """The number that a text means; a comma separates thousands."""
    return float(text.replace(",", ""))


def missing_numbers(marker: Marker) -> list[str]:
    """The numbers of a claim that its test does not name. 96 % may be 0.96 there."""

    def is_named(number: float) -> bool:
        percent = number / 100
        return any(
            math.isclose(value, number) or math.isclose(value, percent)
            for value in marker.numbers
        )

    return [
        text for text in NUMBER.findall(marker.claim) if not is_named(parse_float(text))
    ]


def rows(page: str) -> list[Row]:
    """The rows of the page's tables, without their heads."""
    found, document = [], ""
    for line in page.splitlines():
        if line.startswith("## "):
            document = line.split()[1].rstrip(":")
        elif is_row(line):
            found.append(Row(document, cells_of(line)))
    return found


def is_row(line: str) -> bool:
    """Whether a line is a row of a table, and not its head."""
    return line.startswith("| ") and not line.startswith(("| part |", "| ---"))


def cells_of(line: str) -> tuple[str, ...]:
    """The cells of a row."""
    return tuple(cell.strip() for cell in line[1:-1].split("|"))


def filled(page: str, found: list[Marker]) -> str:
    """The page with the claims of the markers."""
    lines, document = [], ""
    for line in page.splitlines():
        if line.startswith("## "):
            document = line.split()[1].rstrip(":")
        lines.append(filled_row(document, line, found) if is_row(line) else line)
    return "\n".join(lines) + "\n"


def filled_row(document: str, line: str, found: list[Marker]) -> str:
    """A row with the claims of its markers; a row without markers is kept."""
    row = Row(document, cells_of(line))
    claims = [
        f"{marker.claim} (`{marker.test.rpartition('/')[2]}`)"
        for marker in found
        if marker.row == row.name
    ]
    if not claims:
        return line
    cells = list(row.cells)
    cells[HOLDS] = "<br>".join(claims)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    MAP.write_text(filled(MAP.read_text(), markers()))
