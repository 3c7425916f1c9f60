"""The names of the compiled objects of the CPU solver, and the hash of their sources.

``setup.py`` runs this file by itself, before NumPy is installed. So it imports nothing
else of the package.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from pathlib import Path

FOLDER = "_objects"
"""The folder of the objects, in the package."""

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")

MACHINES = {"amd64": "x86-64", "x86_64": "x86-64", "arm64": "aarch64"}
"""Names of a machine that differ between operating systems."""

BEST_FIRST = {"x86-64": ("x86-64-v3", "x86-64")}
"""The instruction sets of a machine. Another machine has the set of its own name."""

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def machine() -> str:
    """The kind of CPU for which this Python runs."""
    name = platform.machine().lower()
    return MACHINES.get(name, name)


def instruction_sets() -> tuple[str, ...]:
    """The instruction sets for which objects are built, the best set first."""
    return BEST_FIRST.get(machine(), (machine(),))


def file_name(instruction_set: str, part: str = "gpusolve") -> str:
    """The name of the object of a part for an instruction set."""
    return f"{part}-{instruction_set}{SUFFIX}"


def sources(kernels: Path) -> list[Path]:
    """The files of ``cuda_src/cpu/`` and the headers that they include, sorted."""
    found: set[Path] = set()
    pending = list((kernels / "cpu").glob("*.cpp"))
    while pending:
        file = pending.pop().resolve()
        if file in found or not file.is_file():
            continue
        found.add(file)
        names = _INCLUDE.findall(file.read_text(encoding="utf-8"))
        pending += [
            folder / name for name in names for folder in (file.parent, kernels)
        ]
    return sorted(found)


def fingerprint(kernels: Path) -> str:
    """A hash of the sources, which an object has in it.

    Ends of lines do not count, because Git may convert them.
    """
    digest = hashlib.sha256()
    for file in sources(kernels):
        digest.update(f"{file.name}\n{file.read_text(encoding='utf-8')}".encode())
    return digest.hexdigest()[:16]
