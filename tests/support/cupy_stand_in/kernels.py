"""``RawModule`` on the emulator, with the checks of the driver."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from gpusolve import _emulator
from gpusolve._device.structs import PackedStruct, Struct

from . import devices
from .array import DTYPES, ndarray

DEFAULT_SHARED_MEMORY = 48 * 1024
"""Shared memory per block, static and dynamic, unless a kernel sets a higher limit."""

INVALID = "CUDA_ERROR_INVALID_VALUE: invalid argument"
SCALARS = tuple(np.dtype(character).type for character in DTYPES)

programs: list[tuple[str, ...]] = []
"""The kernels of each module that was made, by their names."""

_pointers = itertools.count(1)
_functions: dict[int, Function] = {}
"""All functions, by their pointers."""


class CompileException(Exception):  # noqa: N818
    """A kernel does not compile; the message is the compiler's log."""

    def get_message(self) -> str:
        return str(self)


class Function:
    """A kernel, loaded on the current device."""

    def __init__(self, kernel: _emulator.Kernel) -> None:
        devices.counts["kernels"] += 1
        self.emulated = kernel
        self.device_id = devices.current()
        if devices.states[self.device_id].is_full:
            error = devices.CUDADriverError("CUDA_ERROR_OUT_OF_MEMORY: out of memory")
            error.status = 2
            raise error
        self.static = kernel._kernel.shared_bytes
        self.max_dynamic = DEFAULT_SHARED_MEMORY - self.static
        self.ptr = next(_pointers)
        _functions[self.ptr] = self

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Any, ...],
        shared_mem: int = 0,
        stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        if not (isinstance(grid, tuple) and isinstance(block, tuple)):
            raise TypeError("grid and block must be tuples")
        if devices.current() != self.device_id:
            raise devices.CUDADriverError(
                "CUDA_ERROR_INVALID_HANDLE: invalid resource handle"
            )
        if shared_mem > self.max_dynamic:
            raise devices.CUDADriverError(INVALID)
        pairs = itertools.zip_longest(args, self.emulated._parameters)
        self.emulated(
            tuple(max(1, size) for size in grid),
            tuple(max(1, size) for size in block),
            [self._argument(value, one.is_pointer) for value, one in pairs],
            shared_mem=shared_mem,
            cooperative=enable_cooperative_groups,
        )

    def _argument(self, value: Any, is_pointer: bool) -> Any:
        """Convert an argument of a launch for the emulator."""
        if isinstance(value, ndarray):
            return self._accessible(value)
        if isinstance(value, np.ndarray) and value.size == 1:
            return self._struct(value)
        if is_pointer and isinstance(value, np.intp) and value == 0:
            return None
        if value is None or isinstance(value, (bool, int, float, *SCALARS)):
            return value
        raise TypeError(f"Unsupported type {type(value)}")

    def _struct(self, packed: np.ndarray[Any, Any]) -> Struct:
        """The struct of these bytes, with host arrays."""
        if not isinstance(packed, PackedStruct):
            raise TypeError("the stand-in needs a struct that gpusolve has packed")
        struct, used = packed.struct, packed.tobytes()
        if used != struct.packed(lambda array: array.data.ptr):
            raise ValueError("the bytes of a struct must have the arrays' addresses")
        given = [one for one in struct.pointers() if one.array is not None]
        return struct.replace(
            **{one.name: self._accessible(one.array) for one in given}
        )

    def _accessible(self, array: ndarray) -> np.ndarray[Any, Any]:
        """The host array; an error if the kernel could not access the memory."""
        if array.data.device_id != self.device_id and array.size:
            raise devices.CUDARuntimeError(
                "cudaErrorIllegalAddress: an illegal memory access was encountered "
                f"(memory of GPU {array.data.device_id} in a kernel on GPU "
                f"{self.device_id})"
            )
        if array.data.ptr % array.itemsize and array.size:
            raise devices.CUDARuntimeError(
                "cudaErrorMisalignedAddress: misaligned address"
            )
        return array._host


class RawKernel:
    """A kernel, loaded on each device when it is first used there."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        self.code, self.name, self.options = code, name, options
        self._kernels: dict[int, Function] = {}

    def __call__(self, grid: Any, block: Any, args: Any) -> None:
        self.kernel(grid, block, args)

    @property
    def kernel(self) -> Function:
        device = devices.current()
        if device not in self._kernels:
            self._kernels[device] = Function(compile_for_emulator(self))
        return self._kernels[device]

    @property
    def shared_size_bytes(self) -> int:
        return self.kernel.static

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self.kernel.max_dynamic

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, bytes: int) -> None:
        function = self.kernel
        limit = devices.states[function.device_id].shared_memory
        if bytes < 0 or bytes + function.static > limit:
            raise devices.CUDADriverError(INVALID)
        function.max_dynamic = bytes


class RawModule:
    """A file of kernels. Each is compiled when it is first used on a device."""

    def __init__(
        self, code: Any = None, *, options: Any = (), name_expressions: Any = None
    ) -> None:
        self.code, self.options = code, options
        self.name_expressions = tuple(name_expressions or ())
        programs.append(self.name_expressions)

    def get_function(self, name: str) -> RawKernel:
        if name not in self.name_expressions:
            raise ValueError(f"{name} is not in name_expressions")
        return RawKernel(self.code, name, self.options)


def compile_for_emulator(kernel: RawKernel) -> _emulator.Kernel:
    """The kernel for the emulator.

    The emulator takes a file and definitions, so the code is split into these parts.
    """
    include = Path(
        next(option[2:] for option in kernel.options if option.startswith("-I"))
    )
    start = re.search(r'\n#line 1 "(\w+\.cu)"\n', kernel.code)
    if start:
        definitions, source = kernel.code[: start.start()], include / start[1]
    else:
        definitions, files = "", sorted(include.glob("*.cu"))
        source = next(file for file in files if file.read_text() == kernel.code)
    try:
        compiled = _emulator.Kernel(source, kernel.name, include, definitions)
    except _emulator.CompileError as error:
        raise CompileException(str(error)) from error
    write_to_cache(kernel)
    return compiled


def write_to_cache(kernel: RawKernel) -> None:
    """Create an empty cubin file in CuPy's cache directory, if that is set."""
    if folder := os.environ.get("CUPY_CACHE_DIR"):
        inputs = repr((kernel.code, kernel.name, kernel.options))
        digest = hashlib.sha256(inputs.encode()).hexdigest()
        (Path(folder) / f"{digest}.cubin").touch()


def occupancy(func: int, blockSize: int, dynamicSMemSize: int) -> int:
    """The function's resident blocks per multiprocessor."""
    function = _functions[func]
    limit = devices.states[function.device_id].shared_memory
    allowed = dynamicSMemSize <= function.max_dynamic
    if not allowed or dynamicSMemSize + function.static > limit:
        return 0
    resident = function.emulated.resident_blocks(blockSize, dynamicSMemSize)
    return resident // _emulator.multiprocessors
