"""Work and depth of the blocks and of the kernels, and Brent's bounds over P."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from together import together

import gpusolve
from gpusolve import Monoid, emulator
from gpusolve.studies import brent

SIZES = (1, 2, 3, 7, 64, 100, 1000)
PROCESSORS = (1, 2, 3, 7, 32, 1000, 1_000_000)


@pytest.mark.paper("Oancea, Brent's theorem")
@together("block", brent.BLOCKS)
def test_a_schedule_of_each_block_is_within_brents_bounds(block: str) -> None:
    """W / P <= T <= W / P + D for a schedule of each block on 1 to 1,000,000
    processors.
    """
    for n in SIZES:
        operations = brent.operations_of(block, n)
        work, depth = operations.work, operations.depth
        for processors in PROCESSORS if work else ():
            steps = brent.schedule(operations, processors)
            assert len(steps) == work
            assert np.bincount(steps).max() <= processors
            assert work / processors <= steps.max() <= work / processors + depth


@pytest.mark.paper("Oancea, Brent's theorem")
@together("block", brent.BLOCKS)
@together("processors", [1, 5, 10**6])
def test_an_operation_is_performed_after_its_operands(
    block: str, processors: int
) -> None:
    """The schedule performs an operation after those whose results it needs."""
    operations = brent.operations_of(block, 100)
    steps = brent.schedule(operations, processors)
    inputs = [0] * (1 + len(operations.inputs))
    done = np.array([*inputs, *steps])
    for step, operands in zip(steps, operations.operands, strict=True):
        assert (done[list(operands)] < step).all()


@together("n", [1, 2, 3, 7, 64, 100, 1000])
def test_work_and_depth_of_the_blocks(n: int) -> None:
    found = {block: brent.operations_of(block, n) for block in brent.BLOCKS}
    levels = math.ceil(math.log2(n))
    for block in ("map", "scatter"):
        assert (found[block].work, found[block].depth) == (n, 1)
    assert (found["reduce"].work, found["reduce"].depth) == (n - 1, levels)
    for block in ("scan", "segmented_scan"):
        assert found[block].work <= 2 * n
        assert found[block].depth <= 2 * levels
    assert found["partition"].work <= 8 * n
    assert found["partition"].depth <= 4 + 2 * levels


# ---- the kernels ---------------------------------------------------------------------

on_kernels = pytest.mark.usefixtures("emulated")

probe = Monoid(
    "work and depth",
    identity=(0, -1),
    cuda=(
        "a[1] < 0 ? b[0] : b[1] < 0 ? a[0] : a[0] + b[0] + 1",
        "a[1] < 0 ? b[1] : b[1] < 0 ? a[1] : maximum(a[1], b[1]) + 1",
    ),
    numpy=lambda a, b: a,
    commutative=True,
)
"""The number of operations that an element comes from, and their longest chain.

It is not associative: the result depends on the grouping which a kernel chooses. The
identity, of depth -1, costs nothing.
"""


def work_and_depth(n: int, variant: str) -> tuple[int, int]:
    """Of the kernels that reduce n elements."""
    x = np.zeros((n, 2), np.int32)
    work, depth = gpusolve.reduce(x, probe, variant=variant).tolist()
    return work, depth


@on_kernels
@pytest.mark.paper("Oancea, Brent's lemma and reduce")
@together("n", [1, 2, 33, 512, 1000, 4001])
@together(
    ("variant", "longest"),
    [
        ("tree", lambda n: math.ceil(math.log2(n))),
        # Two scans of a warp, of five steps each, for every launch.
        ("group", lambda n: 10 * math.ceil(math.log(max(n, 2), 256))),
        ("reduce512", lambda n: 9 * math.ceil(math.log(max(n, 2), 512))),
        ("atomic", lambda n: 5 + math.ceil(n / 32)),
        ("atomic_each", lambda n: n - 1),
    ],
)
def test_kernels_combine_each_element_once_within_their_depth(
    n: int, variant: str, longest: Any
) -> None:
    """A tree has n - 1 operations for n elements; the longest chain has log2(n),
    rounded up.
    """
    work, depth = work_and_depth(n, variant)
    assert work == n - 1
    assert math.ceil(math.log2(n)) <= depth <= longest(n)


@on_kernels
@pytest.mark.paper("Oancea, Table of sums")
def test_one_atomic_for_each_element_is_no_parallel_algorithm() -> None:
    """1,000 atomics on one location are a chain of 999 additions.

    All updates of one cell are a chain: the depth is the work.
    """
    assert work_and_depth(1000, "atomic_each") == (999, 999)


@on_kernels
@pytest.mark.paper("Oancea, Exercise 2")
def test_a_wave_works_more_to_be_less_deep() -> None:
    """31, 30, 28, 24 and 16 lanes of a wave combine in the steps, 129 in all, for 31
    operations of one thread.

    A lane that combines in a step has a chain that is longer by one operation.
    """
    x = np.zeros((32, 2), np.int32)
    depths = gpusolve.scan(x, probe, variant="warp")[:, 1]
    lanes = [int((depths >= step).sum()) for step in range(1, 6)]
    assert lanes == [31, 30, 28, 24, 16]
    assert sum(lanes) == depths.sum() == 129


@on_kernels
@pytest.mark.paper("Oancea, Brent's lemma and reduce")
@pytest.mark.parametrize("n", [4001, 40_000, 200_000])
def test_chunks_are_a_schedule_on_as_many_processors_as_threads(n: int) -> None:
    """No chain of the chunked reduction on P threads exceeds (n - 1) / P + log2(n) + 3.

    No chain is longer than a share of the work and a tree, Brent's upper bound.
    """
    work_and_depth(n, "chunked")
    with emulator.profile() as report:
        work, depth = work_and_depth(n, "chunked")
    processors = 256 * report.launched[0].blocks
    assert work == n - 1
    # A thread has up to three more elements than others, of the last whole and of the
    # incomplete windows.
    assert depth <= work / processors + math.ceil(math.log2(n)) + 3
