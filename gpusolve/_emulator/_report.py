"""Error messages for failed kernels."""

from __future__ import annotations

import ctypes
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

from ._errors import CompileError
from ._lines import SourceLine, source_line
from ._memory import LaunchMemory


class FaultReport(ctypes.Structure):
    """``FaultReport`` in ``runtime/report.h``."""

    _fields_ = [
        ("happened", ctypes.c_int),
        ("signal", ctypes.c_int),
        ("access", ctypes.c_int),
        ("access_bytes", ctypes.c_int),
        ("stack_overflow", ctypes.c_int),
        ("has_thread", ctypes.c_int),
        ("race", ctypes.c_int),
        ("other_access", ctypes.c_int),
        ("in_shared_memory", ctypes.c_int),
        ("shared_overrun", ctypes.c_int),
        ("unwritten", ctypes.c_int),
        ("thread", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("other_block", ctypes.c_uint * 3),
        ("other_thread", ctypes.c_uint * 3),
        ("line", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("shared_bytes", ctypes.c_uint64),
        ("instruction", ctypes.c_uint64),
        ("other_instruction", ctypes.c_uint64),
        ("variable", ctypes.c_uint64),
        ("caller", ctypes.c_uint64),
        ("file", ctypes.c_char * 512),
        ("text", ctypes.c_char * 4096),
    ]


_ACCESSES = ("accesses", "reads", "writes")
_PAST_ACCESSES = ("accessed", "read", "wrote")
"""In the order of ``enum class Access`` in ``runtime/report.h``."""

_TORN, _UPDATE, _OVERWRITE, _SAME_VALUE, _ACQUIRE, _LOCKSTEP = range(2, 8)
"""``RaceKind`` in ``runtime/report.h``."""

_REMEDIES = {
    _UPDATE: "use an atomic operation, such as atomicAdd()",
    _OVERWRITE: "let a single thread write it, or use an atomic operation",
    _SAME_VALUE: "both store the same value, which is harmless on today's GPUs but not "
    "guaranteed; let a single thread write it, or use an atomic operation",
    _ACQUIRE: "the thread has read a flag that the other thread has set, but called no "
    "fence since; put a __threadfence() after the read of the flag, or a "
    "__threadfence_block() if both are of the same block",
    _LOCKSTEP: "lanes of a warp ran in lockstep before Volta, but do not on Volta and "
    "later GPUs; put a __syncwarp() between them",
}
"""What to do about a race, by its kind."""

_PLACE = re.compile(r"\{(0x[0-9a-f]+)\}")
"""An instruction in a text of ``runtime/diagnosis.cpp``."""

_VARIABLE = re.compile(
    r"\s*\d+: (?P<start>\w+) +(?P<size>\w+) (?P<kind>TLS|OBJECT)"
    r"( +\w+){3} +(?P<name>.+)"
)
"""A line of readelf's output for a variable: in shared or in global memory."""


def explain(
    report: FaultReport, kernel: str, memory: LaunchMemory, compiled: Path
) -> str:
    """The message of a `KernelError`.

    Parameters
    ----------
    report : FaultReport
    kernel : str
        The kernel's name.
    memory : LaunchMemory
        The arrays of the launch.
    compiled : Path
        The kernel's object, to look up the line of an instruction.
    """
    where = [kernel]
    if report.has_thread:
        where.append(f"thread {tuple(report.thread)}")
    where.append(f"block {tuple(report.block)}")
    if line := line_of_fault(report, compiled):
        where.append(str(line))
    return f"{', '.join(where)}: {_error(report, memory, compiled)}"


def line_of_fault(report: FaultReport, compiled: Path) -> SourceLine | None:
    """The source line at which a kernel failed, if it is known."""
    if report.line:
        return SourceLine(Path(report.file.decode()), report.line)
    return source_line(compiled, report.instruction) if report.instruction else None


def _error(report: FaultReport, memory: LaunchMemory, compiled: Path) -> str:
    if report.signal:
        return _fault(report, memory)
    if report.race:
        return _race(report, memory, compiled)
    if report.shared_overrun:
        return _overrun(report, compiled)
    if report.unwritten:
        element = _element(report, memory, compiled)
        writer = "no thread of the block" if report.in_shared_memory else "nothing"
        return f"reads {element}, to which {writer} has written"
    text = report.text.decode(errors="replace")
    return _PLACE.sub(lambda found: _line(compiled, int(found[1], 16)), text)


def _line(compiled: Path, instruction: int) -> str:
    return str(source_line(compiled, instruction) or f"instruction {instruction:#x}")


def _race(report: FaultReport, memory: LaunchMemory, compiled: Path) -> str:
    line = source_line(compiled, report.other_instruction)
    same_block = tuple(report.other_block) == tuple(report.block)
    other = f"thread {tuple(report.other_thread)}"
    if not same_block:
        other += f" of block {tuple(report.other_block)}"
    if line:
        other += f" at {line}"
    element = _element(report, memory, compiled)
    access = f"data race: {_ACCESSES[report.access]} {element}"
    if report.race == _TORN:
        return (
            f"{access} as one value, but {other} wrote only a part of it; write the "
            "value by one store"
        )
    other_access = _PAST_ACCESSES[report.other_access]
    remedy = _REMEDIES.get(report.race) or (
        "put a __syncthreads() between them"
        if same_block
        else "use atomics, or a flag with a __threadfence() on both sides"
    )
    return (
        f"{access}, which {other} {other_access}, and nothing orders the two accesses; "
        f"{remedy}"
    )


def _fault(report: FaultReport, memory: LaunchMemory) -> str:
    if report.signal == signal.SIGFPE:
        return "divides an integer by zero"
    if report.signal == signal.SIGILL:
        return "runs an illegal instruction"
    if report.stack_overflow:
        return "overflows its stack; use smaller local arrays or less recursion"
    if report.access == 0 and report.address == 0:
        return "accesses memory through an invalid pointer"
    return f"{_ACCESSES[report.access]} {memory.describe(report.address)}"


def _overrun(report: FaultReport, compiled: Path) -> str:
    access = _ACCESSES[report.access]
    offset = ctypes.c_int64(report.address).value
    variable = _variable(compiled, "TLS", offset)
    if variable is None:
        return f"{access} outside of shared memory"
    name, start, size = variable
    unit, place = report.access_bytes, "element"
    if not unit or (offset - start) % unit or size % unit:
        unit, place = 1, "byte"
    number = (offset - start) // unit
    remedy = "check the index"
    # The symbol of dynamic memory has the largest size that is allowed.
    if start + size > offset:
        size = report.shared_bytes
        remedy += ", or launch with a larger shared_mem"
    if not report.access_bytes:
        remedy += "; memcheck names the line"
    return (
        f"{access} past the end of shared memory: {place} {number} of {name}, which "
        f"has {size // unit} {place}s; {remedy}"
    )


def _element(report: FaultReport, memory: LaunchMemory, compiled: Path) -> str:
    """The element at the address of an access."""
    if report.in_shared_memory:
        return _part(compiled, "TLS", report.address, report.access_bytes)
    if report.variable:
        return _part(compiled, "OBJECT", report.variable, report.access_bytes)
    return memory.describe(report.address)


def _part(compiled: Path, kind: str, offset: int, size: int) -> str:
    """An element of a variable, of the size of the access."""
    place = "shared memory" if kind == "TLS" else "global memory"
    variable = _variable(compiled, kind, offset)
    if variable is None:
        return place
    name, start, _ = variable
    element, rest = divmod(offset - start, size)
    if rest:
        return f"byte {offset - start} of {name} in {place}"
    return f"element {element} ({size} bytes) of {name} in {place}"


def global_variables(compiled: Path) -> dict[str, tuple[int, int]]:
    """The offset and the size of each global variable of an object, by its name.

    CompileError if binutils are not installed.
    """
    variables = _variables(compiled, "OBJECT")
    if variables is None:
        raise CompileError("variables of a module need readelf: install binutils")
    return {_own_name(name): (start, size) for start, size, name in variables}


def check_static_shared_memory(compiled: Path, limit: int) -> None:
    """CompileError if a function has more bytes of `__shared__` variables."""
    taken: Counter[str] = Counter()
    for _, size, name in set(_variables(compiled, "TLS") or []):
        function, _, variable = name.rpartition("::")
        taken[function] += size if variable else 0
    function, size = max(taken.items(), key=lambda item: item[1] * (item[0] != ""))
    if function and size > limit:
        raise CompileError(
            f"{function} has {size} bytes of __shared__ variables, but at most {limit} "
            "are allowed; use dynamic shared memory, extern __shared__"
        )


def _variable(compiled: Path, kind: str, offset: int) -> tuple[str, int, int] | None:
    """Name, offset and size of the last variable at an offset or before.

    None without such a variable, or if binutils are not installed. The kind is "TLS"
    for `__shared__` variables, and "OBJECT" for global variables.
    """
    variables = _variables(compiled, kind)
    if variables is None:
        return None
    before = [
        variable
        for variable in variables
        if variable[0] <= offset and not _own_name(variable[2]).startswith("emulator")
    ]
    if not before:
        return None
    start, size, _ = max(before)
    # The kernels of a file may have different names for the dynamic memory.
    names = sorted({_own_name(name) for offset, _, name in before if offset == start})
    return " or ".join(names), start, size


def _variables(compiled: Path, kind: str) -> list[tuple[int, int, str]] | None:
    """Offset, size and full name of a kind's variables; None without binutils."""
    program = shutil.which("readelf") or shutil.which("llvm-readelf")
    if program is None:
        return None
    command = [program, "--symbols", "--wide", "--demangle", str(compiled)]
    listing = subprocess.run(command, capture_output=True, text=True).stdout
    symbols = filter(None, map(_VARIABLE.match, listing.splitlines()))
    return [
        (int(found["start"], 16), int(found["size"], 0), found["name"])
        for found in symbols
        if found["kind"] == kind
    ]


def _own_name(name: str) -> str:
    """Without the function or the namespace."""
    return name.rpartition("::")[2]
