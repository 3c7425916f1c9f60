"""Control codes: what the compiler tells the scheduler of a warp with each instruction.

Since Volta an instruction has 128 bits. Bits 105 to 125 are its control code (Jia et
al., Dissecting the NVIDIA Volta GPU architecture via microbenchmarking, 2018):

- the clocks until the next instruction of the warp may be issued,
- the scoreboard that is released when the result is written, and the scoreboard that
  is released when the operands are read,
- the scoreboards that must be released before the instruction is issued.

An instruction of fixed latency needs no scoreboard: the stalls between it and the first
use of its result add up to its latency.
"""

from __future__ import annotations

from typing import NamedTuple

SCOREBOARDS = 6

NONE = 7
"""The number of a scoreboard that stands for none."""

FIRST_BIT = 105

WIDTHS = (4, 1, 3, 3, 6, 4)
"""Bits of the fields of `Control`, from the lowest."""


class Control(NamedTuple):
    """A control code.

    Attributes
    ----------
    stall : int
        Clocks until the next instruction.
    stays : int
        0 if the scheduler should prefer another warp.
    written, read : int
        Scoreboards released with the result and with the operands, or `NONE`.
    waits : int
        Scoreboards to wait for, a bit for each.
    reuse : int
        Operands kept for the next instruction, a bit for each.
    """

    stall: int
    stays: int
    written: int
    read: int
    waits: int
    reuse: int

    def waits_for(self) -> list[int]:
        return [i for i in range(SCOREBOARDS) if self.waits >> i & 1]


def decode(word: int) -> Control:
    """The control code of an instruction of 128 bits."""
    code = word >> FIRST_BIT
    fields = []
    for width in WIDTHS:
        fields.append(code & ((1 << width) - 1))
        code >>= width
    return Control(*fields)
