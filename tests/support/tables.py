"""Tables in pages of Markdown: made by scripts, between text that people write."""

from __future__ import annotations

import re
from collections.abc import Iterable

Row = dict[str, str]
"""The cells of a line, by heading."""


def _table(head: str) -> str:
    """An expression of a table whose first headings these are: the head, the rows."""
    return rf"^(\| {re.escape(head)} \|.*\n\| ---.*\n)((?:\|.*\n)*)"


def cells(line: str) -> list[str]:
    return [cell.strip(" `") for cell in line.strip().strip("|").split("|")]


def rows(page: str, head: str) -> list[Row]:
    """The rows of the table whose first headings these are, as "call | kernel"."""
    found = re.search(_table(head), page, re.MULTILINE)
    assert found, f"a table | {head} |"
    headings = cells(found[1].partition("\n")[0])
    lines = map(cells, found[2].splitlines())
    return [dict(zip(headings, line, strict=True)) for line in lines]


def with_rows(page: str, head: str, lines: Iterable[Iterable[object]]) -> str:
    """The page with other rows in this table."""
    made = "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
    found, count = re.subn(
        _table(head), lambda table: table[1] + made, page, flags=re.MULTILINE
    )
    assert count == 1, f"a table | {head} |"
    return found
