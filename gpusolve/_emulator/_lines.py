"""Source lines of instructions in a compiled kernel, by addr2line."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ._compiler import RUNTIME

_cached: dict[tuple[Path, int], str | None] = {}


def source_line(compiled: Path, instruction: int) -> str | None:
    """``file:line`` of an instruction; None if it or binutils are not found."""
    return source_lines(compiled, [instruction]).get(instruction)


def source_lines(compiled: Path, instructions: Iterable[int]) -> dict[int, str]:
    """``file:line`` of each instruction; those without a line are left out.

    Of inlined functions, the innermost line outside the emulator's runtime is taken.
    """
    instructions = list(instructions)
    missing = [one for one in instructions if (compiled, one) not in _cached]
    program = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if missing and program:
        addresses = [hex(one) for one in missing]
        command = [program, "-a", "-i", "-e", str(compiled), *addresses]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        lines: list[str] = []
        frames: dict[int, list[str]] = {}
        for line in text.splitlines():
            if line.startswith("0x"):
                lines = frames.setdefault(int(line, 16), [])
            else:
                lines.append(line)
        for one in missing:
            _cached[compiled, one] = _outside_runtime(frames.get(one, []))
    found = {one: _cached.get((compiled, one)) for one in instructions}
    return {one: line for one, line in found.items() if line}


def _outside_runtime(frames: list[str]) -> str | None:
    for frame in frames:
        file, _, number = frame.split(" ")[0].rpartition(":")
        if number.isdigit() and number != "0" and Path(file).parent != RUNTIME:
            return f"{Path(file).name}:{number}"
    return None
