"""Algorithm 1 of Luo & Duraiswami, change by change: what enters, leaves and costs.

Y. Luo and R. Duraiswami, *Efficient Parallel Non-Negative Least Squares on Multi-Core
Architectures*. ``_compared/mgs.py`` solves; the factorisation notes its changes here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._numerics.arithmetic import Indices, Mask
from .._numerics.system import scale
from ._compared.active_set import ActiveSetBatch
from ._compared.mgs import PassiveSolution
from ._qr_updating import Costs, GramSchmidtQR

Floats = NDArray[np.floating[Any]]

TOLERANCE = 1e-10
"""Gradients up to this end the method. In the experiments they begin at 1 or more."""

UNLIMITED = np.iinfo(np.int32).max


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
    costs : Costs
        Accesses and operations of the MGS update, or of the Givens downdate.
    """

    enters: bool
    variable: int
    length: int
    reordered: int
    ordered: int
    costs: Costs


Rule = Callable[[Floats, Floats], Floats]
"""How a column is chosen: by the largest of these numbers, from the negative gradients
and the norms of the columns."""


def gradient(w: Floats, norm: Floats) -> Floats:
    """The paper's rule."""
    return w


def gradient_per_norm(w: Floats, norm: Floats) -> Floats:
    """The rule of this package: the column of steepest descent."""
    return w / norm


class NotedQR(GramSchmidtQR):
    """A factorisation that notes its changes, but for columns that it refuses."""

    def __init__(self, A: Floats) -> None:
        super().__init__(np.asarray(A, np.float64), printed=True)
        self.changes: list[Change] = []

    def update(self, variable: int) -> None:
        self.note(True, variable, self.length, super().update)

    def downdate(self, variable: int) -> None:
        if self.changes and self.changes[-1][:2] == (True, variable):
            super().downdate(variable)
            self.changes.pop()
        else:
            self.note(False, variable, self.passive.index(variable), super().downdate)

    def note(
        self, enters: bool, variable: int, place: int, change: Callable[[int], None]
    ) -> None:
        """Make a change, and note it."""
        before = self.costs
        ordered = sum(one < variable for one in self.passive)
        where = self.length, place + 1, ordered + 1
        change(variable)
        noted = Change(enters, variable, *where, self.costs - before)
        self.changes.append(noted)


def follow(
    A: Floats, b: Floats, rule: Rule = gradient, tol: float = TOLERANCE
) -> list[Change]:
    """The changes of the passive set when Algorithm 1 solves a system.

    Columns are appended by modified Gram-Schmidt (Algorithm 2), and removed by Givens
    rotations (Algorithm 3). Line 10 is corrected twice: no minus, and only variables
    whose y is not positive. A variable that enters must become positive, which Lawson
    and Hanson ask for; a column that does not is left out.

    Parameters
    ----------
    A : (m, n) array
    b : (m,) array
    rule : callable, optional
        Which column enters; the paper's is the column of the largest gradient.
    tol : float, optional
        Stands for the 0 of line 3.

    See Also
    --------
    gpusolve.nnls : the same, as ``method="mgs"``.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[1.0, 0.9], [0.0, 0.3], [0.2, 0.0]])
    >>> for change in follow(A, np.array([1.0, 0.1, 0.4])):
    ...     print(change.enters, change.variable, change.costs)
    True 0 Costs(accesses=2, flops_of_q=10, flops_of_r=0)
    """
    system, norm = scale(A, b), np.linalg.norm(A, axis=0)
    solution = PassiveSolution(system)
    solution.factors = made = NotedQR(system.A)

    @np.errstate(divide="ignore", invalid="ignore")
    def solve(at: Indices, passive: Mask) -> Floats:
        return solution.of(passive[0])[None]

    def slope(at: Indices, x: Floats) -> Floats:
        w = system.unscale_dual((system.b - x @ system.A.T) @ system.A)
        return np.where(w > tol, rule(w, norm), 0)

    start = np.zeros((1, A.shape[1]), A.dtype)
    ActiveSetBatch(system, start, solve, slope, tol=0.0).solve(UNLIMITED)
    return made.changes
