"""Registers of a kernel on a GPU, from NVRTC, which needs no GPU."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

ASSUMED = 32
"""Registers of a thread without NVRTC, or for a source that it does not compile: as
many as let all threads of a multiprocessor be resident."""

_OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "--ptxas-options=-v")


class KernelSource(NamedTuple):
    """What names a kernel: the arguments of `Kernel`."""

    file: Path
    instance: str
    include: Path
    definitions: str
    preprocessor: tuple[str, ...] = ()


@functools.cache
def registers_of(source: KernelSource, architecture: int) -> int | None:
    """Registers of a thread; None if CuPy's NVRTC does not compile the source."""
    text = f'{source.definitions}\n#line 1 "{source.file}"\n{source.file.read_text()}'
    options = (
        *_OPTIONS,
        f"-I{source.include}",
        *source.preprocessor,
        f"--gpu-architecture=sm_{architecture}",
    )
    try:
        from cupy.cuda import nvrtc

        program = nvrtc.createProgram(text, source.file.name, (), ())
    except (ImportError, RuntimeError):  # CuPy or NVRTC is missing
        return None
    try:
        nvrtc.addNameExpression(program, source.instance)
        nvrtc.compileProgram(program, options)
        symbol = nvrtc.getLoweredName(program, source.instance)
        return _registers(nvrtc.getProgramLog(program), symbol)
    except nvrtc.NVRTCError:
        return None
    finally:
        nvrtc.destroyProgram(program)


def _registers(log: str, symbol: str) -> int | None:
    """What ``ptxas -v`` says of a kernel."""
    _, _, after = log.partition(f"'{symbol}'")
    found = re.search(r"Used (\d+) registers", after)
    return int(found[1]) if found else None
