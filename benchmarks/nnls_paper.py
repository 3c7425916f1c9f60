"""Tables 7.1 to 7.3 of the NNLS paper: its experiments, and the methods it compares.

    python benchmarks/nnls_paper.py --output FILE --picture PICTURE
    python benchmarks/nnls_paper.py --lvis FILE.h5    # table 7.1 with NASA's waveforms
    python benchmarks/nnls_paper.py --cpu             # the CPU path
    python benchmarks/nnls_paper.py --quick           # a few small systems

Section 7 of Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on
Multi-Core Architectures": updates, downdates and seconds for 1 to 192 systems. On a GPU
the methods for it are timed there, too. Results are Markdown; with ``--picture`` time
is drawn against the number of systems.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from harness import (
    Array,
    Call,
    Machine,
    Stopwatch,
    Timed,
    choose,
    count,
    head,
    parser,
    publish,
    row,
    table_head,
    three_digits,
    to_host,
    wall_clock,
)
from nnls_cases import PAPER_SIZES
from nnls_peers import solve_by_scipy
from paper_ratios import ratio_table

import gpusolve
from gpusolve._device.threads import cores
from gpusolve._nnls.options import COMPARED, METHODS
from gpusolve.studies.experiments import (
    EXPERIMENTS,
    PAPER_SYSTEMS,
    PAPER_TABLES,
    Systems,
    crossing,
)

TITLES = {
    "deconvolution": "Table 7.1: deconvolution of waveforms",
    "shifted_gaussians": "Table 7.2: shifted Gaussians",
    "uniform_random": "Table 7.3: uniform random matrices",
}

COUNTED = "fnnls", "auto"
"""The ways whose updates and downdates are counted, also in batches that are too large
to be timed."""

GPU_WAY = "auto, GPU"
"""What is compared with `auto` on the CPU."""

DRAWN = (GPU_WAY, "auto", "qr", "fnnls", "SciPy, a loop")

QUICK_SIZE, QUICK_SYSTEMS = 12, (1, 3)
"""The systems of ``--quick``."""


# ---- the ways ------------------------------------------------------------------------


class Way(NamedTuple):
    """A way to solve a batch.

    Attributes
    ----------
    name : str
    solve : callable
        From A and b to an ``NNLSResult``, or to x of a library without a certificate.
    on_device : bool
        Whether the arrays are on the GPU.
    """

    name: str
    solve: Callable[[Array, Array], Any]
    on_device: bool = False


def ways(machine: Machine) -> list[Way]:
    """SciPy and all methods of `nnls`; on a GPU, its own methods on both devices."""
    host = [Way(name, partial(gpusolve.nnls, method=name)) for name in METHODS]
    compared = [Way(name, partial(gpusolve.nnls, method=name)) for name in COMPARED]
    device = [Way(f"{way.name}, GPU", way.solve, True) for way in host]
    return [
        *(device if machine.cupy else ()),
        *host,
        *compared,
        Way("SciPy, a loop", solve_by_scipy),
    ]


# ---- measuring -----------------------------------------------------------------------


class Cell(NamedTuple):
    """What a way made of a batch.

    Attributes
    ----------
    seconds : float
        Infinite if it was not timed, since it would have exceeded the limit.
    certified : float
        The part of the systems with status 0.
    result : object
    """

    seconds: float
    certified: float
    result: Any = None


TOO_SLOW = Cell(np.inf, 0.0)

Column = list[Cell]
"""The cells of a way, a cell for each number of systems."""


def column(
    machine: Machine, way: Way, systems: Systems, numbers: Sequence[int], limit: float
) -> Column:
    """Time a way for more and more of the systems, until it would exceed the limit."""
    stopwatch, xp = wall_clock, np
    if way.on_device:
        stopwatch, xp = machine.stopwatch, machine.xp
    cells: Column = []
    for number in numbers:
        call = partial(way.solve, *map(xp.asarray, first(systems, number)))
        is_slow = cells and exceeds(cells[-1], number / numbers[len(cells) - 1], limit)
        if not is_slow:
            seconds, result = repeated(stopwatch, call, machine.repeats, limit)
            cells.append(Cell(seconds, certified(result), result))
        elif way.name in COUNTED:
            cells.append(TOO_SLOW._replace(result=call()))
        else:
            cells.append(TOO_SLOW)
    return cells


def repeated(stopwatch: Stopwatch, call: Call, repeats: int, limit: float) -> Timed:
    """The median of some calls after the first; the first if it exceeds the limit."""
    first = stopwatch(call)
    if first.seconds > limit:
        return first
    calls = [stopwatch(call) for _ in range(repeats)]
    return Timed(median(timed.seconds for timed in calls), first.result)


def first(systems: Systems, number: int) -> Systems:
    """The first systems of a batch, which may share a matrix."""
    A, b = systems
    return A if A.ndim == 2 else A[:number], b[:number]


def exceeds(last: Cell, times: float, limit: float) -> bool:
    """Whether a batch this many times as large takes too long, even on all cores."""
    return last.seconds > limit or last.seconds * times / cores() > limit


def certified(result: Any) -> float:
    """The part of the systems with status 0; NaN for libraries without a status."""
    status = getattr(result, "status", None)
    return np.nan if status is None else float(np.mean(to_host(status) == 0))


def counts(cell: Cell) -> tuple[str, str]:
    """All updates, and all downdates, of a batch."""
    both = cell.result.n_updates, cell.result.n_downdates
    updates, downdates = (f"{int(each.sum()):,}" for each in both)
    return updates, downdates


# ---- the report ----------------------------------------------------------------------

ABOUT = """\
Seconds for all systems together. Calls of more than {limit:g} s are not repeated. In
brackets, the part of the systems with status 0, if it is not all: only these have a
certificate of a few eps. "> {limit:g}" stands for a batch that was not timed, since a
smaller batch took longer, or this batch would by its rate on {cores} cores. SciPy
solves the systems in a loop on one core.

Updates and downdates are the columns that enter and leave the passive set: in `fnnls` a
single column at a time as in the paper, in `auto` perhaps several at once. The paper's
figures, below ours, are for an Intel X5560 with 8 cores and an NVIDIA Tesla C2050.
"""

NOTES = {
    "deconvolution": """\
The waveforms are {waveforms}.
""",
    "shifted_gaussians": """\
The paper has fewer updates: its counts equal the counts of Gaussians with sigma = 5.12,
see passive_sets.md.
""",
    "uniform_random": """\
The paper takes the variable with the largest gradient, gpusolve that with the largest
gradient per norm of its column, which needs fewer downdates, see passive_sets.md.
""",
}


def text(cell: Cell, limit: float) -> str:
    if np.isinf(cell.seconds):
        return f"> {limit:g}"
    part = "" if not cell.certified < 1 else f" ({cell.certified:.0%})"
    return f"{three_digits(cell.seconds)}{part}"


def table(
    name: str, found: Mapping[str, Column], numbers: Sequence[int], limit: float
) -> Iterator[str]:
    """A table as in the paper, and the paper's own below."""
    yield from table_head("systems", *map(str, numbers))
    for way in ("fnnls", "auto"):
        for k, what in enumerate(("updates", "downdates")):
            cells = (c.result and counts(c)[k] for c in found[way])
            yield row(f"{what}, {way}", *(cell or "" for cell in cells))
    for way, cells in found.items():
        yield row(way, *(text(cell, limit) for cell in cells))
    if tuple(numbers) == PAPER_SYSTEMS:
        yield row("**the paper**", *("" for _ in numbers))
        paper = PAPER_TABLES[name]
        yield row("updates", *(f"{each:,}" for each in paper.updates))
        yield row("downdates", *(f"{each:,}" for each in paper.downdates))
        for way, seconds in paper.seconds.items():
            yield row(way, *map(three_digits, seconds))


def crossings(
    name: str, found: Mapping[str, Column], numbers: Sequence[int]
) -> Iterator[str]:
    """The number of systems from which a GPU is faster: in the paper, and measured."""
    found_at = since(PAPER_TABLES[name].crossing)
    yield f"By interpolation in the paper's table, its GPU is faster {found_at}."
    if GPU_WAY in found:
        pair = (seconds_of(found[way]) for way in (GPU_WAY, "auto"))
        yield f"Here, `auto` is faster on the GPU {since(crossing(numbers, *pair))}."
    yield ""


def seconds_of(cells: Column) -> list[float]:
    return [cell.seconds for cell in cells]


def since(systems: float | None) -> str:
    if systems is None:
        return "for no number of systems"
    return f"from {systems:.0f} systems on"


Measured = dict[str, dict[str, Column]]
"""The columns of each way, for each experiment."""


def report(
    machine: Machine, study: Study, limit: float, measured: Measured
) -> Iterator[str]:
    """The report, line by line as it is measured; `measured` collects the columns."""
    yield from head("The tables of the NNLS paper", machine)
    yield ABOUT.format(limit=limit, cores=cores())
    for name, make in study.makers.items():
        yield f"## {TITLES[name]}\n"
        yield NOTES[name].format(waveforms=study.waveforms)
        systems = make(max(study.numbers))
        measured[name] = {
            way.name: column(machine, way, systems, study.numbers, limit)
            for way in ways(machine)
        }
        yield from crossings(name, measured[name], study.numbers)
        yield from table(name, measured[name], study.numbers, limit)
        yield ""
    if tuple(study.numbers) == PAPER_SYSTEMS:
        seconds = {
            name: {way: seconds_of(cells) for way, cells in found.items()}
            for name, found in measured.items()
        }
        yield from ratio_table(seconds)


# ---- the picture ---------------------------------------------------------------------

NO_GPU = "no GPU here: where one overtakes a CPU is known from the paper alone"


def draw(measured: Measured, numbers: Sequence[int], path: Path) -> None:
    """Draw time against systems: measured lines, and the paper's dashed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    panels = figure.subplots(1, len(measured), sharey=True, squeeze=False)[0]
    for panel, (name, found) in zip(panels, measured.items(), strict=True):
        for way in filter(found.__contains__, DRAWN):
            panel.plot(numbers, seconds_of(found[way]), "o-", label=way)
        for way, colour in (("GPU NNLS", "k"), ("CPU NNLS", "0.6")):
            seconds = PAPER_TABLES[name].seconds[way]
            style = {"color": colour, "label": f"the paper's {way}"}
            panel.plot(PAPER_SYSTEMS, seconds, "--", **style)
        if (at := PAPER_TABLES[name].crossing) is not None:
            panel.axvline(at, color="k", linewidth=0.5)
            place = {"transform": panel.get_xaxis_transform(), "ha": "right"}
            panel.text(at, 0.01, f"{at:.0f} ", **place)
        title = TITLES[name].partition(":")[0]
        panel.set(xscale="log", yscale="log", xlabel="systems", title=title)
    panels[0].set_ylabel("seconds")
    lines = panels[-1].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=len(lines[0]), fontsize=8)
    has_gpu = any(GPU_WAY in found for found in measured.values())
    figure.suptitle("measured, and the paper's" if has_gpu else NO_GPU, size=10)
    figure.savefig(path)


# ---- the command line ----------------------------------------------------------------


class Study(NamedTuple):
    """What is solved.

    Attributes
    ----------
    makers : dict
        For each experiment, the function from a number to that many systems.
    numbers : tuple of int
        Of systems, increasing.
    waveforms : str
        The source of the waveforms of the first experiment.
    """

    makers: dict[str, Callable[[int], Systems]]
    numbers: Sequence[int]
    waveforms: str


def chosen(options: argparse.Namespace) -> Study:
    """The experiments, as the options want them."""
    is_small = options.quick or options.emulate
    makers: dict[str, Callable[[int], Systems]] = {
        name: partial(make, size=QUICK_SIZE if is_small else PAPER_SIZES[name])
        for name, make in EXPERIMENTS.items()
    }
    numbers = options.systems or (QUICK_SYSTEMS if is_small else PAPER_SYSTEMS)
    if options.lvis is None:
        return Study(makers, sorted(numbers), "simulated, see waveform_counts.md")
    import lvis

    makers["deconvolution"] = lambda count: lvis.systems(lvis.read(options.lvis, count))
    return Study(makers, sorted(numbers), f"from `{options.lvis.name}`")


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--systems", type=count, nargs="+", help="numbers of systems")
    made.add_argument("--repeats", type=int, default=5, help="after the first")
    made.add_argument("--limit", type=float, default=10.0, help="seconds of a call")
    made.add_argument("--lvis", type=Path, help="level-1B file, HDF5, for table 7.1")
    made.add_argument("--quick", action="store_true", help="a few small systems")
    made.add_argument("--picture", type=Path, help="draw time against systems here")
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats)
    study, measured = chosen(options), Measured()
    publish(report(machine, study, options.limit, measured), options.output)
    if options.picture:
        draw(measured, study.numbers, options.picture)


if __name__ == "__main__":
    main()
