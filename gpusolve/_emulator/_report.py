"""What went wrong in a kernel, in words."""

from __future__ import annotations

import ctypes
import re
import shutil
import signal
import subprocess
from pathlib import Path

from ._compiler import RUNTIME
from ._memory import DeviceMemory


class Report(ctypes.Structure):
    """``Report`` in ``runtime/report.h``."""

    _fields_ = [
        ("happened", ctypes.c_int),
        ("signal", ctypes.c_int),
        ("access", ctypes.c_int),
        ("stack_overflow", ctypes.c_int),
        ("has_thread", ctypes.c_int),
        ("race", ctypes.c_int),
        ("other_access", ctypes.c_int),
        ("in_shared_memory", ctypes.c_int),
        ("shared_overrun", ctypes.c_int),
        ("thread", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("other_block", ctypes.c_uint * 3),
        ("other_thread", ctypes.c_uint * 3),
        ("line", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("shared_bytes", ctypes.c_uint64),
        ("instruction", ctypes.c_uint64),
        ("other_instruction", ctypes.c_uint64),
        ("file", ctypes.c_char * 512),
        ("text", ctypes.c_char * 4096),
    ]


_ACCESSES = ("accesses", "reads", "writes")
_PAST_ACCESSES = ("accessed", "read", "wrote")
"""In the sequence of ``enum class Access`` in ``runtime/report.h``."""

_TORN = 2
"""Of ``enum class RaceKind`` there."""


_SHARED_VARIABLE = re.compile(
    r"\s*\d+: (?P<start>\w+) +(?P<size>\w+) TLS( +\w+){3} +(?P<name>.+)"
)
"""A line of readelf on a thread-local symbol."""


def explain(report: Report, kernel: str, memory: DeviceMemory, compiled: Path) -> str:
    """The message of a `KernelError`.

    Parameters
    ----------
    report : Report
    kernel : str
        Its name.
    memory : DeviceMemory
        Where the arrays lay.
    compiled : Path
        The object that ran, to find a faulty instruction's line.
    """
    where = [kernel]
    if report.has_thread:
        where.append(f"thread {tuple(report.thread)}")
    where.append(f"block {tuple(report.block)}")
    if report.line:
        where.append(f"{report.file.decode()}:{report.line}")
    elif report.instruction and (line := _line(compiled, report.instruction)):
        where.append(line)
    return f"{', '.join(where)}: {_what(report, memory, compiled)}"


def _what(report: Report, memory: DeviceMemory, compiled: Path) -> str:
    if report.signal:
        return _fault(report, memory)
    if report.race:
        return _race(report, memory, compiled)
    if report.shared_overrun:
        return _overrun(report, compiled)
    return str(report.text.decode(errors="replace"))


def _race(report: Report, memory: DeviceMemory, compiled: Path) -> str:
    line = _line(compiled, report.other_instruction)
    other = f"thread {tuple(report.other_thread)}"
    if tuple(report.other_block) != tuple(report.block):
        other += f" of block {tuple(report.other_block)}"
    if line:
        other += f" at {line}"
    if report.in_shared_memory:
        what = _shared_byte(compiled, report.address)
    else:
        what = memory.describe(report.address)
    touched = f"{_ACCESSES[report.access]} {what}"
    if report.race == _TORN:
        return f"{touched} as one value, of which {other} wrote a part"
    did = _PAST_ACCESSES[report.other_access]
    return f"{touched}, which {other} {did}, and nothing orders the two"


def _fault(report: Report, memory: DeviceMemory) -> str:
    if report.signal == signal.SIGFPE:
        return "divides an integer by zero"
    if report.signal == signal.SIGILL:
        return "runs an illegal instruction"
    if report.stack_overflow:
        return "overflows its stack: it has too large local arrays, or recurses"
    if report.access == 0 and report.address == 0:
        return "follows a pointer that points nowhere"
    return f"{_ACCESSES[report.access]} {memory.describe(report.address)}"


def _overrun(report: Report, compiled: Path) -> str:
    variable = _shared_variable(compiled, report.address)
    if variable is None:
        return "writes past the end of shared memory"
    name, start, size = variable
    if start + size > report.address:  # dynamic memory, which is declared for the most
        size = report.shared_bytes
    return (
        f"writes past the end of shared memory: byte {report.address - start} of "
        f"{name}, which has {size}"
    )


def _shared_byte(compiled: Path, offset: int) -> str:
    variable = _shared_variable(compiled, offset)
    if variable is None:
        return "shared memory"
    name, start, _ = variable
    return f"byte {offset - start} of {name} in shared memory"


def _shared_variable(compiled: Path, offset: int) -> tuple[str, int, int] | None:
    """The last `__shared__` variable that begins at an offset in them all, or before.

    Its name, offset and size, where binutils are at hand to find it.
    """
    program = shutil.which("readelf") or shutil.which("llvm-readelf")
    if program is None:
        return None
    command = [program, "--symbols", "--wide", "--demangle", str(compiled)]
    found = subprocess.run(command, capture_output=True, text=True).stdout
    symbols = filter(None, map(_SHARED_VARIABLE.match, found.splitlines()))
    variables = [
        (int(one["start"], 16), int(one["size"], 0), one["name"].rpartition("::")[2])
        for one in symbols
    ]
    before = [
        one
        for one in variables
        if one[0] <= offset and not one[2].startswith("emulator")
    ]
    if not before:
        return None
    start, size, _ = max(before)
    # Kernels of a file may have several names for the dynamic memory.
    names = sorted({name for place, _, name in before if place == start})
    return " or ".join(names), start, size


def _line(compiled: Path, instruction: int) -> str | None:
    """The source line of an instruction, where binutils are at hand to find it."""
    program = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if program is None:
        return None
    # Inlined functions, from the innermost outwards: the first line that is not one of
    # the emulator's own.
    command = [program, "-i", "-e", str(compiled), hex(instruction)]
    found = subprocess.run(command, capture_output=True, text=True).stdout
    for line in found.splitlines():
        file, _, number = line.split(" ")[0].rpartition(":")
        if number.isdigit() and number != "0" and Path(file).parent != RUNTIME:
            return f"{Path(file).name}:{number}"
    return None
