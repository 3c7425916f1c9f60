"""A batch in host memory or in files, solved block by block by GPUs or by the CPU.

On a GPU, two threads solve blocks, each on a stream of its own: while a thread's block
is solved, the other thread reads and copies the next block. Copies go through pinned
memory. Results are written to arrays in host memory or to memory-mapped files, block by
block.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import numpy as np

from .._device.arrays import Array, floating, is_cupy
from .._device.kernels import CudaDevice, cuda_devices
from .._device.launch import ceil_div
from .._device.progress import progress_bar
from .._device.threads import part_of_batch
from .._numerics.solution import AnySolution, solution_of
from .batch import Batch, Block, blocks
from .result import NNLSResult

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

Solve = Callable[[Block], AnySolution]


def solve_blocks(
    method: str, batch: Batch, devices: Any, out: dict[str, Array] | None
) -> AnySolution:
    """Solve all blocks; the solution, whose fields are `out` where it has them."""
    check_host(batch)
    gpus = cuda_devices(devices)
    solution = allocated(batch, out)
    solution.status[...] = NOT_SOLVED
    of_gpus: list[Solve] = [
        GpuSolver(gpu, method, batch) for gpu in gpus for _ in range(THREADS_PER_GPU)
    ]
    solvers = of_gpus or [HostSolver(method, batch)]
    most, lock = block_size(batch, len(solvers)), threading.Lock()
    with progress_bar(math.prod(batch.shape), "nnls", "system") as bar:

        def finish(block: Block, found: AnySolution) -> None:
            solution.put(block, found)
            with lock:
                bar.update(math.prod(part.stop - part.start for part in block))

        run_blocks(solvers, blocks(batch.shape, most), finish)
    return solution


def run_blocks(
    solvers: list[Solve],
    todo: Iterator[Block],
    finish: Callable[[Block, AnySolution], None],
) -> None:
    """Solve all blocks, each by the next solver that is free; finish each.

    After an error or an interrupt no further block begins. Blocks that have begun are
    finished before the error is raised.
    """
    lock, stopped = threading.Lock(), threading.Event()

    def run(solve: Solve) -> None:
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

    def __call__(self, block: Block) -> AnySolution:
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

    def __call__(self, block: Block) -> AnySolution:
        with self.device.current(), self.stream:
            parts = {name: self.part(name, block) for name in self.batch.arrays}
            found = solve_parts(self.batch, self.method, parts)
            on_host = [
                self.download(f"result {name}", field)
                for name, field in found._asdict().items()
            ]
            self.stream.synchronize()
        return type(found)(*on_host)

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


def solve_parts(batch: Batch, method: str, parts: dict[str, Array]) -> AnySolution:
    """The solution of a block, on the device of its arrays."""
    result: NNLSResult[Any] = batch.solve(method, {**batch.numbers, **parts})
    return solution_of(result._asdict())


def check_host(batch: Batch) -> None:
    """Raise TypeError for arrays on a GPU."""
    for name, array in batch.arrays.items():
        if is_cupy(array):
            raise TypeError(
                f"{name} must be in host memory with devices or out, got an array on "
                f"GPU {array.device.id}"
            )


def allocated(batch: Batch, out: dict[str, Array] | None) -> AnySolution:
    """Arrays for the results: from `out`, and new arrays for the other fields."""
    given, fields = dict(out or {}), {}
    for name, blank in batch.blank._asdict().items():
        shape = (*batch.shape, *blank.shape[1:])
        if name in given:
            check_field(f"out[{name!r}]", given[name], shape, blank.dtype)
        fields[name] = given.pop(name, None)
        if fields[name] is None:
            fields[name] = np.empty(shape, blank.dtype)
    if given:
        names = batch.blank._fields
        raise ValueError(f"out must have keys among {names}, got {[*given]}")
    return solution_of(fields)


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
