"""Compiles whole programs with nvcc: PTX for the kernels, an object for the host."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from ._errors import CompileError
from .nvrtc import ARCHITECTURE, cache_directory, package_folders, write_whole

MISSING = (
    "a whole program is compiled by nvcc and the system's C++ compiler, and {} was not "
    "found; pip install gpusolve[emulator-programs] brings nvcc"
)

_SOURCES = Path(__file__).parent / "cudart"
_MACHINE = Path(__file__).parent / "machine"

_OPTIONS = (
    "-shared",
    "-cudart=none",
    f"-arch=compute_{ARCHITECTURE}",
    "-lineinfo",
    f"--pre-include={_SOURCES / 'legacy.h'}",
    "-no-compress",  # so that the PTX in the object is text
    "-O2",
    "-Xcompiler=-fPIC,-g1",
    "-Xlinker=-Bsymbolic",  # names of the program come before equal names elsewhere
)


@functools.cache
def toolkit() -> Path:
    """The folder of a toolkit with nvcc and headers; CompileError if there is none.

    The toolkit of ``$NVCC``, else of the installed packages, else of the system.
    """
    files = [root / "bin" / "nvcc" for root in package_folders()]
    system = shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"
    files = [*_paths(os.environ.get("NVCC")), *files, *_paths(*system)]
    for file in files:
        root = file.resolve().parents[1]
        if file.is_file() and (root / "include" / "cuda_runtime_api.h").is_file():
            return root
    raise CompileError(MISSING.format("nvcc"))


def _paths(*names: str | None) -> list[Path]:
    return [Path(name) for name in names if name]


def why_missing() -> str:
    """Why programs cannot be compiled here; empty if they can."""
    try:
        toolkit()
        cpp_compiler()
    except CompileError as error:
        return str(error)
    return ""


def cpp_compiler() -> list[str]:
    """``$CXX``, else the system's compiler; CompileError if there is none."""
    for name in filter(None, [os.environ.get("CXX"), "g++", "c++"]):
        if shutil.which(shlex.split(name)[0]):
            return shlex.split(name)
    raise CompileError(MISSING.format("a C++ compiler"))


def runtime_library() -> Path:
    """The library in place of libcudart, compiled with the toolkit's headers."""
    options = [f"-I{toolkit() / 'include'}", f"-I{_MACHINE}", "-x", "c++", "-"]
    command = [*cpp_compiler(), "-std=c++17", "-O2", "-shared", "-fPIC"]
    command += ["-fvisibility=hidden", *options]
    sources = sorted(_SOURCES.glob("*.cpp"))
    others = _unsupported_functions([*cpp_compiler(), "-E", "-P", *options])
    return _cached("libcudart.so", "the library of programs", command, sources, others)


def _unsupported_functions(preprocessor: list[str]) -> str:
    """Source text that defines each function of CUDA, for functions that we lack.

    The definitions are weak: the linker takes ours, where there are two.
    """
    headers = "#include <cuda_runtime_api.h>\n#include <cuda.h>\n"
    done = subprocess.run(preprocessor, input=headers, capture_output=True, text=True)
    found = re.findall(r"\b(?:CUresult|cudaError_t) +(cu\w+)\(", done.stdout)
    names = " ".join(f"WEAK({name})" for name in sorted(set(found)))
    return f"""
int unsupported(const char* what);
#define WEAK(name) \\
    extern "C" __attribute__((weak, visibility("default"))) int name() {{ \\
        return unsupported(#name "()"); \\
    }}
{names}
"""


def compiled_program(source: Path, options: Sequence[str] = ()) -> Path:
    """Compile a program to a shared object, unless the cache has it.

    Parameters
    ----------
    source : Path
        The ``.cu`` file with ``main``.
    options : sequence of str, optional
        Of nvcc.

    Raises
    ------
    CompileError
        With the compiler's log; or if nvcc is not installed.
    """
    if not source.is_file():
        raise CompileError(f"program must be a file, got {str(source)!r}")
    nvcc = [str(toolkit() / "bin" / "nvcc"), *_OPTIONS, *options]
    if own := os.environ.get("CXX"):
        nvcc.append(f"-ccbin={shlex.split(own)[0]}")
    return _cached("program.so", source.name, nvcc, [source.resolve()])


def _cached(
    name: str, what: str, command: list[str], sources: Iterable[Path], text: str = ""
) -> Path:
    """The output of a compiler, made again if a file that it has read has changed.

    The text is on the standard input.
    """
    command = [*command, *map(str, sources)]
    key = hashlib.sha256(repr([command, text]).encode()).hexdigest()[:32]
    folder = cache_directory() / "programs" / key
    record = folder / "files.json"
    if record.exists():
        files = json.loads(record.read_text())
        if all(_digest(Path(file)) == digest for file, digest in files.items()):
            return folder / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made, rules = Path(scratch, name), Path(scratch, "rules")
        done = subprocess.run(
            [*command, "-MD", "-MF", str(rules), "-o", str(made)],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if done.returncode:
            raise CompileError(f"{what} does not compile:\n{done.stdout}")
        read = rules.read_text().replace("\\\n", " ").partition(":")[2].split()
        files = {file: _digest(Path(file)) for file in (*read, *map(str, sources))}
        made.replace(folder / name)  # other processes never read an incomplete file
        write_whole(record, json.dumps(files))
    return folder / name


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
