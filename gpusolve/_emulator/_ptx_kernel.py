"""Kernels compiled to PTX, which are called with arrays."""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.array_utils import byte_bounds

from . import _device
from ._arguments import Array, Parameter, Struct, Value, check_arguments
from ._checks import MEMORY
from ._counts import Tables, costs_of_tables
from ._errors import CompileError
from ._profile import Report, active_report
from ._registers import KernelSource
from ._signature import parameter_names
from .machine import launch
from .memory import Memory
from .module import Module, demangled, library, source_place
from .nvrtc import Compiled, compile_ptx
from .ptx import Program

_SIGNATURE = "\ntemplate <class Function> __global__ void emulator_signature() {}\n"

OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "-ftz=true")
"""Options of NVRTC as CuPy passes them."""


class Kernel:
    """A kernel instance, compiled to PTX.

    Parameters
    ----------
    source : Path
        The ``.cu`` file.
    instance : str
        A C++ expression that names the kernel: ``"nnls_qr<double>"``.
    include : Path
        The directory of its headers.
    definitions : str, optional
        C++ text that is inserted before the source.
    options : tuple of str, optional
        Of NVRTC.
    module : Module, optional
        The program that has the kernel, under the symbol `instance`; without it the
        source is compiled.
    variables : dict of str to ndarray, optional
        Variables that kernels of a source share.

    Raises
    ------
    CompileError
        With the compiler's log.
    """

    def __init__(
        self,
        source: Path,
        instance: str,
        include: Path,
        definitions: str = "",
        options: tuple[str, ...] = (),
        *,
        module: Module | None = None,
        variables: dict[str, Array] | None = None,
    ) -> None:
        self.instance = instance
        self._source = KernelSource(source, instance, include, definitions, options)
        if module is None:
            compiled = compiled_source(self._source)
            module = (
                module_of(compiled.ptx)
                if variables is None
                else Module(Program(compiled.ptx), variables=variables)
            )
            self.symbol, self._signature = compiled.symbols
        else:
            self.symbol, self._signature = instance, ""
        self.module = module
        entries = module.program.entries
        if self.symbol not in entries:
            known = ", ".join(sorted(map(demangled, entries))) or "none"
            raise CompileError(f"{instance} must be a kernel of the source: {known}")
        self._kernel = module.kernel(self.symbol)
        if self._kernel.shared_bytes > _device.static_shared_memory:
            raise CompileError(
                f"{instance} has {self._kernel.shared_bytes} bytes of __shared__ "
                f"variables, but at most {_device.static_shared_memory} are allowed; "
                "use dynamic shared memory, extern __shared__"
            )
        self._parameters = self._read_parameters()

    def __repr__(self) -> str:
        return f"<emulated kernel {self.instance}>"

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[object],
        *,
        shared_mem: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Run the kernel, and return when it has ended.

        Parameters
        ----------
        grid, block : tuple of 1 to 3 int
        args : sequence of ndarray, NumPy scalar, Python number, struct or None
            None is a null pointer.
        shared_mem : int, optional
            Bytes of dynamic shared memory per block.
        cooperative : bool, optional
            Raise ValueError if the blocks are not all resident at the same time.

        Raises
        ------
        KernelError
            If the kernel fails. The arrays then keep their values.
        TypeError, ValueError
            If the arguments or the launch shape are invalid.
        """
        __tracebackhide__ = True
        report = active_report()
        if report is None:
            self._launch(grid, block, args, shared_mem, cooperative, report)
            return
        with report.host.launch():
            if report.runs_kernels:
                self._launch(grid, block, args, shared_mem, cooperative, report)

    def _launch(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[object],
        shared_mem: int,
        cooperative: bool,
        report: Report | None,
    ) -> None:
        __tracebackhide__ = True
        if self._signature:
            values = check_arguments(self.instance, self._parameters, args)
        else:
            values = self._by_size(args)
        if MEMORY.is_on():
            for text in self._undefined():
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        memory = Memory()
        kept: list[tuple[int, Array]] = []
        for name, array, is_written in self._arrays(values):
            memory.add_array(name, array)
            if is_written and array.size and array.flags.writeable:
                kept.append(_bytes_of(array))
        self._check_shape(grid, block, shared_mem, cooperative)
        variables = [v.copy() for v in self.module.variables.values()]
        try:
            counted = launch(
                self.module,
                self.symbol,
                grid,
                block,
                self._packed(values),
                shared_mem,
                memory=memory,
                cooperative=cooperative,
                name=self.instance,
                counts=report is not None,
                sample=report.sample if report else None,
            )
        except BaseException:
            for address, copy in kept:
                _write(address, copy)
            for now, before in zip(
                self.module.variables.values(), variables, strict=True
            ):
                now[:] = before
            raise
        if report is not None and counted is not None:
            report.add(
                costs_of_tables(
                    Tables(library(), counted.counts),
                    self._kernel,
                    counted.memory,
                    self._source,
                    int(np.prod(block)),
                    self._static_shared_memory() + shared_mem,
                    int(np.prod(grid)),
                )
            )

    def _undefined(self) -> Iterator[str]:
        """Warnings of reads of variables that may have no value."""
        for site in self._kernel.undefined():
            file, line = source_place(self._kernel, site)
            yield (
                f"{Path(file).name}:{line}: reads a variable that may be "
                "uninitialized, because some path to the line gives it no value"
            )

    def _by_size(self, args: Sequence[object]) -> list[Value]:
        """The arguments of a kernel without types, as PTX has it."""
        parameters = self._kernel.entry.parameters
        if len(args) != len(parameters):
            raise TypeError(
                f"{self.instance} must have {len(parameters)} arguments, "
                f"got {len(args)}"
            )
        for value, parameter in zip(args, parameters, strict=True):
            known = value is None or isinstance(value, (np.ndarray, np.generic, Struct))
            if not known or len(_stored(value)) != parameter.size:  # type: ignore[arg-type]
                raise TypeError(
                    f"{parameter.name} of {self.instance} must be an array, a NumPy "
                    f"scalar or None, of {parameter.size} bytes, got {value!r}"
                )
        return list(args)  # type: ignore[arg-type]

    def _check_shape(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        shared_mem: int,
        cooperative: bool,
    ) -> None:
        blocks = int(np.prod(_device.checked_shape("grid", grid), dtype=np.int64))
        threads = int(np.prod(_device.checked_shape("block", block)))
        _device.check_shared_memory(self._static_shared_memory(), shared_mem)
        resident = self.resident_blocks(threads, shared_mem)
        if cooperative and blocks > resident:
            raise ValueError(
                f"grid of a cooperative launch must have at most {resident} blocks, "
                f"which the device can run at the same time, got {blocks}"
            )

    def resident_blocks(self, threads: int, shared_bytes: int) -> int:
        """The number of blocks that are resident on the device at the same time.

        Parameters
        ----------
        threads, shared_bytes : int
            Threads and dynamic shared memory per block.
        """
        return _device.resident_blocks(
            threads, self._static_shared_memory() + shared_bytes
        )

    def _static_shared_memory(self) -> int:
        return self._kernel.shared_bytes

    def _arrays(self, values: Sequence[Value]) -> Iterator[tuple[str, Array, bool]]:
        """Names of arrays, also of structs, and whether they may be written."""
        for parameter, value in zip(self._parameters, values, strict=True):
            if isinstance(value, np.ndarray):
                yield parameter.name, value, not parameter.is_const
            elif isinstance(value, Struct):
                for pointer in value.pointers():
                    if pointer.array is not None:
                        yield pointer.name, pointer.array, not pointer.is_const

    def _packed(self, values: Sequence[Value]) -> bytes:
        """The buffer of the parameters."""
        entry = self._kernel.entry
        data = bytearray(entry.parameter_bytes)
        for value, parameter in zip(values, entry.parameters, strict=True):
            stored = _stored(value)
            data[parameter.offset : parameter.offset + len(stored)] = stored
        return bytes(data)

    def _read_parameters(self) -> list[Parameter]:
        entry = self._kernel.entry
        file = self._source.file
        source = file.read_text() if file.is_file() else ""
        names = parameter_names(source, self.instance, len(entry.parameters))
        types = self._types()
        return [
            _parameter(name, kind, found.size)
            for name, kind, found in zip(names, types, entry.parameters, strict=True)
        ]

    def _types(self) -> list[str]:
        """The types of the parameters in C++; empty texts if they are not known."""
        count = len(self._kernel.entry.parameters)
        text = demangled(self._signature)
        found = _split_types(text.partition("(*)(")[2]) if self._signature else []
        return found if len(found) == count else [""] * count


@functools.lru_cache(1024)
def compiled_source(source: KernelSource) -> Compiled:
    """The PTX of a kernel, and of a kernel that is named by its signature."""
    text = source.file.read_text() + _SIGNATURE
    instances = source.instance, f"emulator_signature<decltype(&{source.instance})>"
    if source.definitions:
        own = f'#line 1 "definitions"\n{source.definitions}'
        text = f'{own}\n#line 1 "{source.file}"\n{text}'
    return compile_ptx(
        text,
        str(source.file),
        instances,
        (*OPTIONS, f"-I{source.include}", *source.preprocessor),
        what=f"{source.instance} in {source.file.name}",
    )


@functools.lru_cache(1024)
def module_of(ptx: str) -> Module:
    """The module of a text."""
    return Module(Program(ptx))


def variable_symbol(source: KernelSource, name: str) -> tuple[str, str]:
    """PTX with a variable, and its symbol. CompileError if there is none."""
    compiled = compile_ptx(
        source.file.read_text(),
        str(source.file),
        (f"&{name}",),
        (*OPTIONS, f"-I{source.include}", *source.preprocessor),
    )
    return compiled.ptx, compiled.symbols[0]


def _bytes_of(array: Array) -> tuple[int, Array]:
    """The address and a copy of all bytes of an array's memory."""
    low, high = byte_bounds(array)
    return low, np.frombuffer(ctypes.string_at(low, high - low), np.uint8)


def _write(address: int, values: Array) -> None:
    ctypes.memmove(address, values.ctypes.data, values.size)


def _stored(value: Value) -> bytes:
    """The bytes of an argument, as the kernel reads them."""
    if isinstance(value, Struct):
        return value.packed(lambda array: int(array.ctypes.data))
    if isinstance(value, np.generic):
        return value.tobytes()
    return struct.pack("P", 0 if value is None else int(value.ctypes.data))


_INTEGERS = {
    "bool": 1,
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "int8_t": 1,
    "uint8_t": 1,
    "short": 2,
    "unsigned short": 2,
    "int16_t": 2,
    "uint16_t": 2,
    "int": 4,
    "unsigned int": 4,
    "unsigned": 4,
    "int32_t": 4,
    "uint32_t": 4,
    "long": 8,
    "unsigned long": 8,
    "long long": 8,
    "unsigned long long": 8,
    "int64_t": 8,
    "uint64_t": 8,
    "size_t": 8,
}
_FLOATS = {"float": 4, "double": 8, "Half": 2, "__half": 2, "half": 2}


def _parameter(name: str, type: str, size: int) -> Parameter:
    """A parameter of this type in C++."""
    words = re.sub(
        r"\b(const|volatile|__restrict__|__restrict|restrict)\b|\*$", " ", type
    )
    is_pointer = type.rstrip().endswith("*") or bool(
        re.search(r"\*\s*(const|__restrict__)?$", type)
    )
    target = (
        " ".join(words.replace("*", " ").split())
        if is_pointer
        else " ".join(words.split())
    )
    if not type:
        return Parameter(name, False, "s", size)
    is_const = is_pointer and bool(
        re.search(r"\bconst\b(?!.*\*.*\*)", type.rpartition("*")[0])
    )
    if is_pointer and "*" in type.rpartition("*")[0]:
        return Parameter(name, True, "s", 8, is_const)
    if target == "void":
        return Parameter(name, True, "v", 0, is_const)
    for kind, sizes in (("f", _FLOATS), ("i", _INTEGERS)):
        if target in sizes:
            return Parameter(name, is_pointer, kind, sizes[target], is_const)
    return Parameter(name, is_pointer, "s", 0 if is_pointer else size, is_const)


def _split_types(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text + ","):
        if depth == 0 and character in ",)":
            parts.append(text[start:position].strip())
            start = position + 1
            if character == ")":
                break
        elif character in "<([":
            depth += 1
        elif character in ">)]":
            depth -= 1
    return [part for part in parts if part]
