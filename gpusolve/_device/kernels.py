"""Devices, and the kernels in ``cuda_src/`` compiled for them.

Only this file loads CUDA code. A device is a CUDA GPU, through CuPy, or the emulator,
which runs the same ``.cu`` files on the CPU.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from .arrays import Array, is_cupy
from .launch import CACHED, MAX_BLOCKS
from .structs import Struct, StructType, in_host_memory

OPTIONS = ("--std=c++17",)
"""Options of NVRTC, in addition to the architecture and the include path."""

CUDA_TYPES: dict[np.dtype[Any], str] = {
    np.dtype(name): cuda
    for name, cuda in {
        "bool": "bool",
        "int8": "signed char",
        "int16": "short",
        "int32": "int",
        "int64": "long long",
        "uint8": "unsigned char",
        "uint16": "unsigned short",
        "uint32": "unsigned int",
        "uint64": "unsigned long long",
        "float16": "Half",
        "float32": "float",
        "float64": "double",
        "complex64": "Complex<float>",
        "complex128": "Complex<double>",
    }.items()
}
"""The CUDA type of each dtype; `Half` and `Complex` are defined in ``monoid.cuh``."""

DEFAULT_SHARED_MEMORY = 16 * 1024
"""Bytes of dynamic shared memory that need no opt-in, for every kernel here: the limit
of 48 KiB, less at most 32 KiB of static shared memory."""


OUT_OF_MEMORY = {"CUDADriverError": 2, "CUDARuntimeError": 2, "CUBLASError": 3}
"""The status of an error of CUDA or cuBLAS that found too little memory."""

Result = TypeVar("Result")


class KernelCompileError(RuntimeError):
    """A kernel did not compile. The message has its name and the compiler's log."""


class Kernel(Protocol):
    """A kernel on a device."""

    def resident_blocks(self, threads: int, shared_bytes: int) -> int:
        """Number of blocks that are resident on the whole device at once."""

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[object],
        *,
        shared_mem: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Launch on the current stream.

        The arguments are arrays, NumPy scalars, None for null pointers, and `Struct`.
        Blocks of a `cooperative` launch may wait for each other: either all are
        resident, or the launch fails.
        """


FLOAT64_COST = 8
"""Float32 operations in the time of a float64 operation: 2 on data-centre GPUs, 32 or
64 on consumer cards."""


class Device(Protocol):
    """A CUDA device or the emulated device."""

    @property
    def shared_memory_per_block(self) -> int:
        """The largest shared memory of a block, in bytes."""

    @property
    def has_watchdog(self) -> bool:
        """Whether kernels are stopped after seconds, as on a GPU with a display."""

    @property
    def has_slow_float64(self) -> bool:
        """Whether float64 takes many times as long as float32, as on consumer cards."""

    def current(self) -> AbstractContextManager[object]:
        """Make the device current. A public function does so once.

        Arrays are allocated, and kernels compiled and launched, only while it is.
        """

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate an array with undefined contents."""

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate an array of zeros."""

    def kernels(
        self, file: str, instances: tuple[str, ...], definitions: str = ""
    ) -> tuple[Kernel, ...]:
        """Kernels of a file in ``cuda_src/``: one program, compiled on the first call.

        `instances` are their names with template arguments. `definitions` is C++ source
        that precedes the file, such as a user's operator that the instances name.
        """


def source_directory() -> Path:
    """The directory of the kernels: in the package, or next to it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "cuda_src"
    return installed if installed.is_dir() else package.parent / "cuda_src"


def source_of(file: str, definitions: str = "") -> str:
    """The source of a kernel file, preceded by the definitions."""
    text = (source_directory() / f"{file}.cu").read_text()
    return f'{definitions}\n#line 1 "{file}.cu"\n{text}' if definitions else text


def struct_in(file: str, name: str) -> StructType:
    """The struct that a file in ``cuda_src`` declares."""
    text = (source_directory() / file).read_text()
    return StructType(name, text.partition(f"struct {name} {{")[2].partition("};")[0])


def emulating() -> bool:
    """Whether NumPy inputs run the kernels on the emulator (GPUSOLVE_EMULATE=1)."""
    return os.environ.get("GPUSOLVE_EMULATE", "") not in ("", "0")


def device_of(array: Array) -> Device | None:
    """The device of an array; None if NumPy computes."""
    if is_cupy(array):
        return _cuda_device(array.device.id)
    return EmulatedDevice() if emulating() else None


_ON_HOST = nullcontext()


def current(device: Device | None) -> AbstractContextManager[object]:
    """Make a device current, so that new arrays are allocated on it."""
    return _ON_HOST if device is None else device.current()


def current_device(array: Array) -> AbstractContextManager[object]:
    """Make an array's device current, so that new arrays are allocated on it."""
    return current(device_of(array))


class CudaDevice:
    """An NVIDIA GPU, through CuPy."""

    def __init__(self, index: int) -> None:
        import cupy

        self.index = index
        self._cupy = cupy

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the index alone: a plan of the user may hold the device."""
        return _cuda_device, (self.index,)

    @property
    def shared_memory_per_block(self) -> int:
        """The opt-in limit."""
        return int(self._attributes["MaxSharedMemoryPerBlockOptin"])

    @property
    def has_watchdog(self) -> bool:
        return bool(self._attributes["KernelExecTimeout"])

    @property
    def has_slow_float64(self) -> bool:
        return self._attributes["SingleToDoublePrecisionPerfRatio"] > FLOAT64_COST

    @property
    def multiprocessors(self) -> int:
        return int(self._attributes["MultiProcessorCount"])

    def current(self) -> AbstractContextManager[object]:
        return cast(AbstractContextManager[object], self._cupy.cuda.Device(self.index))

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        return self._cupy.empty(shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        return self._cupy.zeros(shape, dtype)

    def kernels(
        self, file: str, instances: tuple[str, ...], definitions: str = ""
    ) -> tuple[Kernel, ...]:
        return _cuda_kernels(self.index, file, instances, definitions)

    @functools.cached_property
    def _attributes(self) -> dict[str, int]:
        """CuPy queries all of them on every access."""
        return dict(self._cupy.cuda.Device(self.index).attributes)


@functools.lru_cache(CACHED)
def _cuda_device(index: int) -> CudaDevice:
    return CudaDevice(index)


def cuda_devices(chosen: Any) -> list[CudaDevice]:
    """The GPUs that a user chooses; none for "cpu" or None.

    "all" means all visible GPUs, none on a machine without a GPU. Else `chosen` is the
    number of a GPU, or several numbers.

    Raises
    ------
    ValueError
        If a GPU does not exist.
    """
    if chosen is None or (isinstance(chosen, str) and chosen == "cpu"):
        return []
    visible = range(count_gpus())
    if isinstance(chosen, str) and chosen == "all":
        return [_cuda_device(index) for index in visible]
    numbers = list(chosen) if isinstance(chosen, Iterable) else [chosen]
    if not numbers or not all(number in visible for number in numbers):
        raise ValueError(
            "devices must be 'all', 'cpu', or numbers of GPUs, of which "
            f"{len(visible)} are visible, got {chosen!r}"
        )
    return [_cuda_device(operator.index(number)) for number in numbers]


def count_gpus() -> int:
    """The number of visible GPUs; 0 if CuPy or the driver is missing."""
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:
        return 0


def with_memory(call: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Call a function for which CUDA or cuBLAS allocates memory itself.

    CUDA cannot take the memory that CuPy's pool keeps without using it. If there is too
    little, the pool returns this memory, and the call is repeated.

    Raises
    ------
    MemoryError
        If there is still too little memory.
    """
    try:
        return call(*args, **options)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    try:
        return call(*args, **options)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise MemoryError(f"the GPU has too little memory: {error}") from error
        raise


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether CuPy raised the error because CUDA or cuBLAS found too little memory."""
    status = OUT_OF_MEMORY.get(type(error).__name__)
    return status is not None and getattr(error, "status", None) == status


_allowing = threading.Lock()
_NULL = np.intp(0)


class CudaKernel:
    """A kernel instance on a GPU.

    Parameters
    ----------
    device : CudaDevice
        The current device.
    instance : str
    raw : cupy.RawKernel
    """

    def __init__(self, device: CudaDevice, instance: str, raw: Any) -> None:
        self.device = device
        self.instance = instance
        self._raw = raw
        self._function = raw.kernel
        static = int(raw.shared_size_bytes)
        self._most_shared = device.shared_memory_per_block - static
        """The largest dynamic shared memory of a block, in bytes."""
        self._allowed = DEFAULT_SHARED_MEMORY
        self._resident: dict[tuple[int, int], int] = {}

    def resident_blocks(self, threads: int, shared_bytes: int) -> int:
        asked = threads, shared_bytes
        if asked not in self._resident:
            self._resident[asked] = self._count_resident(threads, shared_bytes)
        return self._resident[asked]

    def _count_resident(self, threads: int, shared_bytes: int) -> int:
        if shared_bytes > self._most_shared:
            return 0
        self._allow(shared_bytes)
        import cupy

        per_multiprocessor = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            self._function.ptr, threads, shared_bytes
        )
        return int(per_multiprocessor * self.device.multiprocessors)

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[object],
        *,
        shared_mem: int = 0,
        cooperative: bool = False,
    ) -> None:
        if grid[0] > MAX_BLOCKS:
            raise ValueError(
                f"grid must have at most {MAX_BLOCKS} blocks, got {grid[0]}"
            )
        if shared_mem > self._most_shared:
            raise ValueError(
                f"shared_mem must be at most {self._most_shared} bytes for "
                f"{self.instance} on GPU {self.device.index}, got {shared_mem}"
            )
        self._allow(shared_mem)
        # RawModule's own option for cooperative launches would link the CUDA device
        # runtime.
        with_memory(
            self._function,
            grid,
            block,
            tuple([_argument(value) for value in args]),
            shared_mem=shared_mem,
            enable_cooperative_groups=cooperative,
        )

    def _allow(self, shared_bytes: int) -> None:
        """Opt in to more dynamic shared memory; the limit is never lowered.

        All threads share a lock, because two objects may share a driver function.
        """
        if shared_bytes <= self._allowed:
            return
        with _allowing:
            if shared_bytes > self._raw.max_dynamic_shared_size_bytes:
                self._raw.max_dynamic_shared_size_bytes = shared_bytes
            self._allowed = max(self._allowed, shared_bytes)


def _argument(value: object) -> object:
    """An argument as CuPy takes it. Before 14 it does not convert None.

    TypeError for a NumPy array, which CuPy would pass by value if its size is 1.
    """
    if isinstance(value, Struct):
        return value.packed_array()
    if isinstance(value, np.ndarray):
        raise TypeError(in_host_memory(value))
    return _NULL if value is None else value


@functools.lru_cache(CACHED)
def _cuda_kernels(
    index: int, file: str, instances: tuple[str, ...], definitions: str
) -> tuple[CudaKernel, ...]:
    import cupy

    module = _cuda_module(file, instances, definitions)
    device = _cuda_device(index)

    def load(instance: str) -> CudaKernel:
        return CudaKernel(device, instance, module.get_function(instance))

    try:
        with device.current():
            return tuple([with_memory(load, instance) for instance in instances])
    except cupy.cuda.compiler.CompileException as error:
        raise KernelCompileError(
            f"{', '.join(instances)} in {file}.cu does not compile for GPU {index}:\n"
            f"{error.get_message()}"
        ) from error


@functools.lru_cache(CACHED)
def _cuda_module(file: str, instances: tuple[str, ...], definitions: str) -> Any:
    """The module of some instances; CuPy loads it once per device.

    The key of CuPy's disk cache includes the options, but not the included files: so
    their hash is passed as an option.
    """
    import cupy

    directory = source_directory()
    return cupy.RawModule(
        code=source_of(file, definitions),
        options=(*OPTIONS, f"-I{directory}", f"-DGPUSOLVE_SOURCES={_sources_hash()}"),
        name_expressions=instances,
    )


@functools.cache
def _sources_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(source_directory().glob("*.cu*")):
        digest.update(path.read_bytes())
    return f"0x{digest.hexdigest()[:12]}"


class EmulatedDevice:
    """The emulator, which runs the kernels on the CPU."""

    @property
    def shared_memory_per_block(self) -> int:
        from .. import _emulator

        return _emulator.shared_memory_per_block()

    @property
    def has_watchdog(self) -> bool:
        return False

    @property
    def has_slow_float64(self) -> bool:
        return False

    def current(self) -> AbstractContextManager[object]:
        return nullcontext()

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        from .. import _emulator

        return _emulator.empty(shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        from .. import _emulator

        return _emulator.zeros(shape, dtype)

    def kernels(
        self, file: str, instances: tuple[str, ...], definitions: str = ""
    ) -> tuple[Kernel, ...]:
        return tuple([_emulated_kernel(file, name, definitions) for name in instances])


@functools.lru_cache(CACHED)
def _emulated_kernel(file: str, instance: str, definitions: str) -> Kernel:
    from .. import _emulator

    directory = source_directory()
    return _emulator.Kernel(directory / f"{file}.cu", instance, directory, definitions)
