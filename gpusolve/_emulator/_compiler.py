"""From a kernel's source to an object in the cache."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import _device
from ._errors import CompileError

RUNTIME = Path(__file__).parent / "runtime"

_MACHINES = ("x86_64", "aarch64")
_CANDIDATES = ("g++", "clang++", "c++")

_OVERRUN_BYTES = 32 * 1024
"""Behind the dynamic shared memory, to see who writes past its end."""

_DYNAMIC_SHARED_BYTES = _device.shared_memory_per_block + _OVERRUN_BYTES

_SHARED_GUARD_BYTES = 1024
"""In front of it, to see who writes past the end of another `__shared__` array."""

_FLAGS = (
    "-std=c++17",
    "-w",
    "-fPIC",
    # A large local array touches the guard below its stack, and does not step over it.
    "-fstack-clash-protection",
    "-pthread",
    # Kernels share symbols with nobody: thread-local variables of equal names in two
    # objects are two.
    "-fvisibility=hidden",
    # A result is to be the same on all machines, with fused instructions or without.
    "-ffp-contract=off",
    # CUDA's own compiler allows a value to be read through another type.
    "-fno-strict-aliasing",
    # Signed numbers that overflow wrap, as a GPU's do.
    "-fwrapv",
    f"-DEMULATOR_DYNAMIC_SHARED_BYTES={_DYNAMIC_SHARED_BYTES}",
    f"-DEMULATOR_SHARED_GUARD_BYTES={_SHARED_GUARD_BYTES}",
)

_RUNTIME_FLAGS = ("-O2",)
"""And no line numbers: reports name none of the runtime."""

_KERNEL_FLAGS = (
    # Most kernels run for less time than -O2 takes to compile them.
    "-O1",
    # Lines only, since variables would take a sixth of the compiler's time.
    "-g1",
    # With version 5 addr2line takes lines of a kernel for lines of the standard input.
    "-gdwarf-4",
)

_INSTRUMENTATION = {
    "GCC": ("-fsanitize=thread", "--param=tsan-distinguish-volatile=1"),
    "Clang": ("-fsanitize=thread", "-mllvm", "-tsan-distinguish-volatile=1"),
}
"""Calls at each access to memory, which ``runtime/instrumentation.cpp`` answers."""

_LIBRARIES = (
    "-nodefaultlibs",
    "-lstdc++",
    "-lm",
    "-lgcc_s",
    "-lgcc",
    "-lpthread",
    "-lc",
)
"""Those that are linked anyhow, without the sanitizer's own."""

_KERNEL = """\
#include "prelude.h"
#line 1 "definitions"
{definitions}
#line 1 "instance"
#include "{source}"
EMULATOR_KERNEL({instance})
{aliases}"""

_ALIAS = """\
asm(".globl {name}\\n.hidden {name}\\n.type {name}, @tls_object\\n"
    ".size {name}, {size}\\n.set {name}, emulator_dynamic_shared_memory + {guard}\\n"
    ".globl _ZTH{length}{name}\\n.hidden _ZTH{length}{name}\\n"
    ".set _ZTH{length}{name}, emulator_no_initialisation");
"""
"""A kernel's name for the dynamic shared memory, of which all its names are one.

GCC takes an `extern thread_local` for something with a constructor, and calls this (by
its name in the C++ ABI) before an access. There is none to run.
"""

_EXTERN_ARRAY = re.compile(r"\bextern\b([^;{}]*\b__shared__\b[^;{}]*)\[\s*\]\s*;")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'#include "(.+)"')


def cache_directory() -> Path:
    """Where compiled kernels lie.

    ``$GPUSOLVE_CACHE_DIR``, else ``$XDG_CACHE_HOME/gpusolve``, else
    ``~/.cache/gpusolve``.
    """
    if own := os.environ.get("GPUSOLVE_CACHE_DIR"):
        return Path(own)
    if user := os.environ.get("XDG_CACHE_HOME"):
        return Path(user) / "gpusolve"
    return Path.home() / ".cache" / "gpusolve"


def compiler() -> str | None:
    """The C++ compiler: ``$CXX``, else g++ or clang++ on the path; None without one."""
    command = _compiler_command()
    return shlex.join(command) if command else None


def _compiler_command() -> list[str] | None:
    wanted = shlex.split(os.environ.get("CXX", ""))
    if wanted:
        path = shutil.which(wanted[0])
        return [path, *wanted[1:]] if path else None
    paths = (shutil.which(name) for name in _CANDIDATES)
    return next(([path] for path in paths if path), None)


def build(
    source: Path, instance: str, include: Path, definitions: str, *, watched: bool
) -> Path:
    """The shared object of one kernel instance, compiled if the cache has none.

    Parameters
    ----------
    source : Path
        The ``.cu`` file.
    instance : str
        A C++ expression that names the kernel, as ``nnls_qr<double>``.
    include : Path
        Where its ``#include "..."`` are found.
    definitions : str
        C++ text to stand in front of the source.
    watched : bool
        Whether it is to be launched with a look-out for races.

    Raises
    ------
    CompileError
        With the compiler's log; or where there is no compiler, or no such platform.
    """
    source, include = source.resolve(), include.resolve()
    program, user = _usable_compiler(), shlex.split(os.environ.get("CXXFLAGS", ""))
    runtime_files = map(str, sorted(RUNTIME.glob("*.cpp")))
    runtime = _cached(
        "runtime-{key}.o",
        [*program, *_FLAGS, *_RUNTIME_FLAGS, *user, "-r", "-nostdlib", *runtime_files],
        name="the emulator's runtime",
    )
    command = [*program, *_FLAGS, *_KERNEL_FLAGS, *user]
    if watched:
        command += _instrumentation(program[0])
    search = [*_precompiled(command), f"-I{RUNTIME}", f"-I{include}"]
    readable = re.sub("[^A-Za-z0-9]+", "_", instance).strip("_")
    return _cached(
        f"{readable}-{{key}}.so",
        [
            *command,
            "-shared",
            "-Wl,-z,defs",
            *search,
            "-xc++",
            "-",
            "-xnone",
            str(runtime),
            *(_LIBRARIES if watched else ()),
        ],
        name=f"{instance} in {source.name}",
        text=_KERNEL.format(
            definitions=definitions,
            source=source,
            instance=instance,
            aliases=_aliases(definitions, source, include),
        ),
        sources=[source, *_sources(include)],
    )


def _aliases(definitions: str, source: Path, include: Path) -> str:
    """What makes each `extern __shared__` array the dynamic shared memory."""
    texts, found = [definitions], [source]
    for path in found:
        text = _COMMENT.sub(" ", path.read_text())
        texts.append(text)
        headers = (include / name for name in _INCLUDE.findall(text))
        found += [path for path in headers if path.exists() and path not in found]
    names = {
        re.findall(r"\w+", declared)[-1]
        for text in texts
        for declared in _EXTERN_ARRAY.findall(text)
    }
    return "".join(
        _ALIAS.format(
            name=name,
            length=len(name),
            size=_DYNAMIC_SHARED_BYTES,
            guard=_SHARED_GUARD_BYTES,
        )
        for name in sorted(names)
    )


def _precompiled(command: list[str]) -> list[str]:
    """Where GCC finds the prelude compiled with the same options, for its search path.

    GCC takes it in place of the header only where it fits; Clang asks for it otherwise,
    and parses the header each time.
    """
    if _is_clang(command[0]):
        return []
    header = _cached(
        "prelude-{key}/prelude.h.gch",
        [*command, "-xc++-header", str(RUNTIME / "prelude.h")],
        name="the emulator's prelude",
    )
    return [f"-I{header.parent}"]


def _cached(
    file: str,
    command: list[str],
    *,
    name: str,
    text: str = "",
    sources: Iterable[Path] = (),
) -> Path:
    """What `command` makes of `text`, its standard input; made once and kept.

    The `{key}` in the name `file` becomes a hash of all of it.
    """
    key = hashlib.sha256(repr((_version(command[0]), command, text)).encode())
    for path in [*_sources(RUNTIME), *sources]:
        key.update(f"{path}:{path.stat().st_size}:".encode())
        key.update(path.read_bytes())
    target = cache_directory() / "emulator" / file.format(key=key.hexdigest()[:16])
    for directory in (cache_directory(), cache_directory() / "emulator", target.parent):
        _make_private(directory)
    if not _is_private(target):
        with _one_at_a_time(target):
            if not _is_private(target):
                _make(target, command, text, name)
    return target


def _make_private(directory: Path) -> None:
    """Make the directory; CompileError if there is one that others may write to.

    Its objects are loaded, so who writes there runs code in this process.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(directory):
        raise CompileError(
            f"others may write to {directory}, where the emulator's objects are loaded "
            f"from; make it your own, with chmod go-w, or set GPUSOLVE_CACHE_DIR"
        )


def _is_private(path: Path) -> bool:
    """Whether it is there, belongs to this user, and nobody else may write to it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    by_others = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid == os.geteuid() and not status.st_mode & by_others


@contextlib.contextmanager
def _one_at_a_time(target: Path) -> Iterator[None]:
    """Let one process make the target, while others that want it wait.

    It saves time only: `_make` is safe without, where the file system has no locks.
    """
    import fcntl  # not on Windows, where this module is imported, too

    lock = target.with_name(f"{target.name}.lock")
    with lock.open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _make(target: Path, command: list[str], text: str, name: str) -> None:
    """Compile next to the target, then rename: a reader never sees half an object."""
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        made = Path(directory) / target.name
        result = subprocess.run(
            [*command, "-o", str(made)],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if result.returncode != 0:
            raise CompileError(
                f"{name} does not compile with {command[0]}:\n{result.stdout}"
            )
        made.chmod(0o755)
        made.replace(target)


def _sources(directory: Path) -> list[Path]:
    """What a kernel may include from a directory."""
    suffixes = {".cu", ".cuh", ".h", ".hpp", ".cpp"}
    return sorted(path for path in directory.iterdir() if path.suffix in suffixes)


@functools.cache
def _version(path: str) -> str:
    result = subprocess.run([path, "--version"], capture_output=True, text=True)
    return result.stdout


def _instrumentation(path: str) -> tuple[str, ...]:
    return _INSTRUMENTATION["Clang" if _is_clang(path) else "GCC"]


def _is_clang(path: str) -> bool:
    return "clang" in _version(path)


def _usable_compiler() -> list[str]:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        raise CompileError(
            f"the emulator runs on Linux, on {' and '.join(_MACHINES)}; this is "
            f"{platform.system()} on {platform.machine()}"
        )
    command = _compiler_command()
    if command is None:
        asked = os.environ.get("CXX")
        found = f"CXX is {asked!r}, which is not found" if asked else "none is found"
        raise CompileError(
            f"the emulator wants a C++ compiler, g++ or clang++; {found}"
        )
    return command
