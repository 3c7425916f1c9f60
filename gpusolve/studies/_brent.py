"""Work, depth and Brent's theorem: how long the blocks take on P processors.

The *work* W of an algorithm is the number of its operations, the *depth* D the longest
chain in which each operation needs the result of the previous operation. On P
processors that perform one operation each in a step, there is a schedule of T steps
with ::

    W / P <= T <= W / P + D

The algorithms are this package's own: they run on elements that record what is done
to them.

References
----------
C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
"Asymptotic Work and Depth; Brent Lemma".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..monoid import Monoid
from ..reference._reduce import reduce
from ..reference._scan import scan, segmented_scan

Ids = NDArray[np.int64]


class Operations:
    """The operations of an algorithm, in the order in which they were recorded.

    An element is the number of the operation that computes it: 0 for the identity,
    which costs nothing, then the inputs, then the operations.

    Attributes
    ----------
    monoid : Monoid
        Its operator records an operation for each pair of elements.
    operands : list of tuple of int
        The elements that each operation combines.
    depths : list of int
        The depth of each element; 0 for the identity and the inputs.

    Examples
    --------
    >>> operations = Operations(8)
    >>> _ = reduce(operations.inputs, operations.monoid)
    >>> operations.work, operations.depth
    (7, 3)
    """

    def __init__(self, n: int) -> None:
        self.inputs: Ids = np.arange(1, n + 1)
        self.operands: list[tuple[int, ...]] = []
        self.depths = [0] * (n + 1)
        self.monoid = Monoid("recorded", 0, "0", self._combine, False, dtype=np.int64)

    @property
    def work(self) -> int:
        """The number of operations."""
        return len(self.operands)

    @property
    def depth(self) -> int:
        """The number of operations of the longest chain."""
        return max(self.depths)

    def apply(self, *elements: Ids) -> Ids:
        """Record an operation for the elements at each index; the results."""
        given = np.broadcast_arrays(*elements)
        flat = zip(*(array.ravel().tolist() for array in given), strict=True)
        results = [self._record(operands) for operands in flat]
        return np.array(results, np.int64).reshape(given[0].shape)

    def _record(self, operands: tuple[int, ...]) -> int:
        self.operands.append(operands)
        self.depths.append(1 + max(self.depths[operand] for operand in operands))
        return len(self.depths) - 1

    def _combine(self, a: Ids, b: Ids) -> Ids:
        results = np.where(a == 0, b, a)
        both = (a != 0) & (b != 0)
        results[both] = self.apply(a[both], b[both])
        return results


def partition(operations: Operations) -> None:
    """The partition by two scans: a predicate, two scans, an index, and a write."""
    x, monoid = operations.inputs, operations.monoid
    is_kept = operations.apply(x)
    kept = scan(is_kept, monoid)
    others = scan(operations.apply(is_kept), monoid)
    places = operations.apply(is_kept, kept, others, kept[-1:])
    operations.apply(places, x)


def segmented(operations: Operations) -> None:
    """The scan of segments of lengths 1, 2, 3, ..."""
    starts = np.cumsum(np.arange(len(operations.inputs)))
    flags = np.isin(np.arange(len(operations.inputs)), starts)
    segmented_scan(operations.inputs, flags, operations.monoid)


BLOCKS: dict[str, Callable[[Operations], object]] = {
    "map": lambda run: run.apply(run.inputs),
    "reduce": lambda run: reduce(run.inputs, run.monoid),
    "scan": lambda run: scan(run.inputs, run.monoid),
    "segmented_scan": segmented,
    "scatter": lambda run: run.apply(run.inputs),
    "partition": partition,
}
"""Each block, on the elements of `Operations`. A scatter writes each element once."""


def operations_of(block: str, n: int) -> Operations:
    """The operations of a block of n elements, at least 1.

    Examples
    --------
    >>> scanned = operations_of("scan", 1024)
    >>> scanned.work, scanned.depth
    (2036, 18)
    """
    operations = Operations(n)
    BLOCKS[block](operations)
    return operations


def schedule(operations: Operations, processors: int) -> Ids:
    """The step, from 1, in which each operation is performed on P processors.

    One level of depth after the other, as in Brent's proof: W_d operations of depth d
    are independent, and take W_d / P steps, rounded up.

    Examples
    --------
    >>> schedule(operations_of("reduce", 8), 2)
    array([1, 1, 2, 2, 3, 3, 4])
    """
    steps = np.empty(operations.work, np.int64)
    depths = np.array(operations.depths[-operations.work :])
    done = 0
    for depth in range(1, operations.depth + 1):
        (level,) = np.nonzero(depths == depth)
        steps[level] = done + 1 + np.arange(len(level)) // processors
        done = int(steps[level].max())
    return steps
