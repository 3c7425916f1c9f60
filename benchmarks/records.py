"""Results of benchmarks as records, from which pages and charts are made.

A file is JSON: the command, the facts of the machine with the commit, and the results.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

OURS = "gpusolve"
"""The name of this package among the solvers; its column is the first."""

BUSY_LOAD = 1.3
"""A load above this, when a benchmark begins, is not of the benchmark alone."""


class Result(NamedTuple):
    """Times of a call on a batch of systems, or of the fits of a model.

    Attributes
    ----------
    name : str
        The kind of systems; the family of a model.
    shape : (int, int)
        Rows and columns of a matrix; rows and covariates.
    peer : str
        What solves the systems or fits the model.
    systems : int
        Systems or fits.
    repeats : int
        Calls after the first; 0 if the call failed.
    median, spread : float
        Seconds for all systems: median of the repeats, and their interquartile range.
    solved : int
        Systems that were solved. If these are fewer, the seconds are scaled to all.
    error : float or None
        How far an answer is from the best, or may be; None if nothing was judged.
    bytes : int
        The memory that a call needs beyond its arguments; 0 if not measured.
    note : str
        Why no more systems were solved, or what an answer says about itself.
    part : str
        The table of the page.
    """

    name: str
    shape: tuple[int, int]
    peer: str
    systems: int = 1
    repeats: int = 0
    median: float = 0.0
    spread: float = 0.0
    solved: int = 0
    error: float | None = None
    bytes: int = 0
    note: str = ""
    part: str = ""

    @property
    def label(self) -> str:
        """The shape and the kind of the systems."""
        return "{:,} x {:,}, {}".format(*self.shape, self.name)

    def rounded(self) -> Result:
        """The same result; numbers that are not whole have four digits."""
        return Result(
            *(
                float(f"{value:.4g}") if isinstance(value, float) else value
                for value in self
            )
        )


class Run(NamedTuple):
    """All results of a run: they have the machine and the commit in common."""

    command: str
    machine: dict[str, str]
    results: list[Result]

    def keep(self, results: Iterable[Result], part: str) -> Iterator[Result]:
        """The results, which are added to the run as they come."""
        for one in results:
            kept = one._replace(part=part).rounded()
            self.results.append(kept)
            yield kept

    def save(self, path: Path) -> None:
        """Write the run with a line for each result."""
        lines = ",\n".join(json.dumps(one._asdict()) for one in self.results)
        head = json.dumps({"command": self.command, "machine": self.machine})
        path.write_text(f'{head[:-1]}, "results": [\n{lines}\n]}}\n')

    @classmethod
    def load(cls, path: Path) -> Run:
        content = json.loads(path.read_text())
        results = [
            Result(**{**one, "shape": tuple(one["shape"])})
            for one in content["results"]
        ]
        return cls(content["command"], content["machine"], results)


class Part(NamedTuple):
    """A table of a page.

    Attributes
    ----------
    name : str
    about : str
        The text above the table.
    peers : tuple of str
        The other solvers, as columns.
    judged : str
        What an error is, as the name of a column; empty if nothing is judged.
    timed : bool
        Whether times are shown.
    """

    name: str
    about: str
    peers: tuple[str, ...] = ()
    judged: str = ""
    timed: bool = True


# ---- Markdown ------------------------------------------------------------------------


def circumstances(run: Run) -> Iterator[str]:
    """The command and the facts of the machine."""
    yield f"`{run.command}`\n"
    for name, value in run.machine.items():
        yield f"- {name}: {value}"
    yield ""


def busy(run: Run) -> Iterator[str]:
    """A warning if other programs ran when the benchmark began."""
    with contextlib.suppress(ValueError):
        if float(load := run.machine["load"]) > BUSY_LOAD:
            yield f"**Other programs used the CPU during this run** (load {load}):"
            yield "compare the columns of a line, and not the times with other pages.\n"


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def table_head(*names: str, words: int = 1) -> Iterator[str]:
    """The first two lines of a table; all columns after `words` contain numbers."""
    yield row(*names)
    yield row(*(["---"] * words + ["---:"] * (len(names) - words)))


def table(part: Part, results: Iterable[Result]) -> Iterator[str]:
    """A line for each batch: times, with their ratios to our time, and errors.

    Peers that solved nothing, as those of a GPU on a CPU, have no column.
    """
    results = list(results)
    known = {one.peer for one in results}
    everyone = (OURS, *(peer for peer in part.peers if peer in known))
    yield f"\n## {part.name.capitalize()}\n\n{part.about}\n"
    yield from table_head(
        *("case", "systems"),
        *(f"{peer} ms" for peer in everyone if part.timed),
        *(f"{peer} {part.judged}" for peer in everyone if part.judged),
    )
    for (label, systems), batch in groupby(results, attrgetter("label", "systems")):
        found = {one.peer: one for one in batch}
        each = [found.get(peer) for peer in everyone]
        times = (time_cell(one, each[0]) for one in each if part.timed)
        errors = map(error_cell, each) if part.judged else ()
        yield row(label, f"{systems:,}", *times, *errors)


def time_cell(one: Result | None, ours: Result | None) -> str:
    """Milliseconds, their spread and the ratio, or the reason why there are none.

    `*` marks a time that was scaled from fewer systems.
    """
    if one is None or not one.solved:
        return one.note if one else ""
    scaled = "*" if one.solved < one.systems else ""
    spread = f" ({one.spread / one.median:.0%})" if one.spread else ""
    cell = f"{three_digits(1e3 * one.median)}{scaled}{spread}"
    if ours is None or one is ours or not ours.solved:
        return cell
    return f"{cell}, {one.median / ours.median:.2g}x"


def error_cell(one: Result | None) -> str:
    if one is None or one.error is None:
        return one.note if one else ""
    return f"{one.error:.3g}" + f", {one.note}" * bool(one.note)


def three_digits(value: float) -> str:
    """Format a non-negative number to three significant digits, with no exponent."""
    rounded = float(f"{value:.2e}")
    places = 2 - math.floor(math.log10(rounded)) if rounded else 0
    return f"{rounded:,.{max(0, places)}f}"
