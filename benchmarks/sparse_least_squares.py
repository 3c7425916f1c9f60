"""Solve least squares with a large sparse matrix, and measure the memory and the time.

    python benchmarks/sparse_least_squares.py --output FILE

Each solver has a process of its own, whose resident memory is measured. SciPy's
`lsq_linear` solves a single system in a call; it gets the first few.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse
from harness import Benchmark, Call, Machine
from memory import FirstCall, first_call
from numpy.typing import NDArray
from records import OURS, Part, Result

import gpusolve

Floats = NDArray[np.float64]

SIZES, SMALL = (1_000_000, 2_000, 100), (2_000, 100, 4)
"""Rows, columns and systems."""

FILLED = 100
"""A row has an entry in each of its parts of this number of columns: 1 %."""

FEW = 2
"""The systems that SciPy solves; its time is scaled to all."""

ABOUT = f"""\
A has entries between 0 and 1, one at a random place in every {FILLED} columns of a row.
The right-hand sides are `A x` with normal noise; half of the elements of x are 0, the
others are half-normal. The excess is the largest relative excess of `|b - A x|` over
the other solver's. The note is the memory that the call needs beyond A and b."""


class Systems(NamedTuple):
    """A sparse matrix and right-hand sides."""

    A: Any
    b: Floats


def systems_of(rows: int, columns: int, systems: int) -> Systems:
    """Draw the systems; the first of them do not depend on their number."""
    rng = np.random.default_rng(20261125)
    starts = np.arange(0, columns, FILLED, dtype=np.int32)
    width = np.diff(starts, append=columns)
    places = np.empty((rows, len(starts)), np.int32)
    for row_of_places in np.array_split(places, max(1, rows // 10_000)):
        row_of_places[...] = starts + rng.integers(0, width, row_of_places.shape)
    entries = rng.random(places.size), places.reshape(-1)
    ends = np.arange(0, places.size + 1, len(starts), dtype=np.int32)
    A = scipy.sparse.csr_array((*entries, ends), shape=(rows, columns))
    b = np.empty((systems, rows))
    for right in b:
        right[...] = A @ np.maximum(rng.standard_normal(columns), 0)
        right += rng.standard_normal(rows)
    return Systems(A, b)


def by_gpusolve(given: Systems) -> Floats:
    return gpusolve.nnls(given.A, given.b).rnorm


def by_scipy(given: Systems) -> Floats:
    options = {"lsq_solver": "lsmr", "lsmr_tol": "auto"}
    costs = [
        scipy.optimize.lsq_linear(given.A, right, (0, np.inf), **options).cost
        for right in given.b
    ]
    return np.sqrt(2 * np.array(costs))


SOLVERS = {OURS: by_gpusolve, "SciPy lsmr": by_scipy}


def prepare(name: str, *sizes: int) -> Call:
    return partial(SOLVERS[name], systems_of(*sizes))


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    rows, columns, systems = options.sizes or (SMALL if machine.small else SIZES)
    found: dict[str, FirstCall] = {}
    for name in SOLVERS if machine.peers else [OURS]:
        count = systems if name == OURS else min(FEW, systems)
        found[name] = first_call(prepare, name, rows, columns, count)
    for name, answer in found.items():
        count = len(answer.result)
        pairs = [
            pair
            for other, one in found.items()
            for pair in zip(answer.result, one.result, strict=False)
            if other != name
        ]
        yield Result(
            name="1 % filled",
            shape=(rows, columns),
            peer=name,
            systems=systems,
            median=answer.seconds * systems / count,
            solved=count,
            error=max((norm / other - 1 for norm, other in pairs), default=None),
            bytes=answer.bytes,
            note=f"{answer.bytes / 1e9:.2f} GB",
        )


BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="Sparse least squares",
    parts=[Part("systems", ABOUT, ("SciPy lsmr",), "excess")],
    measure=measure,
    repeats=0,
)

if __name__ == "__main__":
    BENCHMARK.main()
