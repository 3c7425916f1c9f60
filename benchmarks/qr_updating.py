"""Count what updates and downdates of a QR factorisation cost: Table 3.1 of the paper.

    python benchmarks/qr_updating.py --output FILE --plot PICTURE

Section 3 of Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on
Multi-Core Architectures". ``gpusolve.studies.qr_updating`` has the methods, and counts
transfers and operations as they happen. Nothing is timed. Results are Markdown.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness import publish, row, table_head
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gpusolve.studies import qr_updating
from gpusolve.studies._qr_updating import METHODS, ChangingQR, Costs
from gpusolve.studies.experiments import gaussian_columns

Floats = NDArray[np.float64]

Curves = dict[str, dict[int, Costs]]
"""Costs by the name of the change and the position."""


# ---- Table 3.1 -----------------------------------------------------------------------


class Formulas(NamedTuple):
    """Column and row accesses, and operations on Q and on R.

    In the number m of rows, the number l of passive columns before the change, and the
    position i of the column that is inserted or removed, counted from 1. If there is
    nothing to rotate, the accesses are fewer.
    """

    accesses: str
    flops_of_q: str
    flops_of_r: str = "0"

    def at(self, m: int, length: int, i: int) -> Costs:
        numbers = {"m": m, "l": length, "i": i}
        return Costs(*(int(eval(text, {}, numbers)) for text in self))


class Change(NamedTuple):
    """A row of Table 3.1: how a column is inserted or removed.

    Attributes
    ----------
    method : str
        Of `qr_updating`.
    reordered : bool
        Whether columns are inserted at the end.
    inserts : bool
        Whether a column is inserted; otherwise a column is removed.
    printed, correct : Formulas
        The paper's formulas, and the formulas that equal the counts.
    faults : tuple of str
        What contradicts the paper's own text or another row, or cannot be.
    choices : tuple of str
        Other differences: other steps, or other ways to count.
    """

    method: str
    reordered: bool
    inserts: bool
    printed: Formulas
    correct: Formulas
    faults: tuple[str, ...]
    choices: tuple[str, ...]

    def positions(self, length: int) -> range:
        """The positions at which a column is inserted or removed.

        The last position of an ordered list is left out, and so is the last column,
        which leaves at no cost.
        """
        if not self.inserts:
            return range(1, length)
        if self.reordered:
            return range(length + 1, length + 2)
        return range(1, length + 1)


SECOND_PRODUCT = (
    "Algorithm 2 as printed has exactly 6 m l + 3 m + 1 operations. Its line 4 takes R "
    "from a second product with each column of Q. The product of line 3 is the same "
    "number, but for rounding, and saves 2 m operations for each column."
)
ROTATIONS = (
    "A rotation costs 8 operations on the new column here, and 6 in the downdate. 6 "
    "suffice for both: the new entry is the hypotenuse."
)
TRIANGLE = (
    "The rotations of the l - i + 1 columns to the right: each column has one rotation "
    "more than its left neighbour, in all (l - i + 1) (l - i + 2) / 2. The paper has a "
    "minus instead of the last plus: -6 operations instead of 6 for i = l."
)
SOLVES = (
    "The text has four triangular solves, and l reads of R for each; the total has 2 l "
    "for all. Four solves take 4 l^2 operations; the paper has 3 l^2 + 3 l for all of "
    "them and R z, which is less for l > 3."
)
PRODUCTS = (
    "A product with A takes 2 m l operations; the paper has 2 m^2, an upper bound. "
    "(3.2) has three. The fourth, A^T s, is missing: it has m reads more here, none if "
    "s and A^T s are computed in one pass over the rows."
)

TABLE = {
    "MGS/up/reorder": Change(
        "MGS",
        True,
        True,
        Formulas("l + 2", "6*m*l + 3*m + 1"),
        Formulas("l + 2", "4*m*l + 3*m + 1"),
        (),
        (SECOND_PRODUCT,),
    ),
    "MGS/up/unorder": Change(
        "MGS",
        False,
        True,
        Formulas("l*(l - i + 2) + 2*(l - i + 2)", "(3*m*l + 3*m*i + 1) * (l - i + 2)"),
        Formulas(
            "(l + i + 3) * (l - i + 2) / 2 + l - i + 1",
            "(2*m*l + 2*m*i + m + 1) * (l - i + 2)",
        ),
        (
            "Each of the l - i + 2 columns is charged l reads of Q. The column at "
            "position p needs the p - 1 columns before it, as the operations in the "
            "same row say. The l - i + 1 columns that are inserted again are read from "
            "A, which is not charged. Together, (l - i) (l - i + 1) / 2 accesses too "
            "many.",
        ),
        (SECOND_PRODUCT,),
    ),
    "Rot/up/reorder": Change(
        "Rot",
        True,
        True,
        Formulas("2*(m - l - 1)", "6*m*(m - l - 1)", "2*m**2 + 8*(m - l - 1)"),
        Formulas("3*m - 2*l + 1", "6*m*(m - l - 1)", "2*m**2 + 6*(m - l - 1)"),
        (
            "The m reads of the product with Q^T are left out; so are a read and a "
            "write of the column that all rotations share, and the write of the new "
            "column of R, which the text names. For l = m - 1, no access remains.",
        ),
        (ROTATIONS,),
    ),
    "Rot/up/unorder": Change(
        "Rot",
        False,
        True,
        Formulas(
            "4*(m - l - 1)",
            "6*m*(m - i)",
            "2*m**2 + 8*(m - i) + 6*(l - i + 1)*(l/2 - i/2 - 1)",
        ),
        Formulas(
            "3*m + 2*l - 4*i + 6",
            "6*m*(m - i)",
            "2*m**2 + 6*(m - i) + 3*(l - i + 1)*(l - i + 2)",
        ),
        (
            "The accesses do not depend on i, though the text says that they do, with "
            "a total of 2 (m - i): m - i columns of Q and l - i + 1 rows of R are read "
            "and written. And again the product, the shared column and the new column "
            "are left out.",
            TRIANGLE,
        ),
        (ROTATIONS,),
    ),
    "CSNE/up/reorder": Change(
        "CSNE",
        True,
        True,
        Formulas("3*m + 2*l + 1", "0", "6*m**2 + 4*m + 1 + 3*l**2 + 3*l"),
        Formulas("4*m + 5*l + 1", "0", "8*m*l + 4*m + 1 + 5*l**2 + 2*l"),
        (SOLVES,),
        (
            PRODUCTS,
            "The product R z reads l columns more and takes l^2 + l operations. It can "
            "be saved: R z is the sum of what the two forward substitutions give.",
        ),
    ),
    "CSNE/up/unorder": Change(
        "CSNE",
        False,
        True,
        Formulas(
            "3*m + 4*l - 2*i + 1",
            "0",
            "6*m**2 + 4*m + 1 + 3*l**2 + 6*(l - i + 1)*(l/2 - i/2 - 1) + 6*l - 3*i",
        ),
        Formulas(
            "4*m + 7*l - 2*i + 4",
            "0",
            "8*m*l + 4*m + 1 + 5*l**2 + 2*l + 3*(l - i + 1)*(l - i + 4)",
        ),
        (
            SOLVES,
            "The new column has l + 1 entries, so l - i + 1 rotations, not l - i; they "
            "read that many rows, and write a row more. The paper has 3 operations for "
            "the coefficients of a rotation here, and 6 in the downdate.",
            TRIANGLE,
        ),
        (PRODUCTS,),
    ),
    "Rot/down/NA": Change(
        "MGS",
        True,
        False,
        Formulas(
            "4*(l - i + 1)",
            "6*m*(m - i)",
            "6*(l - i) + 6*(l - i + 1)*(l/2 - i/2 - 1)",
        ),
        Formulas("4*(l - i) + 2", "6*m*(l - i)", "6*(l - i) + 3*(l - i)*(l - i - 1)"),
        (
            "l - i rotations, as the text says, not m - i: this m is a misprint.",
            "The number of rotated pairs is (l - i) (l - i - 1) / 2. The paper has a "
            "pair less: -6 operations instead of 0 for the last column.",
        ),
        (
            "The shared column and row leave, so they need not be written back. With a "
            "square Q they stay in the basis, and the paper's accesses are right.",
        ),
    ),
}


# ---- counts --------------------------------------------------------------------------


def spaced(method: str, reordered: bool, m: int, length: int) -> ChangingQR:
    """A factorisation of the columns 1, 3, 5, ... of a random matrix."""
    A = np.random.default_rng(0).standard_normal((m, 2 * length + 1))
    made = qr_updating(A, method, reordered=reordered)
    for variable in range(1, 2 * length, 2):
        made.update(variable)
    return made


def cost(change: Change, start: ChangingQR, i: int) -> Costs:
    """Count an insertion at position i, from 1, or a removal from there."""
    changed = copy.deepcopy(start)
    if change.inserts:
        changed.update(2 * (i - 1))
    else:
        changed.remove(i - 1)
    return changed.costs - start.costs


class Errors(NamedTuple):
    """The largest elements of ``Q^T Q - I`` and ``Q R - A[:, passive]``."""

    orthogonality_error: float
    product_error: float


def errors(changed: ChangingQR) -> Errors:
    Q, R = changed.factors()
    apart = (
        Q.T @ Q - np.eye(changed.length),
        Q @ R - changed.A.values[:, changed.passive],
    )
    return Errors(*(float(np.abs(part).max(initial=0)) for part in apart))


def edited(changed: ChangingQR, edits: int, seed: int = 0) -> Errors:
    """Insert or remove variables at random; the largest errors."""
    found = []
    for variable in np.random.default_rng(seed).integers(
        changed.A.values.shape[1], size=edits
    ):
        change = changed.downdate if variable in changed.passive else changed.update
        change(int(variable))
        found.append(errors(changed))
    return Errors(*map(max, zip(*found, strict=True)))


# ---- the report ----------------------------------------------------------------------

EDITS = 300
"""Random changes: every variable enters and leaves several times."""
ROWS, PASSIVE = 128, 48
"""The size at which costs are compared with the position."""

ABOUT = """\
# Updates and downdates of a QR factorisation

Table 3.1 of Luo & Duraiswami: the costs of a change of one column, for m rows, l
passive columns before the change, and the position i, from 1. "reorder" inserts at the
end (i = l + 1), "unorder" in the order of A. MGS is the update by modified Gram-Schmidt
(Algorithm 2), Rot are rotations (section 3.2, and the Givens downdate of section 3.4),
CSNE are the corrected semi-normal equations (section 3.3).

The formulas "counted" equal the counts of `gpusolve.studies.qr_updating`, by a test:
`tests/benchmarks/test_qr_updating.py`. Operations and accesses are counted as they
happen; no figure here is a time. An access reads or writes a column or a row of Q, R or
A. The new column itself is given; columns that are inserted again are read from A. If
nothing is rotated, no column is shared: Rot/up/reorder has m + 1 accesses for
l = m - 1, and Rot/down none for i = l.
"""

CONCLUSION = """
The paper concludes that the MGS update with reordering costs least for all l <= m. It
has the fewest accesses, for l < m. It has the fewest operations for l up to about
0.8 m, by the printed formulas for l up to 2/3 m; beyond, rotations have fewer. If few
variables of a solution are positive, the choice is right. It also makes the downdate
cheap: Q has l columns, not m.

An insertion in the middle need not append all later columns again, as MGS/up/unorder
does: the column can be appended, and then rotated up to its position, for
6 m (l - i + 1) operations on Q.
"""

ABOUT_ERRORS = f"""
## Errors after {EDITS} random edits

The largest elements after any edit. CSNE does without Q: here Q is A R^-1. So Q R = A
says nothing, and Q'Q = I says that R is right. The Gaussians overlap: their condition
number is 1e7. Each MGS update then loses orthogonality, which the downdates do not
restore. With reordering the errors add up; without it, most columns are orthogonalised
again at each insertion. Rotations lose nothing. Therefore `passive_qr.cuh`, with
which the package solves, orthogonalises a second time where much cancels.
"""


def formula_table() -> Iterator[str]:
    names = "accesses", "operations on Q", "operations on R"
    yield from table_head("", "", *names, words=5)
    for name, change in TABLE.items():
        yield row(name, "printed", *map(shown, change.printed))
        yield row("", "counted", *map(shown, change.correct))


def shown(formula: str) -> str:
    """A formula in the notation of the text."""
    return f"`{formula.replace('**', '^').replace(' * ', ' ').replace('*', ' ')}`"


def reasons(field: str) -> Iterator[str]:
    """The faults or the choices of the rows that have any."""
    for name, change in TABLE.items():
        if texts := getattr(change, field):
            yield f"\n{name}:\n"
            yield from (f"- {text}" for text in texts)


def curves(m: int = ROWS, length: int = PASSIVE) -> Curves:
    """The counted costs of each change by its position."""
    found = {}
    for name, change in TABLE.items():
        start = spaced(change.method, change.reordered, m, length)
        found[name] = {i: cost(change, start, i) for i in change.positions(length)}
    return found


def operations(costs: Costs) -> int:
    return costs.flops_of_q + costs.flops_of_r


def position_table(found: Curves) -> Iterator[str]:
    """Operations and accesses at some positions; the same for all if reordered."""
    last = max(found["Rot/down/NA"])
    positions = [1 + quarter * (last - 1) // 4 for quarter in range(5)]
    yield from table_head("", *(f"i = {i}" for i in positions))
    for name, curve in found.items():
        always = next(iter(curve.values()))
        chosen = [curve.get(i, always) for i in positions]
        yield row(
            name, *(f"{operations(costs):,} ({costs.accesses:,})" for costs in chosen)
        )


def error_table() -> Iterator[str]:
    """The errors after random edits, for two kinds of columns."""
    matrices = {"random": random_columns(), "Gaussians": gaussian_columns()}
    heads = (f"{name}, {what}" for name in matrices for what in ("Q'Q - I", "QR - A"))
    yield from table_head("", *heads)
    for method, reordered in product(METHODS, (True, False)):
        found = [
            edited(qr_updating(A, method, reordered=reordered), EDITS)
            for A in matrices.values()
        ]
        cells = (f"{value:.0e}" for errors in found for value in errors)
        yield row(f"{method}/{'reorder' if reordered else 'unorder'}", *cells)


def random_columns() -> Floats:
    return np.random.default_rng(1).standard_normal((48, 24))


def report(found: Curves) -> Iterator[str]:
    """The report, line by line."""
    yield ABOUT
    yield from formula_table()
    yield "\n## Faults of the table\n"
    yield "Six rows contradict the paper's text or another row, or cannot be."
    yield from reasons("faults")
    yield "\n## Other differences\n"
    yield "These are not faults: other steps, or other ways to count."
    yield from reasons("choices")
    yield CONCLUSION
    yield "## Cost against position\n"
    yield f"Operations (and accesses), counted for m = {ROWS}, l = {PASSIVE}.\n"
    yield from position_table(found)
    yield ABOUT_ERRORS
    yield from error_table()


def draw(found: Curves) -> Figure:
    """A plot of operations and accesses against the position."""
    figure = Figure(figsize=(9.5, 4), layout="constrained")
    quantities = {"operations": operations, "accesses": lambda costs: costs.accesses}
    for axis, (title, quantity) in zip(
        figure.subplots(1, 2), quantities.items(), strict=True
    ):
        for number, (name, curve) in enumerate(found.items()):
            values = [quantity(costs) for costs in curve.values()]
            line = f"C{number // 2}{'--' if len(values) == 1 else '-'}"
            ends = [1, max(curve)]
            places = list(curve) if len(values) > 1 else ends
            axis.plot(places, np.resize(values, len(places)), line, label=name)
        axis.set(xlabel="position i", title=title, yscale="log")
    axis.legend(fontsize="small")
    return figure


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="also write the report here")
    parser.add_argument("--plot", type=Path, help="draw cost against position here")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    found = curves()
    publish(report(found), options.output)
    if options.plot:
        draw(found).savefig(options.plot)


if __name__ == "__main__":
    main()
