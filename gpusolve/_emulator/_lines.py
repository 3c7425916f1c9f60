"""Source lines of instructions in a compiled kernel, and of its errors."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn

from ._compiler import RUNTIME


class SourceLine(NamedTuple):
    """A line of a source file. Its text is ``name:number``."""

    file: Path
    number: int

    def __str__(self) -> str:
        return f"{self.file.name}:{self.number}" if self.number else "unknown line"


UNKNOWN_LINE = SourceLine(Path(), 0)

_cached: dict[tuple[Path, int], SourceLine | None] = {}


def source_line(compiled: Path, instruction: int) -> SourceLine | None:
    """The line of an instruction; None if it or binutils are not found."""
    return source_lines(compiled, [instruction]).get(instruction)


def source_lines(compiled: Path, instructions: Iterable[int]) -> dict[int, SourceLine]:
    """The line of each instruction that has a line, by addr2line.

    Of inlined functions, the innermost line outside the emulator's runtime is taken.
    """
    instructions = list(instructions)
    missing = [
        address for address in instructions if (compiled, address) not in _cached
    ]
    program = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if missing and program:
        text = subprocess.run(
            [program, "-a", "-i", "-e", str(compiled)],
            input="\n".join(map(hex, missing)), capture_output=True, text=True,
        ).stdout  # fmt: skip
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


def raise_at(line: SourceLine | None, kernel: str, error: Exception) -> NoReturn:
    """Raise an error with a traceback that ends at a source line of a kernel."""
    __tracebackhide__ = True
    if line is None:
        raise error
    tree = ast.parse("raise error")
    for node in (tree.body[0], *ast.iter_child_nodes(tree.body[0])):
        # Without columns, which Python would mark in the line.
        places = {"lineno": line.number, "end_lineno": line.number}
        vars(node).update(places, col_offset=-1, end_col_offset=-1)
    code = compile(tree, str(line.file), "exec")
    exec(code.replace(co_name=kernel), {"error": error})
    raise error


def _outside_runtime(frames: list[str]) -> SourceLine | None:
    for frame in frames:
        file, _, number = frame.partition(" (discriminator")[0].rpartition(":")
        if number.isdigit() and number != "0" and RUNTIME not in Path(file).parents:
            return SourceLine(Path(file), int(number))
    return None
