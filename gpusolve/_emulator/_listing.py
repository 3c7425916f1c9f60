"""The source of a kernel with what each line costs, as text and as HTML."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ._costs import KernelCosts, LineCosts
from .nvrtc import KernelSource

CONTEXT = 2
"""Lines that are shown before and after a line that costs something."""

WARP = 32

STYLE = """\
<style>
.cuda-lines {overflow-x: auto;}
.cuda-lines pre {font: 12px/1.5 monospace; margin: 0.6em 0;}
.cuda-lines table {border-collapse: collapse; font: 12px/1.5 monospace;}
.cuda-lines td, .cuda-lines th {padding: 0 0.6em; text-align: right; border: 0;
  white-space: pre;}
.cuda-lines td:last-child, .cuda-lines th:last-child
  {text-align: left; width: 100%;}
.cuda-lines summary {font: bold 13px monospace; margin: 0.6em 0; cursor: pointer;}
</style>"""

_NEEDED, _SPARED = "rgba(70, 130, 200, 0.35)", "rgba(240, 130, 30, 0.5)"
"""Colours of the parts of a bar."""

_RATIO = len(" x32.0")


class Column(NamedTuple):
    """A column of the listing.

    Attributes
    ----------
    heading : str
    value : function of LineCosts
    fewest : function of LineCosts, or None
        The part of the count that could not be spared.
    most : float
        The count of a full bar; 0 for the largest count of the kernel.
    """

    heading: str
    value: Callable[[LineCosts], float]
    fewest: Callable[[LineCosts], float] | None = None
    most: float = 0


COLUMNS = (
    Column("instructions", lambda line: line.instructions),
    Column("lanes", lambda line: line.active_lanes, most=WARP),
    Column("sectors", lambda line: line.sectors, lambda line: line.fewest_sectors),
    Column(
        "wavefronts",
        lambda line: line.shared_wavefronts,
        lambda line: line.fewest_wavefronts,
    ),
    Column("atomics", lambda line: line.atomics),
)


class Row(NamedTuple):
    """A row of the listing: what is counted, and a line of the source."""

    costs: LineCosts | None
    number: str
    text: str


def as_text(kernel: KernelCosts) -> str:
    """The listing of a kernel as a table of text."""
    columns, rows = _columns(kernel), list(_rows(kernel))
    headings = [column.heading for column in columns]
    table = [[_cell(column, row.costs) for column in columns] for row in rows]
    heading, *lines = aligned([headings, *table])
    texts = [f"{row.number:>4} {row.text}" for row in rows]
    pairs = zip([heading, *lines], [kernel.name, *texts], strict=True)
    return "\n".join(f"{cells}  {text}".rstrip() for cells, text in pairs)


def as_html(kernel: KernelCosts) -> str:
    """The listing of a kernel as HTML that can be folded. It needs `STYLE`."""
    columns = _columns(kernel)
    headings = "".join(f"<th>{column.heading}</th>" for column in columns)
    headings += "<th>line</th><th></th>"
    rows = (
        "".join(_html_cell(column, row.costs, most) for column, most in columns.items())
        + f"<td>{row.number}</td><td>{html.escape(row.text)}</td>"
        for row in _rows(kernel)
    )
    body = "\n".join(f"<tr>{cells}</tr>" for cells in rows)
    return (
        '<details open="" class="cuda-lines">'
        f"<summary>{html.escape(kernel.name)}</summary>\n"
        f"<table><tr>{headings}</tr>\n{body}</table></details>"
    )


def _columns(kernel: KernelCosts) -> dict[Column, float]:
    """The columns in which something is counted, and the count of a full bar."""
    lines = kernel.by_line.values()
    most = {column: max(map(column.value, lines), default=0) for column in COLUMNS}
    return {column: column.most or top for column, top in most.items() if top}


def _cell(column: Column, costs: LineCosts | None) -> str:
    """The count, and how many times the fewest it is; empty if nothing is counted."""
    value = column.value(costs) if costs else 0
    if not costs or not value:
        return ""
    text = f"{value:,}" if isinstance(value, int) else f"{value:.1f}"
    if column.fewest is None:
        return text
    ratio = value / max(1, column.fewest(costs))
    return text + (f" x{ratio:.1f}" if ratio > 1 else "").ljust(_RATIO)


def _html_cell(column: Column, costs: LineCosts | None, most: float) -> str:
    cell = _cell(column, costs)
    if not cell or not costs:
        return "<td></td>"
    value = column.value(costs)
    needed = column.fewest(costs) if column.fewest else value
    end, middle = (100 * part / most for part in (value, needed))
    bar = (
        f"linear-gradient(90deg, {_NEEDED} {middle:.1f}%, {_SPARED} {middle:.1f}% "
        f"{end:.1f}%, transparent {end:.1f}%)"
    )
    return f'<td style="background: {bar}">{cell}</td>'


def aligned(rows: list[list[str]], left: int = 0) -> list[str]:
    """The lines of a table, aligned on the right but for the first columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _rows(kernel: KernelCosts) -> Iterator[Row]:
    """The lines of each file that have a cost, and lines near them; then other code."""
    files: defaultdict[Path, dict[int, LineCosts]] = defaultdict(dict)
    for line, costs in kernel.by_line.items():
        files[line.file][line.number] = costs
    rest = LineCosts()
    for file, counted in sorted(files.items()):
        text = _text(file, kernel.source)
        known = {n: costs for n, costs in counted.items() if 0 < n <= len(text)}
        if known:
            yield Row(None, "", f"--- {file.name}")
            yield from _rows_of_file(known, text)
        for number in counted.keys() - known.keys():
            rest.add(counted[number])
    if rest.instructions:
        yield Row(rest, "", "other code, of the emulator")


def _rows_of_file(counted: dict[int, LineCosts], text: list[str]) -> Iterator[Row]:
    shown = {
        number + shift
        for number in counted
        for shift in range(-CONTEXT, CONTEXT + 1)
        if 0 < number + shift <= len(text)
    }
    previous = min(shown, default=0)
    for number in sorted(shown):
        if number > previous + 1:
            yield Row(None, "", "...")
        yield Row(counted.get(number), str(number), text[number - 1])
        previous = number


def _text(file: Path, source: KernelSource | None) -> list[str]:
    """The lines of a file, or of the definitions before it; none if it is missing."""
    if source and file.name == "definitions":
        return source.definitions.splitlines()
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
