"""A batch that is solved part by part: larger than memory, on several GPUs, or by Dask.

The arrays are never read or converted as a whole. A block is a slice along each axis of
the batch. An argument without an axis, or with the length 1 there, is the same in all
blocks along this axis.

On a GPU, two threads solve blocks, each on a stream of its own: while a thread's block
is solved, the other thread reads and copies the next block. Copies go through pinned
memory. Results are written to arrays in host memory or to memory-mapped files, block by
block.

Each chunk of dask arrays is solved by one task. Chunks divide the axes of the batch
only: a system is in one chunk. Arrays of the caller that are not Dask's are sent along;
a shared array is one chunk, which Dask sends to each worker once.
"""

from __future__ import annotations

import itertools
import math
import numbers
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, as_array, floating, is_cupy, is_dask, namespace
from .._device.kernels import CudaDevice, cuda_devices, current_device
from .._device.launch import ceil_div
from .._device.progress import progress_bar
from .._device.threads import part_of_batch
from .._numerics.certificate import Solution
from .arguments import AXES, Block, batch_axes, blocks, part_of_block
from .problem import Problem, blank_solution
from .result import NNLSResult
from .validation import NAMES, batch_of, validate

BLOCK_BYTES = 2**27
"""Limit on the arguments and results of a block, unless it is a single system. A GPU
copies them in a few milliseconds, and a CPU solves them in a second."""

THREADS_PER_GPU = 2
"""A block is copied while another block is solved."""

BLOCKS_PER_THREAD = 4
"""The least number of blocks of a thread, so that all devices end at about the same
time, unless blocks would have fewer systems than `LEAST_SYSTEMS`."""

LEAST_SYSTEMS = 1024

NOT_SOLVED = -1
"""The status of systems of blocks that are not finished."""

Solver = Callable[[Block], Solution]

Solve = Callable[..., NNLSResult[Any]]
"""Solves systems on one device: ``solve(method, given)``."""

# ---- the batch -----------------------------------------------------------------------


class Batch(NamedTuple):
    """The arguments of a call, and the shapes and dtypes of its results.

    Attributes
    ----------
    arrays : dict of str to array
        The arguments with axes: NumPy's, CuPy's or Dask's arrays.
    numbers : dict
        The other arguments.
    shape : tuple of int
        The axes of the batch.
    blank : Solution
        The results of one system: the dtypes and the axes after the batch axes.
    solve : callable
        Solves systems by a method, given their arguments.
    """

    arrays: dict[str, Any]
    numbers: dict[str, Any]
    shape: tuple[int, ...]
    blank: Solution
    solve: Solve

    @classmethod
    def of(cls, given: dict[str, Any], solve: Solve) -> Batch:
        """Check the shapes and the dtypes of the arguments."""
        called = dict(zip(("A", "b"), NAMES[given.get("is_gram", False)], strict=True))
        arrays = {
            name: value if is_dask(value) else as_array(value, called.get(name, name))
            for name, value in given.items()
            if name in AXES and not (value is None or is_plain(value))
        }
        for name, array in arrays.items():
            if is_dask(array):
                check_chunks(name, array, called.get(name, name))
        plain = {name: value for name, value in given.items() if name not in arrays}
        system = {name: blank_argument(name, array) for name, array in arrays.items()}
        problem = validate(**plain, **system)
        shapes = {name: array.shape for name, array in arrays.items()}
        shape = batch_of(shapes, NAMES[given.get("is_gram", False)])
        return cls(arrays, plain, shape, blank_solution(problem), solve)

    def axes_of(self, name: str) -> tuple[int, ...]:
        """The lengths of the batch axes of an argument."""
        return batch_axes(name, self.arrays[name].shape)

    def is_shared(self, name: str) -> bool:
        """Whether all systems have the same values of an argument."""
        return math.prod(self.axes_of(name)) == 1

    def part(self, name: str, block: Block) -> Array:
        """The values of an argument in a block; views, where arrays have them."""
        return part_of_block(self.arrays[name], self.axes_of(name), block)

    @property
    def numbers_per_system(self) -> int:
        """Numbers that each system has of its own, in arguments and results."""
        own = [
            blank_argument(name, array)
            for name, array in self.arrays.items()
            if not self.is_shared(name)
        ]
        results = [field[0] for field in self.blank.arrays().values()]
        return sum(math.prod(array.shape) for array in (*own, *results))


def check_chunks(name: str, array: Any, called: str) -> None:
    """Raise ValueError unless each system is in one chunk.

    The message shows the call of ``rechunk`` that makes it so. It calls the argument
    `called`.
    """
    if any(math.isnan(length) for lengths in array.chunks for length in lengths):
        raise ValueError(
            f"{called} must have chunks of known sizes, got {array.chunks}: call "
            f"{called}.compute_chunk_sizes() first"
        )
    core = min(len(AXES[name]), array.ndim)
    last = range(array.ndim - core, array.ndim)
    if any(array.numblocks[axis] > 1 for axis in last):
        whole = ", ".join(f"{axis - array.ndim}: -1" for axis in last)
        raise ValueError(
            f"{called} must have one chunk along its last "
            f"{'axis' if core == 1 else f'{core} axes'}, got chunks {array.chunks}: "
            f"call {called}.rechunk({{{whole}}}) first"
        )


class LazyProblem(dict[str, Any]):
    """The fields of the `Problem` of a batch, read at the first access to a field."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self._batch = batch

    def __missing__(self, name: str) -> Any:
        batch = self._batch
        self.update(validate(**batch.numbers, **batch.arrays)._asdict())
        return self[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ({name: self[name] for name in Problem._fields},)


def is_plain(value: object) -> bool:
    """Whether a value is a number or a name, the same for all systems."""
    return isinstance(value, numbers.Number | np.bool_ | str)


def blank_argument(name: str, array: Any) -> Array:
    """Zeros with the dtype and the shape of an argument for one system."""
    return np.zeros(array.shape[len(batch_axes(name, array.shape)) :], array.dtype)


# ---- blocks --------------------------------------------------------------------------


def solve_blocks(
    method: str, batch: Batch, devices: Any, out: dict[str, Array] | None
) -> Solution:
    """Solve all blocks; the solution, whose fields are `out` where it has them."""
    check_host(batch)
    gpus = cuda_devices(devices)
    solution = allocated(batch, out)
    solution.status[...] = NOT_SOLVED
    of_gpus: list[Solver] = [
        GpuSolver(gpu, method, batch) for gpu in gpus for _ in range(THREADS_PER_GPU)
    ]
    solvers = of_gpus or [HostSolver(method, batch)]
    most, lock = block_size(batch, len(solvers)), threading.Lock()
    with progress_bar(math.prod(batch.shape), "nnls", "system") as bar:

        def finish(block: Block, found: Solution) -> None:
            solution.put(block, found)
            with lock:
                bar.update(math.prod(part.stop - part.start for part in block))

        run_blocks(solvers, blocks(batch.shape, most), finish)
    return solution


def run_blocks(
    solvers: list[Solver],
    todo: Iterator[Block],
    finish: Callable[[Block, Solution], None],
) -> None:
    """Solve all blocks, each by the next solver that is free; finish each.

    After an error or an interrupt no further block begins. Blocks that have begun are
    finished before the error is raised.
    """
    lock, stopped = threading.Lock(), threading.Event()

    def run(solve: Solver) -> None:
        while not stopped.is_set():
            with lock:
                block = next(todo, None)
            if block is None:
                return
            finish(block, solve(block))

    with ThreadPoolExecutor(len(solvers)) as pool:
        try:
            for done in as_completed([pool.submit(run, solve) for solve in solvers]):
                done.result()
        finally:
            stopped.set()


class HostSolver:
    """Solves blocks on the CPU, each by all cores."""

    def __init__(self, method: str, batch: Batch) -> None:
        self.method = method
        self.batch = batch

    def __call__(self, block: Block) -> Solution:
        parts = {name: self.batch.part(name, block) for name in self.batch.arrays}
        with part_of_batch():
            return solve_parts(self.batch, self.method, parts)


class GpuSolver:
    """Solves blocks on a GPU, on a stream of its own.

    Arguments that all systems share are copied once.
    """

    def __init__(self, device: CudaDevice, method: str, batch: Batch) -> None:
        import cupy

        self.device = device
        self.method = method
        self.batch = batch
        self.pinned: dict[str, Array] = {}
        self.shared: dict[str, Array] = {}
        with device.current():
            self.stream = cupy.cuda.Stream(non_blocking=True)

    def __call__(self, block: Block) -> Solution:
        with self.device.current(), self.stream:
            parts = {name: self.part(name, block) for name in self.batch.arrays}
            found = solve_parts(self.batch, self.method, parts)
            on_host = {
                name: self.download(f"result {name}", field)
                for name, field in found.arrays().items()
            }
            self.stream.synchronize()
        return Solution(**on_host)

    def part(self, name: str, block: Block) -> Array:
        """The values of an argument in a block, on the GPU."""
        if name in self.shared:
            return self.shared[name]
        part = self.upload(name, self.batch.part(name, block))
        if self.batch.is_shared(name):
            self.shared[name] = part
        return part

    def upload(self, name: str, values: Array) -> Array:
        """Begin to copy an array to the GPU; integers become float64."""
        values = floating({name: values})[name]
        source = self.buffer(name, values.shape, values.dtype)
        source[...] = values
        there = self.device.empty(values.shape, values.dtype)
        there.set(source, stream=self.stream)
        return there

    def download(self, name: str, values: Array) -> Array:
        """Begin to copy an array to the host."""
        target = self.buffer(name, values.shape, values.dtype)
        values.get(stream=self.stream, out=target, blocking=False)
        return target

    def buffer(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Pinned memory for an array; each name has its own, which blocks reuse."""
        import cupyx

        size = math.prod(shape) * dtype.itemsize
        if name not in self.pinned or self.pinned[name].nbytes < size:
            self.pinned[name] = cupyx.empty_pinned(max(1, size), np.uint8)
        return self.pinned[name][:size].view(dtype).reshape(shape)


def solve_parts(batch: Batch, method: str, parts: dict[str, Array]) -> Solution:
    """The solution of a block, on the device of its arrays."""
    return Solution(**batch.solve(method, {**batch.numbers, **parts})._asdict())


def check_host(batch: Batch) -> None:
    """Raise TypeError for arrays on a GPU."""
    for name, array in batch.arrays.items():
        if is_cupy(array):
            raise TypeError(
                f"{name} must be in host memory with devices or out, got an array on "
                f"GPU {array.device.id}"
            )


def allocated(batch: Batch, out: dict[str, Array] | None) -> Solution:
    """Arrays for the results: from `out`, and new arrays for the other fields."""
    given, fields = dict(out or {}), {}
    for name, blank in batch.blank.arrays().items():
        shape = (*batch.shape, *blank.shape[1:])
        if name in given:
            check_field(f"out[{name!r}]", given[name], shape, blank.dtype)
        fields[name] = given.pop(name, None)
        if fields[name] is None:
            fields[name] = np.empty(shape, blank.dtype)
    if given:
        names = (*batch.blank.arrays(),)
        raise ValueError(f"out must have keys among {names}, got {[*given]}")
    return Solution(**fields)


def check_field(
    name: str, field: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """Raise TypeError or ValueError unless an array can hold a field of the result."""
    if not isinstance(field, np.ndarray) or field.dtype != dtype:
        got = getattr(field, "dtype", type(field).__name__)
        raise TypeError(f"{name} must be a NumPy array of dtype {dtype}, got {got}")
    if field.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {field.shape}")
    if not field.flags.writeable:
        raise ValueError(f"{name} must be writeable, got a read-only array")


def block_size(batch: Batch, solvers: int) -> int:
    """The most systems of a block."""
    size = np.dtype(np.float64).itemsize * batch.numbers_per_system
    share = ceil_div(math.prod(batch.shape), BLOCKS_PER_THREAD * solvers)
    return min(max(1, BLOCK_BYTES // size), max(LEAST_SYSTEMS, share))


# ---- chunks of dask arrays -----------------------------------------------------------


def solve_chunks(method: str, batch: Batch, devices: Any, out: Any) -> Solution:
    """The solution: dask arrays with the chunks of the batch."""
    import dask.array as da

    if devices is not None or out is not None:
        raise ValueError(
            "devices and out must be None for dask arrays: their workers have devices, "
            "and dask.array.store writes results"
        )
    axes, others = tuple(range(len(batch.shape))), itertools.count(len(batch.shape))
    operands: list[Any] = []
    for name in batch.arrays:
        array, leading = as_dask(name, batch), len(batch.axes_of(name))
        core = tuple(itertools.islice(others, array.ndim - leading))
        operands += [array, (*axes[len(axes) - leading :], *core)]
    solved = da.blockwise(
        solve_dask_chunk,
        axes,
        *operands,
        names=tuple(batch.arrays),
        method=method,
        numbers=batch.numbers,
        solve=batch.solve,
        concatenate=True,
        dtype=object,
        meta=np.empty((0,) * len(axes), object),
    )
    fields = {}
    for name, blank in batch.blank.arrays().items():
        core = tuple(itertools.islice(others, blank.ndim - 1))
        fields[name] = da.blockwise(
            getattr,
            (*axes, *core),
            solved,
            axes,
            name,
            None,
            new_axes=dict(zip(core, blank.shape[1:], strict=True)),
            dtype=blank.dtype,
            meta=meta_of(batch, len(axes) + len(core), blank.dtype),
        )
    return Solution(**fields)


def as_dask(name: str, batch: Batch) -> Any:
    """An argument as a dask array, with the chunks of the other arguments."""
    array = batch.arrays[name]
    if is_dask(array):
        return array
    import dask.array as da

    lengths, chunks = batch.axes_of(name), []
    for k in range(len(lengths)):
        from_end = len(lengths) - k
        chunks.append(chunks_of_axis(batch, lengths[k], from_end))
    return da.from_array(array, (*chunks, *(-1,) * (array.ndim - len(lengths))))


def chunks_of_axis(batch: Batch, length: int, from_end: int) -> Any:
    """The chunks that the first dask array with this axis has; else one chunk."""
    for name, array in batch.arrays.items():
        axes = batch.axes_of(name)
        if is_dask(array) and from_end <= len(axes) and axes[-from_end] == length:
            return array.chunks[len(axes) - from_end]
    return -1


def meta_of(batch: Batch, axes: int, dtype: np.dtype[Any]) -> Array:
    """An array without elements, of the kind that the chunks of the results have."""
    metas = [array._meta for array in batch.arrays.values() if is_dask(array)]
    found = next(filter(is_cupy, metas), metas[0])
    with current_device(found):
        return namespace(found).empty((0,) * axes, dtype)


def solve_dask_chunk(
    *values: Any,
    names: tuple[str, ...],
    method: str,
    numbers: dict[str, Any],
    solve: Solve,
) -> Solution:
    """Solve the systems of a chunk on the GPU of its arrays, or on one core.

    The arrays of the caller follow the others to a GPU.
    """
    parts = dict(zip(names, values, strict=True))
    on_gpu = next(filter(is_cupy, values), None)
    if on_gpu is not None:
        with current_device(on_gpu):
            there = namespace(on_gpu).asarray
            parts = {k: v if is_cupy(v) else there(v) for k, v in parts.items()}
    with part_of_batch(cores=1):
        found = solve(method, {**numbers, **parts})
    return Solution(**found._asdict())
