"""Registers, shared memory and spills of every kernel, told by NVRTC without a GPU.

``make resources`` writes the table anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from gpusolve._kernels import INSTANCES, OPTIONS, source_directory

ARCHITECTURES = (75, 80, 90, 100)
CUPY_OPTIONS = ("--device-as-default-execution-space", "-ftz=true")
"""What CuPy adds to a kernel's own options, after them."""

TABLE = Path(__file__).with_suffix(".md")


class Resources(NamedTuple):
    """What ``ptxas`` reports of a kernel on one architecture."""

    instance: str
    architecture: int
    registers: int
    shared_bytes: int
    stack_bytes: int
    spilled_bytes: int


class CompileError(RuntimeError):
    """NVRTC's log."""


def compile_file(
    source: str, instances: tuple[str, ...], architecture: int
) -> list[Resources]:
    """Compile the instances of one source to machine code and read the log."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    for instance in instances:
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
        read_log(log, instance, nvrtc.getLoweredName(program, instance), architecture)
        for instance in instances
    ]


def read_log(log: str, instance: str, symbol: str, architecture: int) -> Resources:
    """Find one kernel's figures in the log of ``ptxas -v``."""
    part = log[log.index(f"Compiling entry function '{symbol}'") :]

    def figure(pattern: str) -> int:
        found = re.search(pattern, part)
        return int(found.group(1)) if found else 0

    stores = figure(r"(\d+) bytes spill stores")
    loads = figure(r"(\d+) bytes spill loads")
    return Resources(
        instance,
        architecture,
        figure(r"Used (\d+) registers"),
        figure(r"registers,[^\n]*?(\d+) bytes smem"),
        figure(r"(\d+) bytes stack frame"),
        stores + loads,
    )


def all_resources() -> list[Resources]:
    """Every instance on every architecture."""
    return [
        resources
        for file, instances in INSTANCES.items()
        for architecture in ARCHITECTURES
        for resources in compile_file(
            (source_directory() / f"{file}.cu").read_text(), instances, architecture
        )
    ]


def table(rows: list[Resources]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "# What the kernels take",
        "",
        "Written by `make resources`, with NVRTC 12.9; no figure here needs a GPU.",
        "",
        "| kernel | architecture | registers | static shared bytes | stack | spilled |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{r.instance}` | sm_{r.architecture} | {r.registers} | {r.shared_bytes} "
        f"| {r.stack_bytes} | {r.spilled_bytes} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table(all_resources()))
