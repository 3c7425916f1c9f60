"""Kernels compiled for the CPU, which are called with arrays."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from . import _device
from ._arguments import Array, Parameter, Struct, Value, check_arguments
from ._compiler import Variant, build, texts_of
from ._launch import Launch, variant_of_launch
from ._memory import DeviceMemory, NamedArray
from ._profile import Report, active_report
from ._program import Program
from ._registers import KernelSource
from ._schedule import current_schedule
from ._signature import parameter_names
from ._variables import Variables

VECTOR = re.compile(r"\b(u?(char|short|int|long|longlong)|float|double)[24]\b")
"""A vector type, whose loads need aligned addresses."""

VECTOR_BYTES = 16
"""The largest alignment of a vector type."""


class Kernel:
    """A kernel instance, compiled for the CPU.

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
        Of the preprocessor: ``-D`` and ``-I``.

    Attributes
    ----------
    variables : Variables or None
        Variables that the kernel shares with other kernels.

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
    ) -> None:
        self.instance = instance
        self.variables: Variables | None = None
        self._source = KernelSource(source, instance, include, definitions, options)
        self._compile = functools.partial(build, *self._source)
        self._programs: dict[Variant, Program] = {}
        self._parameters = self._read_parameters(source)
        texts = texts_of(definitions, source, include)
        self._alignment = VECTOR_BYTES if any(map(VECTOR.search, texts)) else 1

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
        values = check_arguments(self.instance, self._parameters, args)
        arrays = list(named_arrays(self._parameters, values))
        # A profile needs the arrays aligned, as on a GPU.
        touch_end = current_schedule().order != "reverse" and report is None
        with DeviceMemory(arrays, touch_end, self._alignment) as memory:
            stored = [_stored(value, memory.address) for value in values]
            addresses = [value.ctypes.data for value in stored]
            arguments = (ctypes.c_void_p * len(addresses))(*addresses)
            launch = Launch(grid, block, arguments, shared_mem, cooperative)
            with (
                self.variables.loaded(self.program) if self.variables else nullcontext()
            ):
                launch.run(self.program, self._source, memory, report)
            memory.copy_back()

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

    @property
    def program(self) -> Program:
        """The object to launch: checks and profiles need other objects."""
        variant = variant_of_launch()
        if variant not in self._programs:
            self._programs[variant] = Program(self._compile(variant=variant), variant)
        return self._programs[variant]

    def _static_shared_memory(self) -> int:
        return self.program.static_shared_bytes()

    def _read_parameters(self, source: Path) -> list[Parameter]:
        types = self.program.parameter_types()
        names = parameter_names(source.read_text(), self.instance, len(types))
        return [
            Parameter(
                name,
                bool(kind.is_pointer),
                chr(kind.kind),
                kind.bytes,
                bool(kind.is_const),
            )
            for name, kind in zip(names, types, strict=True)
        ]


def named_arrays(
    parameters: Sequence[Parameter], values: Sequence[Value]
) -> Iterator[NamedArray]:
    """The arrays of a launch, also those in structs, under the names of the fields."""
    for parameter, value in zip(parameters, values, strict=True):
        if isinstance(value, np.ndarray):
            yield NamedArray(parameter.name, value, not parameter.is_const)
        elif isinstance(value, Struct):
            for pointer in value.pointers():
                if pointer.array is not None:
                    yield NamedArray(pointer.name, pointer.array, not pointer.is_const)


def _stored(value: Value, address: Callable[[Array], int]) -> Array:
    """The bytes of an argument, as the kernel reads them."""
    if isinstance(value, Struct):
        return np.frombuffer(value.packed(address), np.uint8)
    if isinstance(value, np.generic):
        return np.array(value)
    return np.array(0 if value is None else address(value), np.uintp)
