"""Kernels compiled for the CPU, and their launch."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from . import _device
from ._arguments import Array, Parameter, Struct, Value, check_arguments
from ._checks import MEMORY, RACES
from ._compiler import Variant, build, texts_of
from ._errors import KernelError
from ._memory import DeviceMemory, NamedArray
from ._profile import LaunchShape, Report, active_report, costs_of_launch
from ._program import Program, Request
from ._registers import KernelSource
from ._report import explain
from ._schedule import ORDERS, current_schedule
from ._signature import parameter_names
from ._stacks import STRIDE

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

    Raises
    ------
    CompileError
        With the compiler's log.
    """

    def __init__(
        self, source: Path, instance: str, include: Path, definitions: str = ""
    ) -> None:
        self.instance = instance
        self._source = KernelSource(source, instance, include, definitions)
        self._compile = functools.partial(build, source, instance, include, definitions)
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
        blocks = _device.checked_shape("grid", grid)
        threads = _device.checked_shape("block", block)
        _device.check_shared_memory(self._static_shared_memory(), shared_mem)
        values = check_arguments(self.instance, self._parameters, args)
        schedule, program = current_schedule(), self._program
        arrays = list(named_arrays(self._parameters, values))
        # A profile needs the arrays aligned, as on a GPU.
        touch_end = schedule.order != "reverse" and report is None
        with DeviceMemory(arrays, touch_end, self._alignment) as memory:
            stored = [_stored(value, memory.address) for value in values]
            addresses = [value.ctypes.data for value in stored]
            # All resident blocks run concurrently, because a kernel may rely on it.
            resident = self.resident_blocks(math.prod(threads), shared_mem)
            if cooperative and math.prod(blocks) > resident:
                raise ValueError(
                    f"grid of a cooperative launch must have at most {resident} "
                    f"blocks, which the device can run at the same time, got "
                    f"{math.prod(blocks)}"
                )
            running = math.prod(blocks)
            if report is not None and report.sample is not None and not cooperative:
                running = min(running, report.sample)
            request = Request(
                grid=blocks,
                block=threads,
                shared_bytes=shared_mem,
                seed=schedule.seed % 2**64,
                order=ORDERS.index(schedule.order),
                workers=min(resident, running),
                sampled=running,
                arguments=(ctypes.c_void_p * len(addresses))(*addresses),
                stack_stride=STRIDE,
                limit=schedule.limit,
            )
            with self._counted(report, request, memory):
                failure = program.launch(request, *memory.spans_by_use())
                if failure.happened:
                    text = explain(failure, self.instance, memory, program.path)
                    raise KernelError(text)
                memory.check(self.instance)
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

    @contextlib.contextmanager
    def _counted(
        self, report: Report | None, request: Request, memory: DeviceMemory
    ) -> Iterator[None]:
        """Count the costs of a launch, if there is a report to add them to."""
        if report is None:
            yield
            return
        program, spans = self._program, memory.named_spans()
        threads = math.prod(request.block)
        with program.profile(list(spans.values())) as profile:
            request.profile = profile
            yield
            counts = program.summary(profile)
            shared_bytes = self._static_shared_memory() + request.shared_bytes
            shape = LaunchShape(math.prod(request.grid), threads, shared_bytes)
            sizes = {name: size for name, (_, size) in spans.items()}
            launch = costs_of_launch(self._source, shape, sizes, counts, program.path)
            report.add(launch)

    @property
    def _program(self) -> Program:
        """The object to launch: races and profiles need other objects."""
        if active_report() is not None:
            return self._variant("profile")
        if MEMORY.is_on():
            return self._variant("memory")
        return self._variant("races" if RACES.is_on() else "plain")

    def _variant(self, variant: Variant) -> Program:
        if variant not in self._programs:
            self._programs[variant] = Program(self._compile(variant=variant), variant)
        return self._programs[variant]

    def _static_shared_memory(self) -> int:
        return self._program.static_shared_bytes()

    def _read_parameters(self, source: Path) -> list[Parameter]:
        types = self._program.parameter_types()
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
