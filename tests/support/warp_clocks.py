"""Clocks of a warp that is alone, from control codes and agreed latencies.

The warp issues its instructions in order. An instruction is issued when the stall of
the instruction before it is over, and the scoreboards that it waits for are released.
No unit is ever busy with another warp, every load hits the cache that `LATENCIES`
names, no bank conflicts, and code is always in the cache of instructions: the clocks
are less than on a busy multiprocessor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from control_codes import NONE, SCOREBOARDS, Control

from gpusolve._emulator._latencies import LATENCY_CLOCKS

LATENCIES = {
    "LDS": LATENCY_CLOCKS["shared"],
    "LD": LATENCY_CLOCKS["shared generic"],
    "LDL": LATENCY_CLOCKS["l1"],
    "LDG": LATENCY_CLOCKS["l2"],
    "ATOM": LATENCY_CLOCKS["atomic"],
    "ATOMG": LATENCY_CLOCKS["atomic"],
    "SHFL": LATENCY_CLOCKS["shuffle"],
    "MUFU": LATENCY_CLOCKS["special"],
    "ATOMS": 60,
    "LDC": 30,
    "MATCH": 30,
    "REDUX": 30,
    "FCHK": 30,
    "FRND": 20,
    "F2F": 20,
    "F2I": 20,
    "I2F": 20,
    "POPC": 20,
    "FLO": 20,
    "BREV": 20,
    "B2R": 30,
    "S2R": 30,
    "S2UR": 30,
}
"""Clocks from the issue of an instruction to the release of its scoreboard.

An opcode is known by its first part. A global load is assumed to find its line in L2, a
generic load to find shared memory, a local load the first-level cache. The numbers are
estimates."""

OPERANDS_READ = 12
"""Clocks until a memory instruction has read its registers (9 to 20 in Huerta et al.,
Analyzing modern NVIDIA GPU cores, 2025)."""

BLOCKED = {"BAR": 30, "MEMBAR": 600, "NANOSLEEP": 60}
"""Clocks until the next instruction, if the warp stops at this instruction. The barrier
finds all other warps waiting, the fence a store that is on its way to L2; the sleep
is the 32 nanoseconds of `grid.cuh`, at 1.8 GHz. All three are estimates."""


class Clocks(NamedTuple):
    """When the next instruction may be issued, and each scoreboard is released."""

    ready: int
    released: tuple[int, ...]


START = Clocks(0, (0,) * SCOREBOARDS)


def issue(now: Clocks, control: Control) -> int:
    """The clock of the next instruction."""
    return max([now.ready, *(now.released[i] for i in control.waits_for())])


def advance(now: Clocks, name: str, control: Control, is_on: bool) -> Clocks:
    """The clocks after an instruction; if it is off, its predicate is false."""
    clock = issue(now, control)
    stall = max(control.stall, 1)  # without a stall: an instruction for each clock
    if not is_on:
        return Clocks(clock + stall, now.released)
    released = list(now.released)
    if control.written != NONE:
        _release(released, control.written, clock + LATENCIES[name])
    if control.read != NONE:
        _release(released, control.read, clock + OPERANDS_READ)
    return Clocks(clock + max(stall, BLOCKED.get(name, 0)), tuple(released))


def _release(released: list[int], scoreboard: int, clock: int) -> None:
    """A scoreboard counts: the last of its instructions releases it."""
    released[scoreboard] = max(released[scoreboard], clock)


def join(one: Clocks, other: Clocks, choose: Callable[[int, int], int]) -> Clocks:
    """Bounds on the clocks where two paths meet: `choose` is min or max."""
    pairs = zip(one.released, other.released, strict=True)
    return Clocks(
        choose(one.ready, other.ready), tuple(choose(*pair) for pair in pairs)
    )
