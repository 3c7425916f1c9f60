"""Clocks per trip of the loops of every kernel for sm_90, from the machine code.

`warp_clocks` has the model and the agreed latencies, `machine_loops` the paths. The
shortest and the longest path around an innermost loop are counted, with the functions
that it calls. An unrolled loop computes several elements in a trip.

``python tests/support/kernel_clocks.py nnls_gram`` prints the loops of a source, the
slowest first, with the clocks of their lines. More words choose the instances whose
names have them all: ``nnls_gram double BlockTeam``.
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
from kernel_resources import Source, all_sources, compile_source
from machine_loops import Graph, Loop, Walk, graph_of

from gpusolve._device.kernels import source_directory

FUNCTION = re.compile(
    r"(?:__device__|__global__)[^;{}=]*?\b(operator\W+|(?!__)\w+)\(([^;{]*)\)[^;{}]*{"
)
"""The name and the parameters of a function of `cuda_src`."""

CALLS_A_BODY = re.compile(r"\bBody\b")
"""Parameters of a function whose loops belong to its callers."""


class TripClocks(NamedTuple):
    """Clocks of a trip around a loop.

    Attributes
    ----------
    function, place : str, Place
        Where the loop is in the source.
    instructions : int
    least, most : float
        Clocks on the shortest and on the longest path.
    spent : dict
        The clocks of each line on the longest path, and of the functions called.
    """

    function: str
    place: Place
    instructions: int
    least: float
    most: float
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
    return [
        clocks
        for loop in graph.loops
        if loop.is_innermost
        and (clocks := _clocks_of_loop(listing, graph, loop)) is not None
    ]


def _clocks_of_loop(listing: Listing, graph: Graph, loop: Loop) -> TripClocks | None:
    shortest, longest = Walk(listing, graph, min), Walk(listing, graph, max)
    least, most = shortest.clocks(loop), longest.clocks(loop)
    if least is None or most is None:
        return None
    spent: Counter[Place] = Counter()
    for i, clocks in longest.spent.items():
        spent[listing.code[i].places[0]] += clocks
    last = listing.code[max(loop.members)]
    return TripClocks(*home_of(last), len(loop.members), least, most, spent)


def home_of(one: Instruction) -> tuple[str, Place]:
    """The function that an instruction belongs to, and the line there."""
    for place in one.places:
        name, calls_a_body = function_at(place)
        if not calls_a_body:
            break
    return name, place


def function_at(place: Place) -> tuple[str, bool]:
    """The function at a line, and whether it calls a function of its callers."""
    found = ("", False)
    for line, name, calls_a_body in functions_of(place.file):
        if line > place.line:
            break
        found = name, calls_a_body
    return found


@functools.cache
def functions_of(file: str) -> list[tuple[int, str, bool]]:
    """The functions of a file, by the lines that they begin at."""
    text = "\n".join(text_of(file))
    return [
        (
            text.count("\n", 0, found.start()) + 1,
            found[1],
            CALLS_A_BODY.search(found[2]) is not None,
        )
        for found in FUNCTION.finditer(text)
    ]


@functools.cache
def text_of(file: str) -> list[str]:
    """The lines of a source; a header of CUDA has none."""
    path = Path(source_directory()) / file
    return path.read_text().splitlines() if path.exists() else []


# ---- the command ---------------------------------------------------------------------


def report(file: str, words: list[str]) -> Iterator[str]:
    """The loops of the instances of a source that have all words in their names."""
    for source in all_sources():
        chosen = [one for one in source.instances if all(word in one for word in words)]
        if source.file != file or not chosen:
            continue
        for instance, listing in listings_of(
            source._replace(instances=tuple(chosen))
        ).items():
            yield f"{source.operators} {instance}".strip()
            for trip in sorted(clocks_of(listing), key=lambda one: -one.most):
                yield from _report_of(trip)


def _report_of(trip: TripClocks) -> Iterator[str]:
    yield (
        f"  {trip.least:.0f} to {trip.most:.0f} clocks, "
        f"{trip.instructions} instructions: {trip.function}, {trip.place.file}:{trip.place.line}"
    )
    for place, clocks in sorted(trip.spent.items(), key=lambda item: -item[1]):
        lines = text_of(place.file)
        text = lines[place.line - 1].strip() if place.line <= len(lines) else ""
        yield f"    {clocks:5}  {place.file}:{place.line}  {text}"


if __name__ == "__main__":
    for line in report(sys.argv[1], sys.argv[2:]):
        print(line)
