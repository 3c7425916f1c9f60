"""Programs of PTX that the machine has read, with memory for their variables."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import nvrtc
from ._errors import CompileError, SourceLine
from ._memory import Memory, c_fields
from .ptx import Function, Program, PtxError, Variable

Variables = dict[str, npt.NDArray[np.uint8]]
"""The memory of variables, by their symbols."""

FOLDER = "_objects"
"""The folder of the compiled objects, in the package."""

FUNCTION_WINDOW = 4 << 48
"""The address of the first function; the next ones follow, in the program's order."""

SHARED_GAP = 4096
"""Bytes after each variable in shared memory, in which accesses fail."""


class CSymbol(ctypes.Structure):
    """``Symbol`` in ``machine/machine.h``."""

    _fields_ = c_fields(
        "name: char_p, kind line: int, address align: uint64, "
        "body parameters result: char_p, is_entry is_in_variable: int"
    )


class CFault(ctypes.Structure):
    """``Fault`` in ``machine/machine.h``."""

    _fields_ = [
        *c_fields(
            "kind has_thread: int, thread other_thread: uint, "
            "block other_block: uint64, "
            "site other_site space is_write other_is_write race: int, "
            "address bytes: uint64"
        ),
        ("text", ctypes.c_char * 4096),
    ]


class Site(ctypes.Structure):
    """An instruction: its PTX line, and its file and line in the source."""

    _fields_ = c_fields("ptx_line file line: int")


@functools.cache
def library() -> ctypes.CDLL:
    """The machine's object for this CPU. CompileError if there is none."""
    folder = Path(__file__).parents[1] / FOLDER
    # The name of a better instruction set is longer.
    for path in sorted(folder.glob("machine-*.so"), key=lambda path: -len(path.name)):
        try:
            found = ctypes.PyDLL(str(path))
        except OSError:
            continue
        if found.gpusolve_supports():
            found.machine_load.restype = ctypes.c_void_p
            found.machine_shared_bytes.restype = ctypes.c_uint64
            return found
    raise CompileError(
        "the emulator's machine is not in this installation. It runs on Linux, and a "
        "C++ compiler is needed where pip finds no wheel: install g++ or clang, then "
        "pip install --force-reinstall gpusolve"
    )


def why_missing() -> str:
    """Why the emulator cannot run here; empty if it can."""
    try:
        library()
        nvrtc.library()
    except CompileError as error:
        return str(error)
    return ""


class LoadedKernel:
    """An entry of a program that the machine has read."""

    def __init__(self, module: Module, entry: Function) -> None:
        self.module, self.entry = module, entry
        if entry.cluster_blocks > 1:
            raise PtxError(
                f"{entry.name} has clusters of {entry.cluster_blocks} blocks, but the "
                "emulator has clusters of a single block only"
            )
        symbols = module.symbols()
        error = ctypes.create_string_buffer(2048)
        handle = library().machine_load(
            (CSymbol * len(symbols))(*symbols),
            len(symbols),
            entry.name.encode(),
            ctypes.c_uint64(SHARED_GAP),
            ",".join(map(str, module.program.hidden_files())).encode(),
            error,
            len(error),
        )
        if not handle:
            raise PtxError(f"{entry.name}: {error.value.decode()}")
        self.handle = ctypes.c_void_p(handle)
        weakref.finalize(self, library().machine_unload, self.handle)
        self.shared_bytes = int(library().machine_shared_bytes(self.handle))

    def origins(self, site: int) -> list[int]:
        """Offsets of parameters that may be the pointer of an instruction's access."""
        offsets = (ctypes.c_uint64 * 16)()
        count = library().machine_origins(self.handle, site, offsets, len(offsets))
        return list(offsets[:count])

    @functools.cached_property
    def sites(self) -> list[Site]:
        """All instructions."""
        rows = (Site * library().machine_sites(self.handle, None))()
        library().machine_sites(self.handle, rows)
        return list(rows)

    def line(self, site: int) -> SourceLine:
        """The source line of an instruction; without -lineinfo, of the PTX."""
        row = self.sites[site]
        if row.line and (file := self.module.program.files.get(row.file)):
            return SourceLine(Path(file), row.line)
        return SourceLine(Path("PTX"), row.ptx_line)

    def undefined_lines(self) -> list[SourceLine]:
        """Lines that may read a variable before it has a value."""
        sites = (ctypes.c_uint32 * 64)()
        count = library().machine_undefined(self.handle, sites, len(sites))
        return [self.line(site) for site in sites[:count]]

    def shared_variables(self) -> list[tuple[str, int, int]]:
        """Name, offset and size of each variable; size 0 for the dynamic memory."""
        found: list[tuple[str, int, int]] = []
        name = ctypes.create_string_buffer(4096)
        offset, size = ctypes.c_uint64(), ctypes.c_uint64()
        while library().machine_shared_variable(
            self.handle,
            len(found),
            name,
            len(name),
            ctypes.byref(offset),
            ctypes.byref(size),
        ):
            found.append((name.value.decode(), offset.value, size.value))
        return found


class Module:
    """A program with memory for its variables.

    Parameters
    ----------
    program : Program
    variables : dict of str to ndarray, optional
        Variables that programs share by their symbols; new ones are added.
    symbols : mapping of str to int, optional
        Addresses of variables that another program defines.

    Attributes
    ----------
    variables : dict of str to ndarray of uint8
        The memory of the variables in global and constant memory.
    """

    def __init__(
        self,
        program: Program,
        variables: Variables | None = None,
        symbols: Mapping[str, int] | None = None,
    ) -> None:
        self.program = program
        shared = {} if variables is None else variables
        self._extern = dict(symbols or {})
        self.variables: Variables = {}
        self._kernels: dict[str, LoadedKernel] = {}
        self._in_variables: set[str] = set()
        for variable in program.variables.values():
            if variable.space != "shared" and not variable.is_extern:
                placed = shared.get(variable.name)
                if placed is None:
                    placed = shared[variable.name] = _placed(variable)
                self.variables[variable.name] = placed
        functions = {name: k for k, name in enumerate(program.functions)}
        for variable in program.variables.values():
            for offset, symbol, more in variable.links:
                if symbol in functions:
                    self._in_variables.add(symbol)
                    value = FUNCTION_WINDOW + functions[symbol]
                elif symbol in self.variables or symbol in self._extern:
                    value = self.address(symbol) + more
                else:
                    value = 0  # a function without a body, such as a pure virtual one
                where = self.variables[variable.name][offset : offset + 8]
                where.view(np.uint64)[0] = np.uint64(value)

    def address(self, name: str) -> int:
        """The address of a variable. KeyError if there is none."""
        if name in self.variables:
            return int(self.variables[name].ctypes.data)
        return self._extern[name]

    def kernel(self, entry: str) -> LoadedKernel:
        """An entry, read by the machine; PtxError for an unknown instruction."""
        if entry not in self._kernels:
            self._kernels[entry] = LoadedKernel(self, self.program.entries[entry])
        return self._kernels[entry]

    def symbols(self) -> list[CSymbol]:
        """All names, for the machine."""
        found = []
        for f in self.program.functions.values():
            texts = f.body.encode(), f.parameter_text.encode(), f.result.encode()
            flags = f.is_entry, f.name in self._in_variables
            found.append(CSymbol(f.name.encode(), 2, f.line, 0, 0, *texts, *flags))
        for v in self.program.variables.values():
            kind = 1 if v.space == "shared" else 0
            if (
                kind == 0
                and v.name not in self.variables
                and v.name not in self._extern
            ):
                continue
            where = v.size if kind else self.address(v.name)
            found.append(
                CSymbol(v.name.encode(), kind, 0, where, v.align, b"", b"", b"", 0)
            )
        return found

    def add_variables(self, memory: Memory) -> None:
        """Let kernels access the variables."""
        for name, array in self.variables.items():
            if array.size:
                variable = self.program.variables[name]
                space = {"const": "constant"}.get(variable.space, variable.space)
                memory.add(
                    int(array.ctypes.data),
                    array.size,
                    name,
                    itemsize=variable.align,
                    text=f"{demangled(name)} in {space} memory",
                    writeable=variable.space == "global",
                    is_variable=True,
                )


def _placed(variable: Variable) -> npt.NDArray[np.uint8]:
    """Memory of a variable, with its first values, at a multiple of 256."""
    memory = np.zeros(variable.size + 256, np.uint8)
    start = -int(memory.ctypes.data) % 256
    placed = memory[start : start + variable.size]
    placed[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
    return placed


class Shape(NamedTuple):
    """Blocks and threads of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]


@functools.cache
def demangled(symbol: str) -> str:
    """A C++ name without its mangling."""
    buffer = ctypes.create_string_buffer(4096)
    library().machine_demangle(symbol.encode(), buffer, len(buffer))
    return buffer.value.decode()
