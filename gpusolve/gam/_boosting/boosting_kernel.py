"""The boosting loop with Gram blocks on a device: launches ``cuda_src/boosting.cu``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._device.arrays import Array
from ..._device.kernels import Device
from ..._device.launch import LAUNCH_SECONDS, THREADS, pieces
from .batch import Fits
from .gram_kernel import (
    STATIC_SHARED_MEMORY,
    flatten_matrices,
    gram_sums,
    gram_warps,
    instance,
    lanes_of,
    launch_shape,
    moment_pitch,
    moment_sums,
    shared_bytes,
)
from .path import Path

READ_SPEED = 2e10
"""Lower limit of a device's memory bandwidth, in bytes per second. Assumed, not
measured."""


def steps_of_launch(device: Device, bytes_of_step: int) -> int:
    """The most steps of a launch: few enough for the watchdog of a device."""
    if not device.has_watchdog:
        return 2**31 - 1
    return max(1, int(LAUNCH_SECONDS * READ_SPEED / bytes_of_step))


def launches_of(
    device: Device, steps: int, bytes_of_step: int, most: int | None = None
) -> Iterator[tuple[slice, Array]]:
    """The steps of each launch, at most `most`, and the counter of its grid barrier."""
    limit = steps_of_launch(device, bytes_of_step)
    parts = list(pieces(steps, min(limit, most or limit)))
    arrived = device.zeros((len(parts),), np.uint64)
    for index, part in enumerate(parts):
        yield part, arrived[index:]


def boost(fits: Fits, steps: int, device: Device) -> Path:
    """Make the steps of a fit to squared errors, on the current stream.

    One launch makes all steps; on a device with a watchdog, several short launches. The
    learners are equal bases, whose sums must fit: see `gram_fits`.
    """
    problem = fits.problem
    assert problem.basis is not None
    first, values = problem.basis
    count, rows, width = values.shape
    k = problem.functions
    warps = gram_warps(count, k, device.shared_memory_per_block)
    free = device.shared_memory_per_block - STATIC_SHARED_MEMORY
    free -= shared_bytes(k, 0, count)
    lanes = lanes_of(width)
    pitch = moment_pitch(k, lanes, free)
    sums = max(moment_sums(k, lanes, pitch), warps * gram_sums(k))
    needed = shared_bytes(k, sums, count)
    instances = (instance("boost_gram", values),)
    (kernel,) = device.kernels("boosting", instances)
    blocks, (chunks, *_) = launch_shape(kernel, np.ones(count), rows, needed)

    def doubles(*shape: int) -> Array:
        return device.empty(shape, np.float64)

    u = fits.y - fits.start[0]
    weights = None if problem.weights is None else problem.weights[0]
    made = Path(
        fits.offset,
        device.empty((1, steps), np.int32),
        doubles(1, steps, k),
        doubles(1, steps + 1),
        method="gram",
    )
    made.risk[0, :1] = (u * u if weights is None else weights * u * u).sum()
    if steps == 0:
        return made
    matrices = (
        first,
        values,
        weights,
        flatten_matrices(problem.gram),
        flatten_matrices(problem.inverse),
        np.int64(rows),
        np.int32(count),
        np.int32(k),
        np.int32(chunks),
        np.int32(pitch),
        np.float64(fits.learning_rate),
    )
    slots = device.zeros((count,), np.int32)
    slots -= 1
    results = made.selected, made.updates, made.risk
    work = (
        doubles(chunks, count, k * k if chunks > 1 else k),
        doubles(2, count, k),
        doubles(2, count, 2),
        doubles(blocks),
        doubles(count, k),
        doubles(min(count, steps), count, k, k),
        device.zeros((count, k), np.float64),
        slots,
        np.int32(warps),
    )
    for part, arrived in launches_of(device, steps, values.nbytes + first.nbytes):
        limits = map(np.int32, (part.start, part.stop, steps))
        kernel(
            (blocks,),
            (THREADS,),
            (*matrices, *limits, u, *work, *results, arrived),
            shared_mem=needed,
            cooperative=True,
        )
    return made
