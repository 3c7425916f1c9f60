"""What a change of a factorisation costs a block, against the paper and hand counts."""

from __future__ import annotations

import contextlib
import functools
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

# One change of a factorisation, which a solver never shows alone.
from gpusolve._device.kernels import EmulatedDevice
from gpusolve.emulator import KernelError, profile, races
from gpusolve.studies._qr_steps_kernel import (
    DOWNDATE,
    ROWS,
    THREADS,
    UPDATE,
    QRSteps,
    qr_steps,
)

LENGTHS = (8, 40)

WARPS = ROWS // 32
SUM = [(3, warps) for warps in (8, 4, 2, 1, 1, 1, 1, 1, 1)]
"""Accesses of `reduce512` at its levels, two reads and a write, and their warps."""
PRODUCT = [(1, WARPS), *SUM, (1, WARPS)]
"""The terms, the sum, and the reading of its result."""


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
    with profile() as report:
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


def warps(count: int) -> int:
    """The warps that have `count` neighbouring threads, beginning with the first."""
    return -(-count // 32)


def check(changed: Changed, length: int) -> None:
    """``A[:, order] = Q R`` for the columns that are left."""
    A, Q, R = changed.factors
    order = changed.order[:length]
    upper = np.triu(R[np.ix_(order, order)])
    assert_allclose(Q[:, order] @ upper, A[:, order], atol=1e-5)
    assert_allclose(Q[:, order].T @ Q[:, order], np.eye(length), atol=1e-5)


# ---- results -------------------------------------------------------------------------


@pytest.mark.parametrize("name", THREADS)
@pytest.mark.parametrize("printed", [False, True])
def test_update_is_right(name: str, printed: bool) -> None:
    """Orthogonal columns have the same products by both formulas."""
    check(counted(name, UPDATE, 40, printed=printed), 41)


@pytest.mark.paper("Luo, 3.1")
def test_the_update_that_is_used_keeps_q_orthogonal() -> None:
    """Of a column of which 1e-3 is orthogonal to 8 others, less than 1e-7 is left along
    them in float32, by the published update more than 1e-6.

    Both have QR = A: a second projection gives orthogonality.
    """
    A = np.random.default_rng(0).standard_normal((ROWS, 9))
    A[:, 8] = A[:, :8].sum(axis=1) / 3 + 1e-3 * A[:, 8]
    Q, R = np.linalg.qr(A[:, :8])
    padded = np.pad(Q, ((0, 0), (0, 1))), np.pad(R, ((0, 1), (0, 1)))
    given = QRSteps(*(part.astype(np.float32) for part in (A, *padded)))
    along = {}
    for name in THREADS:
        (_, Q, R), _ = qr_steps(name, given, EmulatedDevice(), UPDATE)
        assert_allclose(Q @ np.triu(R), A, atol=1e-5)
        along[name] = np.abs(Q[:, :8].T.astype(float) @ Q[:, 8]).max()
    assert along["as_solved"] < 1e-7
    assert along["as_published"] > 1e-6


@pytest.mark.paper("Luo, 3.4, Algorithm 3")
@pytest.mark.parametrize("name", THREADS)
@pytest.mark.parametrize("position", [0, 20, 39])
def test_downdate_is_right(name: str, position: int) -> None:
    """Of 40 columns the column at position 0, 20 or 39 leaves, and the rest keep their
    order, an orthogonal Q and QR = A.
    """
    changed = counted(name, DOWNDATE, 40, position)
    left = np.delete(np.arange(40), position)
    assert_array_equal(changed.order[:39], left)
    check(changed, 39)


# ---- the MGS update ------------------------------------------------------------------


@pytest.mark.paper("Luo, 5.3")
@pytest.mark.parametrize("length", LENGTHS)
def test_published_update_has_the_printed_accesses_to_global_memory(
    length: int,
) -> None:
    """An update has the printed l + 2 accesses to global memory.

    l columns of Q are read, and a column of Q and a column of R are written.
    """
    counts = counted("as_published", UPDATE, length, printed=True).counts
    columns_of_r = counts.elements_of_r / (length + 1)
    assert counts.columns_of_q + columns_of_r == length + 2
    assert columns_of_r == 1


@pytest.mark.paper("Luo, 5.3")
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("printed", [False, True])
def test_published_update_has_more_accesses_to_shared_memory(
    length: int, printed: bool
) -> None:
    """An update has 59 l + 61 parallel accesses to shared memory, not 39 l + 2, and 30
    l + 61 if R is taken from the products with u.

    Listed by hand; the emulator counts them in requests of warps.
    """
    for_column = [(1, WARPS), *(1 + printed) * PRODUCT]
    at_the_end = [*2 * PRODUCT, (1, WARPS), (1, warps(length + 1)), (1, 1)]
    accesses = [*length * for_column, *at_the_end]
    parallel = sum(number for number, _ in accesses)
    assert parallel == (59 if printed else 30) * length + 61
    assert parallel > 39 * length + 2 or not printed
    found = counted("as_published", UPDATE, length, printed=printed).counts.shared
    assert found == sum(number * of_warps for number, of_warps in accesses)


@pytest.mark.parametrize("apart", [ROWS, 0])
def test_one_array_for_all_sums_is_a_race(apart: int) -> None:
    """A thread writes its next term while other threads still read the last sum."""
    race = contextlib.nullcontext() if apart else pytest.raises(KernelError)
    with race, races():
        qr_steps(
            "as_published", orthogonalised(2), EmulatedDevice(), UPDATE, apart=apart
        )


@pytest.mark.paper("Luo, 5.2")
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("printed", [False, True])
def test_published_update_has_depth_l_log_m(length: int, printed: bool) -> None:
    """Of 512 rows, an update has 18 l + 18 additions one after another, 9 in each sum;
    9 l + 18 if R is taken from the products with u.

    Each level of a sum has a barrier: of the block, or two of a warp.

    Two more barriers of the block are at the beginning and the end of a sum.
    """
    counts = counted("as_published", UPDATE, length, printed=printed).counts
    sums = (1 + printed) * length + 2
    additions = counts.barriers - 2 * sums + counts.warp_barriers // 2
    assert additions == (18 if printed else 9) * length + 18
    assert ROWS == 512 == 2 ** (additions // sums)
    assert counts.barriers == 5 * sums


# ---- the Givens downdate -------------------------------------------------------------


@pytest.mark.paper(
    "Luo, 5.2", "A downdate has 2 (l - i) + 2 barriers, so its depth is O(n)"
)
@pytest.mark.paper(
    "Luo, 5.3",
    "A downdate has 2 (l - i) + 1 accesses to columns of Q: 2 (l - i + 1), but the "
    "column that leaves is not written",
)
@pytest.mark.parametrize("length", LENGTHS)
def test_published_downdate(length: int) -> None:
    position = length // 2
    rotations = length - 1 - position
    counts = counted("as_published", DOWNDATE, length, position).counts
    assert counts.columns_of_q == 2 * rotations + 1
    rotated = sum(length - later for later in range(position + 1, length))
    assert counts.elements_of_r == rotations + 2 * rotated + rotations
    assert counts.barriers == 2 * rotations + 2


@pytest.mark.paper("Luo, 5.3")
@pytest.mark.parametrize("length", LENGTHS)
def test_published_downdate_has_more_accesses_to_shared_memory(length: int) -> None:
    """A downdate has 18 (l - i) + 6 parallel accesses to shared memory, not 2 (l - i) +
    2.

    Listed by hand; the emulator counts them in requests of warps.

    The compiler merges two of a rotation's accesses with others, of neighbouring words.
    """
    position = length // 2
    loaded = warps(length) - (position + 1) // 32
    shifted = warps(length) - position // 32
    accesses = [(3, WARPS), (1, loaded), (1, warps(length - 1)), (1, shifted)]
    for later in range(position + 1, length):
        with_entries = (length - 1) // 32 - later // 32 + 1
        accesses += [(1, WARPS), (4, WARPS), (4, with_entries), (1 + 2 + 2 + 4, 1)]
    parallel = sum(number for number, _ in accesses)
    rotations = length - 1 - position
    assert 2 * rotations + 2 < parallel == 18 * rotations + 6
    found = counted("as_published", DOWNDATE, length, position).counts.shared
    listed = sum(number * of_warps for number, of_warps in accesses)
    assert found == listed - 2 * rotations
