"""The clocks of loops agree with loops that were counted by hand, and with the
table.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from kernel_clocks import (
    changed_clocks,
    changes,
    clocks_of,
    listings_of,
    read_clocks,
    report,
    rows_of,
    watched_sources,
    write_clocks,
    written_rows,
)
from kernel_code import Instruction, Listing, has_disassembler
from kernel_resources import Source
from machine_loops import graph_of
from together import together
from warp_clocks import BLOCKED, LATENCIES, OPERANDS_READ
from warp_paths import WarpPaths

needs_compiler = pytest.mark.skipif(
    not has_disassembler(), reason="needs nvdisasm, from nvidia-cuda-nvdisasm"
)

FILE = Path(__file__).parents[1] / "kernels" / "loop_clocks"

QUICK = {
    "nnls_gram<float, BlockTeam>",
    "gram_matrices<float, 1, 256>",
}
"""Kernels that compile in seconds."""

SHARED, GLOBAL = LATENCIES["LDS"], LATENCIES["LDG"]


# ---- loops made by hand --------------------------------------------------------------


def listing_of(text: str) -> Listing:
    """The code of lines such as ``@P0 LDS R0, [R1] | 1 w2 r3 00001``.

    After the bar are the stall, the scoreboards written and read, and those waited for.
    """
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    function = "kernel"
    for line in text.strip().splitlines():
        instruction, _, control = line.strip().partition(" | ")
        if not control:
            name = instruction.removesuffix(":")
            labels[name] = len(code)
            function = name if name.startswith("$") else function
            continue
        predicate, opcode, operands = "", *instruction.split(" ", 1)
        if opcode.startswith("@"):
            predicate, (opcode, operands) = f"{opcode} ", operands.split(" ", 1)
        code.append(
            Instruction(function, predicate, opcode, operands, word_of(control))
        )
    return Listing(code, labels)


def word_of(control: str) -> int:
    stall, *marks = control.split()
    fields = {"w": "7", "r": "7", "x": ""} | {mark[0]: mark[1:] for mark in marks}
    waits = sum(1 << int(scoreboard) for scoreboard in fields["x"])
    bits = f"{waits:06b}{int(fields['r']):03b}{int(fields['w']):03b}0{int(stall):04b}"
    return int(bits, 2) << 105


def clocks(text: str) -> list[tuple[float | None, ...]]:
    """The least and the most clocks of each innermost loop."""
    listing = listing_of(text)
    graph = graph_of(listing)
    walks = [WarpPaths(listing, graph, choose) for choose in (min, max)]
    return [
        tuple(walk.clocks(loop) for walk in walks)
        for loop in graph.loops
        if loop.is_innermost
    ]


STALLS = """
    MOV R0, R1 | 9
.loop:
    IADD3 R0, R0, 0x1, RZ | 4
    ISETP.GE.AND P0, PT, R0, R1, PT | 13
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
"""

WAIT = """
.loop:
    LDS R2, [R0] | 1 w0
    IADD3 R0, R0, 0x4, RZ | 4
    FFMA R3, R2, R2, R3 | 4 x0
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
"""

PIPELINED = """
.loop:
    FFMA R3, R2, R2, R3 | 6 x0
    LDS R2, [R0] | 1 w0
    IADD3 R0, R0, 0x4, RZ | 4
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
"""

STORE = """
.loop:
    STS [R0], R2 | 1 r4
    IADD3 R0, R0, 0x4, RZ | 3 x4
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
"""

BRANCHES = """
.loop:
    @P1 BRA `(.near) | 5
    LDG.E R2, desc[UR4][R0.64] | 2 w1
    BRA `(.join) | 5
.near:
    LDS R2, [R0] | 3 w1
.join:
    FFMA R3, R2, R2, R3 | 4 x1
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
"""

OPPOSITE = """
.loop:
    ISETP.GE.AND P1, PT, R0, R1, PT | 6
    @P1 LDG.E R2, desc[UR4][R0.64] | 1 w1
    @P1 IADD3 R4, R4, 0x1, RZ | 1 x1
    @!P1 IADD3 R0, R0, 0x4, RZ | 4
    @!P1 LDS R2, [R0] | 1 w1
    FFMA R3, R2, R2, R3 | 4 x1
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
"""

REWRITTEN = """
.loop:
    ISETP.GE.AND P1, PT, R0, R1, PT | 6
    @P1 LDS R2, [R0] | 1 w1
    FFMA R3, R2, R2, R3 | 4 x1
    IADD3 R0, P1, R0, 0x4, RZ | 6
    @!P1 LDS R2, [R0] | 1 w1
    FFMA R3, R2, R2, R3 | 4 x1
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
"""

LAST_RELEASES = """
.loop:
    LDG.E R2, desc[UR4][R0.64] | 2 w1
    LDS R4, [R0] | 1 w1
    FFMA R3, R2, R4, R3 | 4 x1
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
"""

CALLS = """
.loop:
    CALL.REL.NOINC `($called) | 5
    @P1 CALL.REL.NOINC `($__internal_0_$__cuda_sm20_div_rn_f64_full) | 5
    BRA.DIV ~URZ, `(.parted) | 5
.back:
    BAR.SYNC.DEFER_BLOCKING 0x0 | 6
    @!P0 BRA `(.loop) | 5
    EXIT  | 5
.parted:
    LDG.E R2, desc[UR4][R0.64] | 15 w0
    BRA `(.back) | 15 x0
$called:
    LDS R2, [R0] | 2 w0
    RET.REL.NODEC R4 `(kernel) | 5 x0
$__internal_0_$__cuda_sm20_div_rn_f64_full:
    LDG.E R2, desc[UR4][R0.64] | 2 w0
    RET.REL.NODEC R4 `(kernel) | 5 x0
.end:
    BRA `(.end) | 5
"""

NESTED = """
.outer:
    IADD3 R0, R0, 0x1, RZ | 4
.inner:
    IADD3 R1, R1, 0x1, RZ | 6
    @!P0 BRA `(.inner) | 5
    @!P1 BRA `(.outer) | 5
.calling:
    CALL.REL.NOINC `($between) | 5
    @!P2 BRA `(.calling) | 5
    EXIT  | 5
$between:
    CALL.REL.NOINC `($called) | 5
    RET.REL.NODEC R4 `(kernel) | 5
$called:
    IADD3 R2, R2, 0x1, RZ | 7
    @!P3 BRA `($called) | 5
    RET.REL.NODEC R4 `(kernel) | 5
"""


@together(
    ("text", "least", "most"),
    [
        (STALLS, 22, 22),
        (WAIT, SHARED + 4 + 5, SHARED + 4 + 5),
        (PIPELINED, SHARED + 6, SHARED + 6),
        (STORE, OPERANDS_READ + 3 + 5, OPERANDS_READ + 3 + 5),
        (BRANCHES, 5 + SHARED + 4 + 5, 5 + GLOBAL + 4 + 5),
        (OPPOSITE, 6 + 1 + 1 + 4 + SHARED + 4 + 5, 6 + GLOBAL + 1 + 4 + 1 + 4 + 5),
        (REWRITTEN, 6 + 5 + 6 + 5 + 5, 6 + SHARED + 4 + 6 + SHARED + 4 + 5),
        (LAST_RELEASES, GLOBAL + 4 + 5, GLOBAL + 4 + 5),
        (CALLS, *2 * (5 + SHARED + 5 + 5 + 5 + BLOCKED["BAR"] + 5,)),
    ],
)
def test_clocks_of_a_loop(text: str, least: float, most: float) -> None:
    assert clocks(text) == [(least, most)]


def test_inner_loops_have_clocks() -> None:
    """A loop that calls a function with a loop is an outer loop."""
    assert sorted(clocks(NESTED)) == [(11, 11), (12, 12)]


def test_loads_that_are_not_waited_for_are_in_flight() -> None:
    listing = listing_of(
        """
    .loop:
        LDG.E.64 R2, desc[UR4][R0.64] | 2 w1
        LDG.E.U8 R4, desc[UR4][R0.64] | 2 w2
        LD.E.128 R8, desc[UR4][R0.64] | 2 w3 x2
        LDS.64 R12, [R0] | 2 w3
        LDG.E R5, desc[UR4][R0.64] | 2 w2 x1
        @!P0 BRA `(.loop) | 5 x23
        EXIT  | 5
    """
    )
    graph = graph_of(listing)
    assert WarpPaths(listing, graph, max).bytes_in_flight(graph.loops[0]) == 8 + 16


# ---- compiled loops ------------------------------------------------------------------


@needs_compiler
def test_clocks_of_compiled_loops() -> None:
    """A trip waits for its chain, and the other instructions need few clocks."""
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    fma = 8
    chains = {
        "chase_shared": SHARED,
        "chase_global": GLOBAL,
        "chase_two": GLOBAL,
        "chain<16>": 16 * fma,
        "chain<18>": 18 * fma,
        "lend_body": GLOBAL,
    }
    source = Source("", str(FILE), "", tuple(chains))
    for name, listing in listings_of(source).items():
        (trip,) = clocks_of(listing)
        assert chains[name] <= trip.least == trip.most < chains[name] + 30, name
        assert trip.function == name.partition("<")[0]
        text = FILE.with_suffix(".cu").read_text().splitlines()[trip.places[0].line - 1]
        assert text.strip().startswith(("for (int trip = 0;", "repeat(count,")), name
        assert sum(trip.spent.values()) == trip.most
    sixteen, eighteen = (
        clocks
        for (_, instance, _), clocks in rows_of(source).items()
        if instance.startswith("chain")
    )
    assert changes(sixteen, eighteen) == [f"from {sixteen[0]} to {eighteen[0]}"]


@needs_compiler
def test_the_report_begins_with_the_slowest_loop() -> None:
    """A loop without a branch has the clocks of its lines."""
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    instance, *lines = report("gram", ["float", " 4,"])
    assert instance == "gram_matrices<float, 4, 256>"
    trips = [
        (*map(int, re.findall(r"^  (\d+) to (\d+) clocks", line)[0]), i)
        for i, line in enumerate(lines)
        if " clocks, " in line
    ]
    most = [longest for _, longest, _ in trips]
    assert most == sorted(most, reverse=True)
    for (least, longest, i), (*_, end) in pairwise([*trips, (0, 0, len(lines))]):
        if least == longest:
            spent = sum(int(line.split()[0]) for line in lines[i + 1 : end])
            assert spent == longest


# ---- the table -----------------------------------------------------------------------


@together(
    ("written", "found", "reported"),
    [
        ([100, 50], [110, 45], []),
        ([100, 50], [111, 50], ["from 100, 50 to 111, 50"]),
        ([100, 50], [100, 44], ["from 100, 50 to 100, 44"]),
        ([50, 50], [50], ["from 2 x 50 to 50"]),
        ([50], [], ["from 50 to none"]),
    ],
)
def test_changes_of_the_clocks(
    written: list[int], found: list[int], reported: list[str]
) -> None:
    assert changes(written, found) == reported


def test_clocks_are_read_as_they_are_written() -> None:
    clocks = [1583, 332, 332, 332, 47, 29, 29]
    assert write_clocks(clocks) == "1583, 3 x 332, 47, 2 x 29"
    assert read_clocks(write_clocks(clocks)) == clocks


def test_the_table_has_the_watched_kernels() -> None:
    """Kernels without a loop have no line."""
    watched = {
        (source.operators, instance)
        for source in watched_sources()
        for instance in source.instances
    }
    written = {row[:2] for row in written_rows()}
    assert written <= watched
    assert {kernel for kernel in watched if "nnls" in kernel[1]} <= written


@needs_compiler
def test_clocks_of_some_kernels_are_those_of_the_table() -> None:
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    chosen = [one for one in watched_sources() if QUICK & set(one.instances)]
    assert len(chosen) == len(QUICK)
    changed = "\n".join(changed_clocks(chosen))
    assert not changed, f"update the table with: make resources\n{changed}"


@needs_compiler
@pytest.mark.slow
def test_clocks_of_all_kernels_are_those_of_the_table() -> None:
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    changed = "\n".join(changed_clocks(watched_sources()))
    assert not changed, f"update the table with: make resources\n{changed}"
