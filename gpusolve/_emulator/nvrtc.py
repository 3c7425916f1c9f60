"""Compiles CUDA C++ to PTX with NVRTC, which needs no GPU, and caches the PTX."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
import importlib.util
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ._errors import CompileError

ARCHITECTURE = "90"
"""The compute capability of the emulated device, if no option has another."""

MISSING = (
    "the emulator compiles kernels with NVRTC, which was not found: "
    "pip install gpusolve[emulator], on Linux"
)

OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "-ftz=true")
"""Options of NVRTC as CuPy passes them. A kernel's own options come last, and win."""

_SIGNATURE = "emulator_signature"
_NAMED_BY_TYPE = f"\ntemplate <class Kernel> __global__ void {_SIGNATURE}() {{}}\n"
"""A kernel whose symbol has the types of another kernel's parameters."""

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
_PACKAGES = (
    "nvidia.cu13",
    "nvidia.cuda_nvrtc",
    "nvidia.cuda_runtime",
    "nvidia.cuda_cccl",
    "nvidia.curand",
)


_INTEGERS = """
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intptr_t; typedef unsigned long long uintptr_t;
"""
_NAMES = re.findall(r"\w+_t\b", _INTEGERS)
_STRINGS = """
#pragma once
__device__ inline void* memmove(void* to, const void* from, size_t bytes) {
    char* const x = static_cast<char*>(to);
    const char* const y = static_cast<const char*>(from);
    if (x <= y || x >= y + bytes)
        for (size_t k = 0; k < bytes; ++k) x[k] = y[k];
    else
        for (size_t k = bytes; k > 0; --k) x[k - 1] = y[k - 1];
    return to;
}
namespace std { using ::memcpy; using ::memmove; using ::memset; }
"""
_EMPTY_HEADERS = """
assert.h cassert cmath cstddef cstdio cstdlib float.h limits.h math.h stddef.h stdio.h
stdlib.h cuda_runtime.h cuda_runtime_api.h
"""
_STANDARD_HEADERS = {
    **dict.fromkeys(_EMPTY_HEADERS.split(), "#pragma once\n"),
    "string.h": _STRINGS,
    "cstring": "#include <string.h>\n",
    "stdint.h": f"#pragma once\n{_INTEGERS}",
    "cstdint": "#include <stdint.h>\nnamespace std {"
    + "".join(f" using ::{name};" for name in _NAMES)
    + " }\n",
}
"""Headers that kernels include, and that NVRTC does not have: it declares itself what
device code may use of them."""


class Compiled(NamedTuple):
    """PTX, the symbol of each instance, and NVRTC's log with its warnings."""

    ptx: str
    symbols: tuple[str, ...]
    log: str


class KernelSource(NamedTuple):
    """What names a kernel: the arguments of `Kernel`."""

    file: Path
    instance: str
    include: Path
    definitions: str = ""
    options: tuple[str, ...] = ()

    def text(self) -> str:
        """The definitions and the file, with lines of their own."""
        text = self.file.read_text(encoding="utf-8", errors="replace")
        if not self.definitions:
            return text
        start = f'#line 1 "definitions"\n{self.definitions}'
        return f'{start}\n#line 1 "{self.file}"\n{text}'

    def compile(self, *options: str) -> Compiled:
        """PTX; the symbols of the kernel, and of a kernel named by its type."""
        return compile_ptx(
            self.text() + _NAMED_BY_TYPE,
            str(self.file),
            (self.instance, f"{_SIGNATURE}<decltype(&{self.instance})>"),
            self._options(*options),
            what=f"{self.instance} in {self.file.name}",
        )

    def compile_variable(self, name: str) -> Compiled:
        """PTX that has a variable. CompileError if there is none."""
        return compile_ptx(self.text(), str(self.file), (f"&{name}",), self._options())

    def _options(self, *more: str) -> tuple[str, ...]:
        return (*OPTIONS, f"-I{self.include}", *self.options, *more)


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


def compile_ptx(
    text: str,
    name: str,
    instances: Sequence[str],
    options: Sequence[str] = (),
    *,
    what: str = "",
) -> Compiled:
    """Compile CUDA C++ to PTX, unless the cache has it.

    Parameters
    ----------
    text, name : str
        The source, and the name of its file.
    instances : sequence of str
        C++ expressions that name kernels: ``"nnls_qr<double>"``.
    options : sequence of str, optional
        Of NVRTC.
    what : str, optional
        Names the source in an error.

    Raises
    ------
    CompileError
        With NVRTC's log; or if NVRTC is not installed.
    """
    loaded, version = library()
    options = [*options, "-lineinfo"]
    if not any(re.match(r"--?(arch|gpu-architecture)", option) for option in options):
        options.append(f"-arch=compute_{ARCHITECTURE}")
    folders = [Path(found[1]) for found in map(_FOLDER.match, options) if found]
    key = hashlib.sha256(repr((version, text, name, instances, options)).encode())
    for header in _headers(text, folders):
        key.update(header.read_bytes())
    target = cache_directory() / "ptx" / f"{key.hexdigest()[:32]}.json"
    with contextlib.suppress(OSError, ValueError):  # a file may be missing or damaged
        ptx, symbols, log = json.loads(target.read_text())
        return Compiled(ptx, tuple(symbols), log)
    options += [f"-I{folder}" for folder in toolkit_headers()]
    compiled = _compile(loaded, text, name, instances, options, what or name)
    write_whole(target, json.dumps(compiled))
    return compiled


def write_whole(target: Path, text: str) -> None:
    """Write a file that other processes never read incomplete."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as file:
        file.write(text)
    Path(file.name).replace(target)


_FOLDER = re.compile(r"(?:-I|--include-path=)(.+)")


def _headers(text: str, folders: Sequence[Path]) -> list[Path]:
    """The files in the folders that a source includes, also by other headers."""
    found: list[Path] = []
    names = _INCLUDE.findall(text)
    while names:
        name = names.pop()
        for path in (folder / name for folder in folders):
            if path not in found and path.is_file():
                found.append(path)
                names += _INCLUDE.findall(path.read_text(errors="replace"))
                break
    return sorted(found)


@functools.cache
def toolkit_headers() -> tuple[Path, ...]:
    """The folders of CUDA's headers: of NVRTC's packages, else of a toolkit."""
    is_new = library()[1] >= (13, 0)
    # Packages of CUDA 13 have a folder of their own; nvcc's may be there without NVRTC.
    packages = [root for root in package_folders() if (root.name == "cu13") == is_new]
    roots = [*packages, Path(os.environ.get("CUDA_PATH", "/usr/local/cuda"))]
    folders = [root / "include" for root in roots]
    return tuple(
        inside
        for folder in folders
        for inside in (folder, folder / "cccl")
        if inside.is_dir()
    )


def package_folders() -> Iterator[Path]:
    """The folders of NVIDIA's packages from pip."""
    for package in _PACKAGES:
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        if found:
            yield from map(Path, found.submodule_search_locations or ())


@functools.cache
def library() -> tuple[ctypes.CDLL, tuple[int, int]]:
    """NVRTC and its version; CompileError if it is not installed."""
    files = [
        str(path)
        for folder in package_folders()
        for path in sorted((folder / "lib").glob("libnvrtc.so.*"))
    ]
    for file in [*files, ctypes.util.find_library("nvrtc")]:
        try:
            found = ctypes.CDLL(file) if file else None
        except OSError:
            continue
        if found is not None:
            major, minor = ctypes.c_int(), ctypes.c_int()
            found.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
            return found, (major.value, minor.value)
    raise CompileError(MISSING)


def _compile(
    library: ctypes.CDLL,
    text: str,
    name: str,
    instances: Sequence[str],
    options: Sequence[str],
    what: str,
) -> Compiled:
    program = ctypes.c_void_p()

    def read(what: str) -> str:
        size = ctypes.c_size_t()
        getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode(errors="replace")

    library.nvrtcCreateProgram(
        ctypes.byref(program),
        text.encode(),
        name.encode(),
        len(_STANDARD_HEADERS),
        _strings(_STANDARD_HEADERS.values()),
        _strings(_STANDARD_HEADERS),
    )
    try:
        for instance in instances:
            library.nvrtcAddNameExpression(program, instance.encode())
        encoded = _strings(options)
        if library.nvrtcCompileProgram(program, len(options), encoded):
            raise CompileError(
                f"{what} does not compile with NVRTC:\n{read('ProgramLog')}"
            )
        symbols = []
        for instance in instances:
            symbol = ctypes.c_char_p()
            library.nvrtcGetLoweredName(
                program, instance.encode(), ctypes.byref(symbol)
            )
            symbols.append((symbol.value or b"").decode())
        return Compiled(read("PTX"), tuple(symbols), read("ProgramLog"))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _strings(texts: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)


ASSUMED_REGISTERS = 32
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
