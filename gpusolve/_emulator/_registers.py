"""Registers of a kernel on a GPU, from the assembler that NVRTC has."""

from __future__ import annotations

import functools
import re

from ._errors import CompileError
from .nvrtc import KernelSource

ASSUMED = 32
"""Registers of a thread if the assembler does not say: as many as let all threads of a
multiprocessor be resident."""


@functools.cache
def registers_of(source: KernelSource, architecture: int) -> int | None:
    """Registers of a thread; None if NVRTC does not compile for the architecture."""
    try:
        compiled = source.compile(f"-arch=sm_{architecture}", "--ptxas-options=-v")
    except CompileError:
        return None
    # What ``ptxas -v`` says of the kernel.
    _, _, after = compiled.log.partition(f"'{compiled.symbols[0]}'")
    found = re.search(r"Used (\d+) registers", after)
    return int(found[1]) if found else None
