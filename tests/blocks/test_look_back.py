"""The protocol of decoupled look-back: blocks that publish, wait and read.

The emulator interleaves blocks in an order that a seed determines, and its race
detector knows which writes are visible to a block. Tests break each guarantee of the
protocol in a copy of the source, and check that the error is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from together import together

import gpusolve
from gpusolve import emulator

# The size of a tile: a test has a few of them.
from gpusolve._blocks.scan_kernel import tile_for
from gpusolve.monoid import segment_sums_of_one

SEEDS = range(6)
ONE_WORD, TWO_WORDS = np.int32, np.int64
"""Elements that fit into one word of a tile's state, and into two."""


@pytest.fixture(autouse=True)
def watched(emulated: None) -> Iterator[None]:
    with emulator.races():
        yield


def scan_tiles(dtype: Any, seed: int, tiles: int = 6) -> None:
    """Scan a few tiles, with one block per tile, and check the result."""
    n = tiles * tile_for(np.dtype(dtype).itemsize).size - 5
    top = np.iinfo(dtype).max // 2**20
    x = np.random.default_rng(seed).integers(-top, top, n).astype(dtype)
    with emulator.schedule("random", seed):
        y = gpusolve.scan(x)
    assert_array_equal(y, np.cumsum(x, dtype=dtype))


def scan_large_elements(seed: int, tiles: int = 6) -> None:
    """`scan_tiles` with elements of 32 bytes, which do not fit into the state words."""
    n = tiles * tile_for(32).size - 5
    x = np.random.default_rng(seed).integers(-9, 9, n)
    with emulator.schedule("random", seed):
        y = gpusolve.scan(segment_sums_of_one.apply(x), "mssp")
    assert_array_equal(y[:, 3], np.cumsum(x))


@together("seed", SEEDS[:3])
@together("dtype", [ONE_WORD, TWO_WORDS])
def test_no_race_in_any_interleaving(dtype: Any, seed: int) -> None:
    scan_tiles(dtype, seed)


@together("seed", SEEDS[:3])
def test_no_race_with_large_elements(seed: int) -> None:
    scan_large_elements(seed)


@pytest.mark.parametrize("dtype", [ONE_WORD, TWO_WORDS])
def test_no_race_with_segments(schedule: str, dtype: Any) -> None:
    n = 5 * tile_for(np.dtype(dtype).itemsize).size
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, n).astype(dtype)
    flags = rng.random(n) < 1 / 3000
    y = gpusolve.segmented_scan(x, flags)
    starts = np.flatnonzero(flags) if flags[0] else np.append(0, np.flatnonzero(flags))
    pieces = [np.cumsum(piece, dtype=dtype) for piece in np.split(x, starts[1:])]
    assert_array_equal(y, np.concatenate(pieces))


def scan_with_all_seeds(scan: Callable[[int], None]) -> None:
    for seed in SEEDS:
        scan(seed)


# ---- faults in copies of the header --------------------------------------------------

POLL = "__nanosleep(nanoseconds_between_polls)"
TRAP = "if (published.status == {}) __trap();"
COMPLETE = "complete = published.status == tile_prefix"
WRITE = "*place(tile, status) = flagged.value;"
READ, SPACE = "published.flagged.value", "\n" + 12 * " "
FENCE = f"{SPACE}__threadfence();"
WRITE_FENCE, READ_FENCE = f"{WRITE}{FENCE}", f"__threadfence();{SPACE}{READ}"
PUBLISH = "state[k] = static_cast<unsigned long long>(parts[k]) << part_shift | low;"
HALVES = "auto* half = reinterpret_cast<volatile unsigned*>(state);"
LOW, HIGH = "half[2 * k] = low;", "half[2 * k + 1] = parts[k];"

ONE, TWO = partial(scan_tiles, ONE_WORD), partial(scan_tiles, TWO_WORDS)
LARGE, PLACED = scan_large_elements, "published"

FAULTS: list[tuple[Callable[[int], None], dict[str, str], str]] = [
    # Some seed reaches the wait, an aggregate and a prefix: a trap is found there.
    (ONE, {POLL: "__trap()"}, "__trap"),
    *(
        (ONE, {COMPLETE: f"if (tile > 1) {TRAP.format(one)} {COMPLETE}"}, "__trap")
        for one in ("tile_aggregate", "tile_prefix")
    ),
    (LARGE, {WRITE_FENCE: WRITE}, PLACED),
    (LARGE, {WRITE_FENCE: f"{WRITE} __threadfence_block();"}, PLACED),
    (LARGE, {READ_FENCE: READ}, PLACED),
    # A status before its element, a word in halves, and words of two states.
    (LARGE, {WRITE_FENCE: "", PUBLISH: f"{PUBLISH} if (!packed) {WRITE}"}, PLACED),
    (ONE, {PUBLISH: f"{{ {HALVES} {LOW} {HIGH} }}"}, "states"),
    (ONE, {PUBLISH: f"{{ {HALVES} {HIGH} {LOW} }}"}, "states"),
    (TWO, {"return agreed ? low : tile_unknown;": "return low;"}, "not equal"),
]  # fmt: skip
"""A scan, what is replaced in look_back.cuh, and the report for one of the seeds."""


@pytest.mark.parametrize(("scan", "changes", "message"), FAULTS)
def test_faults_of_the_protocol_are_reported(
    scan: Callable[[int], None],
    changes: dict[str, str],
    message: str,
    copied_sources: Path,
) -> None:
    header = copied_sources / "look_back.cuh"
    text = header.read_text()
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    header.write_text(text)
    with pytest.raises((emulator.KernelError, AssertionError), match=message):
        scan_with_all_seeds(scan)
