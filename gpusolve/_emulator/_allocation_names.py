"""Names of a program's memory: the variables that keep the addresses."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ._errors import SourceLine

_CALL = re.compile(
    r"\bcuda(?:Host|Malloc)\w*\s*\(\s*(?:\([^)]*\)\s*)?&?\s*([\w.>\[\]-]+)"
)
"""A call that allocates. A cast may stand before the variable."""

_TOOLKIT = re.compile(r"/include/(.*/)?(cuda_runtime|cccl)")


class _Link(ctypes.Structure):
    """``Dl_info`` of the C library."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


@functools.cache
def name_at(caller: int) -> str:
    """The variable in the line of a call that allocates; else, the line.

    Parameters
    ----------
    caller : int
        The address to which the call returns.
    """
    for file, number in _lines(caller - 1):
        if file.is_file() and not _TOOLKIT.search(str(file)):
            lines = file.read_text(errors="replace").splitlines()
            found = _CALL.search(" ".join(lines[number - 1 : number + 1]))
            return found[1] if found else f"the memory of {SourceLine(file, number)}"
    return ""


def _lines(address: int) -> Iterator[SourceLine]:
    """The lines of an instruction of the host, the innermost function first."""
    link, program = _Link(), shutil.which("addr2line")
    if program and ctypes.CDLL(None).dladdr(
        ctypes.c_void_p(address), ctypes.byref(link)
    ):
        offset = hex(address - link.base)
        command = [program, "-i", "-e", os.fsdecode(link.file), offset]
        done = subprocess.run(command, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            file, _, number = line.partition(" (")[0].rpartition(":")
            if number.isdigit():
                yield SourceLine(Path(file), int(number))
