"""Look-back and the barrier of the grid in the memory model of PTX.

Each exchange between blocks is a small program, as in its source. With all of its parts
only right outcomes are allowed; without any part a wrong outcome is allowed, so the
part is necessary. Another test compares the programs with the compiler's PTX.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest
from ptx_memory_model import (
    Operation,
    StillWaitsError,
    Thread,
    add,
    barrier,
    fence,
    load,
    outcomes,
    store,
)

from gpusolve._device.kernels import source_directory

Steps = Generator[Operation, int, Any]

# ---- classic programs, with known verdicts -------------------------------------------


def run(*parts: Operation | Callable[[], Steps]) -> Thread:
    """A thread that executes operations and programs, and returns what it loads."""

    def thread() -> Steps:
        values = []
        for part in parts:
            if not isinstance(part, Operation):
                yield from part()
                continue
            value = yield part
            if part.kind in ("load", "add"):
                values.append(value)
        return tuple(values) or None

    return thread


def apart(*threads: Thread) -> list[list[Thread]]:
    """Each thread in a block of its own."""
    return [[thread] for thread in threads]


OPERATIONS = {
    **{place: store(place, 1, strong=True) for place in "xy"},
    **{f"weak-{place}": store(place, 1) for place in "xy"},
    **{f"?{place}": load(place, strong=True) for place in "xy"},
    **{f"?weak-{place}": load(place) for place in "xy"},
    **{f"+{place}": add(place, 1) for place in "xy"},
    "fence": fence(),
}
"""Stores, loads, additions and fences, as `VERDICTS` writes them."""

VERDICTS: dict[str, list[tuple[str, tuple[Any, ...], bool]]] = {
    "message passing": [
        ("x y | ?y ?x", ((1, 0),), True),
        ("weak-x fence y | ?y fence ?weak-x", ((1, 0),), False),
        ("weak-x fence weak-y | ?weak-y fence ?weak-x", ((1, 0),), True),
    ],
    "store buffering": [
        ("x fence ?y | y fence ?x", ((0,), (0,)), True),
    ],
    "load buffering": [
        ("?x y | ?y x", ((1,), (1,)), True),
        ("?x fence y | ?y fence x", ((1,), (1,)), False),
    ],
    "coherence of two reads": [
        ("x | ?x ?x", ((1, 0),), False),
        ("x | ?weak-x ?weak-x", ((1, 0),), True),
    ],
    "write to read causality": [
        ("weak-x | ?weak-x fence y | ?y fence ?weak-x", ((1,), (1, 0)), True),
        ("x | ?x fence y | ?y fence ?x", ((1,), (1, 0)), False),
    ],
    "independent reads": [
        ("x | y | ?x fence ?y | ?y fence ?x", ((1, 0), (1, 0)), True),
    ],
    "additions": [
        ("+x | +x", ((0,), (0,)), False),
        ("weak-x fence +y | +y | ?y fence ?weak-x", ((0,), (1,), (2, 0)), False),
    ],
}
"""The threads of programs, an outcome, and whether it is allowed."""


@pytest.mark.parametrize("name", VERDICTS)
def test_classic_verdicts(name: str) -> None:
    """The verdicts follow by hand from the axioms of the PTX ISA."""
    for program, outcome, allowed in VERDICTS[name]:
        texts = [text.split() for text in program.split("|")]
        threads = [run(*map(OPERATIONS.__getitem__, text)) for text in texts]
        found = outcomes(apart(*threads), {"y": (0, 1, 2)})
        assert (outcome in found) == allowed, program


# ---- look-back (look_back.cuh) -------------------------------------------------------

AGGREGATE, PREFIX = 1, 2


def publish(tile: int, status: int, value: int, without: str = "") -> Steps:
    """``TileStates::publish`` of an element that does not fit into a word."""
    yield store(f"value {tile} {status}", value)
    if without != "fence of the writer":
        yield fence()
    yield store(f"state {tile}", status, strong=without != "volatile store")


def read(tile: int, without: str = "") -> Steps:
    """``TileStates::read`` of such an element."""
    status = yield load(f"state {tile}", strong=without != "volatile load")
    if not status:
        raise StillWaitsError
    if without != "fence of the reader":
        yield fence()
    return (yield load(f"value {tile} {status}"))


PARTS = "fence of the writer", "volatile store", "fence of the reader", "volatile load"


@pytest.mark.parametrize("part", ["", *PARTS])
def test_every_part_of_publishing_is_necessary_and_all_suffice(part: str) -> None:
    first = run(*(partial(publish, 0, one, 1, part) for one in (AGGREGATE, PREFIX)))
    second = partial(read, 0, part)
    found = outcomes(apart(first, second), {"state 0": (0, AGGREGATE, PREFIX)})
    assert found > {(1,)} if part else found == {(1,)}


def test_prefixes_pass_from_tile_to_tile() -> None:
    def second() -> Steps:
        prefix = yield from read(0)
        yield from publish(1, PREFIX, prefix + 1)

    program = apart(partial(publish, 0, PREFIX, 1), second, partial(read, 1))
    values = {f"value {tile} {PREFIX}": (0, 1, 2) for tile in range(2)}
    states = {f"state {tile}": (0, PREFIX) for tile in range(2)}
    assert outcomes(program, values | states) == {(2,)}


@pytest.mark.parametrize("compares", [True, False])
def test_words_with_the_same_status_are_of_the_same_element(compares: bool) -> None:
    """A packed element has no fence: the reader compares the status in its words."""
    words, states = ("word 0", "word 1"), (AGGREGATE, PREFIX)
    first = run(*(store(word, one, strong=True) for one in states for word in words))
    second = run(*(load(word, strong=True) for word in words))
    found = outcomes(apart(first, second), dict.fromkeys(words, (0, *states)))
    found = {one for one in found if 0 not in one[0]}
    if compares:
        found = {one for one in found if len(set(one[0])) == 1}
    same = {((status, status),) for status in states}
    assert found == same if compares else found > same


# ---- the barrier of the grid (grid.cuh) ----------------------------------------------


def wait(leads: bool, awaited: int, without: str = "") -> Steps:
    """``GridBarrier::wait`` in thread 0 of a block, or in another thread."""
    if without != "block barrier before":
        yield barrier()
    if leads:
        yield add("arrived", 1, order="" if without == "release" else "release")
        order = "" if without == "acquire" else "acquire"
        arrived = yield load("arrived", strong=True, order=order)
        if arrived < awaited:
            raise StillWaitsError
    if without != "block barrier after":
        yield barrier()


STEPS = "block barrier before", "release", "acquire", "block barrier after"


@pytest.mark.parametrize("part", ["", *STEPS])
def test_every_part_of_the_grid_barrier_is_necessary_and_all_suffice(part: str) -> None:
    """Threads of two blocks, not their first, read of each other."""
    lead, follow = (partial(wait, leads, 2, part) for leads in (True, False))
    before = run(load("overwritten"), store("written", 1), follow)
    after = run(follow, load("written"), store("overwritten", 1))
    found = outcomes([[lead, before], [lead, after]], {"arrived": (0, 1, 2)})
    expected = {((0,), (1,))}
    assert found > expected if part else found == expected


def test_grid_barrier_of_three_blocks() -> None:
    """The last arrivals pass on what the first arrival wrote."""
    lead, written = partial(wait, True, 3), "written"
    program = apart(run(store(written, 1), lead), lead, run(lead, load(written)))
    assert outcomes(program, {"arrived": range(4)}) == {((1,),)}


def test_grid_barrier_is_used_again_without_a_reset() -> None:
    once, again = (partial(wait, True, arrivals) for arrivals in (2, 4))
    first = run(once, store("written", 1), again)
    second = run(once, again, load("written"))
    assert outcomes(apart(first, second), {"arrived": range(5)}) == {((1,),)}


# ---- the compiler's PTX --------------------------------------------------------------

KERNELS = """
#include "grid.cuh"
#include "look_back.cuh"

extern "C" __global__ void wait(unsigned long long* arrived) {
    GridBarrier(arrived).wait();
}
extern "C" __global__ void publish(unsigned long long* states, double* values) {
    TileStates<double, 1>(states, values).publish(1, tile_prefix, {2.0, false});
}
extern "C" __global__ void read(unsigned long long* states, double* values) {
    values[0] = TileStates<double, 1>(states, values).read(1).flagged.value;
}
"""

ORDERING = re.compile(
    r"(bar\.sync|membar\.\w+|fence[.\w]*|atom\S*|\bred\.\S*"
    r"|(?:ld|st)(?:\.acquire\.gpu|\.volatile)?\.global)"
)
"""Instructions that the model knows."""

INSTRUCTIONS = {
    ("fence", ""): "membar.gl",
    ("barrier", ""): "bar.sync",
    ("add", "release"): "red.release.gpu.global.add.u64",
    ("load", "acquire"): "ld.acquire.gpu.global",
    ("load", "strong"): "ld.volatile.global",
    ("store", "strong"): "st.volatile.global",
    ("load", "weak"): "ld.global",
    ("store", "weak"): "st.global",
}


def instructions(steps: Steps) -> list[str]:
    """The PTX of a program whose loads get 2."""
    found = []
    operation = next(steps)
    while True:
        is_access = operation.kind in ("load", "store")
        strength = ("strong" if operation.strong else "weak") if is_access else ""
        strength = operation.order or strength
        found.append(INSTRUCTIONS[operation.kind, strength])
        try:
            operation = steps.send(2)
        except StopIteration:
            return found


@pytest.mark.parametrize("architecture", [75, 90, 120])
def test_programs_are_the_compilers(architecture: int) -> None:
    """A loop that polls has its load twice in the PTX, before the loop and in it."""
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(KERNELS, "exchanges.cu", (), ())
    options = ("--std=c++17", f"-I{source_directory()}")
    nvrtc.compileProgram(program, (*options, f"-arch=compute_{architecture}"))
    _, *entries = nvrtc.getPTX(program).decode().split(".visible .entry ")
    found = {}
    for entry in entries:
        names = ORDERING.findall(entry)
        polls = "ld.acquire.gpu.global", "ld.volatile.global"
        found[entry.partition("(")[0]] = [
            name
            for name, before in zip(names, ["", *names], strict=False)
            if not (name == before and name in polls)
        ]
    assert found == {
        "wait": instructions(wait(True, 2)),
        "publish": instructions(publish(1, PREFIX, 2)),
        # The last store is the kernel's own.
        "read": [*instructions(read(1)), "st.global"],
    }
