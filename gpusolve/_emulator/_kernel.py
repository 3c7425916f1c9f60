"""Kernels as NVIDIA's compiler makes them, which are called with arrays."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.array_utils import byte_bounds

from . import _device
from ._arguments import Array, Parameter, Struct, Value, check_arguments
from ._checks import MEMORY
from ._counts import costs_of_launch
from ._errors import CompileError
from ._memory import Memory
from ._profile import Report, active_report
from ._signature import parameters_of
from .machine import launch
from .module import Module, PtxError, Variables, demangled
from .nvrtc import KernelSource


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
        C++ text that is inserted before the source. The instance can use its names: a
        structure ``Operator`` in ``"scan<Operator, 256>"``. It may include headers.
    options : tuple of str, optional
        Of NVRTC.

    Raises
    ------
    CompileError
        With the compiler's log.
    """

    _source: KernelSource | None = None
    _parameters: list[Parameter]

    def __init__(
        self,
        source: Path,
        instance: str,
        include: Path,
        definitions: str = "",
        options: tuple[str, ...] = (),
    ) -> None:
        self._compile(KernelSource(source, instance, include, definitions, options))

    def _compile(
        self, source: KernelSource, variables: Variables | None = None
    ) -> None:
        """Load the kernel of a source, with variables that it shares with others."""
        compiled = source.compile()
        symbol, signature = compiled.symbols
        self._source = source
        self._load(Module(compiled.ptx, variables), symbol, source.instance)
        self._parameters = parameters_of(
            demangled(signature),
            source.text(),
            source.instance,
            [size for _, size in self._kernel.parameters],
        )

    def _load(self, module: Module, symbol: str, instance: str) -> None:
        """Load an entry of a program; `instance` names it in messages."""
        self.instance = instance
        self._module = module
        if symbol not in module.entries:
            known = ", ".join(sorted(map(demangled, module.entries)))
            raise CompileError(
                f"{instance} must be a kernel of the source: {known or 'none'}"
            )
        try:
            self._kernel = module.kernel(symbol)
        except PtxError as error:
            raise CompileError(str(error)) from None
        if self._kernel.shared_bytes > _device.static_shared_memory:
            raise CompileError(
                f"{instance} has {self._kernel.shared_bytes} bytes of __shared__ "
                f"variables, but at most {_device.static_shared_memory} are allowed; "
                "use dynamic shared memory, extern __shared__"
            )

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
        with report.host.launch() if report else contextlib.nullcontext():
            if report is None or report.runs_kernels:
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
        values = check_arguments(self.instance, self._parameters, args)
        if MEMORY.value():
            for line in self._kernel.undefined_lines():
                warnings.warn(
                    f"{line}: reads a variable that may be uninitialized, because some "
                    "path to the line gives it no value",
                    RuntimeWarning,
                    stacklevel=3,
                )
        memory = Memory()
        kept = [_kept(array) for array in self._module.variables.values()]
        for name, array, is_written in self._arrays(values):
            memory.add_array(name, array)
            if is_written and array.size and array.flags.writeable:
                kept.append(_kept(array))
        try:
            counted = launch(
                self._module,
                self._kernel.name,
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
                ctypes.memmove(address, copy, len(copy))
            raise
        if report is not None and counted is not None:
            report.add(costs_of_launch(counted, self._source))

    def resident_blocks(self, threads: int, shared_bytes: int) -> int:
        """The number of blocks that are resident on the device at the same time.

        Parameters
        ----------
        threads, shared_bytes : int
            Threads and dynamic shared memory per block.
        """
        kernel = self._kernel
        return _device.resident_blocks(
            threads, kernel.shared_bytes + shared_bytes, kernel.most_threads
        )

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
        data = bytearray(self._kernel.parameter_bytes)
        for value, (place, _) in zip(values, self._kernel.parameters, strict=True):
            packed = packed_argument(value)
            data[place : place + len(packed)] = packed
        return bytes(data)


def packed_argument(value: Value) -> bytes:
    """The bytes of an argument, as the kernel reads them."""
    if isinstance(value, Struct):
        return value.packed(lambda array: int(array.ctypes.data))
    if isinstance(value, np.generic):
        return value.tobytes()
    return struct.pack("P", 0 if value is None else int(value.ctypes.data))


def _kept(array: Array) -> tuple[int, bytes]:
    """The address and a copy of all bytes of an array's memory."""
    low, high = byte_bounds(array)
    return low, ctypes.string_at(low, high - low)
