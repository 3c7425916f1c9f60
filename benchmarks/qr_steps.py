"""Count what one change of a QR factorisation costs a block: the paper's section 5.

    python benchmarks/qr_steps.py --output FILE

Sections 5.2 and 5.3 of Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares
on Multi-Core Architectures", give the depth of the MGS update and of the Givens
downdate, and their accesses to shared and global memory. Here the emulator counts
accesses: for the steps as published, and for the steps of ``cuda_src/passive_qr.cuh``.
Nothing is timed. Results are Markdown.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness import publish, row, table_head
from numpy.typing import NDArray

from gpusolve import _emulator
from gpusolve._device.kernels import EmulatedDevice
from gpusolve.studies._qr_steps_kernel import (
    DOWNDATE,
    ROWS,
    UPDATE,
    QRSteps,
    qr_steps,
)

# ---- counts --------------------------------------------------------------------------


class Counts(NamedTuple):
    """The counts of one change.

    Attributes
    ----------
    shared : int
        Requests to shared memory, counted for each warp that executes an access.
    columns_of_q : float
        Columns of Q that are read or written.
    elements_of_r : int
        Elements of R that are read or written.
    barriers, warp_barriers, shuffles : int
        The last two are added over the warps.
    """

    shared: int
    columns_of_q: float
    elements_of_r: int
    barriers: int
    warp_barriers: int
    shuffles: int


def orthogonalised(length: int) -> QRSteps:
    """A random matrix, and the factors of all its columns but the last."""
    A = np.random.default_rng(0).standard_normal((ROWS, length + 1))
    Q, R = np.linalg.qr(A[:, :length])
    padded = np.pad(Q, ((0, 0), (0, 1))), np.pad(R, ((0, 1), (0, 1)))
    return QRSteps(*(part.astype(np.float32) for part in (A, *padded)))


class Changed(NamedTuple):
    """The counts of a change, its factors, and its slots in their order."""

    counts: Counts
    factors: QRSteps
    order: NDArray[np.int32]


@functools.cache
def counted(
    name: str, change: int, length: int, position: int = 0, printed: bool = False
) -> Changed:
    """Run one change and count what it costs.

    Parameters
    ----------
    name : {"as_published", "as_solved"}
    change : {UPDATE, DOWNDATE}
    length : int
        The number of passive columns before the change.
    position : int
        Of the column that a downdate removes, from 0.
    printed : bool
        Whether an update takes R from products with the column itself, as printed.
    """
    launch = functools.partial(
        qr_steps,
        name,
        orthogonalised(length),
        EmulatedDevice(),
        change,
        position=position,
        printed=printed,
    )
    with _emulator.profile() as report:
        launch(steps=0)
        factors, order = launch(steps=1)
    without, after = report.launched

    def number(key: str) -> int:
        return int(getattr(after, key) - getattr(without, key))

    def lanes(array: str) -> int:
        return after.arrays[array].lanes if array in after.arrays else 0

    counts = Counts(
        number("shared_requests"),
        lanes("Q") / ROWS,
        lanes("R"),
        number("barriers"),
        number("warp_barriers"),
        number("shuffles"),
    )
    return Changed(counts, factors, order)


# ---- the report ----------------------------------------------------------------------

LENGTHS = (8, 40, 64)
"""Passive columns; downdates remove the middle column."""

ABOUT = """\
# The steps of a block

What one change of a factorisation costs one block, for 512 rows: the MGS update of l
passive columns, and the Givens downdate that removes the column at the
position l / 2, from 0. "As published" is the mapping of sections 5.2 and 5.3 of Luo &
Duraiswami, with 512 threads: `cuda_src/qr_steps.cu`. "As solved" is
`cuda_src/passive_qr.cuh`, with the 128 threads that `nnls` would launch. The emulator
counts; nothing is timed. `tests/benchmarks/test_qr_steps.py` tests each formula.

- shared: accesses to shared memory, counted for each warp that executes an access.
- of Q, of R: columns of Q, and elements of R, that are read or written.
- barriers: of the block; warp barriers and shuffles are added over the warps.
"""

EXPLAINED = """
## The MGS update, as published

The paper counts parallel accesses: accesses of all threads of the block at the same
time, or of some threads while the other threads wait.

**Global memory: l + 2.** The counts agree: l columns of Q are read, and a column of Q
and a column of R are written.

**Shared memory: 39 l + 2.** Counted are 59 l + 61.

- The paper does not derive 39. It may be 2 (1 + 18) + 1: for each column of Q there
  are two scalar products. For each, a thread writes its term, and `reduce512` needs 18
  accesses. The slot of the column is read from the list.
- `reduce512` as printed needs 27: at each of its 9 levels, two values are read and a
  value is written. 18 would do if a thread kept its own sum in a register. That is 9
  more for each product.
- Every thread reads the sum of a product. That is 1 more.
- So a product needs 29, and a column of Q 2 * 29 + 1 = 59.
- The norm and the element of Q^T b are two products more, 58. Then there are the slot
  of the new column, the list for the column of R, and the element of Q^T b: 3.
- With R from the products of line 3, which is more accurate, it is 30 l + 61.

The table has requests of warps. 16 of them are a parallel access of all threads. A
product has 3 (8 + 4 + 2 + 6) at the levels, whose threads become fewer, and 32
for its terms and its sum. So there are (2 * 92 + 16) l + 2 * 92 + 16 + 1 in all, and a
request for each 32 elements of the column of R.

**Barriers: 5 in each sum**, as printed, and 12 of a warp: the last steps of the listing
assume that a warp runs in lockstep. Two products in one array have a second race: a
thread may write its term of the next product before another thread has read the sum of
this product. Here two arrays are used in turn, which needs no barrier. With one array,
the emulator reports the race.

**Depth: O(n log m).** A sum has 9 = log2(512) additions in sequence. There are 2 l +
2 sums, so 18 l + 18 additions; with one product for each column, 9 l + 18.

## The MGS update, as solved

- The passive columns are orthogonal, so all products are computed from the column
  itself (classical Gram-Schmidt), and do not wait for each other. A warp computes a
  product: it adds 512 / 32 terms in each lane, and then shuffles 5 times. That needs
  5 l shuffles and one barrier. Then each thread subtracts all columns from its own
  rows.
- **5 barriers**, for any l: two norms, the products, and two elements of the
  right-hand sides. 40 shuffles for each of 4 reductions of 4 warps.
- **Columns of Q: 2 l + 1.** A product is computed by a warp, and subtracted by
  threads that have other rows, so Q is read twice; l + 1 would need a barrier for
  each column. If much cancels, a second pass reads it twice again.
- **Elements of R: 2 l + 3.** A column of R has l + 1; the solver has two more columns
  of R, reads the first of these, and extends both.
- **Shared memory: 51 requests for each column of Q**, which is 51 / 4 parallel
  accesses of 128 threads: the terms of the vector (16), the slot (1), the product and
  the coefficient (2), and, for 16 groups of 32 rows, the product and the slot (32).
- The depth is l / 4 products of 16 + 5 additions, and l subtractions: l m / 128 + l,
  up to a factor. There are fewer threads than rows, so log m is not what counts.

## The Givens downdate

There are d = l - 1 - position rotations, one after another.

**Global memory: 2 (l - i + 1)**, with i from 1, so 2 d + 2. Table 3.1 has twice as
many, since there a column of Q and a row of R count as two accesses. Columns of Q are
2 d + 1: the column that leaves is read, and need not be written. Of R, 2 d + 1 rows
are transferred, from the first column that a rotation changes; and d elements of the
diagonal more, which one thread reads for the rotation. As solved, the column that
leaves is written, too.

**Shared memory: 2 (l - i) + 2.** By hand it is 18 d + 6; counted are 2 d less, which
the compiler merges with accesses to neighbouring words. The paper has one read and one
write of the column and the row that all rotations share. The same threads rotate first
the column and then the row, so that is 4. The slot (1), the shared row's element (1),
cosine and sine (2 writes, and 2 reads for each of R and Q) and the two elements of
Q^T b, which one thread rotates (6, with cosine and sine), are left out.

As solved, 51 requests for each rotation, and a few more, where R has no later panel:
the slot, and cosine with sine twice, as the store in between might change them; for 16
groups of 32 rows, and a group of columns of R. That is 51 / 4 parallel accesses of 128
threads.

**Barriers: 2 d + 2**, as one thread computes each rotation for all. As solved, one
warp computes 32 rotations by shuffles, 2 for each: 1 for each 32 rotations, and 2
more.

**Depth: O(n)**, for both.
"""


class Line(NamedTuple):
    """A line of the table: a change as it is done by one of the kernels."""

    title: str
    name: str
    change: int
    printed: bool = False


LINES = (
    Line("update, as published", "as_published", UPDATE, True),
    Line("update, R from line 3", "as_published", UPDATE),
    Line("update, as solved", "as_solved", UPDATE),
    Line("downdate, as published", "as_published", DOWNDATE),
    Line("downdate, as solved", "as_solved", DOWNDATE),
)


def table() -> Iterator[str]:
    names = "shared", "of Q", "of R", "barriers", "warp barriers", "shuffles"
    yield from table_head("", "l", *names)
    for title, name, change, printed in LINES:
        for length in LENGTHS:
            counts = counted(name, change, length, length // 2, printed).counts
            yield row(title, length, *(f"{value:,.0f}" for value in counts))


def report() -> Iterator[str]:
    """The report, line by line as it is counted."""
    yield ABOUT
    yield from table()
    yield EXPLAINED


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="also write the report here")
    publish(report(), parser.parse_args().output)


if __name__ == "__main__":
    main()
