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

Alter = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def emulate(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    with emulator.races():
        yield


@pytest.fixture
def alter(copied_sources: Path) -> Alter:
    """Replaces a piece of look_back.cuh during a test."""
    header = copied_sources / "look_back.cuh"

    def replace(old: str, new: str) -> None:
        text = header.read_text()
        assert text.count(old) == 1
        header.write_text(text.replace(old, new))

    return replace


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


def scan_with_all_seeds(scan: Callable[[int], None]) -> None:
    for seed in SEEDS:
        scan(seed)


@together("seed", SEEDS)
@together("dtype", [ONE_WORD, TWO_WORDS])
def test_no_race_in_any_interleaving(dtype: Any, seed: int) -> None:
    scan_tiles(dtype, seed)


@together("seed", SEEDS)
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


def trapped(seed: int) -> bool:
    try:
        scan_tiles(ONE_WORD, seed)
    except emulator.KernelError as error:
        return "__trap()" in str(error)
    return False


def test_some_tile_waits_for_another(alter: Alter) -> None:
    alter("__nanosleep(nanoseconds_between_polls)", "__trap()")
    assert any(trapped(seed) for seed in SEEDS)


@pytest.mark.parametrize("status", ["tile_aggregate", "tile_prefix"])
def test_tiles_read_aggregates_and_prefixes(alter: Alter, status: str) -> None:
    line = "complete = published.status == tile_prefix"
    alter(line, f"if (published.status == {status} && tile > 1) __trap(); {line}")
    assert any(trapped(seed) for seed in SEEDS)


WRITERS_FENCE = """= flagged.value;
            __threadfence();"""
READERS_FENCE = """__threadfence();
            published.flagged.value"""


@pytest.mark.parametrize(
    ("fence", "without"),
    [
        (WRITERS_FENCE, "= flagged.value;"),
        (WRITERS_FENCE, "= flagged.value; __threadfence_block();"),
        (READERS_FENCE, "published.flagged.value"),
    ],
)
def test_a_missing_fence_is_reported(alter: Alter, fence: str, without: str) -> None:
    alter(fence, without)
    with pytest.raises(emulator.KernelError, match="published"):
        scan_with_all_seeds(scan_large_elements)


PUBLISH = "state[k] = static_cast<unsigned long long>(parts[k]) << part_shift | low;"


def test_a_status_written_before_its_element_is_reported(alter: Alter) -> None:
    alter("*place(tile, status) = flagged.value;\n            __threadfence();", "")
    alter(PUBLISH, PUBLISH + "if (!packed) *place(tile, status) = flagged.value;")
    with pytest.raises(emulator.KernelError, match="published"):
        scan_with_all_seeds(scan_large_elements)


@pytest.mark.parametrize("first", [0, 1])
def test_a_word_written_in_halves_is_reported(alter: Alter, first: int) -> None:
    halves = ["half[2 * k] = low;", "half[2 * k + 1] = parts[k];"]
    alter(
        PUBLISH,
        "{ auto* half = reinterpret_cast<volatile unsigned*>(state);"
        + halves[first]
        + halves[1 - first]
        + "}",
    )
    with pytest.raises(emulator.KernelError, match="states"):
        scan_with_all_seeds(partial(scan_tiles, ONE_WORD))


def test_words_of_two_states_give_a_wrong_result(alter: Alter) -> None:
    alter("return agreed ? low : tile_unknown;", "return low;")
    with pytest.raises(AssertionError, match="not equal"):
        scan_with_all_seeds(partial(scan_tiles, TWO_WORDS))
