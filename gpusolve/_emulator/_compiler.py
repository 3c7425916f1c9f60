"""Compiles kernels to shared objects, and caches them."""

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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from . import _device
from ._comments import without_comments
from ._errors import CompileError
from ._host_only import check_kernels
from ._launch_syntax import program_text

RUNTIME = Path(__file__).parent / "runtime"

_MACHINES = ("x86_64", "aarch64")
_CANDIDATES = ("g++", "clang++", "c++")

_OVERRUN_BYTES = 32 * 1024
"""Bytes after the dynamic shared memory, in which writes past its end are detected."""

_DYNAMIC_SHARED_BYTES = _device.shared_memory_per_block + _OVERRUN_BYTES

_SHARED_GUARD_BYTES = 1024
"""Bytes before it, in which writes past the end of `__shared__` arrays are detected."""

_FLAGS = (
    "-std=c++17",
    "-fPIC",
    # Makes a large local array touch the guard page below its stack, not skip it.
    "-fstack-clash-protection",
    "-pthread",
    # Keeps thread-local variables of the same name in two objects separate.
    "-fvisibility=hidden",
    # Gives the same results on all CPUs, with fused multiply-add or without.
    "-ffp-contract=off",
    # CUDA's compiler allows type punning through pointers.
    "-fno-strict-aliasing",
    # Signed integers wrap on overflow, as on a GPU.
    "-fwrapv",
    f"-DEMULATOR_DYNAMIC_SHARED_BYTES={_DYNAMIC_SHARED_BYTES}",
    f"-DEMULATOR_SHARED_GUARD_BYTES={_SHARED_GUARD_BYTES}",
)

_RUNTIME_FLAGS = ("-O1", "-finline-functions", "-finline-small-functions", "-w")
"""As fast as with -O2, and compiled in two thirds of the time. Without line numbers,
because reports do not name lines of the runtime."""

_RUNTIME_PARTS = 2
"""Parts of the runtime that are compiled at the same time. Each file by itself would
parse the same headers."""

_KERNEL_FLAGS = (
    # Most kernels run for less time than the extra compile time of -O2.
    "-O1",
    # Line numbers only: variables would take a sixth of the compile time.
    "-g1",
    # With DWARF 5, addr2line attributes lines of the kernel to the standard input.
    "-gdwarf-4",
)

_INSTRUMENTATION = {
    "GCC": ("-fsanitize=thread", "--param=tsan-distinguish-volatile=1"),
    "Clang": ("-fsanitize=thread", "-mllvm", "-tsan-distinguish-volatile=1"),
}
"""Insert calls at each memory access, defined in ``runtime/instrumentation.cpp``."""

_CHECKS = "-DEMULATOR_CHECKS"
"""Accesses are checked, and not only counted."""

_COVERAGE = {
    "GCC": (
        "-fsanitize-coverage=trace-pc",
        "-fno-tree-sra",
        "-fno-ivopts",
        "-fno-tree-loop-ivcanon",
    ),
    "Clang": ("-fsanitize-coverage=bb,trace-pc",),
}
"""Insert a call in each basic block, and keep an access to a structure of 16 bytes
whole, which GCC would split into its members, and the counters of loops as written."""

_DECLARED_ARRAYS = ("-fsanitize=bounds,alignment,object-size",)
"""Insert checks of indices, alignment and pointers to variables, see
``runtime/declared_arrays.cpp``."""

_UNINITIALISED = {
    "GCC": ("-Wuninitialized", "-Wmaybe-uninitialized"),
    "Clang": ("-Wuninitialized", "-Wconditional-uninitialized"),
}
"""Warn of local variables that are read before they have a value."""

_WARNING = re.compile(
    r"^(?:.*/)?(?P<place>[^/:\n]+:\d+):\d+: warning: (?P<text>.*uninitialized.*) \[-W",
    re.MULTILINE,
)

Variant = Literal["plain", "races", "memory", "profile"]
"""How a kernel is compiled: without instrumentation, to check races, to check races and
memory, or for a profile."""

_LIBRARIES = (
    "-nodefaultlibs",
    "-lstdc++",
    "-lm",
    "-lgcc_s",
    "-lgcc",
    "-lpthread",
    "-lc",
)
"""The default libraries, without the sanitizer's library."""

_KERNEL = """\
#include "prelude.h"
#line 1 "definitions"
{definitions}
#line 1 "instance"
#include "{source}"
EMULATOR_KERNEL({instance})
{aliases}"""

_PROGRAM = """\
#include "program.h"
#line 1 "{source}"
{text}
EMULATOR_PROGRAM()
{aliases}"""

_ALIAS = """\
asm(".globl {name}\\n.hidden {name}\\n.type {name}, @tls_object\\n"
    ".size {name}, {size}\\n.set {name}, emulator_dynamic_shared_memory + {guard}\\n"
    ".globl _ZTH{length}{name}\\n.hidden _ZTH{length}{name}\\n"
    ".set _ZTH{length}{name}, emulator_no_initialisation");
"""
"""Makes a name that the kernel declares an alias of the dynamic shared memory.

GCC assumes that an `extern thread_local` variable may have a constructor, and calls its
initialisation function (``_ZTH...`` in the C++ ABI) before an access. It does nothing.
"""

_EXTERN_ARRAY = re.compile(r"\bextern\b([^;{}]*\b__shared__\b[^;{}]*)\[\s*\]\s*;")
_INCLUDE = re.compile(r'#include "(.+)"')


def cache_directory() -> Path:
    """The directory of compiled kernels.

    ``$GPUSOLVE_CACHE_DIR``, else ``$XDG_CACHE_HOME/gpusolve``, else
    ``~/.cache/gpusolve``.
    """
    if own := os.environ.get("GPUSOLVE_CACHE_DIR"):
        return Path(own)
    if user := os.environ.get("XDG_CACHE_HOME"):
        return Path(user) / "gpusolve"
    return Path.home() / ".cache" / "gpusolve"


def compiler() -> str | None:
    """The C++ compiler: ``$CXX``, else g++ or clang++ on the path, else None."""
    command = _compiler_command()
    return shlex.join(command) if command else None


def _compiler_command() -> list[str] | None:
    user = shlex.split(os.environ.get("CXX", ""))
    if user:
        path = shutil.which(user[0])
        return [path, *user[1:]] if path else None
    paths = (shutil.which(name) for name in _CANDIDATES)
    return next(([path] for path in paths if path), None)


def build(
    source: Path,
    instance: str,
    include: Path,
    definitions: str,
    options: tuple[str, ...],
    *,
    variant: Variant,
) -> Path:
    """The shared object of a kernel instance, compiled if it is not in the cache.

    Parameters
    ----------
    source : Path
        The ``.cu`` file.
    instance : str
        A C++ expression that names the kernel: ``nnls_qr<double>``.
    include : Path
        The directory of its headers.
    definitions : str
        C++ text that is inserted before the source.
    options : tuple of str
        Of the preprocessor.
    variant : {"plain", "races", "profile"}

    Raises
    ------
    CompileError
        With the compiler's log; or without a compiler, or on an unsupported platform.
    """
    source, include = source.resolve(), include.resolve()
    text = _KERNEL.format(
        definitions=definitions,
        source=source,
        instance=instance,
        aliases=_aliases(texts_of(definitions, source, include)),
    )
    readable = re.sub("[^A-Za-z0-9]+", "_", instance).strip("_")
    return _build(
        readable, f"{instance} in {source.name}", text, "prelude.h",
        [f"-I{include}", *options],
        variant, [source, *_sources(include)],
    )  # fmt: skip


def build_program(source: Path, options: Sequence[str], variant: Variant) -> Path:
    """The shared object of a whole program, compiled if it is not in the cache.

    Parameters
    ----------
    source : Path
        The ``.cu`` file with ``main``.
    options : sequence of str
        Of the preprocessor.
    variant : {"plain", "races", "memory", "profile"}

    Raises
    ------
    CompileError
        As for `build`.
    """
    source = source.resolve()
    if not source.is_file():
        raise CompileError(f"the program must be a file, got {source}")
    check_kernels(source.read_text(), source.name, by_nvcc=True)
    search = [Path(option[2:]) for option in options if option.startswith("-I")]
    folders = [source.parent, *filter(Path.is_dir, search)]
    program = program_text(source, folders)
    text = _PROGRAM.format(
        source=source,
        text=program,
        aliases=_aliases([program, *texts_of("", source, source.parent)]),
    )
    return _build(
        source.stem, source.name, text, "program.h", [f"-I{source.parent}", *options],
        variant, [path for folder in folders for path in _sources(folder)],
    )  # fmt: skip


def _build(
    readable: str,
    name: str,
    text: str,
    prelude: str,
    search: Sequence[str],
    variant: Variant,
    sources: Iterable[Path],
) -> Path:
    """The shared object of a text, compiled if it is not in the cache.

    Parameters
    ----------
    readable, name : str
        Of the object's file, and for error messages.
    text : str
        C++ that includes the `prelude`.
    prelude : str
        A header of the runtime, which is precompiled.
    search : sequence of str
        Options for the headers of the text.
    variant : {"plain", "races", "memory", "profile"}
    sources : iterable of Path
        Files on which the object depends.
    """
    program, user = _usable_compiler(), shlex.split(os.environ.get("CXXFLAGS", ""))
    command = [*program, *_FLAGS, *_KERNEL_FLAGS, *user]
    command += _instrumentation(program[0], variant)
    with ThreadPoolExecutor() as pool:
        precompiled = pool.submit(_precompiled, command, prelude)
        part = functools.partial(_runtime, [*program, *_FLAGS, *_RUNTIME_FLAGS, *user])
        runtime = list(pool.map(part, range(_RUNTIME_PARTS)))
    return _cached(
        f"{readable}-{{key}}.so",
        [
            *command,
            "-shared",
            *_linker(),
            "-Wl,-z,defs",
            *precompiled.result(),
            f"-I{RUNTIME}",
            *search,
            "-xc++",
            "-",
            "-xnone",
            *map(str, runtime),
            *(() if variant == "plain" else _LIBRARIES),
        ],
        name=name,
        text=text,
        sources=sources,
    )


def _runtime(command: Sequence[str], part: int) -> Path:
    """The object of a part of the emulator's runtime."""
    files = sorted(RUNTIME.glob("*.cpp"))[part::_RUNTIME_PARTS]
    return _cached(
        "runtime-{key}.o",
        [*command, "-c", "-xc++", "-"],
        name="the emulator's runtime",
        text="".join(f'#include "{file}"\n' for file in files),
    )


def _linker() -> tuple[str, ...]:
    """The option for gold, if installed: it takes a third of the default's time."""
    return ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()


def texts_of(definitions: str, source: Path, include: Path) -> list[str]:
    """The definitions, the source and its headers, without comments."""
    texts, found = [definitions], [source]
    for path in found:
        text = without_comments(path.read_text())
        texts.append(text)
        headers = (include / name for name in _INCLUDE.findall(text))
        found += [path for path in headers if path.exists() and path not in found]
    return texts


def _aliases(texts: Iterable[str]) -> str:
    """Assembly that makes each `extern __shared__` array the dynamic shared memory."""
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


def _precompiled(command: list[str], prelude: str) -> list[str]:
    """The include option with which GCC finds the precompiled prelude.

    GCC uses it instead of the header if the options are the same. Clang would need
    another option; it parses the header each time.
    """
    if _is_clang(command[0]):
        return []
    header = _cached(
        f"prelude-{{key}}/{prelude}.gch",
        [*command, "-xc++-header", str(RUNTIME / prelude)],
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
    """The output file of `command` with `text` as its standard input, from the cache.

    `{key}` in the name `file` is replaced by a hash of the command and all inputs.
    """
    key = hashlib.sha256(repr((_version(command[0]), command, text)).encode())
    key.update(_runtime_digest())
    _add_files(key, sources)
    target = cache_directory() / "emulator" / file.format(key=key.hexdigest()[:16])
    for directory in (cache_directory(), cache_directory() / "emulator", target.parent):
        _make_private(directory)
    if not _is_private(target):
        with _one_at_a_time(target):
            if not _is_private(target):
                _compile(target, command, text, name)
    return target


def _add_files(key: hashlib._Hash, paths: Iterable[Path]) -> None:
    for path in paths:
        key.update(f"{path}:{path.stat().st_size}:".encode())
        key.update(path.read_bytes())


@functools.cache
def _runtime_digest() -> bytes:
    """A hash of the emulator's own files, which do not change while it runs."""
    key = hashlib.sha256()
    _add_files(key, sorted(path for path in RUNTIME.rglob("*") if path.is_file()))
    return key.digest()


def _make_private(directory: Path) -> None:
    """Create the directory; CompileError if other users can write to it.

    Objects are loaded from it, so write access allows code execution in this process.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(directory):
        raise CompileError(
            f"the cache directory {directory} must be yours and not writable by "
            "others, because code is loaded from it; run chmod go-w on it, or set "
            "GPUSOLVE_CACHE_DIR to another directory"
        )


def _is_private(path: Path) -> bool:
    """Whether the path exists, belongs to this user, and only they can write to it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    by_others = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid == os.geteuid() and not status.st_mode & by_others


@contextlib.contextmanager
def _one_at_a_time(target: Path) -> Iterator[None]:
    """Let one process compile the target while other processes wait for it.

    This only saves time: `_compile` is also safe on a file system without locks.
    """
    import fcntl  # here, because Windows has none and must import this module

    lock = target.with_name(f"{target.name}.lock")
    with lock.open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _compile(target: Path, command: list[str], text: str, name: str) -> None:
    """Compile next to the target, then rename: nobody reads an incomplete object."""
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        output = Path(directory) / target.name
        result = subprocess.run(
            [*command, "-o", str(output)],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if result.returncode != 0:
            raise CompileError(
                f"{name} does not compile with {command[0]}:\n{result.stdout}"
            )
        found = sorted(set(_WARNING.findall(result.stdout)))
        if found:
            lines = "".join(f"{place}: {text}\n" for place, text in found)
            _warnings_file(target).write_text(lines)
        output.chmod(0o755)
        output.replace(target)


def warnings_of(target: Path) -> list[str]:
    """The compiler's warnings of an object: local variables without a value."""
    file = _warnings_file(target)
    return file.read_text().splitlines() if file.exists() else []


def _warnings_file(target: Path) -> Path:
    return target.with_suffix(".warnings")


def _sources(directory: Path) -> list[Path]:
    """The C++ and CUDA files of a directory."""
    suffixes = {".cu", ".cuh", ".h", ".hpp", ".cpp"}
    return sorted(path for path in directory.iterdir() if path.suffix in suffixes)


@functools.cache
def _version(path: str) -> str:
    result = subprocess.run([path, "--version"], capture_output=True, text=True)
    return result.stdout


def _instrumentation(path: str, variant: Variant) -> tuple[str, ...]:
    family = "Clang" if _is_clang(path) else "GCC"
    own = {
        "plain": ("-w",),
        "races": ("-w", *_INSTRUMENTATION[family], _CHECKS),
        "memory": (
            *_UNINITIALISED[family],
            *_INSTRUMENTATION[family],
            *_DECLARED_ARRAYS,
            _CHECKS,
            "-DEMULATOR_MEMORY_CHECKS",
        ),
        "profile": ("-w", *_INSTRUMENTATION[family], *_COVERAGE[family]),
    }
    return own[variant]


def _is_clang(path: str) -> bool:
    return "clang" in _version(path)


def _usable_compiler() -> list[str]:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        raise CompileError(
            f"the emulator runs on Linux on {' or '.join(_MACHINES)} only, got "
            f"{platform.system()} on {platform.machine()}"
        )
    command = _compiler_command()
    if command is None:
        user = os.environ.get("CXX")
        raise CompileError(
            f"CXX must name a C++ compiler on the path, got {user!r}"
            if user
            else "the emulator needs a C++ compiler: install g++ or clang++, or set CXX"
        )
    return command
