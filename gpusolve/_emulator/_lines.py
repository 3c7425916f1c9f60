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
    """``file:line`` of each instruction that has a line.

    Of inlined functions, the innermost line outside the emulator's runtime is taken.
    """
    instructions = list(instructions)
    missing = [
        address for address in instructions if (compiled, address) not in _cached
    ]
    program = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if missing and program:
        addresses = [hex(address) for address in missing]
        command = [program, "-a", "-i", "-e", str(compiled), *addresses]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        lines: list[str] = []
        frames: dict[int, list[str]] = {}
        for line in text.splitlines():
            if line.startswith("0x"):
                lines = frames.setdefault(int(line, 16), [])
            else:
                lines.append(line)
        for address in missing:
            _cached[compiled, address] = _outside_runtime(frames.get(address, []))
    found = {address: _cached.get((compiled, address)) for address in instructions}
    return {address: line for address, line in found.items() if line}


def _outside_runtime(frames: list[str]) -> str | None:
    for frame in frames:
        file, _, number = frame.split(" ")[0].rpartition(":")
        if number.isdigit() and number != "0" and Path(file).parent != RUNTIME:
            return f"{Path(file).name}:{number}"
    return None
