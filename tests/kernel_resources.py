"""Registers, shared memory and spills of every kernel, told by NVRTC without a GPU.

``make resources`` writes the table anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import gpusolve
from gpusolve._kernels import CUDA_TYPES, OPTIONS, source_directory, source_of
from gpusolve._operators import operators, predicate
from gpusolve._partition_kernel import items_for
from gpusolve._reduce_kernel import THREADS
from gpusolve._scan_kernel import scan_instance, tile_for
from gpusolve.monoid import as_monoid, segment_sums_of_one

ARCHITECTURES = (75, 80, 90, 100)
CUPY_OPTIONS = ("--device-as-default-execution-space", "-ftz=true")
"""What CuPy adds to a kernel's own options, after them."""

TABLE = Path(__file__).with_suffix(".md")


TEXTBOOK = (
    "scan_warps",
    "up_sweep",
    "down_sweep",
    "clear_root",
    "add_prefixes",
    "shift",
    "resize_rows",
    "add_elements",
)
"""The kernels of ``scan_textbook.cu`` that are templates over the monoid alone."""


class Source(NamedTuple):
    """A file of kernels and the instances made of it, for one choice of operators."""

    operators: str
    file: str
    definitions: str
    instances: tuple[str, ...]


class Resources(NamedTuple):
    """What ``ptxas`` reports of a kernel on one architecture."""

    operators: str
    instance: str
    architecture: int
    registers: int
    shared_bytes: int
    stack_bytes: int
    spilled_bytes: int


class CompileError(RuntimeError):
    """NVRTC's log."""


def all_sources() -> list[Source]:
    """Every kernel, for operators and dtypes of every size and kind."""
    nnls = Source("", "nnls_qr", "", ("nnls_qr<float>", "nnls_qr<double>"))
    return [nnls, *_sources_of_monoids(), *_sources_of_partition()]


def _sources_of_monoids() -> Iterator[Source]:
    watched = {
        "add": "int8 int32 int64 float16 float32 float64 complex128",
        "max": "float32",
        "logical_and": "float64",
        "mssp": "int32 float64",
    }
    for op, dtypes in watched.items():
        monoid = as_monoid(op)
        for name in dtypes.split():
            dtype = np.dtype(name)
            map = segment_sums_of_one if op == "mssp" else None
            ops = operators(monoid, dtype, map)
            tile = tile_for(ops.element_bytes)
            atomic = monoid.commutative and ops.element_bytes <= 8
            instances = {
                "map": (f"map_elements<{ops.map}>",),
                "reduce": (
                    "reduce_tree<Operator>",
                    "reduce_group<Operator>",
                    f"reduce_chunked<Operator, {ops.map}>",
                    *((f"reduce_atomic<Operator, {ops.map}>",) if atomic else ()),
                ),
                "scan": (
                    *(
                        scan_instance(ops._replace(map=ops.keep), segments)
                        for segments in ("none", "rows", "bytes", "bits")
                    ),
                ),
                "scan_textbook": (
                    *(f"{kernel}<Operator>" for kernel in TEXTBOOK),
                    f"scan_chunks<Operator, {tile.threads}, {tile.items}>",
                ),
            }
            for file, names in instances.items():
                yield Source(f"{op} {name}", file, ops.definitions, names)


def _sources_of_partition() -> Iterator[Source]:
    even = gpusolve.Map("even", "x % 2 == 0", lambda x: x % 2 == 0, dtype=bool)
    for name, test in (("int8", even), ("float32", None), ("complex128", None)):
        dtype = np.dtype(name)
        definitions, tested = predicate(test, dtype)
        shape = f"{THREADS}, {items_for(dtype)}"
        number = CUDA_TYPES[dtype]
        kernels = f"count_kept<{tested}, {shape}>", f"move<{number}, {shape}>"
        yield Source(name, "partition", definitions, kernels)
        yield Source(name, "scatter", definitions, (f"scatter<{number}>",))


def compile_source(source: Source, architecture: int) -> list[Resources]:
    """Compile the instances of one source to machine code and read the log."""
    from cupy.cuda import nvrtc

    text = source_of(source.file, source.definitions)
    program = nvrtc.createProgram(text, f"{source.file}.cu", (), ())
    for instance in source.instances:
        nvrtc.addNameExpression(program, instance)
    options = (
        *OPTIONS,
        f"-I{source_directory()}",
        *CUPY_OPTIONS,
        f"--gpu-architecture=sm_{architecture}",
        "--ptxas-options=-v",
    )
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        raise CompileError(nvrtc.getProgramLog(program)) from error
    log = nvrtc.getProgramLog(program)
    return [
        read_log(
            log,
            nvrtc.getLoweredName(program, instance),
            Resources(source.operators, instance, architecture, 0, 0, 0, 0),
        )
        for instance in source.instances
    ]


def read_log(log: str, symbol: str, blank: Resources) -> Resources:
    """Find one kernel's figures in the log of ``ptxas -v``."""
    part = log[log.index(f"Compiling entry function '{symbol}'") :]

    def figure(pattern: str) -> int:
        found = re.search(pattern, part)
        return int(found.group(1)) if found else 0

    stores = figure(r"(\d+) bytes spill stores")
    loads = figure(r"(\d+) bytes spill loads")
    return blank._replace(
        registers=figure(r"Used (\d+) registers"),
        shared_bytes=figure(r"registers,[^\n]*?(\d+) bytes smem"),
        stack_bytes=figure(r"(\d+) bytes stack frame"),
        spilled_bytes=stores + loads,
    )


def resources_on(architecture: int) -> list[Resources]:
    """Every instance on one architecture."""
    return [
        resources
        for source in all_sources()
        for resources in compile_source(source, architecture)
    ]


def line(r: Resources) -> str:
    """One row of the table."""
    return (
        f"| {r.operators} | `{r.instance}` | sm_{r.architecture} | {r.registers} "
        f"| {r.shared_bytes} | {r.stack_bytes} | {r.spilled_bytes} |"
    )


def table(rows: list[Resources]) -> str:
    """The rows as a Markdown table."""
    head = [
        "# What the kernels take",
        "",
        "Written by `make resources`, with NVRTC 12.9; no figure here needs a GPU.",
        "",
        "| operators | kernel | architecture | registers | static shared bytes | stack "
        "| spilled |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *map(line, rows)]) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table([row for one in ARCHITECTURES for row in resources_on(one)]))
