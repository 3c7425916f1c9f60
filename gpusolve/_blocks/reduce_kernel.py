"""Reduction on a device: the launches of ``cuda_src/reduce.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from .. import monoid as monoids
from .._device.arrays import Array, as_rows, namespace
from .._device.kernels import Device, Kernel
from .._device.launch import CACHED, THREADS, WARP, Launch, blocks_for, ceil_div
from ..monoid import Monoid
from .inputs import Elements
from .map_kernel import map_elements
from .operators import Operators, operators_of

PACK_BYTES = 16
"""Bytes of a vector load: ``Pack`` in the kernel."""
WINDOWS = 4
"""Vector loads of each lane before a warp folds them."""
WINDOWS_OF_ONE_BLOCK = 16
"""One block folds a row of at most this many windows for each of its warps."""
ATOMIC_SUMS = {np.dtype(name) for name in ("i4", "i8", "u4", "u8", "f4", "f8")}
"""The dtypes of numbers to which the hardware adds atomically."""


def reduce(given: Elements, variant: str, device: Device) -> Array:
    """Reduce along some axes, on the current stream."""
    arrays = (given.x, *given.more)
    x, *more = [as_rows(array, given.axes, given.leading) for array in arrays]
    result = reduce_rows(x, given.monoid, operators_of(given), variant, device, more)
    kept = [n for axis, n in enumerate(given.shape) if axis not in given.axes]
    return result.reshape((*kept, *given.monoid.element_shape))


def reduce_rows(
    x: Array,
    monoid: Monoid,
    ops: Operators,
    variant: str,
    device: Device,
    more: Sequence[Array],
) -> Array:
    """(rows, length, *element) -> (rows, 1, *element), on the current stream.

    `more` are the other arrays that the map reads.
    """
    rows, length = x.shape[:2]
    if length == 0 or rows == 0:
        result = device.empty((rows, 1, *ops.element_shape), ops.dtype)
        result[...] = namespace(result).asarray(monoid.identity_of(ops.dtype))
        return result
    if variant in ("atomic", "atomic_each"):
        return _atomic(x, monoid, ops, device, more, by_warp=variant == "atomic")
    if variant in LEVELS:
        y = map_elements(x, ops, device, more)
        while y.shape[1] > 1:
            y = LEVELS[variant](y, ops, device)
        return y
    return _chunked(x, ops, device, more)


def _tree_level(x: Array, ops: Operators, device: Device) -> Array:
    rows, length = x.shape[:2]
    pairs = ceil_div(length, 2)
    y = device.empty((rows, pairs, *ops.element_shape), ops.dtype)
    instances = (f"reduce_tree<{ops.monoid}>",)
    (kernel,) = device.kernels("reduce", instances, ops.definitions)
    arguments = (x, np.int64(rows), np.int64(length), y)
    kernel((blocks_for(rows * pairs),), (THREADS,), arguments)
    return y


def _group_level(
    x: Array,
    ops: Operators,
    device: Device,
    name: str = "reduce_group",
    threads: int = THREADS,
) -> Array:
    rows, length = x.shape[:2]
    groups = ceil_div(length, threads)
    y = device.empty((rows, groups, *ops.element_shape), ops.dtype)
    (kernel,) = device.kernels("reduce", (f"{name}<{ops.monoid}>",), ops.definitions)
    kernel((rows * groups,), (threads,), (x, np.int64(length), y))
    return y


LEVELS: dict[str, Callable[[Array, Operators, Device], Array]] = {
    "tree": _tree_level,
    "group": _group_level,
    "reduce512": functools.partial(
        _group_level, name="reduce_by_reduce512", threads=512
    ),
}
"""Variants that write shorter rows, (rows, length) -> (rows, groups), until each row
has one element."""


def _chunked(x: Array, ops: Operators, device: Device, more: Sequence[Array]) -> Array:
    """Brent's lemma: each of a fixed number of threads folds a chunk; then again."""
    instances = chunked_instances(ops)
    first, *again = device.kernels("reduce", instances, ops.definitions)
    y = _chunked_level(x, ops, device, first, more, single=False)
    if y.shape[1] > 1:
        y = _chunked_level(y, ops, device, (again or [first])[0], (), single=True)
    return y


@functools.lru_cache(CACHED)
def chunked_instances(ops: Operators) -> tuple[str, ...]:
    """The kernel that applies the map, and the kernel for the results, if different."""
    maps = dict.fromkeys((ops.map + ops.more, ops.keep))
    return tuple(f"reduce_chunked<{ops.monoid}, {map}>" for map in maps)


def _chunked_level(
    x: Array,
    ops: Operators,
    device: Device,
    kernel: Kernel,
    more: Sequence[Array],
    *,
    single: bool,
) -> Array:
    """(rows, length) -> (rows, chunks): fold chunks that fill the device."""
    rows, length = x.shape[:2]
    resident = kernel.resident_blocks(THREADS, 0)
    chunks, launch = _launch_of_level(rows, length, x.nbytes, resident, single)
    y = device.empty((rows, chunks, *ops.element_shape), ops.dtype)
    kernel(launch.grid, launch.block, (x, *launch.numbers, y, *more))
    return y


@functools.lru_cache(CACHED)
def _launch_of_level(
    rows: int, length: int, nbytes: int, resident: int, single: bool
) -> tuple[int, Launch]:
    """The chunks of a row, and the launch."""
    warps = THREADS // WARP
    window = WARP * max(1, PACK_BYTES // (nbytes // (rows * length)))
    few_rows = rows < resident * warps
    block_is_team = few_rows and length > WINDOWS * window
    team = warps if block_is_team else 1
    one_block = single or not few_rows or length <= WINDOWS_OF_ONE_BLOCK * team * window
    wanted = 1 if one_block else max(1, resident // rows)
    part = ceil_div(length, wanted * team * window) * window
    chunks = ceil_div(length, part * team)
    sizes = map(np.int64, (rows, length, part, chunks))
    grid = (ceil_div(rows * chunks * team, warps),)
    return chunks, Launch(grid, (THREADS,), (*sizes, np.bool_(block_is_team)))


def atomic_instance(monoid: Monoid, ops: Operators, *, by_warp: bool) -> str:
    """The kernel's name with its template arguments."""
    adds = monoid is monoids.add and ops.dtype in ATOMIC_SUMS
    update = "AtomicAdd" if adds else "CompareAndSwap"
    each = "true" if by_warp else "false"
    return f"reduce_atomic<{ops.monoid}, {ops.map}, {update}, {each}{ops.more}>"


def _atomic(
    x: Array,
    monoid: Monoid,
    ops: Operators,
    device: Device,
    more: Sequence[Array],
    *,
    by_warp: bool,
) -> Array:
    rows, length = x.shape[:2]
    cells = device.zeros((rows,), np.uint64)
    places = cells.view(ops.dtype).reshape(rows, -1)[:, : math.prod(ops.element_shape)]
    identity = namespace(x).asarray(monoid.identity_of(ops.dtype))
    places[...] = identity.reshape(-1)
    instances = (atomic_instance(monoid, ops, by_warp=by_warp),)
    (kernel,) = device.kernels("reduce", instances, ops.definitions)
    arguments = (x, np.int64(length), cells, *more)
    kernel((rows * blocks_for(length),), (THREADS,), arguments)
    return places.reshape(rows, 1, *ops.element_shape).copy()
