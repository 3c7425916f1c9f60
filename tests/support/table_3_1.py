"""Table 3.1 of Luo & Duraiswami: what updates and downdates of a QR factorisation cost.

The formulas as printed, and the formulas that equal the counts of
``gpusolve.studies.qr_updating``; and the cost of all changes of a solve by them.
"""

from __future__ import annotations

import copy
from pathlib import Path
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
    name : str
        As "MGS/up/reorder": "up" inserts, "down" removes; "reorder" inserts at the end.
    printed, correct : Formulas
        The paper's formulas, and the formulas that equal the counts.
    """

    name: str
    printed: Formulas
    correct: Formulas

    @property
    def method(self) -> str:
        """Of `qr_updating`; the Givens downdate belongs to MGS."""
        return self.name.partition("/")[0] if self.inserts else "MGS"

    @property
    def reordered(self) -> bool:
        return not self.name.endswith("unorder")

    @property
    def inserts(self) -> bool:
        return "/up/" in self.name

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


def read_table() -> dict[str, Change]:
    """The rows of ``table_3_1.txt``."""
    formulas: dict[str, dict[str, Formulas]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        place, _, texts = line.partition(": ")
        name, kind = place.split()
        formulas.setdefault(name, {})[kind] = Formulas(*texts.split(" ; "))
    return {name: Change(name, **kinds) for name, kinds in formulas.items()}


TABLE = read_table()


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
