"""Runs PTX on the CPU: a program with its variables, its memory, and launches."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from bisect import insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from .._device.object_files import FOLDER, file_name, instruction_sets
from .._device.threads import cores
from . import _device
from ._checks import MEMORY, RACES
from ._errors import CompileError
from ._schedule import ORDERS, current_schedule
from .ptx import Function, Program, PtxError, Variable

Array = npt.NDArray[Any]

WINDOW_BITS = 48
SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, FUNCTION_WINDOW = (
    number << WINDOW_BITS for number in range(1, 5)
)
"""Generic addresses of the spaces that are not memory of the host."""

HEAP_BYTES = 8 << 20
"""Memory for malloc() in kernels, CUDA's default."""


GRID_BYTES = 64
"""Before the heap: the driver's memory for barriers of the grid."""


class CSymbol(ctypes.Structure):
    """``Symbol`` in ``machine/machine.h``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("line", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("align", ctypes.c_uint64),
        ("body", ctypes.c_char_p),
        ("parameters", ctypes.c_char_p),
        ("result", ctypes.c_char_p),
        ("is_entry", ctypes.c_int),
    ]


class CRegion(ctypes.Structure):
    """``Region`` in ``machine/machine.h``."""

    _fields_ = [
        ("low", ctypes.c_uint64),
        ("high", ctypes.c_uint64),
        ("phase", ctypes.c_uint64),
        ("number", ctypes.c_int),
        ("is_writeable", ctypes.c_bool),
        ("written", ctypes.c_void_p),
    ]


class CRequest(ctypes.Structure):
    """``Request`` in ``machine/machine.h``."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("parameters", ctypes.c_char_p),
        ("regions", ctypes.POINTER(CRegion)),
        ("region_count", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("order", ctypes.c_int),
        ("workers", ctypes.c_int),
        ("resident", ctypes.c_uint64),
        ("first_block", ctypes.c_uint64),
        ("block_step", ctypes.c_uint64),
        ("running", ctypes.c_uint64),
        ("limit", ctypes.c_double),
        ("checks_races", ctypes.c_int),
        ("checks_memory", ctypes.c_int),
        ("counts", ctypes.c_int),
        ("heap", ctypes.c_uint64),
        ("heap_bytes", ctypes.c_uint64),
    ]


class CFault(ctypes.Structure):
    """``Fault`` in ``machine/machine.h``."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("has_thread", ctypes.c_int),
        ("thread", ctypes.c_uint),
        ("other_thread", ctypes.c_uint),
        ("block", ctypes.c_uint64),
        ("other_block", ctypes.c_uint64),
        ("site", ctypes.c_int),
        ("other_site", ctypes.c_int),
        ("space", ctypes.c_int),
        ("is_write", ctypes.c_int),
        ("other_is_write", ctypes.c_int),
        ("race", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("text", ctypes.c_char * 4096),
    ]


class Site(ctypes.Structure):
    """An instruction: its PTX line, its file and line in the source, and its kind."""

    _fields_ = [(name, ctypes.c_int) for name in ("ptx_line", "file", "line", "kind")]


class CPython(ctypes.Structure):
    """``Python`` in ``machine/machine.h``."""

    _fields_ = [
        (name, ctypes.c_void_p) for name in ("save", "restore", "check_signals")
    ]


@functools.cache
def _python() -> CPython:
    names = "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals"
    functions = (getattr(ctypes.pythonapi, name) for name in names)
    return CPython(*(ctypes.cast(f, ctypes.c_void_p) for f in functions))


SHARED_GAP = 4096
"""Bytes after each variable in shared memory, in which accesses fail."""


@functools.cache
def library() -> ctypes.CDLL:
    """The machine's object for this CPU. CompileError if there is none."""
    folder = Path(__file__).parents[1] / FOLDER
    own = os.environ.get("GPUSOLVE_MACHINE")
    names = [folder / file_name(name, "machine") for name in instruction_sets()]
    for path in [Path(own)] if own else names:
        try:
            found = ctypes.PyDLL(str(path))
        except OSError:
            continue
        if found.gpusolve_supports():
            found.machine_load.restype = ctypes.c_void_p
            found.machine_shared_bytes.restype = ctypes.c_uint64
            return found
    raise CompileError(
        "the emulator's machine is not in this installation: gpusolve was installed "
        "without a C++ compiler, or on a system other than Linux"
    )


@dataclass(frozen=True)
class Item:
    """An array, a variable or an allocation that kernels may access."""

    low: int
    high: int
    name: str
    first: int
    itemsize: int
    text: str
    writeable: bool
    phase: int
    written: npt.NDArray[np.uint8] | None = None
    is_variable: bool = False

    def describe(self, address: int, bytes: int = 1) -> str:
        """The element at an address, valid or not; of a variable, in units of bytes."""
        if self.is_variable:
            element = (address - self.low) // bytes
            text = f"element {element} ({bytes} bytes) of {self.text}"
            if self.low <= address < self.high:
                return text if self.writeable else f"{text}, which is read-only"
            return f"{text}, which has {(self.high - self.low) // bytes} elements"
        text = f"element {(address - self.first) // self.itemsize} of {self.text}"
        if self.low <= address < self.high:
            return text if self.writeable else f"{text}, which is read-only"
        if self.low == self.high:
            return f"{text}, which is empty"
        first = (self.low - self.first) // self.itemsize
        last = (self.high - self.first) // self.itemsize - 1
        return f"{text}, which has elements {first} to {last}"


class Memory:
    """What kernels may access, by address.

    An address of the device is an address of the host. `phase` is the remainder of a
    GPU's address for 256, which decides about alignment and sectors.
    """

    def __init__(self) -> None:
        self._items: list[tuple[int, int, Item]] = []

    def add(
        self,
        address: int,
        size: int,
        name: str,
        *,
        itemsize: int = 1,
        text: str = "",
        writeable: bool = True,
        written: bool = True,
        phase: int | None = None,
        is_variable: bool = False,
    ) -> None:
        """Add memory. `written` is False if its values are not initialised."""
        bits = None if written else np.zeros(size // 8 + 1, np.uint8)
        item = Item(
            address,
            address + size,
            name,
            address,
            itemsize,
            text or name,
            writeable,
            address % 256 if phase is None else phase,
            bits,
            is_variable,
        )
        insort(self._items, (address, len(self._items), item))

    def add_array(self, name: str, array: Array) -> None:
        """Add a NumPy array."""
        first = int(array.ctypes.data)
        low, high = byte_bounds(array) if array.size else (first, first)
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        item = Item(
            low,
            high,
            name,
            first,
            max(1, array.itemsize),
            f"{name} ({array.dtype}, shape {array.shape})",
            bool(array.flags.writeable),
            (low - (byte_bounds(root)[0] if root.size else low)) % 256,
        )
        insort(self._items, (low, len(self._items), item))

    def remove(self, address: int) -> None:
        """Remove what begins at an address."""
        self._items = [entry for entry in self._items if entry[0] != address]

    def mark_written(self, address: int, size: int) -> None:
        """Note that the host has written bytes."""
        for low, _, item in self._items:
            if item.written is not None and low <= address < item.high:
                start = address - low
                bits = np.unpackbits(item.written, bitorder="little")
                bits[start : start + size] = 1
                item.written[:] = np.packbits(bits, bitorder="little")[
                    : item.written.size
                ]

    def regions(self) -> list[CRegion]:
        """Memory without overlaps: arrays that overlap are one region."""
        found: list[CRegion] = []
        for number, (low, _, item) in enumerate(self._items):
            if low == item.high:
                continue
            if found and low < found[-1].high:
                found[-1].high = max(found[-1].high, item.high)
                found[-1].is_writeable |= item.writeable
                continue
            bits = None if item.written is None else item.written.ctypes.data
            found.append(
                CRegion(low, item.high, item.phase, number, item.writeable, bits)
            )
        return found

    def names_of_regions(self) -> tuple[dict[int, str], dict[str, int]]:
        """The names of the regions by their numbers, and their sizes by name."""
        names: dict[int, str] = {}
        sizes: dict[str, int] = {}
        for region in self.regions():
            inside = [
                item.name
                for item in self.items()
                if item.low < region.high and region.low < item.high
            ]
            name = names[region.number] = " and ".join(dict.fromkeys(inside))
            sizes[name] = region.high - region.low
        return names, sizes

    def items(self) -> list[Item]:
        """Everything, by address."""
        return [item for _, _, item in self._items]

    def item(self, address: int) -> Item | None:
        """What is at an address, or nearest to it."""
        if not self._items:
            return None

        def distance(item: Item) -> int:
            return max(item.low - address, address + 1 - item.high, 0)

        return min(self.items(), key=distance)


class LoadedKernel:
    """An entry of a program that the machine has read."""

    def __init__(self, module: Module, entry: Function) -> None:
        self.module, self.entry = module, entry
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
        self.shared_bytes = int(library().machine_shared_bytes(self.handle))

    def __del__(self) -> None:
        if handle := getattr(self, "handle", None):
            library().machine_unload(handle)

    def origins(self, site: int) -> list[int]:
        """Offsets of parameters that may be the pointer of an instruction's access."""
        offsets = (ctypes.c_uint64 * 16)()
        count = library().machine_origins(self.handle, site, offsets, len(offsets))
        return list(offsets[:count])

    @functools.cached_property
    def sites(self) -> list[Site]:
        """All instructions."""
        rows = (Site * library().machine_sites(self.handle))()
        for k, row in enumerate(rows):
            library().machine_site(self.handle, k, ctypes.byref(row))
        return list(rows)

    def undefined(self) -> list[int]:
        """Instructions that may read a register before it has a value."""
        sites = (ctypes.c_uint32 * 64)()
        return list(sites[: library().machine_undefined(self.handle, sites, 64)])

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
    symbols : mapping of str to int, optional
        Addresses of variables that another program defines.
    variables : dict of str to ndarray, optional
        Variables that programs share by their names; new ones are added.

    Attributes
    ----------
    variables : dict of str to ndarray of uint8
        The memory of the variables in global and constant memory.
    """

    def __init__(
        self,
        program: Program,
        symbols: Mapping[str, int] | None = None,
        variables: dict[str, npt.NDArray[np.uint8]] | None = None,
    ) -> None:
        self.program = program
        shared = {} if variables is None else variables
        self._extern = dict(symbols or {})
        self.variables: dict[str, npt.NDArray[np.uint8]] = {}
        self._kernels: dict[str, LoadedKernel] = {}
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
                    raise PtxError(
                        f"{variable.name}: addresses of functions in variables"
                    )
                value = np.uint64(self.address(symbol) + more)
                self.variables[variable.name][offset : offset + 8].view(np.uint64)[
                    0
                ] = value

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
            found.append(CSymbol(f.name.encode(), 2, f.line, 0, 0, *texts, f.is_entry))
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
        found += _shared_in_bodies(self.program)
        return found

    def add_variables(self, memory: Memory) -> None:
        """Let kernels access the variables."""
        for name, array in self.variables.items():
            if array.size:
                variable = self.program.variables[name]
                memory.add(
                    int(array.ctypes.data),
                    array.size,
                    name,
                    itemsize=variable.align,
                    text=f"{demangled(name)} in {variable.space} memory",
                    writeable=variable.space == "global",
                    phase=0,
                    is_variable=True,
                )


def _shared_in_bodies(program: Program) -> Iterator[CSymbol]:
    """The shared variables that functions declare."""
    for name, size, align in program.shared_in_bodies():
        yield CSymbol(name.encode(), 1, 0, size, align, b"", b"", b"", 0)


def _placed(variable: Variable) -> npt.NDArray[np.uint8]:
    """Memory of a variable, with its first values, at a multiple of 256."""
    memory = np.zeros(variable.size + 256, np.uint8)
    start = -int(memory.ctypes.data) % 256
    placed = memory[start : start + variable.size]
    placed[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
    return placed


class Counted(NamedTuple):
    """The counts of a launch, and the memory that it could access."""

    counts: ctypes.c_void_p
    memory: Memory


class Shape(NamedTuple):
    """Blocks and threads of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]


@functools.cache
def _heap() -> npt.NDArray[np.uint8]:
    return np.zeros(GRID_BYTES + HEAP_BYTES + 16, np.uint8)


def write_output(text: str) -> None:
    """Write what kernels print."""
    sys.stdout.write(text)


def launch(
    module: Module,
    entry: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    parameters: bytes,
    shared_bytes: int = 0,
    *,
    memory: Memory,
    cooperative: bool = False,
    resident: int | None = None,
    name: str = "",
    counts: bool = False,
    sample: int | None = None,
) -> Counted | None:
    """Run a kernel, and return when it has ended.

    Parameters
    ----------
    module : Module
    entry : str
        The symbol of the kernel.
    grid, block : tuple of 1 to 3 int
    parameters : bytes
        The values of the parameters, each at its offset.
    shared_bytes : int, optional
        Dynamic shared memory of a block.
    memory : Memory
        What the kernel may access, besides the variables of the module.
    cooperative : bool, optional
        Whether all blocks must be resident.
    resident : int, optional
        Blocks that run at the same time.
    name : str, optional
        The kernel in messages.
    counts : bool, optional
        Whether to count what the launch costs.
    sample : int, optional
        Blocks that run, at equal distances in the grid; by default all.

    Returns
    -------
    Counted or None

    Raises
    ------
    KernelError
        If the kernel fails.
    ValueError
        If the launch shape is invalid.
    """
    from ._faults import raise_fault

    __tracebackhide__ = True
    kernel = module.kernel(entry)
    shape = Shape(
        _device.checked_shape("grid", grid), _device.checked_shape("block", block)
    )
    if len(parameters) != kernel.entry.parameter_bytes:
        raise ValueError(
            f"parameters must have {kernel.entry.parameter_bytes} bytes, got "
            f"{len(parameters)}"
        )
    everything = Memory()
    everything._items = list(memory._items)
    module.add_variables(everything)
    heap = _heap()
    first = int(heap.ctypes.data) + -int(heap.ctypes.data) % 16
    start = first + GRID_BYTES
    ctypes.memset(first, 0, GRID_BYTES)
    everything.add(first, GRID_BYTES + HEAP_BYTES, "the heap of malloc()", phase=0)
    regions = everything.regions()
    blocks = int(np.prod(shape.grid, dtype=np.int64))
    if resident is None:
        threads = int(np.prod(shape.block))
        resident = _device.resident_blocks(threads, kernel.shared_bytes + shared_bytes)
    resident = max(1, min(blocks, blocks if cooperative else resident))
    schedule = current_schedule()
    order = ORDERS.index(schedule.order)
    # What is counted is not checked.
    races, checks_memory = (not counts and check.is_on() for check in (RACES, MEMORY))
    alone = order != 0 or races or checks_memory or counts
    running = blocks if sample is None or cooperative else min(blocks, sample)
    request = CRequest(
        shape.grid,
        shape.block,
        shared_bytes,
        parameters,
        (CRegion * (len(regions) + 1))(*regions),
        len(regions),
        schedule.seed % 2**64,
        order,
        1 if alone else max(1, min(cores(), blocks)),
        resident,
        0,
        blocks // running,
        running,
        schedule.limit,
        races,
        checks_memory,
        int(counts),
        start,
        HEAP_BYTES,
    )
    fault, output, counted = CFault(site=-1), ctypes.c_void_p(), ctypes.c_void_p()
    try:
        failed = library().machine_launch(
            kernel.handle,
            ctypes.byref(request),
            ctypes.byref(fault),
            ctypes.byref(_python()),
            ctypes.byref(output),
            ctypes.byref(counted),
        )
    finally:
        if output.value:
            text = ctypes.string_at(output.value).decode(errors="replace")
            library().machine_free(output)
            write_output(text)
    if failed:
        raise_fault(
            fault, kernel, shape, everything, name or entry, parameters, shared_bytes
        )
    return Counted(counted, everything) if counted.value else None


@functools.cache
def demangled(symbol: str) -> str:
    """A C++ name without its mangling."""
    buffer = ctypes.create_string_buffer(4096)
    library().machine_demangle(symbol.encode(), buffer, len(buffer))
    return buffer.value.decode()


def source_place(kernel: LoadedKernel, site: int) -> tuple[str, int]:
    """The source file and line of an instruction."""
    row = kernel.sites[site]
    return kernel.module.program.files.get(row.file, ""), row.line


__all__ = ["LoadedKernel", "Memory", "Module", "Program", "demangled", "launch"]
