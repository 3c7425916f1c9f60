"""Programs of PTX that the machine has read, with memory for their variables."""

from __future__ import annotations

import ctypes
import functools
import re
import weakref
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _device, nvrtc
from ._errors import CompileError, SourceLine
from ._memory import Memory, c_fields

Variables = dict[str, npt.NDArray[np.uint8]]
"""The memory of variables, by their symbols."""

FOLDER = "_objects"
"""The folder of the compiled objects, in the package."""

SHARED_GAP = 4096
"""Bytes after each variable in shared memory, in which accesses fail."""

_TEXTS = "text counts demangle describe_program describe sites origins"
"""Functions of the machine that return a text."""

_TOOLKIT = re.compile(r"/(nvidia|cuda|cuda-[\d.]+|cupy)/(.*/)?include/")


class PtxError(ValueError):
    """A text is not PTX that the machine can run. The message has the line."""


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
        is_of_this_version = hasattr(found, "machine_text")
        if is_of_this_version and found.gpusolve_supports():
            found.machine_program.restype = ctypes.c_void_p
            found.machine_load.restype = ctypes.c_void_p
            for name in _TEXTS.split():
                getattr(found, f"machine_{name}").restype = ctypes.c_char_p
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


def _loaded(
    owner: object, handle: int | None, delete: str, what: str = ""
) -> ctypes.c_void_p:
    """What the machine has made, until its owner is deleted; PtxError for null."""
    if not handle:
        raise PtxError(what + library().machine_text().decode())
    made = ctypes.c_void_p(handle)
    weakref.finalize(owner, getattr(library(), delete), made)
    return made


def rows_of(text: bytes) -> defaultdict[str, list[list[Any]]]:
    """A description of the machine: the rows of each kind, with numbers as numbers."""
    found: defaultdict[str, list[list[Any]]] = defaultdict(list)
    for line in text.decode().splitlines():
        kind, *words = line.split("\t")
        found[kind].append([int(w) if w.isdigit() else w for w in words])
    return found


class LoadedKernel:
    """An entry of a program that the machine has read.

    Attributes
    ----------
    shared_bytes, parameter_bytes : int
        Of the variables in shared memory, and of the buffer of a launch.
    parameters : list of [int, int]
        The place of each parameter in the buffer, and its size.
    shared_variables : list of [str, int, int]
        Name, offset and size of each variable; size 0 for the dynamic memory.
    most_threads : int
        Of a block, as ``__launch_bounds__`` allows; otherwise the device's limit.
    block : tuple of int or None
        The shape of a block that the kernel requires, if it requires any.
    """

    def __init__(self, module: Module, entry: str) -> None:
        self.module, self.name = module, entry
        handle = library().machine_load(
            module.handle,
            entry.encode(),
            ctypes.c_uint64(SHARED_GAP),
            ",".join(map(str, module.hidden_files())).encode(),
        )
        self.handle = _loaded(self, handle, "machine_delete_kernel", f"{entry}: ")
        found = rows_of(library().machine_describe(self.handle))
        sizes: list[int] = found["bytes"][0]
        self.shared_bytes, self.parameter_bytes = sizes
        self.parameters, self.shared_variables = found["parameter"], found["shared"]
        self._undefined = found["undefined"]
        self.block = next((tuple(one) for one in found["block"]), None)
        bounds = [most for (most,) in found["most_threads"]]
        self.most_threads: int = min([_device.threads_per_block, *bounds])

    def origins(self, site: int) -> list[int]:
        """Offsets of parameters that may be the pointer of an instruction's access."""
        return [*map(int, library().machine_origins(self.handle, site).split())]

    @functools.cached_property
    def sites(self) -> list[list[int]]:
        """All instructions: the line of PTX, and file and line of the source."""
        return rows_of(library().machine_sites(self.handle))["site"]

    def line(self, site: int) -> SourceLine:
        """The source line of an instruction; without -lineinfo, of the PTX."""
        ptx_line, file, line = self.sites[site]
        if line and file in self.module.files:
            return SourceLine(Path(self.module.files[file]), line)
        return SourceLine(Path("PTX"), ptx_line)

    def undefined_lines(self) -> list[SourceLine]:
        """Lines that may read a variable before it has a value."""
        return [self.line(site) for (site,) in self._undefined]


class Variable(NamedTuple):
    """A variable of a program, as the machine describes it.

    Attributes
    ----------
    space : {"global", "const", "shared"}
    size, align : int
    is_extern : int
        Whether another program defines it. In shared memory: the dynamic memory.
    """

    name: str
    space: str
    size: int
    align: int
    is_extern: int


class Module:
    """A program of PTX with memory for its variables.

    Parameters
    ----------
    ptx : str
    variables : dict of str to ndarray, optional
        Variables that programs share by their symbols; new ones are added.

    Attributes
    ----------
    entries : list of str
        The symbols of the kernels.
    lines : list of int
        Where the bodies of the functions begin.
    files : dict of int to str
        The numbers of the source files.
    variables : dict of str to ndarray of uint8
        The memory of the variables in global and constant memory.

    Raises
    ------
    PtxError
        With the line.
    """

    def __init__(self, ptx: str, variables: Variables | None = None) -> None:
        self.ptx = ptx
        handle = library().machine_program(ptx.encode())
        self.handle = _loaded(self, handle, "machine_delete_program")
        found = rows_of(library().machine_describe_program(self.handle))
        self.files: dict[int, str] = dict(found["file"])
        self.entries = [name for name, is_entry, _ in found["function"] if is_entry]
        self.lines: list[int] = [line for _, _, line in found["function"]]
        self.variables: Variables = {}
        self._declared = [Variable(*row) for row in found["variable"]]
        self._kernels: dict[str, LoadedKernel] = {}
        shared = {} if variables is None else variables
        is_new = bytearray(len(self._declared))
        for k, one in enumerate(self._declared):
            if one.space != "shared" and not one.is_extern:
                is_new[k] = one.name not in shared
                if is_new[k]:
                    shared[one.name] = _placed(one.size)
                self.variables[one.name] = shared[one.name]
        addresses = [self._address(one.name) for one in self._declared]
        library().machine_place(
            self.handle, (ctypes.c_uint64 * len(addresses))(*addresses), bytes(is_new)
        )

    def _address(self, name: str) -> int:
        """The address of a variable; 0 in shared memory."""
        memory = self.variables.get(name)
        return 0 if memory is None else int(memory.ctypes.data)

    def kernel(self, entry: str) -> LoadedKernel:
        """An entry, read by the machine; PtxError for an unknown instruction."""
        if entry not in self._kernels:
            self._kernels[entry] = LoadedKernel(self, entry)
        return self._kernels[entry]

    def hidden_files(self) -> list[int]:
        """Files of the toolkit and of NVRTC; reports name the line that calls them."""
        return [
            number
            for number, name in self.files.items()
            if _TOOLKIT.search(name)
            or not (name.endswith("definitions") or Path(name).is_file())
        ]

    def add_variables(self, memory: Memory) -> None:
        """Let kernels access the variables."""
        for variable in self._declared:
            name, space, size = variable[:3]
            if name in self.variables and size:
                space = {"const": "constant"}.get(space, space)
                memory.add(
                    self._address(name),
                    size,
                    name,
                    itemsize=variable.align,
                    text=f"{demangled(name)} in {space} memory",
                    writeable=variable.space == "global",
                    is_variable=True,
                )


def _placed(size: int) -> npt.NDArray[np.uint8]:
    """Memory of zeros for a variable, at a multiple of 256."""
    memory = np.zeros(size + 256, np.uint8)
    start = -int(memory.ctypes.data) % 256
    return memory[start : start + size]


class Shape(NamedTuple):
    """Blocks and threads of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]


@functools.cache
def demangled(symbol: str) -> str:
    """A C++ name without its mangling."""
    return str(library().machine_demangle(symbol.encode()).decode())
