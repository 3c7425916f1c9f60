"""Table 3.1 of Luo & Duraiswami: what updates and downdates of a QR factorisation cost.

The formulas as printed, and the formulas that equal the counts of
``gpusolve.studies.qr_updating``; and the cost of all changes of a solve by them.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from gpusolve.studies import qr_updating
from gpusolve.studies._passive_sets import Change as Exchange
from gpusolve.studies._qr_updating import ChangingQR, Costs


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
    """

    method: str
    reordered: bool
    inserts: bool
    printed: Formulas
    correct: Formulas

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


TABLE = {
    "MGS/up/reorder": Change(
        "MGS",
        True,
        True,
        Formulas("l + 2", "6*m*l + 3*m + 1"),
        Formulas("l + 2", "4*m*l + 3*m + 1"),
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
    ),
    "Rot/up/reorder": Change(
        "Rot",
        True,
        True,
        Formulas("2*(m - l - 1)", "6*m*(m - l - 1)", "2*m**2 + 8*(m - l - 1)"),
        Formulas("3*m - 2*l + 1", "6*m*(m - l - 1)", "2*m**2 + 6*(m - l - 1)"),
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
    ),
    "CSNE/up/reorder": Change(
        "CSNE",
        True,
        True,
        Formulas("3*m + 2*l + 1", "0", "6*m**2 + 4*m + 1 + 3*l**2 + 3*l"),
        Formulas("4*m + 5*l + 1", "0", "8*m*l + 4*m + 1 + 5*l**2 + 2*l"),
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


def operations(costs: Costs) -> int:
    return costs.flops_of_q + costs.flops_of_r


def spent(
    run: list[Exchange], rows: int, method: str, reordered: bool
) -> tuple[Costs, Costs]:
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
