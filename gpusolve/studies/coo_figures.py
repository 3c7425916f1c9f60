"""What the figures of Cupp's document count: its matrices, and counts of the kernels.

M. Cupp, "Element-Wise Multiplication Kernel", 2020, counts what versions 1 and 2
execute on groups of tiles. A tile is a core there, and a block of one thread here. The
emulator runs the kernels and counts instructions of PTX, accesses to memory and
multiplications among them. It has no cycles and no stalls.

Examples
--------
>>> A, B = random_pair((40, 40), 0.75)
>>> A.nnz, B.nnz
(1200, 1200)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from .. import emulator
from ..sparse import multiply

Sparse = Any
Costs = Any

TILES = (4, 8, 16, 32, 64, 128)
"""Of tile groups from 2 x 2 to 16 x 8."""

SEED_OF_232 = 25
"""A seed for which 232 places are in both matrices, as in the document."""


# ---- matrices ------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two operands."""

    A: Sparse
    B: Sparse


def random_pair(shape: tuple[int, int], density: float, seed: int = 1) -> Pair:
    """Two matrices, drawn as in the document."""
    rng = np.random.default_rng(seed)
    return Pair(*(drawn_as_in_the_document(shape, density, rng) for _ in "AB"))


def drawn_as_in_the_document(
    shape: tuple[int, int], density: float, rng: np.random.Generator
) -> Sparse:
    """A place that is taken becomes the first free place (section 2.2).

    The entries are in the order in which they are drawn; their values are 1, 2, ...
    """
    from scipy.sparse import coo_array

    taken = np.zeros(shape[0] * shape[1], bool)
    places = rng.integers(taken.size, size=round(density * taken.size))
    for i, place in enumerate(places):
        places[i] = np.argmin(taken) if taken[place] else place
        taken[places[i]] = True
    positions = np.divmod(places.astype(np.int32), np.int32(shape[1]))
    values = np.arange(1, len(places) + 1, dtype=np.float32)
    return coo_array((values, positions), shape=shape)


def pair_of_232() -> Pair:
    """128 x 128 at 10 %, with 232 places in both."""
    return random_pair((128, 128), 0.1, SEED_OF_232)


def mean_matches(places: int, entries: int) -> float:
    """The mean number of places in both matrices of a pair, drawn as in the document.

    Collisions take the first free places, so these are likely in both: 231 of 128 x 128
    places at 10 %. Uniform matrices would have 164.
    """
    before = np.arange(places)  # the free places before a place
    stays_free = np.ones(places)
    for taken in reversed(range(entries)):
        moves = (taken + before) / places  # a draw takes a place before, if any
        later = stays_free
        stays_free = later * (1 - moves - 1 / places)
        stays_free[1:] += later[:-1] * moves[1:]
    return float(((1 - stays_free) ** 2).sum())


# ---- counts --------------------------------------------------------------------------


def emulated() -> AbstractContextManager[Any]:
    """Run the kernels on the emulator for matrices of SciPy."""
    return mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1")


def profiled(operands: Pair, method: Any, **options: Any) -> Any:
    """The profile of one call; RuntimeError if it does not agree with SciPy."""
    with emulated(), emulator.profile() as report:
        product = multiply(*operands, method=method, **options)
    check(method, operands, product)
    return report


def check(method: str, operands: Pair, product: Sparse) -> None:
    """Raise RuntimeError if a product differs from SciPy's."""
    A, B = operands
    if (product.tocsr() != A.tocsr().multiply(B.tocsr())).nnz:
        raise RuntimeError(f"{method} does not agree with SciPy")


def kernels_of(
    operands: Pair, method: str, tiles: int | None = None, threads: int = 1
) -> list[Costs]:
    """The costs of the kernels, without the checks before and after them.

    Without a number of tiles, the method chooses its blocks and threads.
    """
    options = {} if tiles is None else {"blocks": tiles, "threads": threads}
    report = profiled(operands, method, **options)
    return [
        kernel for kernel in report.kernels if not kernel.name.startswith("make_keys")
    ]


def instructions(kernels: Sequence[Costs]) -> Counter[str]:
    """The instructions of PTX of all threads, by kind."""
    return sum((kernel.instructions for kernel in kernels), Counter[str]())


def multiplications(kernels: Sequence[Costs]) -> int:
    """The multiplications of values."""
    return sum(kernel.arithmetic["float32 multiply"] for kernel in kernels)


def accesses(kernels: Sequence[Costs]) -> int:
    """Numbers that threads read from global memory or write to it."""
    return sum(kernel.global_loads + kernel.global_stores for kernel in kernels)


def active_lanes(kernels: Sequence[Costs]) -> float:
    """The mean number of lanes of a request to global memory."""
    lanes = sum(kernel.active_lanes * kernel.global_requests for kernel in kernels)
    return float(lanes / sum(kernel.global_requests for kernel in kernels))


def keys_read(kernels: Sequence[Costs]) -> int:
    """Keys of B that all threads read."""
    searches = [kernel for kernel in kernels if "b_rows" in kernel.arrays]
    return sum(kernel.arrays["b_rows"].lanes for kernel in searches)
