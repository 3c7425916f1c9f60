"""Follow the passive sets of the NNLS paper's experiments: what enters, what leaves.

    python benchmarks/passive_sets.py --output FILE

Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
Architectures": their Algorithm 1 takes the column with the largest gradient, gpusolve
that with the largest gradient per norm. Both rules are counted here. So are other
experiments than Table 7.2 describes, to find the experiment that has its counts; the
places that columns leave; and what all changes of a solve cost by Table 3.1. Nothing is
timed. Results are Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from harness import choose, count, head, parser, publish, row, table_head
from nnls_cases import PAPER_SIZES
from numpy.typing import NDArray
from qr_updating import TABLE, operations
from scipy.special import ndtri

from gpusolve._device.threads import one_blas_thread
from gpusolve.studies import follow
from gpusolve.studies._passive_sets import (
    TOLERANCE,
    Change,
    Rule,
    gradient,
    gradient_per_norm,
)
from gpusolve.studies._qr_updating import METHODS, Costs
from gpusolve.studies.experiments import (
    EXPERIMENTS,
    PAPER_COUNTS,
    PaperCounts,
    shifted_gaussians,
)

Floats = NDArray[np.floating[Any]]

# ---- Algorithm 1 ---------------------------------------------------------------------


RULES: dict[str, Rule] = {
    "gradient, the paper's": gradient,
    "gradient per norm, gpusolve's": gradient_per_norm,
}


Run = list[Change]
"""All changes of one system."""


def follow_each(
    systems: tuple[Floats, Floats], rule: Rule = gradient, tol: float = TOLERANCE
) -> list[Run]:
    """The changes of each system of a batch, which may share a matrix."""
    A, b = systems
    every = np.broadcast_to(A, (len(b), *A.shape[-2:]))
    with one_blas_thread():
        return [follow(*system, rule, tol) for system in zip(every, b, strict=True)]


# ---- how many enter, and how many leave ----------------------------------------------


class Means(NamedTuple):
    """Updates, downdates, and positive variables at the end, per system."""

    updates: float
    downdates: float
    positive: float


def each_count(runs: Iterable[Run]) -> NDArray[np.float64]:
    """The numbers of `Means` for each system."""
    entered = [(sum(change.enters for change in run), len(run)) for run in runs]
    return np.array([(up, all_ - up, 2 * up - all_) for up, all_ in entered], float)


def means(runs: Iterable[Run]) -> tuple[Means, Means]:
    """The means over the systems, and their standard errors."""
    each = each_count(runs)
    deviations = each.std(axis=0, ddof=min(1, len(each) - 1))
    return Means(*each.mean(axis=0)), Means(*deviations / np.sqrt(len(each)))


def count_cells(runs: Iterable[Run]) -> list[str]:
    both = zip(*means(runs), strict=True)
    return [f"{mean:.2f} ± {error:.2f}" for mean, error in both]


def paper_cells(paper: PaperCounts) -> list[str]:
    positive = paper.updates - paper.downdates
    return [f"{mean:.2f}" for mean in (*paper, positive)]


# ---- what may have been solved in Table 7.2 ------------------------------------------


class Variation(NamedTuple):
    """What is changed of the experiment of Table 7.2.

    Attributes
    ----------
    change : callable
        Of A and b.
    options : dict
        Options of `shifted_gaussians`.
    rule, tol
        Arguments of `follow`.
    """

    change: Callable[[Floats, Floats], tuple[Floats, Floats]] = lambda A, b: (A, b)
    options: Mapping[str, Any] = {}
    rule: Rule = gradient
    tol: float = TOLERANCE


def single(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    return A.astype(np.float32), b.astype(np.float32)


def half_normal(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Uniform numbers b become magnitudes of normal numbers."""
    return A, ndtri((1 + b) / 2)


def exponential(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    return A, -np.log1p(-b)


def random_means(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Means are drawn uniformly, not at every sample."""
    size = len(A)
    means = size * np.random.default_rng(1).random(size)
    return np.exp(-0.5 * ((np.arange(size)[:, None] - means) / SIGMA) ** 2), b


def circular(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The columns are shifted around the ends."""
    half = len(A) // 2
    return np.array([np.roll(A[:, half], k - half) for k in range(len(A))]).T, b


SIGMA = 4.32
"""The width that the paper gives, in samples."""

MATLAB_TOLERANCE = 10 * float(np.finfo(np.float32).eps) * 10.83 * 512
"""Of its ``lsqnonneg`` in single precision: ``10 eps |A|_1 max(m, n)``."""

VARIATIONS = {
    "as the paper says, and b uniform in [0, 1)": Variation(),
    "by the gradient per norm": Variation(rule=gradient_per_norm),
    "in float32, until no gradient is positive": Variation(single, tol=0.0),
    "in float32, with the tolerance of Matlab": Variation(single, tol=MATLAB_TOLERANCE),
    "until gradients are below 0.001": Variation(tol=1e-3),
    "until gradients are below 0.05": Variation(tol=0.05),
    "b half-normal": Variation(half_normal),
    "b exponential": Variation(exponential),
    "random means": Variation(random_means),
    "shifts around the ends": Variation(circular),
    "432 samples and columns": Variation(options={"size": 432}),
    "sigma = 5.12, 1 % of the samples": Variation(options={"sigma": 5.12}),
}
"""From top to bottom: the rule, the end, the vectors, the means, the sizes."""


def varied(systems: int, variation: Variation) -> list[Run]:
    """The changes of some systems of another experiment than in Table 7.2."""
    made = variation.change(*shifted_gaussians(systems, **variation.options))
    return follow_each(made, variation.rule, variation.tol)


# ---- where columns leave -------------------------------------------------------------


def parts(runs: Iterable[Run], reordered: bool = True) -> NDArray[np.float64]:
    """For each removed column, the part of the list before its middle: from 0 to 1."""
    removed = [change for run in runs for change in run if not change.enters]
    places = [change.reordered if reordered else change.ordered for change in removed]
    lengths = [change.length for change in removed]
    return (np.array(places) - 0.5) / lengths


# ---- what all changes cost -----------------------------------------------------------


def spent(run: Run, rows: int, method: str, reordered: bool) -> tuple[Costs, Costs]:
    """What the updates and the downdates of a system cost, by Table 3.1 as corrected.

    Parameters
    ----------
    rows : int
        Of A.
    method, reordered
        Arguments of ``gpusolve.studies.qr_updating``.
    """
    updates, downdates = Costs(0, 0, 0), Costs(0, 0, 0)
    for change in run:
        at = rows, change.length, change.reordered if reordered else change.ordered
        if change.enters:
            updates = added(updates, insertion(method, *at))
        else:
            downdates = added(downdates, removal(method, *at))
    return updates, downdates


def added(first: Costs, second: Costs) -> Costs:
    return Costs(*map(sum, zip(first, second, strict=True)))


def insertion(method: str, m: int, length: int, i: int) -> Costs:
    order = "reorder" if i == length + 1 else "unorder"
    return TABLE[f"{method}/up/{order}"].correct.at(m, length, i)


def removal(method: str, m: int, length: int, i: int) -> Costs:
    """The Givens downdate: of a square Q, of a Q with l columns, or of R alone."""
    if i == length:
        return Costs(0, 0, 0)
    change = TABLE["Rot/down/NA"]
    found, printed = (
        formulas.at(m, length, i) for formulas in (change.correct, change.printed)
    )
    if method == "CSNE":
        return Costs(found.accesses // 2, 0, found.flops_of_r)
    return found._replace(accesses=printed.accesses) if method == "Rot" else found


# ---- the report ----------------------------------------------------------------------

ABOUT = """\
{systems} systems of each kind; ± is a standard error over the systems. The method is
Algorithms 1 to 3 of the paper.

## Which column enters

The paper takes the column with the largest gradient, gpusolve that with the largest
gradient per norm of the column. Both end at the same positive variables. On random
matrices the paper's rule begins with a column that has a large norm, and mostly leaves
later: 8 times as many downdates, and as many as Table 7.3 has. The norms of the other
matrices are equal but at the ends, so there the rule hardly matters.

The counts of the waveforms agree with Table 7.1 because the end of the pulse was chosen
for that, see waveform_counts.md.
"""

ABOUT_SIGMA = f"""\
## Which experiment Table 7.2 counts

With sigma = {SIGMA}, as the paper says, there are 9 % more updates than in its table,
and 16 % more positive variables at the end. The number of positive variables depends on
A and b alone if the method reaches the solution. In each row a single property is
changed. The means are over {{systems}} systems.

Only the last row agrees with all three numbers: sigma = 5.12. That is 1 % of the 512
samples, and {SIGMA} is 1 % of the 432 samples of Table 7.1. So the experiment was
probably made with 5.12. It is not known from the text. The other files here keep
{SIGMA}.
"""

ABOUT_PLACES = """\
## Where columns leave

Removed columns by their place in the list: the part of them whose middle is in the last
half, in the last quarter and in the first quarter. "reordered" is the list to whose end
columns are appended, "as in A" the list in the order of A.

Columns leave from everywhere, and rather early than late: few from the last quarter of
the reordered list. For random matrices, mostly the very first columns leave.
"""

ABOUT_COSTS = """\
## What all changes of a solve cost

By the corrected formulas of Table 3.1, see qr_updating.md, for the counted changes:
accesses, and millions of operations, of a system; in brackets the part of the
downdates. Rotations keep a square Q, so their downdates cost more; CSNE keep none, so
theirs cost less. "First" is MGS with the list, if every removed column were the first
of the list, which costs most.

**The paper's choice is right, but not because late columns leave.** With the list the
removed columns stand further to the left than in the order of A, and each downdate
costs more. The updates save many times that. MGS with the list needs the fewest
accesses and operations in all three experiments, wherever columns leave from. CSNE come
next in operations, with up to 80 times as many accesses.
"""


def rule_table(found: Mapping[str, Mapping[str, list[Run]]]) -> Iterator[str]:
    yield from table_head("", "rule", *Means._fields, words=2)
    for name, by_rule in found.items():
        yield row(name, "the paper's counts", *paper_cells(PAPER_COUNTS[name]))
        for rule, runs in by_rule.items():
            yield row("", rule, *count_cells(runs))


def variation_table(systems: int) -> Iterator[str]:
    yield from table_head("", *Means._fields)
    yield row("the paper's counts", *paper_cells(PAPER_COUNTS["shifted_gaussians"]))
    for name, variation in VARIATIONS.items():
        yield row(name, *count_cells(varied(systems, variation)))


def place_table(found: Mapping[str, list[Run]]) -> Iterator[str]:
    heads = "removed", "last half", "last quarter", "first quarter"
    yield from table_head("", "list", *heads, words=2)
    for name, runs in found.items():
        for reordered in (True, False):
            at = parts(runs, reordered)
            shares = (at > 0.5, at > 0.75, at < 0.25)
            cells = (f"{share.mean():.0%}" if len(at) else "" for share in shares)
            order = "reordered" if reordered else "as in A"
            yield row("" if not reordered else name, order, len(at), *cells)


def cost_table(
    found: Mapping[str, list[Run]], sizes: Mapping[str, int]
) -> Iterator[str]:
    kinds = (f"{name}, {what}" for name in found for what in ("accesses", "operations"))
    yield from table_head("", *kinds)
    for method, reordered in product(METHODS, (True, False)):
        name = f"{method}/{'reorder' if reordered else 'unorder'}"
        yield cost_row(name, found, sizes, method, reordered)
    first = {kind: list(map(worst, runs)) for kind, runs in found.items()}
    yield cost_row("MGS/reorder, first", first, sizes, "MGS", True)


def cost_row(
    name: str,
    found: Mapping[str, list[Run]],
    sizes: Mapping[str, int],
    method: str,
    reordered: bool,
) -> str:
    cells: list[str] = []
    for kind, runs in found.items():
        cells += cost_cells(
            [spent(run, sizes[kind], method, reordered) for run in runs]
        )
    return row(name, *cells)


def worst(run: Run) -> Run:
    """The same changes, if each removed column were the first of the list."""
    return [change if change.enters else change._replace(reordered=1) for change in run]


def cost_cells(each: list[tuple[Costs, Costs]]) -> tuple[str, str]:
    """Mean accesses and millions of operations; the part of the downdates."""
    accesses = np.mean([[costs.accesses for costs in pair] for pair in each], axis=0)
    flops = np.mean([[operations(costs) for costs in pair] for pair in each], axis=0)
    share = [values[1] / values.sum() for values in (accesses, flops)]
    return (
        f"{accesses.sum():,.0f} ({share[0]:.0%})",
        f"{flops.sum() / 1e6:.3g} ({share[1]:.0%})",
    )


def report(systems: int, size: int | None) -> Iterator[str]:
    """The report, line by line."""
    yield from head(
        "Which columns enter and leave, in the paper's experiments", choose(cpu=True)
    )
    yield ABOUT.format(systems=systems)
    sizes = {name: size or PAPER_SIZES[name] for name in EXPERIMENTS}
    found = {
        name: {
            rule: follow_each(make(systems, size=sizes[name]), choice)
            for rule, choice in RULES.items()
        }
        for name, make in EXPERIMENTS.items()
    }
    yield from rule_table(found)
    papers = {name: next(iter(by_rule.values())) for name, by_rule in found.items()}
    yield f"\n{ABOUT_PLACES}"
    yield from place_table(papers)
    yield f"\n{ABOUT_COSTS}"
    yield from cost_table(papers, sizes)
    if size is None:
        fewer = max(1, systems // 4)
        yield "\n" + ABOUT_SIGMA.format(systems=fewer)
        yield from variation_table(fewer)


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--systems", type=count, default=192, help="of each kind")
    made.add_argument("--size", type=count, help="of all systems; else the paper's")
    return made.parse_args()


def main() -> None:
    options = arguments()
    publish(report(options.systems, options.size), options.output)


if __name__ == "__main__":
    main()
