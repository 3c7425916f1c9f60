"""Floating-point operations of each basic block of a compiled kernel."""

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

_INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\s+(.*)")
_START = "<__sanitizer_cov_trace_pc"
_X86 = re.compile(r"v?(add|sub|mul|div|sqrt)(ss|sd)\s")
_ARM = re.compile(r"f(n?madd|n?msub|add|sub|mul|div|sqrt)\s+([sd])\d")
_FUSED_CALL = re.compile(r"(?:call|bl)\w*\s.*<(fmaf?)@plt>")


@functools.cache
def operations(compiled: Path) -> dict[int, Counter[str]]:
    """The operations after each call of the coverage function, up to the next one.

    Parameters
    ----------
    compiled : Path
        An object that is compiled with ``-fsanitize-coverage=trace-pc``.

    Returns
    -------
    dict of int to Counter
        For each return address, the operations by name, such as ``"float32 add"``.
        Empty if objdump is not installed.
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
            continue
        address, instruction = match.groups()
        if starts:
            block = found.setdefault(int(address, 16), Counter())
        starts = _START in instruction
        if name := _operation(instruction):
            block[name] += 1
    return {address: counts for address, counts in found.items() if counts}


def _operation(instruction: str) -> str | None:
    """The operation of an instruction, or None."""
    if match := _X86.match(instruction) or _ARM.match(instruction):
        return f"{_TYPES[match[2]]} {_NAMES[match[1]]}"
    if match := _FUSED_CALL.match(instruction):
        return f"{'float32' if match[1] == 'fmaf' else 'float64'} fused"
    return None
