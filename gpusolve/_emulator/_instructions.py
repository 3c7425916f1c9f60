"""Instructions of each basic block of a compiled kernel, by kind.

`instructions` has what the CPU executes. `gpu_blocks` estimates from the same code what
a GPU executes:

- The emulator's code of barriers, warp operations and atomics is left out: a GPU has
  an instruction for each, which is counted when it happens.
- A multiplication and an addition of a basic block are one fused operation.
- Divisions, roots and functions are the instructions that a GPU's compiler writes.
- A GPU's compiler unrolls loops, and folds addresses into the loads: a loop with a
  small constant number of iterations costs nothing but its body, and an innermost loop
  is unrolled four times. Then the arithmetic of addresses and of the loop's end is done
  once in four iterations, and the loads of four iterations wait together.
- The last instruction of a basic block waits for the others, which do not wait for each
  other.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ._latencies import LATENCY_CLOCKS
from ._lines import UNKNOWN_LINE, SourceLine, source_lines

_NAMES = {
    "add": "add",
    "sub": "add",
    "mul": "multiply",
    "div": "divide",
    "sqrt": "square root",
    "madd": "fused",
    "msub": "fused",
    "nmadd": "fused",
    "nmsub": "fused",
}
_TYPES = {"ss": "float32", "sd": "float64", "s": "float32", "d": "float64"}

FLOATING_POINT = tuple(sorted(set(_TYPES.values())))
"""How the names of floating-point operations begin."""

_FUNCTION = re.compile(r"[0-9a-f]+ <.*>:")
_INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\s+(.*)")
_SOURCE_LINE = re.compile(r"(?:.*/)?([\w.]+):\d+( \(discriminator \d+\))?$")
_OPERATIONS = ("atomics.h", "cooperative_groups.h", "device.h", "synchronize.h")
"""Files of the runtime that emulate what is one instruction of a GPU."""

_START = "<__sanitizer_cov_trace_pc"
_ACCESS = "<__tsan_"
_X86 = re.compile(r"v?f?(n?madd|n?msub|add|sub|mul|div|sqrt)(?:\d{3})?(ss|sd)\s")
_ARM = re.compile(r"f(n?madd|n?msub|add|sub|mul|div|sqrt)\s+([sd])\d")
_KINDS = {
    "integer": re.compile(
        r"(add|sub|i?mul|i?div|inc|dec|neg|not|and|or|xor|sh[lr]|sa[lr]|ro[lr]|lea)"
        r"[bwlq]?\s|(set|cmov)\w+\s|(adds|subs|madd|msub|[su]mull|[su]div|ands|orr|eor|"
        r"bic|mvn|lsl|lsr|asr|ror|cset|csel|csinc|cinc|[su]bfi?[xz])\s"
    ),
    "compare": re.compile(
        r"(cmp|test)[bwlq]?\s|v?u?comis[sd]\s|(cmn|tst|ccmp|fcmpe?)\s"
    ),
    "branch": re.compile(r"j\w+\s|b(\.\w+)?\s|[ct]bn?z\s"),
}
"""Of x86_64 and AArch64."""

_ADDRESS = re.compile(r",%rsp$|\(%r[is]p|\bsp\b")
"""Operands of instructions that compute addresses of the stack and of variables."""

_FUSED_CALL = re.compile(r"(?:call|bl)\w*\s.*<(fmaf?)@plt>")
_FUNCTION_CALL = re.compile(
    r"(?:call|bl)\w*\s.*<((?:r?sqrt|exp\w*|log\w*|pow|sin\w*|cos\w*|tanh?|erf\w*|"
    r"[lt]gamma|cbrt|atan2?|norm\w*)f?)@plt>"
)
_DIVISION = re.compile(r"i?div[lq]?\s+%(r|e)|[su]div\s+([xw])")
_STEP = re.compile(r"(add|sub)[lq]?\s+\$|(add|sub)s?\s.*#|(inc|dec)[lq]?\s")
_CONSTANT_END = re.compile(
    r"cmp[lq]?\s+\$(0x[0-9a-f]+|\d+),|cmp\s.*#(0x[0-9a-f]+|\d+)$"
)
_SCALE = re.compile(r"lea|s[ha]l[lq]?\s+\$")
_ALWAYS = re.compile(r"(jmp|b)\s")
_JUMP = re.compile(r"(j\w+|b(?:\.\w+)?|[ct]bn?z)\s+(?:.*,\s*)?([0-9a-f]+)\s<")

UNROLLED = 4
"""Iterations of an innermost loop that a GPU's compiler merges. Assumed: nvcc's usual
choice for a loop whose number of iterations it does not know."""

_MOST_UNROLLED = 64
"""Iterations of a loop that is unrolled completely. Assumed."""

PARTS = 16
"""The runtime counts fractions in 16ths."""

_EXPANDED = {
    "integer divide": {"integer": 14, "special": 3},
    "long divide": {"integer": 18, "special": 3, "compare": 1, "branch": 2},
    "float32 divide": {"float32": 6, "special": 1, "branch": 1},
    "float64 divide": {"float64": 9, "special": 1, "compare": 1, "branch": 1},
    "float32 square root": {"float32": 5, "special": 1, "branch": 1},
    "float64 square root": {"float64": 9, "special": 1, "compare": 1, "branch": 1},
    "float32 function": {"float32": 6, "special": 1, "integer": 1},
    "float64 function": {"float64": 17, "integer": 10, "branch": 1},
}
"""Instructions for sm_80 on the usual path, from NVRTC 12.9: of the functions, exp; of
divisions of 64 bits, those of numbers below 2**32."""


@dataclass
class GpuBlock:
    """An estimate of what a warp of a GPU executes for a basic block.

    Attributes
    ----------
    kinds : dict of str to float
        Instructions: "float32", "float64", "integer", "compare", "branch", "special".
        Accesses to memory are counted when they happen.
    waits : float
        Clocks that a warp waits for its own results, alone and without its accesses.
    trips : float
        How often it waits for its loads, per execution.
    """

    kinds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits: float = 0.0
    trips: float = 1.0


@dataclass
class _Block:
    """The CPU's instructions of a basic block, with their addresses.

    `operations` has the addresses of functions that emulate a warp operation or
    an atomic.
    """

    address: int
    instructions: list[tuple[int, str]] = field(default_factory=list)
    operations: set[int] = field(default_factory=set)


@dataclass
class _Loop:
    """The addresses of a loop, and the share of its overhead that a GPU executes."""

    start: int
    end: int
    ends: frozenset[int] = frozenset()  # jumps that end it or repeat it
    share: float = 1.0


class Instruction(NamedTuple):
    """What is counted of a CPU's instruction."""

    line: SourceLine
    name: str


@functools.cache
def instructions(compiled: Path) -> dict[int, Counter[Instruction]]:
    """The instructions after each call of the coverage function, up to the next call.

    Parameters
    ----------
    compiled : Path
        An object that is compiled with ``-fsanitize-coverage=trace-pc``.

    Returns
    -------
    dict of int to Counter
        For each return address, the number of "integer", "compare" and "branch"
        instructions, and of floating-point operations by name, such as
        ``"float32 add"``, at each source line. Moves, conversions and calls are not
        counted: they depend on the CPU, and most of them belong to the instrumentation.
        Empty if objdump is not installed.
    """
    found = {
        block.address: _names(block)
        for function in _functions(compiled)
        for block in function
    }
    lines = source_lines(compiled, (each for names in found.values() for each in names))
    return {
        start: Counter(
            Instruction(lines.get(address, UNKNOWN_LINE), name)
            for address, name in names.items()
        )
        for start, names in found.items()
        if names
    }


@functools.cache
def gpu_blocks(compiled: Path) -> dict[int, GpuBlock]:
    """An estimate of a GPU's instructions, by the addresses of `instructions`."""
    return {
        block.address: _gpu_block(block, loops)
        for function in _functions(compiled)
        for loops in [_loops(function)]
        for block in function
    }


def basic_blocks(compiled: Path) -> list[tuple[int, ...]]:
    """The fields of ``BasicBlock`` of the runtime, for each block."""
    counted = instructions(compiled)
    return [
        (
            address,
            counted.get(address, Counter()).total(),
            *(
                round(PARTS * value)
                for value in (sum(block.kinds.values()), block.waits, block.trips)
            ),
        )
        for address, block in gpu_blocks(compiled).items()
    ]


@functools.cache
def _functions(compiled: Path) -> list[list[_Block]]:
    """The basic blocks of each function; none if objdump is not installed."""
    program = shutil.which("objdump") or shutil.which("llvm-objdump")
    if program is None:
        return []
    command = [program, "-d", "-l", "--no-show-raw-insn", str(compiled)]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    functions: list[list[_Block]] = []
    starts = is_operation = False
    for line in text.splitlines():
        match = _INSTRUCTION.match(line)
        if not match:
            if _FUNCTION.match(line):
                functions.append([])
                starts = False
            if source := _SOURCE_LINE.match(line):
                is_operation = source[1] in _OPERATIONS
            continue
        address, instruction = int(match[1], 16), match[2]
        if starts:
            functions[-1].append(_Block(address))
        starts = _START in instruction
        if functions and functions[-1] and not starts:
            functions[-1][-1].instructions.append((address, instruction))
            if is_operation:
                functions[-1][-1].operations.add(address)
    return functions


def _names(block: _Block) -> dict[int, str]:
    """The name of each instruction that is counted, by its address."""
    return {
        address: name
        for address, text in block.instructions
        if (name := _operation(text) or _kind(text))
    }


def _operation(instruction: str) -> str | None:
    """The floating-point operation of an instruction, or None."""
    if match := _X86.match(instruction) or _ARM.match(instruction):
        return f"{_TYPES[match[2]]} {_NAMES[match[1]]}"
    if match := _FUSED_CALL.match(instruction):
        return f"{'float32' if match[1] == 'fmaf' else 'float64'} fused"
    return None


def _kind(instruction: str) -> str | None:
    """The kind of an instruction of the kernel that is not floating-point, or None."""
    for kind, pattern in _KINDS.items():
        if pattern.match(instruction):
            is_address = kind == "integer" and _ADDRESS.search(instruction)
            return None if is_address else kind
    return None


# ---- a GPU's instructions -----------------------------------------------------------


@dataclass
class _Jump:
    """A jump, and whether a comparison with a small constant decides it."""

    address: int
    target: int
    is_conditional: bool
    is_counted: bool


def _jumps(function: list[_Block]) -> list[_Jump]:
    found = []
    for block in function:
        is_counted = False
        for address, text in block.instructions:
            if _kind(text) == "compare":
                end = _CONSTANT_END.match(text)
                count = int(end[1] or end[2], 0) if end else 0
                is_counted = 0 < count < _MOST_UNROLLED
            if match := _JUMP.match(text):
                is_conditional = not _ALWAYS.match(text)
                counted = is_conditional and is_counted
                target = int(match[2], 16)
                found.append(_Jump(address, target, is_conditional, counted))
    return found


def _loops(function: list[_Block]) -> list[_Loop]:
    """The loops of a function, inner loops before outer ones.

    A loop is what a jump backwards encloses, if a condition ends it.
    """
    jumps = _jumps(function)
    found = []
    for back in jumps:
        if back.target > back.address:
            continue
        loop = _Loop(back.target, back.address)
        ends = [
            jump
            for jump in jumps
            if _contains(loop, jump.address)
            and jump.is_conditional
            and (jump is back or not _contains(loop, jump.target))
        ]
        loop.ends = frozenset([back.address, *(jump.address for jump in ends)])
        if any(jump.is_counted for jump in ends):
            loop.share = 0.0
        if ends:
            found.append(loop)
    found.sort(key=lambda loop: loop.end - loop.start)
    for loop in found:
        inner = [one for one in found if one is not loop and _contains(loop, one.start)]
        if loop.share and not inner:
            loop.share = 1 / UNROLLED
    return found


def _contains(loop: _Loop, address: int) -> bool:
    return loop.start <= address <= loop.end


def _share(loops: list[_Loop], address: int) -> float:
    """The share of the overhead at an address that a GPU executes."""
    return next((one.share for one in loops if _contains(one, address)), 1.0)


def _gpu_block(block: _Block, loops: list[_Loop]) -> GpuBlock:
    found = GpuBlock(trips=_share(loops, block.address))
    uses = [
        i
        for i, (_, text) in enumerate(block.instructions)
        if _ACCESS in text or _operation(text)
    ]
    last_use = uses[-1] if uses else -1
    ends = {address for loop in loops for address in loop.ends}
    is_end = any(address in ends for address, _ in block.instructions)
    for i, (address, text) in enumerate(block.instructions):
        if address in block.operations:
            continue
        share = _share(loops, address)
        name = _expanded_name(text) or _operation(text) or _kind(text)
        if name in _EXPANDED:
            for kind, count in _EXPANDED[name].items():
                found.kinds[kind] += count
        elif name == "integer":
            is_scale = share == 0 and _SCALE.match(text)
            is_address = i < last_use or is_scale or _STEP.match(text)
            found.kinds[name] += share if is_address else 1.0
        elif name in ("compare", "branch") and not _ALWAYS.match(text):
            found.kinds[name] += share if is_end else 1.0
        elif name and name not in ("compare", "branch"):
            found.kinds[name] += 1.0
    _fuse(found.kinds)
    kinds = found.kinds
    if kinds:
        found.waits = found.trips * (
            LATENCY_CLOCKS["arithmetic"]
            + LATENCY_CLOCKS["branch"] * min(1.0, kinds.get("branch", 0))
            + LATENCY_CLOCKS["special"] * kinds.get("special", 0)
            + LATENCY_CLOCKS["float64"] / 2 * kinds.get("float64", 0)
        )
    return found


def _expanded_name(instruction: str) -> str | None:
    """The name in `_EXPANDED` of a division or a function, or None."""
    if match := _DIVISION.match(instruction):
        is_long = match[1] == "r" and not re.search(r"%r\d+d", instruction)
        return "long divide" if is_long or match[2] == "x" else "integer divide"
    if match := _FUNCTION_CALL.match(instruction):
        return f"{'float32' if match[1].endswith('f') else 'float64'} function"
    return None


def _fuse(kinds: defaultdict[str, float]) -> None:
    """Replace the operations of each type by a GPU's instructions."""
    for dtype in FLOATING_POINT:
        adds = kinds.pop(f"{dtype} add", 0)
        products = kinds.pop(f"{dtype} multiply", 0)
        kinds[dtype] += max(adds, products) + kinds.pop(f"{dtype} fused", 0)
    for name in [name for name, count in kinds.items() if not count]:
        del kinds[name]
