"""Machine code of every kernel for sm_90, from NVRTC and nvdisasm without a GPU.

Counted are instructions other than ``NOP``, and generic accesses: loads, stores and
atomics whose address space the compiler does not know (``LD``, ``ST``, ``ATOM``,
``RED``; not ``LDG``, ``LDS``, ...). ``make tables`` writes the table.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from kernel_costs import FALL, GROWTH
from kernel_resources import Source, all_sources, compile_source, written_cells

ARCHITECTURE = 90
"""Machine code is read for sm_90: H100 and H200."""

TABLE = Path(__file__).with_suffix(".md")

GENERIC = {"LD", "ST", "ATOM", "RED"}
"""Accesses to a generic address, by the first part of their opcodes."""

HEADINGS = ("instructions", "generic accesses")

KERNEL = re.compile(r"^\.text\.(\S+):$", re.MULTILINE)
OPCODE = re.compile(r"^\s+/\*\w+\*/\s+(?:@\S+ )?\s*([A-Z0-9]+)", re.MULTILINE)
"""The line before a kernel's code, and the first part of an instruction's opcode."""


class Code(NamedTuple):
    """The counts of a kernel, in the order of `HEADINGS`."""

    instructions: int
    generic_accesses: int


def has_disassembler() -> bool:
    return any(metadata.distributions(name="nvidia-cuda-nvdisasm"))


def disassemble(cubin: bytes) -> str:
    """The listing of nvdisasm, of all kernels."""
    files = metadata.files("nvidia-cuda-nvdisasm") or []
    program = next(file.locate() for file in files if file.name == "nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(program), "--print-code", file.name]
        return subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout


def read_listing(text: str) -> dict[str, Code]:
    """The counts of each kernel of a listing, by its symbol."""
    _, *parts = KERNEL.split(text)
    return {
        symbol: Code(
            sum(opcode != "NOP" for opcode in opcodes),
            sum(opcode in GENERIC for opcode in opcodes),
        )
        for symbol, opcodes in zip(
            parts[::2], map(OPCODE.findall, parts[1::2]), strict=True
        )
    }


def code_of(source: Source) -> list[Code]:
    """The counts of the instances of one source."""
    compiled = compile_source(source, ARCHITECTURE)
    listed = read_listing(disassemble(compiled.cubin))
    return [listed[symbol] for symbol in compiled.symbols]


def written_code() -> dict[tuple[str, str], Code]:
    """The counts of the table, by operators and instance."""
    return {
        (operators, instance): Code(*map(int, counts))
        for operators, instance, *counts in written_cells(TABLE)
    }


def changed_code(sources: list[Source]) -> list[str]:
    """What a test reports of these sources."""
    written = written_code()
    return [
        f"{source.operators} {instance}: {change}"
        for source in sources
        for instance, code in zip(source.instances, code_of(source), strict=True)
        for change in changes(written[source.operators, instance], code)
    ]


def changes(written: Code, found: Code) -> list[str]:
    """Sizes outside the limits of `kernel_costs`; other accesses."""
    limits = FALL * written.instructions, GROWTH * written.instructions
    is_changed = (
        not limits[0] <= found.instructions <= limits[1],
        found.generic_accesses != written.generic_accesses,
    )
    return [
        f"{heading} from {old} to {new}"
        for heading, old, new, changed in zip(
            HEADINGS, written, found, is_changed, strict=True
        )
        if changed
    ]


def table() -> str:
    """All kernels, as a Markdown table."""
    lines = [
        "# Machine code of the kernels",
        "",
        "For sm_90: instructions, and accesses whose address space the compiler does",
        "not know, as counted by `tests/support/kernel_code.py`. Written by",
        "`make tables` with NVRTC 12.9 and nvdisasm 13.5, without a GPU.",
        "",
        f"| operators | kernel | {' | '.join(HEADINGS)} |",
        "| --- | --- " + "| ---: " * len(HEADINGS) + "|",
    ]
    for source in all_sources():
        for instance, code in zip(source.instances, code_of(source), strict=True):
            counts = " | ".join(map(str, code))
            lines.append(f"| {source.operators} | `{instance}` | {counts} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table())
