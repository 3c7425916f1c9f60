"""Machine code of every kernel for sm_90, from NVRTC and nvdisasm without a GPU.

Counted are

- instructions other than ``NOP``, and bytes with padding;
- generic accesses: loads, stores and atomics whose address space the compiler does not
  know (``LD``, ``ST``, ``ATOM``, ``RED``; not ``LDG``, ``LDS``, ...);
- divisions and square roots in loops, each where it is in the code: a loop that is
  unrolled four times has four. Each, also of integers, begins with an approximate
  ``MUFU.RCP`` or ``MUFU.RSQ``, and ends with corrections or a call of a slow path,
  which is not counted again. Divisions by a constant are multiplications.

An instruction is in a loop if a path of the code leads from it back to itself, or if it
is in a function that is called in a loop. ``make tables`` writes the table.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from kernel_costs import FALL, GROWTH
from kernel_resources import Source, all_sources, compile_source, written_cells
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

ARCHITECTURE = 90
"""Machine code is read for sm_90: H100 and H200."""

INSTRUCTION_BYTES = 16
"""Of an instruction since Volta."""

TABLE = Path(__file__).with_suffix(".md")

GENERIC = {"LD", "ST", "ATOM", "RED"}
"""Accesses to a generic address, by the first part of their opcodes."""

APPROXIMATIONS = ("MUFU.RCP", "MUFU.RSQ")
"""First instructions of divisions and square roots."""

LIBRARY = "$__internal"
"""Prefix of the compiler's own functions, such as the slow paths of divisions."""

HEADINGS = ("instructions", "bytes", "generic accesses", "divisions in loops")

SIZES = ("instructions", "bytes")

LABEL = re.compile(r"(\S+):$")
INSTRUCTION = re.compile(r"\s+/\*\w+\*/\s+(@\S+ )?\s*([^\s;]+) *(.*?) *;")
"""The lines of a listing."""


class Code(NamedTuple):
    """The counts of a kernel, in the order of `HEADINGS`."""

    instructions: int
    bytes: int
    generic_accesses: int
    divisions_in_loops: int


class Instruction(NamedTuple):
    """A line of the disassembly, and the function that it is in."""

    function: str
    predicate: str
    opcode: str
    operands: str

    @property
    def target(self) -> str:
        """The label that it jumps to or calls; an indirect jump raises."""
        found = re.match(r"[^`]*`\((\S+)\)", self.operands)
        if found is None:
            raise ValueError(f"the target must be a label, got {self}")
        return found.group(1)

    @property
    def name(self) -> str:
        """The first part of its opcode."""
        return self.opcode.split(".")[0]

    @property
    def is_call(self) -> bool:
        return self.opcode.startswith("CALL")

    @property
    def is_jump(self) -> bool:
        return self.opcode.startswith(("BRA", "BRX", "JMP", "JMX"))

    @property
    def is_last(self) -> bool:
        """Whether the next instruction is never executed after this instruction."""
        always = self.opcode == "BRA" and self.operands.startswith("`")
        ends = self.opcode.startswith(("EXIT", "RET"))
        return (always or ends) and not self.predicate


class Listing(NamedTuple):
    """The instructions of a kernel and of the functions that it calls."""

    code: list[Instruction]
    labels: dict[str, int]


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


def read_listing(text: str) -> dict[str, Listing]:
    """The kernels of a listing, by their symbols."""
    kernels = {}
    for line in text.splitlines():
        if label := LABEL.match(line):
            name = label.group(1)
            if name.startswith(".text."):
                listing = Listing([], {})
                function = name.removeprefix(".text.")
                kernels[function] = listing
            elif name.startswith("$"):
                function = name
            listing.labels[name] = len(listing.code)
        elif found := INSTRUCTION.match(line):
            listing.code.append(Instruction(function, *found.groups("")))
    return kernels


def loop_mask(listing: Listing) -> Any:
    """Whether each instruction is in a loop."""
    code, labels = listing
    calls = [(i, labels[step.target]) for i, step in enumerate(code) if step.is_call]
    jumps = [(i, labels[step.target]) for i, step in enumerate(code) if step.is_jump]
    steps = [(i, i + 1) for i, step in enumerate(code[:-1]) if not step.is_last] + jumps
    _, component = connected_components(_graph(steps, len(code)), connection="strong")
    inside = np.bincount(component)[component] > 1
    graph = _graph(steps + calls, len(code))
    for call, called in calls:
        if inside[call]:
            inside[breadth_first_order(graph, called, return_predecessors=False)] = True
    return inside


def _graph(edges: list[tuple[int, int]], nodes: int) -> Any:
    return csr_array((np.ones(len(edges)), np.transpose(edges)), (nodes, nodes))


def code_of_listing(listing: Listing) -> Code:
    divisions = [
        step.opcode.startswith(APPROXIMATIONS) and not step.function.startswith(LIBRARY)
        for step in listing.code
    ]
    return Code(
        sum(step.opcode != "NOP" for step in listing.code),
        INSTRUCTION_BYTES * len(listing.code),
        sum(step.name in GENERIC for step in listing.code),
        int(np.sum(loop_mask(listing) & divisions)),
    )


def code_of(source: Source) -> list[Code]:
    """The counts of the instances of one source."""
    compiled = compile_source(source, ARCHITECTURE)
    listings = read_listing(disassemble(compiled.cubin))
    return [code_of_listing(listings[symbol]) for symbol in compiled.symbols]


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
    """Sizes outside the limits of `kernel_costs`, and other counts that differ."""
    return [
        f"{heading} from {old} to {new}"
        for heading, old, new in zip(HEADINGS, written, found, strict=True)
        if not (FALL * old <= new <= GROWTH * old if heading in SIZES else new == old)
    ]


def table() -> str:
    """All kernels, as a Markdown table."""
    lines = [
        "# Machine code of the kernels",
        "",
        "For sm_90: instructions, bytes, accesses whose address space the compiler",
        "does not know, and divisions and square roots in loops, as counted by",
        "`tests/support/kernel_code.py`. Written by `make tables` with NVRTC 12.9",
        "and nvdisasm 13.5, without a GPU.",
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
