"""Results of benchmarks as records, which pages and charts read.

A file is JSON: the command, the facts of the machine with the commit, and the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Result(NamedTuple):
    """Times of a call on a batch of systems, or of the fits of a model.

    Attributes
    ----------
    name : str
        The kind of systems; the family of a model.
    shape : (int, int)
        Rows and columns of a matrix; rows and covariates.
    systems : int
        Systems or fits.
    peer : str
        What solves the systems or fits the model.
    repeats : int
        Calls after the first; 0 if the call failed.
    median, spread : float
        Seconds for all systems: median of the repeats, and their interquartile range.
    solved : int
        Systems that were solved. If these are fewer, the seconds are scaled to all.
    error : float or None
        The largest certificate of a sample; the mean loss of rows that are held out.
        None if nothing was judged.
    bytes : int
        The memory that a call needs beyond its arguments; 0 if not measured.
    note : str
        Why no more systems were solved.
    """

    name: str
    shape: tuple[int, int]
    systems: int
    peer: str
    repeats: int
    median: float
    spread: float
    solved: int
    error: float | None
    bytes: int = 0
    note: str = ""

    @property
    def label(self) -> str:
        """The shape and the kind of the systems."""
        return "{} x {}, {}".format(*self.shape, self.name)


def rounded(result: Result) -> Result:
    """The same result; numbers that are not whole have four digits."""
    return Result(
        *(
            float(f"{value:.4g}") if isinstance(value, float) else value
            for value in result
        )
    )


class Run(NamedTuple):
    """All results of a run: they have the machine and the commit in common."""

    command: str
    machine: dict[str, str]
    results: list[Result]

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


def batches(results: Iterable[Result]) -> list[list[Result]]:
    """The results of each batch of systems, in their order."""
    found: dict[Any, list[Result]] = {}
    for one in results:
        found.setdefault((one.label, one.systems), []).append(one)
    return list(found.values())
