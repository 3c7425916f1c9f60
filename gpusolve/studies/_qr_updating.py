"""QR factorisations with changing columns, by three methods, with counted costs.

Section 3 of Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on
Multi-Core Architectures", compares ways to update ``A[:, passive] = Q R`` when a column
is inserted: modified Gram-Schmidt (the MGS update, Algorithm 2), rotations (section
3.2), and corrected semi-normal equations without Q (CSNE, section 3.3). All remove a
column by rotations (the Givens downdate, Algorithm 3). Each is tried with and without
the *reordered list*: new columns are inserted at the end, or in the order of A.

Algorithm 2 takes an entry of R from the original column, by a scalar product of its
own. The scalar product with the partly projected column is needed anyway, and is the
entry here, unless R is made as `printed`. Equation (3.2) lacks the factor ``A^T``
before ``s``. Algorithm 3 is missing from the text; section 3.4 describes it.

``_compared/mgs.py`` solves with `GramSchmidtQR`. The study assumes independent columns.
``cuda_src/passive_qr.cuh``, which the package solves with, refuses dependent columns
and orthogonalises twice where it must.
"""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Costs(NamedTuple):
    """What a change of a factorisation costs, in the units of Table 3.1.

    Attributes
    ----------
    accesses : int
        Columns or rows of Q, R and A that are read or written. The new column itself
        is given.
    flops_of_q, flops_of_r : int
        Additions, multiplications, divisions and roots. The modified Gram-Schmidt
        method computes the entries of R as a part of Q.
    """

    accesses: int
    flops_of_q: int
    flops_of_r: int

    def __sub__(self, before: Costs) -> Costs:
        return Costs(*(a - b for a, b in zip(self, before, strict=True)))


class Counted:
    """A matrix in slow memory: counts transfers of columns and rows, and operations.

    Parts without elements are neither transferred nor counted.
    """

    def __init__(self, values: Array) -> None:
        self.values = values
        self.accesses: int = 0
        self.flops: int = 0

    def read(self, row: Any, column: Any) -> Array:
        """A copy of a column, a row, or a part of them."""
        part: Array = self.values[row, column].copy()
        self.accesses += part.size > 0
        return part

    def write(self, row: Any, column: Any, part: Array) -> None:
        self.accesses += part.size > 0
        self.values[row, column] = part

    def column(self, j: int) -> Array:
        return self.read(slice(None), j)

    def write_column(self, j: int, column: Array) -> None:
        self.write(slice(None), j, column)

    def dot(self, x: Array, y: Array) -> Any:
        self.flops += 2 * len(x)
        return x @ y

    def norm(self, x: Array) -> Any:
        return self.root(self.dot(x, x))

    def root(self, x: float) -> Any:
        self.flops += 1
        return np.sqrt(x)

    def add(self, x: Array, y: Array) -> Array:
        self.flops += len(x)
        return x + y

    def subtract(self, x: Array, y: Array) -> Array:
        self.flops += len(x)
        return x - y

    def add_multiple(self, x: Array, factor: float, y: Array) -> Array:
        """``x + factor y``."""
        self.flops += 2 * len(x)
        return x + factor * y

    def divide(self, x: Any, divisor: float) -> Any:
        self.flops += np.size(x)
        return x / divisor

    def rotation(self, a: float, b: float) -> tuple[float, float, float]:
        """The cosine, the sine and the h of the rotation of (a, b) to (h, 0)."""
        self.flops += 6
        h = float(np.hypot(a, b))
        return (a / h, b / h, h) if h else (1.0, 0.0, h)

    def rotate(self, c: float, s: float, x: Array, y: Array) -> tuple[Array, Array]:
        """``c x + s y`` and ``c y - s x``."""
        self.flops += 6 * len(x)
        return c * x + s * y, c * y - s * x


class ChangingQR(ABC):
    """``A[:, passive] = Q R``, whose columns are inserted and removed.

    Rows of R, and columns of Q, are stored in slots and never move: ``rows`` lists the
    slots by position, and free slots follow those in use. The column of R that belongs
    to a variable is stored in the column of this variable.

    Parameters
    ----------
    A : (m, n) array
    slots : int
        The number of columns of Q, which are the rows of R.
    rows_of_q : int
        m, or 0 for a method that does not store Q.
    reordered : bool
        Whether a variable is inserted at the end, and not in the order of A.

    Attributes
    ----------
    passive : list of int
        The variables by position: the reordered list, or a sorted list.
    complete : bool
        Whether Q is square, so that a column that leaves the factorisation is kept.
    """

    complete = False

    def __init__(self, A: Array, slots: int, rows_of_q: int, reordered: bool) -> None:
        self.A = Counted(A)
        self.Q = Counted(np.eye(rows_of_q, slots))
        self.R = Counted(np.zeros((slots, A.shape[1])))
        self.reordered = reordered
        self.passive: list[int] = []
        self.rows: list[int] = list(range(slots))

    @property
    def length(self) -> int:
        return len(self.passive)

    @property
    def costs(self) -> Costs:
        """What all changes have cost together."""
        stored = (self.Q, self.R, self.A)
        accesses = sum(matrix.accesses for matrix in stored)
        return Costs(accesses, self.Q.flops, self.R.flops + self.A.flops)

    def factors(self) -> tuple[Array, Array]:
        """Q and R, by position; at no cost."""
        used = self.rows[: self.length]
        R = np.triu(self.R.values[np.ix_(used, self.passive)])
        return self.Q.values[:, used], R

    def update(self, variable: int) -> None:
        """Insert a variable where the order puts it."""
        end = self.length
        place = end if self.reordered else bisect.bisect(self.passive, variable)
        self.insert(place, variable)

    def downdate(self, variable: int) -> None:
        """Remove a variable."""
        self.remove(self.passive.index(variable))

    @abstractmethod
    def insert(self, position: int, variable: int) -> None:
        """Insert the column of a variable at a position."""

    def remove(self, position: int) -> None:
        """Remove the column at a position: the Givens downdate (Algorithm 3).

        The row of R at this position is rotated with each later row in turn, and ends
        without an entry.
        """
        Q, R, last = self.Q, self.R, self.length - 1
        del self.passive[position]
        slot = self.rows.pop(position)
        self.rows.insert(last, slot)
        later = right = self.passive[position:]
        if not later:
            return
        row, q = R.read(slot, right), Q.column(slot)
        for place in self.rows[position:last]:
            other = R.read(place, right)
            c, s, h = R.rotation(other[0], row[0])
            upper, row = R.rotate(c, s, other[1:], row[1:])
            R.write(place, right, np.array([h, *upper]))
            rotated, q = Q.rotate(c, s, Q.column(place), q)
            Q.write_column(place, rotated)
            right = right[1:]
        if self.complete:
            R.write(slot, later, np.zeros(len(later)))
            Q.write_column(slot, q)

    def insert_column(
        self, position: int, variable: int, column: Array, last: int
    ) -> None:
        """Insert a column of R, which has entries down to position `last`."""
        slot = self.rows.pop(last)
        if position < last:
            self.rotate_up(position, last, slot, column)
        self.R.write_column(variable, column)
        self.rows.insert(position, slot)
        self.passive.insert(position, variable)

    def rotate_up(self, position: int, last: int, slot: int, column: Array) -> None:
        """Make the entries of a column below `position` zero.

        The row in `slot`, at position `last`, is rotated with each row above it in
        turn, up to `position`.
        """
        Q, R = self.Q, self.R
        row, q = np.zeros(0), Q.column(slot)
        for place in range(last - 1, position - 1, -1):
            above, right = self.rows[place], self.passive[place:]
            c, s, h = R.rotation(column[above], column[slot])
            column[above], column[slot] = 0, h
            if right:
                row, lower = R.rotate(c, s, R.read(above, right), np.append(0.0, row))
                R.write(above, right, lower)
            q, rotated = Q.rotate(c, s, Q.column(above), q)
            Q.write_column(above, rotated)
        R.write(slot, self.passive[position:], row)
        Q.write_column(slot, q)


class GramSchmidtQR(ChangingQR):
    """Updates by modified Gram-Schmidt (section 3.1).

    As `printed`, R has the products with the column itself.
    """

    def __init__(
        self, A: Array, reordered: bool = True, *, printed: bool = False
    ) -> None:
        super().__init__(A, min(A.shape), len(A), reordered)
        self.printed = printed

    def insert(self, position: int, variable: int) -> None:
        """Append the variable, and then again all that come after it."""
        moved = self.passive[position:]
        del self.passive[position:]
        self.append(variable, self.A.values[:, variable])
        for later in moved:
            self.append(later, self.A.column(later))

    def append(self, variable: int, a: Array) -> None:
        """The MGS update (Algorithm 2) of a column `a`."""
        Q, u = self.Q, a
        column = np.zeros(len(self.rows))
        *used, slot = self.rows[: self.length + 1]
        for k in used:
            q = Q.column(k)
            along = Q.dot(q, u)
            u = Q.add_multiple(u, -along, q)
            column[k] = Q.dot(q, a) if self.printed else along
        column[slot] = Q.norm(u)
        Q.write_column(slot, Q.divide(u, column[slot]))
        self.R.write_column(variable, column)
        self.passive.append(variable)


class RotationQR(ChangingQR):
    """Updates by rotations of a square Q (section 3.2; Hammarling & Lucas, 2008)."""

    complete = True

    def __init__(self, A: Array, reordered: bool = True) -> None:
        super().__init__(A, len(A), len(A), reordered)

    def insert(self, position: int, variable: int) -> None:
        """Multiply the column by Q^T, and rotate its entries below `position` away."""
        a = self.A.values[:, variable]
        column = np.zeros(len(a))
        for k in self.rows:
            column[k] = self.R.dot(self.Q.column(k), a)
        self.insert_column(position, variable, column, last=len(a) - 1)


class SemiNormalQR(ChangingQR):
    """Updates of R alone, by corrected semi-normal equations (CSNE, section 3.3)."""

    def __init__(self, A: Array, reordered: bool = True) -> None:
        super().__init__(A, min(A.shape), 0, reordered)

    def factors(self) -> tuple[Array, Array]:
        """Q and R, by position. Q is not stored: it is ``A R^-1`` here."""
        R = super().factors()[1]
        Q = np.linalg.solve(R.T, self.A.values[:, self.passive].T).T
        return np.asarray(Q), R

    def insert(self, position: int, variable: int) -> None:
        """Solve (3.2), and rotate the entries below `position` away."""
        A, R, a = self.A, self.R, self.A.values[:, variable]
        *used, slot = self.rows[: self.length + 1]
        z = self.solve(self.multiply_transposed(a))
        s = A.subtract(a, self.multiply(z))
        z = R.add(z, self.solve(self.multiply_transposed(s)))
        column = np.zeros(len(self.rows))
        column[used] = self.multiply_triangle(z)
        column[slot] = A.norm(A.subtract(a, self.multiply(z)))
        self.insert_column(position, variable, column, last=self.length)

    def multiply(self, z: Array) -> Array:
        """``A[:, passive] z``, by rows."""
        A, rows = self.A, range(len(self.A.values))
        return np.array([A.dot(A.read(i, self.passive), z) for i in rows])

    def multiply_transposed(self, x: Array) -> Array:
        """``A[:, passive]^T x``, by rows."""
        total = np.zeros(self.length)
        for i, factor in enumerate(x):
            total = self.A.add_multiple(total, factor, self.A.read(i, self.passive))
        return total

    def multiply_triangle(self, z: Array) -> Array:
        """``R z``, by columns."""
        R, total = self.R, np.zeros(self.length)
        for p, variable in enumerate(self.passive):
            above = R.read(self.rows[: p + 1], variable)
            total[: p + 1] = R.add_multiple(total[: p + 1], z[p], above)
        return total

    def solve(self, y: Array) -> Array:
        """Solve ``R^T R z = y``: R^T by rows of R, and R by columns."""
        R, z = self.R, y.copy()
        for p in range(self.length):
            row = R.read(self.rows[p], self.passive[p:])
            z[p] = R.divide(z[p], row[0])
            z[p + 1 :] = R.add_multiple(z[p + 1 :], -z[p], row[1:])
        for p in range(self.length - 1, -1, -1):
            column = R.read(self.rows[: p + 1], self.passive[p])
            z[p] = R.divide(z[p], column[p])
            z[:p] = R.add_multiple(z[:p], -z[p], column[:p])
        return z


METHODS: dict[str, Any] = {
    "MGS": GramSchmidtQR,
    "Rot": RotationQR,
    "CSNE": SemiNormalQR,
}


def qr_updating(A: Array, method: str = "MGS", *, reordered: bool = True) -> ChangingQR:
    """An empty factorisation of columns of `A`, that counts what its changes cost.

    Parameters
    ----------
    A : (m, n) array
        With m >= n, and independent columns.
    method : {"MGS", "Rot", "CSNE"}
        As in Table 3.1: modified Gram-Schmidt, rotations, or corrected semi-normal
        equations.
    reordered : bool, optional
        Whether new columns are inserted at the end, and not in the order of A.

    See Also
    --------
    gpusolve.nnls, gpusolve.reference.nnls

    Examples
    --------
    >>> import numpy as np
    >>> factorisation = qr_updating(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> factorisation.update(1)
    >>> factorisation.update(0)
    >>> factorisation.passive
    [1, 0]
    >>> factorisation.downdate(1)
    >>> Q, R = factorisation.factors()
    >>> (Q @ R).round(12)
    array([[3.],
           [4.]])
    """
    made: ChangingQR = METHODS[method](A, reordered)
    return made
