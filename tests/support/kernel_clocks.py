"""Clocks per trip of the loops of every kernel for sm_90, from the machine code.

`warp_clocks` has the model and the agreed latencies, `warp_paths` the paths. The
shortest and the longest path around an innermost loop are counted, with the functions
that it calls. An unrolled loop computes several elements in a trip.

``python tests/support/kernel_clocks.py nnls_gram`` prints the loops of a source, the
slowest first, with the clocks of their lines. More words choose the instances whose
names have them all: ``nnls_gram double GridTeam LD=270`` counts generic loads as global
loads. ``make resources`` writes the table, of the longest paths of some instances.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernel_code import (
    ARCHITECTURE,
    WITH_WORDS_AND_PLACES,
    Instruction,
    Listing,
    Place,
    disassemble,
    read_listing,
)
from kernel_costs import FALL
from kernel_resources import (
    Source,
    all_sources,
    compile_source,
    first_of_each_kernel,
    written_cells,
)
from machine_loops import Loop, graph_of
from warp_clocks import LATENCIES
from warp_paths import WarpPaths

from gpusolve._device.kernels import source_directory

TABLE = Path(__file__).with_suffix(".md")

WATCHED = {"", "keys", "float32", "add float32", "add-mul float32 float32"}
"""The operators of the instances in the table."""

GROWTH = 1.1
"""A trip may get 10 % slower. If a trip gets 10 % faster, the table must be updated."""

FUNCTION = re.compile(
    r"(?:__device__|__global__)[^;{}=]*?\b(operator\W+|(?!__)\w+)\(([^;{]*)\)[^;{}]*{"
)
"""The name and the parameters of a function of `cuda_src`."""

CALLS_A_BODY = re.compile(r"\bBody\b")
"""Parameters of a function whose loops belong to its callers."""

KEYWORD = re.compile(r"\b(for|while|do)\b")
"""What the line of a loop has."""


class TripClocks(NamedTuple):
    """Clocks of a trip around a loop.

    Attributes
    ----------
    function : str
    places : tuple of Place
        The line of the loop, and the lines that it is inlined at.
    instructions : int
    least, most : float
        Clocks on the shortest and on the longest path.
    bytes_in_flight : int
        The most bytes that a thread has loaded from global memory, or from a generic
        address, and not waited for.
    spent : dict
        The clocks of each line, also in the functions called, for the longest path.
        Lines of all branches are counted.
    """

    function: str
    places: tuple[Place, ...]
    instructions: int
    least: float
    most: float
    bytes_in_flight: int
    spent: dict[Place, int]


def listings_of(source: Source) -> dict[str, Listing]:
    """The machine code of the instances of one source."""
    compiled = compile_source(source, ARCHITECTURE)
    listings = read_listing(disassemble(compiled.cubin, *WITH_WORDS_AND_PLACES))
    pairs = zip(source.instances, compiled.symbols, strict=True)
    return {instance: listings[symbol] for instance, symbol in pairs}


def clocks_of(listing: Listing) -> list[TripClocks]:
    """The clocks of the innermost loops of a kernel."""
    graph = graph_of(listing)
    paths = WarpPaths(listing, graph, min), WarpPaths(listing, graph, max)
    return [
        clocks
        for loop in graph.loops
        if loop.is_innermost and (clocks := _clocks_of_loop(loop, *paths)) is not None
    ]


def _clocks_of_loop(
    loop: Loop, shortest: WarpPaths, longest: WarpPaths
) -> TripClocks | None:
    least, most = shortest.clocks(loop), longest.clocks(loop)
    if least is None or most is None:
        return None
    code = longest.code
    spent: Counter[Place] = Counter()
    for i, clocks in longest.spent.items():
        spent[code[i].places[0]] += clocks
    home = home_of(code[loop.last])
    in_flight = longest.bytes_in_flight(loop)
    return TripClocks(*home, len(loop.members), least, most, in_flight, spent)


def home_of(one: Instruction) -> tuple[str, tuple[Place, ...]]:
    """The function and the lines of a loop, from the jump that closes it.

    A loop that calls a function of its caller belongs to the line of the caller. The
    code of its condition may belong to another function.
    """
    calls_a_body = False
    for level, place in enumerate(one.places):
        is_called = calls_a_body
        name, calls_a_body = function_at(place)
        if not calls_a_body and (is_called or KEYWORD.search(text_at(place))):
            return name, one.places[level:]
    return function_at(one.places[0])[0], one.places


def function_at(place: Place) -> tuple[str, bool]:
    """The function at a line, and whether it calls a function of its callers."""
    found = ("", False)
    for line, name, calls_a_body in functions_of(place.path):
        if line > place.line:
            break
        found = name, calls_a_body
    return found


@functools.cache
def functions_of(path: str) -> list[tuple[int, str, bool]]:
    """The functions of a file, by the lines that they begin at."""
    text = "\n".join(text_of(path))
    return [
        (
            text.count("\n", 0, found.start()) + 1,
            found[1],
            CALLS_A_BODY.search(found[2]) is not None,
        )
        for found in FUNCTION.finditer(text)
    ]


def text_at(place: Place) -> str:
    """The line of source at a place."""
    lines = text_of(place.path)
    return lines[place.line - 1].strip() if place.line <= len(lines) else ""


@functools.cache
def text_of(path: str) -> list[str]:
    """The lines of a source; the compiler has no path of a file of `cuda_src`."""
    file = source_directory() / Path(path).name
    return (file if file.exists() else Path(path)).read_text().splitlines()


# ---- the table -----------------------------------------------------------------------

Row = tuple[str, str, str]
"""Operators, instance, and function with its file."""


def watched_sources() -> list[Source]:
    """The sources of the watched operators, with the first instance of each kernel."""
    return [
        source._replace(instances=first_of_each_kernel(source.instances))
        for source in all_sources()
        if source.operators in WATCHED
    ]


def rows_of(source: Source) -> dict[Row, list[int]]:
    """The clocks of the loops of each function, on the longest path."""
    rows: dict[Row, list[int]] = {}
    for instance, listing in listings_of(source).items():
        for trip in clocks_of(listing):
            place = f"{trip.places[0].file} {trip.function}"
            row = rows.setdefault((source.operators, instance, place), [])
            row.append(round(trip.most))
    return {row: sorted(clocks, reverse=True) for row, clocks in rows.items()}


def written_rows() -> dict[Row, list[int]]:
    """The clocks of the table."""
    return {
        (operators, instance, place): read_clocks(cell)
        for operators, instance, place, cell in written_cells(TABLE)
    }


def write_clocks(clocks: list[int]) -> str:
    """Clocks in descending order; ``2 x 99`` are two loops of 99 clocks."""
    counts = Counter(clocks)
    return ", ".join(
        f"{counts[one]} x {one}" if counts[one] > 1 else str(one) for one in counts
    )


def read_clocks(cell: str) -> list[int]:
    clocks = []
    for item in cell.split(", "):
        count, _, one = item.rpartition(" x ")
        clocks += [int(one)] * int(count or 1)
    return clocks


def changed_clocks(sources: list[Source]) -> list[str]:
    """What a test reports of these sources."""
    instances = {(one.operators, name) for one in sources for name in one.instances}
    written = {row: one for row, one in written_rows().items() if row[:2] in instances}
    found = {row: one for source in sources for row, one in rows_of(source).items()}
    return [
        f"{' '.join(row).strip()}: {change}"
        for row in written | found
        for change in changes(written.get(row, []), found.get(row, []))
    ]


def changes(written: list[int], found: list[int]) -> list[str]:
    """A change of the clocks beyond the limits, or of the number of loops."""
    same = len(written) == len(found) and all(
        FALL * old <= new <= GROWTH * old
        for old, new in zip(written, found, strict=True)
    )
    both = (write_clocks(one) or "none" for one in (written, found))
    return [] if same else ["from {} to {}".format(*both)]


def table() -> str:
    """The watched instances, as a Markdown table."""
    lines = [
        "# Clocks of the loops of the kernels",
        "",
        "For sm_90: clocks of a trip around each innermost loop, on its longest path,",
        "for a warp that is alone, with the latencies that",
        "`tests/support/warp_clocks.py` names: a model, not a measurement. A function",
        "has several loops where it is unrolled or inlined several times. Written by",
        "`make resources` with NVRTC 12.9 and nvdisasm 13.5, without a GPU.",
        "",
        "| operators | kernel | function | clocks |",
        "| --- | --- | --- | --- |",
    ]
    for source in watched_sources():
        for (operators, instance, place), clocks in rows_of(source).items():
            cells = operators, f"`{instance}`", place, write_clocks(clocks)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# ---- the command ---------------------------------------------------------------------


def report(file: str, words: list[str]) -> Iterator[str]:
    """The loops of the instances of a source that have all words in their names."""
    for source in all_sources():
        names = [name for name in source.instances if all(one in name for one in words)]
        if source.file != file or not names:
            continue
        chosen = source._replace(instances=tuple(names))
        for instance, listing in listings_of(chosen).items():
            yield f"{source.operators} {instance}".strip()
            for trip in sorted(clocks_of(listing), key=lambda trip: -trip.most):
                yield from _report_of(trip)


def _report_of(trip: TripClocks) -> Iterator[str]:
    lines = " < ".join(f"{place.file}:{place.line}" for place in trip.places)
    path = f"{trip.least:.0f} to {trip.most:.0f} clocks"
    counts = f"{trip.instructions} instructions, {trip.bytes_in_flight} bytes in flight"
    yield f"  {path}, {counts}: {trip.function}, {lines}"
    for place, clocks in sorted(trip.spent.items(), key=lambda item: -item[1]):
        yield f"    {clocks:5}  {place.file}:{place.line}  {text_at(place)}"


if __name__ == "__main__":
    for word in sys.argv[1:]:
        name, _, latency = word.partition("=")
        if latency:
            LATENCIES[name] = int(latency)
    names = [word for word in sys.argv[1:] if "=" not in word]
    if names:
        print("\n".join(report(names[0], names[1:])))
    else:
        TABLE.write_text(table())
