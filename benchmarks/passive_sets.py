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
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from experiments import (
    EXPERIMENTS,
    PAPER_COUNTS,
    PaperCounts,
    Systems,
    shifted_gaussians,
)
from harness import choose, count, head, parser, publish, row, table_head
from nnls_cases import PAPER_SIZES
from numpy.typing import NDArray
from qr_updating import TABLE, operations

from gpusolve.reference._nnls_qr import DEPENDENT, PassiveQR
from gpusolve.studies._qr_updating import METHODS, Costs

Floats = NDArray[np.floating[Any]]

TOLERANCE = 1e-10
"""Gradients up to this end the method. Those of the experiments begin at 1 or more."""


# ---- Algorithm 1 ---------------------------------------------------------------------


class Change(NamedTuple):
    """A column enters or leaves the passive set.

    Attributes
    ----------
    enters : bool
    variable : int
    length : int
        The number of passive columns before the change.
    reordered, ordered : int
        The position of the column, from 1: in the list to whose end columns are
        appended, and in the order of A.
    """

    enters: bool
    variable: int
    length: int
    reordered: int
    ordered: int


def gradient(w: Floats, norm: Floats) -> Floats:
    return w


def gradient_per_norm(w: Floats, norm: Floats) -> Floats:
    return w / norm


Rule = Callable[[Floats, Floats], Floats]
"""How a column is chosen: by the largest of these numbers, from the negative gradients
and the norms of the columns."""

RULES: dict[str, Rule] = {
    "gradient, the paper's": gradient,
    "gradient per norm, gpusolve's": gradient_per_norm,
}


def follow(
    A: Floats, b: Floats, rule: Rule = gradient, tol: float = TOLERANCE
) -> list[Change]:
    """The changes of the passive set when Algorithm 1 solves a system.

    With two corrections of line 10: no minus, and only variables whose y is not
    positive. `tol` stands for the 0 of line 3.
    """
    norm, n = np.linalg.norm(A, axis=0), A.shape[1]
    factors = PassiveQR(min(A.shape), b, norm)
    dependent = DEPENDENT * float(np.finfo(A.dtype).eps)
    x, changes = np.zeros(n, A.dtype), []

    def note(enters: bool, position: int, variable: int) -> None:
        before = 1 + int((factors.passive < variable).sum())
        changes.append(Change(enters, variable, factors.length, position + 1, before))

    while True:
        w = A.T @ (b - A @ x)
        w[factors.passive] = 0
        if not w.max() > tol:
            return changes
        j = int(np.argmax(rule(w, norm)))
        note(True, factors.length, j)
        if not factors.append(j, 0.0, A[:, j], 0.0, dependent, 1.0, -np.inf):
            raise ValueError(f"column {j} depends on the passive columns")
        while True:
            y, passive = factors.solve(factors.rhs[factors.used]), factors.passive
            low = np.flatnonzero(y <= 0)
            if not len(low):
                break
            before = x[passive]
            steps = before[low] / (before[low] - y[low])
            x[passive] = np.maximum(before + steps.min() * (y - before), 0)
            x[passive[low[np.argmin(steps)]]] = 0
            for p in map(int, low[x[passive[low]] == 0][::-1]):
                note(False, p, int(factors.passive[p]))
                factors.remove(p, 0.0)
        x[:] = 0
        x[factors.passive] = y


Run = list[Change]
"""All changes of one system."""


def follow_each(
    systems: Systems, rule: Rule = gradient, tol: float = TOLERANCE
) -> list[Run]:
    """The changes of each system of a batch, which may share a matrix."""
    A, b = systems
    every = np.broadcast_to(A, (len(b), *A.shape[-2:]))
    return [follow(*one, rule, tol) for one in zip(every, b, strict=True)]


# ---- how many enter, and how many leave ----------------------------------------------


class Means(NamedTuple):
    """Updates, downdates, and positive variables at the end, per system."""

    updates: float
    downdates: float
    positive: float


def each_count(runs: Iterable[Run]) -> NDArray[np.float64]:
    """The numbers of `Means` for each system."""
    entered = [(sum(one.enters for one in run), len(run)) for run in runs]
    return np.array([(up, all_ - up, 2 * up - all_) for up, all_ in entered], float)


def means(runs: Iterable[Run]) -> tuple[Means, Means]:
    """The means over the systems, and their standard errors."""
    each = each_count(runs)
    deviations = each.std(axis=0, ddof=min(1, len(each) - 1))
    return Means(*each.mean(axis=0)), Means(*deviations / np.sqrt(len(each)))


def count_cells(runs: Iterable[Run]) -> list[str]:
    return [f"{mean:.2f} ± {error:.2f}" for mean, error in zip(*means(runs))]


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
        Those of `shifted_gaussians`.
    rule, tol
        Those of `follow`.
    """

    change: Callable[[Floats, Floats], tuple[Floats, Floats]] = lambda A, b: (A, b)
    options: Mapping[str, Any] = {}
    rule: Rule = gradient
    tol: float = TOLERANCE


def single(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    return A.astype(np.float32), b.astype(np.float32)


def quantiles(distribution: str) -> Variation:
    """Uniform b become those of another distribution of ``scipy.stats``."""

    def change(A: Floats, b: Floats) -> tuple[Floats, Floats]:
        from scipy import stats

        return A, getattr(stats, distribution).ppf(b)

    return Variation(change)


def random_means(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Means are drawn uniformly, not at every sample."""
    size = len(A)
    means = size * np.random.default_rng(1).random(size)
    return np.exp(-0.5 * ((np.arange(size)[:, None] - means) / SIGMA) ** 2), b


def circular(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The columns are shifted around the ends."""
    return np.array([np.roll(A[:, len(A) // 2], k) for k in range(len(A))]).T, b


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
    "b half-normal": quantiles("halfnorm"),
    "b exponential": quantiles("expon"),
    "random means": Variation(random_means),
    "shifts around the ends": Variation(circular),
    "432 samples and columns": Variation(options={"size": 432}),
    "sigma = 5.12, 1 % of the samples": Variation(options={"sigma": 5.12}),
}
"""From top to bottom: the rule, the end, the vectors, the means, the size, the width."""


def varied(systems: int, one: Variation) -> list[Run]:
    """The changes of some systems of another experiment than in Table 7.2."""
    made = one.change(*shifted_gaussians(systems, **one.options))
    return follow_each(made, one.rule, one.tol)


# ---- where columns leave -------------------------------------------------------------


def parts(runs: Iterable[Run], reordered: bool = True) -> NDArray[np.float64]:
    """For each removed column, the part of the list before its middle: from 0 to 1."""
    removed = [one for run in runs for one in run if not one.enters]
    places = [one.reordered if reordered else one.ordered for one in removed]
    lengths = [one.length for one in removed]
    return (np.array(places) - 0.5) / lengths


# ---- what all changes cost -----------------------------------------------------------


def spent(run: Run, rows: int, method: str, reordered: bool) -> tuple[Costs, Costs]:
    """What the updates and the downdates of a system cost, by Table 3.1 as corrected.

    Parameters
    ----------
    rows : int
        Of A.
    method, reordered
        Those of ``gpusolve.studies.qr_updating``.
    """
    updates, downdates = Costs(0, 0, 0), Costs(0, 0, 0)
    for one in run:
        at = rows, one.length, one.reordered if reordered else one.ordered
        if one.enters:
            updates = added(updates, insertion(method, *at))
        else:
            downdates = added(downdates, removal(method, *at))
    return updates, downdates


def added(one: Costs, other: Costs) -> Costs:
    return Costs(*map(sum, zip(one, other, strict=True)))


def insertion(method: str, m: int, length: int, i: int) -> Costs:
    order = "reorder" if i == length + 1 else "unorder"
    return TABLE[f"{method}/up/{order}"].correct.at(m, length, i)


def removal(method: str, m: int, length: int, i: int) -> Costs:
    """The Givens downdate: of a square Q, of one with l columns, or of R alone."""
    if i == length:
        return Costs(0, 0, 0)
    printed, found = (formulas.at(m, length, i) for formulas in TABLE["Rot/down/NA"][3:5])
    if method == "CSNE":
        return Costs(found.accesses // 2, 0, found.flops_of_r)
    return found._replace(accesses=printed.accesses) if method == "Rot" else found


# ---- the report ----------------------------------------------------------------------
