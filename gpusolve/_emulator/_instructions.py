"""Instructions of each basic block of a compiled kernel, by kind."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

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
_START = "<__sanitizer_cov_trace_pc"
_X86 = re.compile(r"v?(add|sub|mul|div|sqrt)(ss|sd)\s")
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


@functools.cache
def instructions(compiled: Path) -> dict[int, Counter[str]]:
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
        ``"float32 add"``. Moves, conversions and calls are not counted: they depend on
        the CPU, and most of them belong to the instrumentation. Empty if objdump is not
        installed.
    """
    program = shutil.which("objdump") or shutil.which("llvm-objdump")
    if program is None:
        return {}
    command = [program, "-d", "--no-show-raw-insn", str(compiled)]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    found: dict[int, Counter[str]] = {}
    block: Counter[str] = Counter()
    starts = False
    for line in text.splitlines():
        match = _INSTRUCTION.match(line)
        if not match:
            if _FUNCTION.match(line):
                block = Counter()
            continue
        address, instruction = match.groups()
        if starts:
            block = found.setdefault(int(address, 16), Counter())
        starts = _START in instruction
        if name := _operation(instruction) or _kind(instruction):
            block[name] += 1
    return {address: counts for address, counts in found.items() if counts}


def instruction_counts(compiled: Path) -> list[tuple[int, int]]:
    """Each return address of `instructions`, and the number of its instructions."""
    found = instructions(compiled).items()
    return [(address, counts.total()) for address, counts in found]


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
