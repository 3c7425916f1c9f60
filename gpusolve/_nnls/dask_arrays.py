"""A batch of dask arrays; each chunk is solved by one task.

Chunks divide the axes of the batch only: a system is in one chunk. Arrays of the caller
that are not Dask's are sent along; a shared array is one chunk, which Dask
sends to each worker once.
"""

from __future__ import annotations

import itertools
from typing import Any

import dask.array as da
import numpy as np

from .._device.arrays import Array, is_cupy, is_dask, namespace
from .._device.kernels import current_device
from .._device.threads import part_of_batch
from .._numerics.solution import AnySolution, solution_of
from .batch import Batch, Solve
from .solve import least_squares


def solve_chunks(method: str, batch: Batch) -> AnySolution:
    """The solution: dask arrays with the chunks of the batch."""
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
    for name, blank in batch.blank._asdict().items():
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
    return solution_of(fields)


def as_dask(name: str, batch: Batch) -> Any:
    """An argument as a dask array, with the chunks of the other arguments."""
    array = batch.arrays[name]
    if is_dask(array):
        return array
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
    solve: Solve = least_squares,
) -> AnySolution:
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
    return solution_of(found._asdict())
