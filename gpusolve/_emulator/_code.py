"""What a GPU executes for the instructions of a kernel's PTX. An estimate.

A GPU's assembler, which is not modelled, does more to the code. Here

- divisions and roots are the instructions that the assembler writes;
- loads of neighbouring words of shared memory, by one address register, are one load;
- the last instruction of a basic block waits for the others, which do not wait for each
  other; and the loads of a basic block wait together.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from functools import cached_property
from pathlib import Path

from ._errors import UNKNOWN_LINE, SourceLine
from ._gpu import LATENCY_CLOCKS
from .module import LoadedKernel

_ARITHMETIC = {
    "add": "add",
    "sub": "add",
    "mul": "multiply",
    "fma": "fused",
    "mad": "fused",
    "div": "divide",
    "sqrt": "square root",
}
"""The names of floating-point operations, by opcode."""

_FLOATS = frozenset(("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"))
_INTEGER = frozenset(
    ("add", "sub", "mul", "mad", "div", "rem", "and", "or", "xor", "not", "shl", "shr")
    + ("neg", "abs", "min", "max", "bfe", "bfi", "bfind", "popc", "clz", "brev", "prmt")
    + ("shf", "lop3", "mul24", "mad24", "sad", "dp4a", "addc", "subc", "madc", "selp")
    + ("slct", "cnot")
)
_SPECIAL = frozenset(("rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"))
_BLOCK_ENDS = frozenset(("bra", "brx", "ret", "exit", "bar", "barrier", "call"))

_EXPANDED: dict[str, dict[str, int]] = {
    "integer divide": {"integer": 14, "special": 3},
    "long divide": {"integer": 18, "special": 3, "compare": 1, "branch": 2},
    "float32 divide": {"float32": 6, "special": 1, "branch": 1},
    "float64 divide": {"float64": 9, "special": 1, "compare": 1, "branch": 1},
    "float32 square root": {"float32": 5, "special": 1, "branch": 1},
    "float64 square root": {"float64": 9, "special": 1, "compare": 1, "branch": 1},
}
"""PTX instructions that the assembler replaces by several, as its code for sm_90 has
them."""

WIDEST_LOAD = 16
"""Bytes of a lane that an instruction loads at most."""

_STATEMENT = re.compile(
    r"^\s*(?:[\w$]+:\s*)?\{?\s*(?:@!?%?[\w$]+\s+)?([a-z][\w.:]*)\s*([^;]*)"
)
_LABEL = re.compile(r"^\s*[$\w]+:")
_SHARED_LOAD = re.compile(
    r"ld(?:\.\w+)*\.shared\.\w(8|16|32|64) .*\[([\w$%]+)(?:\+(-?\d+))?\]"
)


def kinds_of(opcode: str) -> tuple[str, str]:
    """The kind of an instruction, and its name among the arithmetic; empty if none.

    Examples
    --------
    >>> kinds_of("fma.rn.f64"), kinds_of("setp.lt.s32"), kinds_of("mov.u32")
    (('float', 'float64 fused'), ('compare', ''), ('', ''))
    """
    name, _, rest = opcode.partition(".")
    type = rest.rpartition(".")[2]
    if name in ("setp", "set"):
        return "compare", ""
    if name in ("bra", "brx"):
        return "branch", ""
    if type in _FLOATS and name != "cvt":
        kind = "float64" if type == "f64" else "float32"
        if name in _ARITHMETIC:
            return "float", f"{kind} {_ARITHMETIC[name]}"
        if name in _SPECIAL:
            return "special", ""
        return ("float", "") if name in ("neg", "abs", "min", "max") else ("", "")
    return ("integer", "") if name in _INTEGER and type != "pred" else ("", "")


def gpu_instructions(opcode: str) -> dict[str, int]:
    """The instructions of a GPU for an instruction of PTX, by kind.

    Examples
    --------
    >>> gpu_instructions("add.f64"), gpu_instructions("rem.u32")
    ({'float64': 1}, {'integer': 14, 'special': 3})
    """
    kind, arithmetic = kinds_of(opcode)
    if arithmetic in _EXPANDED and "approx" not in opcode:
        return _EXPANDED[arithmetic]
    name, type = opcode.partition(".")[0], opcode.rpartition(".")[2]
    if name in ("div", "rem") and kind == "integer":
        return _EXPANDED["long divide" if type.endswith("64") else "integer divide"]
    if kind == "float":
        return {"float64" if type == "f64" else "float32": 1}
    return {kind: 1} if kind else {}


class Code:
    """The instructions of a kernel, by their numbers in the machine.

    Attributes
    ----------
    opcodes : list of str
    lines : list of SourceLine
    """

    def __init__(self, kernel: LoadedKernel) -> None:
        files = kernel.module.files
        self._text = kernel.module.ptx.split("\n")
        self._places = [ptx_line - 1 for ptx_line, _, _ in kernel.sites]
        self._functions = kernel.module.lines
        self.opcodes = [self._parts(place)[0] for place in self._places]
        self.lines = [
            SourceLine(Path(files[file]), line)
            if line and file in files
            else UNKNOWN_LINE
            for _, file, line in kernel.sites
        ]

    def _parts(self, place: int) -> tuple[str, str]:
        """The opcode and the operands of a line."""
        found = _STATEMENT.match(self._text[place])
        return (found[1], found[2]) if found else ("", "")

    @cached_property
    def blocks(self) -> list[list[int]]:
        """The basic blocks: instructions that follow each other."""
        found: list[list[int]] = [[]]
        previous = -1
        for site, place in enumerate(self._places):
            between = self._text[previous + 1 : place + 1]
            if place < previous or any(map(_LABEL.match, between)):
                found.append([])
            found[-1].append(site)
            previous = place
            if self.opcodes[site].partition(".")[0] in _BLOCK_ENDS:
                found.append([])
        return [block for block in found if block]

    def waits(self, block: list[int]) -> float:
        """Clocks that a warp waits for results of a basic block, without its loads."""
        clocks = 0.0
        for site in block:
            for kind, count in gpu_instructions(self.opcodes[site]).items():
                clocks += count * {
                    "special": LATENCY_CLOCKS["special"],
                    "float64": LATENCY_CLOCKS["float64"] / 2,
                    "branch": LATENCY_CLOCKS["branch"],
                }.get(kind, 0)
        return clocks + LATENCY_CLOCKS["arithmetic"]

    def loads(self, block: list[int], space: str) -> bool:
        """Whether a basic block loads from "global" or "shared" memory."""
        others = {"shared", "param", "const", "local", "global"} - {space}
        for site in block:
            name, *parts = self.opcodes[site].split(".")
            is_generic = space == "global" and others.isdisjoint(parts)
            if name in ("ld", "ldu", "atom") and (space in parts or is_generic):
                return True
        return False

    @cached_property
    def merged_loads(self) -> set[int]:
        """Loads from shared memory that an earlier load of their block includes."""
        merged: set[int] = set()
        for block in self.blocks:
            first: set[tuple[str, int]] = set()
            for site in block:
                found = _SHARED_LOAD.match(" ".join(self._parts(self._places[site])))
                if found is None:
                    continue
                width = min(WIDEST_LOAD, self._alignment(found[2], self._places[site]))
                if width <= int(found[1]) // 8:
                    continue
                key = found[2], int(found[3] or 0) // width
                if key in first:
                    merged.add(site)
                first.add(key)
        return merged

    def _alignment(self, register: str, place: int) -> int:
        """A power of two that divides a register at a line, at most `WIDEST_LOAD`."""
        which = bisect_right(self._functions, place) - 1
        return 1 << self._zeros(register, self._definitions[which], frozenset())

    @cached_property
    def _definitions(self) -> list[dict[str, list[tuple[str, list[str]]]]]:
        """Of each function: what defines each register."""
        ends = [*self._functions[1:], len(self._text)]
        found = []
        for start, end in zip(self._functions, ends, strict=True):
            by_register = defaultdict(list)
            for place in range(start, end):
                opcode, operands = self._parts(place)
                register, *sources = map(str.strip, operands.split(","))
                if register.startswith("%"):
                    by_register[register].append((opcode, sources))
            found.append(dict(by_register))
        return found

    def _zeros(
        self,
        operand: str,
        definitions: dict[str, list[tuple[str, list[str]]]],
        open_registers: frozenset[str],
    ) -> int:
        """Low bits of an operand that are 0 for certain."""
        most = WIDEST_LOAD.bit_length() - 1
        if operand.lstrip("-").isdigit():
            value = int(operand)
            return min(most, (value & -value).bit_length() - 1) if value else most
        if not operand.startswith("%"):
            return most  # a variable: the assembler places it
        if operand in open_registers:
            return most  # the value before, in a loop

        def of(source: str) -> int:
            return self._zeros(source, definitions, open_registers | {operand})

        def after(opcode: str, sources: list[str]) -> int:
            match opcode.partition(".")[0], sources:
                case ("mov" | "cvt" | "cvta", [source]):
                    return of(source)
                case ("add" | "sub" | "or", [a, b]):
                    return min(of(a), of(b))
                case ("and", [a, b]):
                    return max(of(a), of(b))
                case ("shl", [a, b]) if b.isdigit():
                    return of(a) + int(b)
                case ("mul", [a, b]):
                    return of(a) + of(b)
                case ("mad", [a, b, c]):
                    return min(of(a) + of(b), of(c))
            return 0

        found = [after(*definition) for definition in definitions.get(operand, ())]
        return min(most, *found) if found else 0
