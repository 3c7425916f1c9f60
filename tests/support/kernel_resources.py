"""Registers, shared memory and machine code of every kernel, without a GPU.

NVRTC compiles for each architecture. In machine code for sm_90, instructions other than
``NOP`` are counted, and generic accesses: loads, stores and atomics whose address space
the compiler does not know (``LD``, ``ST``, ``ATOM``, ``RED``; not ``LDG``, ``LDS``).

``make tables`` compiles the files that are not those of the table. The fingerprint of a
file is of its text without comments, of its instances, and of their rows. With the same
fingerprint, the same compiler makes the same rows.
"""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import tables
from kernel_sources import Source, all_sources

from gpusolve._device import kernels
from gpusolve._device.kernels import OPTIONS, source_of
from gpusolve._nnls import nnls_constrained_kernel, nnls_gram_kernel, nnls_qr_kernel
from gpusolve.studies import _nnls_mgs_kernel

ARCHITECTURES = (75, 80, 90, 100)
DISASSEMBLED = 90
"""Machine code is read for sm_90: H100 and H200."""

CUPY_OPTIONS = ("--device-as-default-execution-space", "-ftz=true")
"""Options that CuPy appends to the options of a kernel."""

TABLE = Path(__file__).with_suffix(".md")

GENERIC = {"LD", "ST", "ATOM", "RED"}
"""Accesses to a generic address, by the first part of their opcodes."""

KERNEL = re.compile(r"^\.text\.(\S+):$", re.MULTILINE)
OPCODE = re.compile(r"^\s+/\*\w+\*/\s+(?:@\S+ )?\s*([A-Z0-9]+)", re.MULTILINE)
"""The line before a kernel's code, and the first part of an instruction's opcode."""

REGISTERS, SHARED_BYTES = 65536, 48 * 1024
"""Registers of a multiprocessor, and shared memory that every architecture has."""

WITH_STACKS = "as_solved", "nnls_constrained"
"""`as_solved` has the addresses of its arrays on a stack, where a profile of shared
memory does not count them. `nnls_constrained` calls functions that change a few numbers
of a system; they would be too much code if they were inlined."""


class CompileError(RuntimeError):
    """A source does not compile; the message is NVRTC's log."""


class Compiled(NamedTuple):
    """Machine code, the log of ``ptxas -v``, and the symbol of each instance."""

    cubin: bytes
    log: str
    symbols: tuple[str, ...]


class Code(NamedTuple):
    """The counts of a kernel's machine code."""

    instructions: int
    generic_accesses: int


class Row(NamedTuple):
    """A line of the table: registers and shared bytes by architecture, and counts."""

    operators: str
    instance: str
    resources: dict[int, str]
    code: Code

    def cells(self) -> list[object]:
        names = self.operators, f"`{self.instance}`"
        return [*names, *self.resources.values(), *self.code]


# ---- the compiler --------------------------------------------------------------------


def compile_source(source: Source, architecture: int) -> Compiled:
    """Compile the instances of one source to machine code."""
    from cupy.cuda import nvrtc

    text = source_of(source.file, source.definitions)
    program = nvrtc.createProgram(text, f"{source.file}.cu", (), ())
    for instance in source.instances:
        nvrtc.addNameExpression(program, instance)
    options = (
        *OPTIONS,
        f"-I{kernels.source_directory()}",
        *CUPY_OPTIONS,
        f"--gpu-architecture=sm_{architecture}",
        "--ptxas-options=-v",
    )
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        raise CompileError(nvrtc.getProgramLog(program)) from error
    return Compiled(
        nvrtc.getCUBIN(program) + b"\0",  # CuPy drops the last byte, which is a zero
        nvrtc.getProgramLog(program),
        tuple(nvrtc.getLoweredName(program, one) for one in source.instances),
    )


def resources_of(source: Source, compiled: Compiled) -> list[str]:
    """Registers + shared bytes of each instance, which must be within the limits."""
    found = []
    for instance, symbol in zip(source.instances, compiled.symbols, strict=True):
        start = compiled.log.index(f"Compiling entry function '{symbol}'")
        end = compiled.log.find("Compiling entry function", start + 1)

        def figure(pattern: str, log: str = compiled.log[start:end]) -> int:
            return int(number[1]) if (number := re.search(pattern, log)) else 0

        assert not figure(r"(\d+) bytes spill stores"), f"{instance} spills"
        assert not figure(r"(\d+) bytes spill loads"), f"{instance} spills"
        stack = figure(r"(\d+) bytes stack frame")
        assert not stack or instance.startswith(WITH_STACKS), f"{instance} has a stack"
        registers = figure(r"Used (\d+) registers")
        shared = figure(r"registers,[^\n]*?(\d+) bytes smem")
        found.append(f"{registers} + {shared}")
    return found


def limits_of(instance: str) -> tuple[int, int]:
    """Resident threads, and a limit on a block's static shared memory."""
    if instance.startswith("nnls_qr"):
        return nnls_qr_kernel.MAX_THREADS, nnls_qr_kernel.STATIC_SHARED_MEMORY
    if instance.startswith("nnls_constrained"):
        blocks = nnls_constrained_kernel.BLOCKS
        threads = blocks * nnls_constrained_kernel.MAX_THREADS
        return threads, nnls_constrained_kernel.STATIC_SHARED_MEMORY
    if instance.startswith("nnls_mgs"):
        return _nnls_mgs_kernel.THREADS, _nnls_mgs_kernel.STATIC_SHARED_MEMORY
    if instance.startswith("nnls_gram"):
        blocks = 2 if "BlockTeam" in instance else 1
        threads = blocks * nnls_gram_kernel.BLOCK_THREADS
        return threads, nnls_gram_kernel.STATIC_SHARED_MEMORY
    of_512 = "reduce512" in instance or "as_published" in instance
    return 512 if of_512 else 256, SHARED_BYTES


def is_within_limits(instance: str, resources: str) -> bool:
    """Whether a block, or as many as a launcher asks for, is resident."""
    registers, shared = map(int, resources.split(" + "))
    threads, most = limits_of(instance)
    return registers * threads <= REGISTERS and shared <= most


# ---- machine code --------------------------------------------------------------------


def has_disassembler() -> bool:
    return any(metadata.distributions(name="nvidia-cuda-nvdisasm"))


def code_of(compiled: Compiled) -> list[Code]:
    """The counts of each instance, from the listing of nvdisasm."""
    files = metadata.files("nvidia-cuda-nvdisasm") or []
    program = next(file.locate() for file in files if file.name == "nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(compiled.cubin)
        command = [str(program), "--print-code", file.name]
        listing = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL)
    _, *parts = KERNEL.split(listing)
    opcodes = dict(zip(parts[::2], map(OPCODE.findall, parts[1::2]), strict=True))
    return [
        Code(
            sum(opcode != "NOP" for opcode in opcodes[symbol]),
            sum(opcode in GENERIC for opcode in opcodes[symbol]),
        )
        for symbol in compiled.symbols
    ]


# ---- the table -----------------------------------------------------------------------


def rows_of(source: Source) -> list[Row]:
    """The rows of one source, as the compiler makes them."""
    with ThreadPoolExecutor() as pool:
        compiled = pool.map(partial(compile_source, source), ARCHITECTURES)
        made = dict(zip(ARCHITECTURES, compiled, strict=True))
    resources = {one: resources_of(source, found) for one, found in made.items()}
    by_kernel = zip(*resources.values(), strict=True)
    rows = [dict(zip(resources, cells, strict=True)) for cells in by_kernel]
    parts = zip(source.instances, rows, code_of(made[DISASSEMBLED]), strict=True)
    return [Row(source.operators, *part) for part in parts]


def included(text: str) -> set[str]:
    """The files of ``cuda_src/`` that a text includes, also through other files."""
    found = set(re.findall(r'#include "(.+)"', text))
    texts = ((kernels.source_directory() / one).read_text() for one in found)
    return found.union(*map(included, texts))


def fingerprint(file: str, rows: Iterable[Row]) -> str:
    """A hash of the text and the instances of a file, and of their rows."""
    folder, text = kernels.source_directory(), source_of(file)
    texts = [text, *((folder / one).read_text() for one in sorted(included(text)))]
    code = [re.sub(r"//[^\n]*|\s+", " ", text).split() for text in texts]
    sources = [source for source in all_sources() if source.file == file]
    given = repr((code, sources, [row.cells() for row in rows]))
    return hashlib.sha256(given.encode()).hexdigest()[:16]


@functools.cache
def written_rows() -> dict[tuple[str, str], Row]:
    """The rows of the table, by operators and instance."""
    found = {}
    for line in tables.rows(TABLE.read_text(), "operators"):
        operators, instance, *cells = line.values()
        resources = dict(zip(ARCHITECTURES, cells, strict=False))
        code = Code(*map(int, cells[len(ARCHITECTURES) :]))
        found[operators, instance] = Row(operators, instance, resources, code)
    return found


def written_fingerprints() -> dict[str, str]:
    """The fingerprints of the table, by file."""
    lines = tables.rows(TABLE.read_text(), "file")
    return {line["file"]: line["fingerprint"] for line in lines}


def current_rows() -> dict[str, list[Row] | None]:
    """The rows of each file; None if they are not those of its present text."""
    instances = defaultdict(list)
    for source in all_sources():
        instances[source.file] += [(source.operators, one) for one in source.instances]
    written, prints, found = written_rows(), written_fingerprints(), {}
    for file, names in instances.items():
        rows = [written[name] for name in names if name in written]
        same = fingerprint(file, rows) == prints.get(f"{file}.cu")
        found[file] = rows if same and len(rows) == len(names) else None
    return found


def page(rows: dict[str, list[Row]]) -> str:
    """The page with these rows of each file."""
    lines = (row.cells() for of_file in rows.values() for row in of_file)
    made = tables.with_rows(TABLE.read_text(), "operators", lines)
    prints = ((f"`{file}.cu`", fingerprint(file, rows[file])) for file in rows)
    return tables.with_rows(made, "file", prints)


def main() -> None:
    """Compile the files that have changed, and write the table after each."""
    known = current_rows()
    stale = [file for file, rows in known.items() if rows is None]
    for file in stale:
        print(f"{file}.cu", flush=True)
        sources = (source for source in all_sources() if source.file == file)
        known[file] = [row for source in sources for row in rows_of(source)]
        TABLE.write_text(page({one: rows for one, rows in known.items() if rows}))


if __name__ == "__main__":
    main()
