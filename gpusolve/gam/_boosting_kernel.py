"""The boosting loop on a device: launches the kernels of ``cuda_src/boosting.cu``."""

from __future__ import annotations

import numpy as np

from .._device.arrays import Array
from .._device.kernels import Device
from .._device.launch import LAUNCH_SECONDS, THREADS, pieces
from ._gram_kernel import (
    STATIC_SHARED_MEMORY,
    gram_sums,
    gram_warps,
    instance,
    launch_shape,
    moment_pitch,
    moment_sums,
    shared_bytes,
)
from .learners import Learners

READ_SPEED = 2e10
"""Lower limit of a device's memory bandwidth, in bytes per second. Assumed, not
measured."""


def steps_of_launch(device: Device, learners: Learners) -> int:
    """The most steps of one launch: few enough for a watchdog, if there is one."""
    if not device.has_watchdog:
        return 2**31 - 1
    bytes_read = learners.values.nbytes + learners.first.nbytes
    return max(1, int(LAUNCH_SECONDS * READ_SPEED / bytes_read))


def boost(
    learners: Learners,
    residual: Array,
    learning_rate: float,
    steps: int,
    method: str,
    device: Device,
) -> tuple[Array, Array, Array]:
    """Make `steps` steps on the current stream.

    One launch makes all of them; on a device with a watchdog, several short launches.

    Parameters
    ----------
    learners : Learners
        K learners with k functions each, on the device.
    residual : (n,) array
        The residual before the first step.
    learning_rate : float
    steps : int
    method : {"stacked", "gram"}
        "gram" only if it fits: see `gram_fits`.

    Returns
    -------
    selected : (steps,) int32 array
        The learner of each step.
    updates : (steps, k) float64 array
        The change of its coefficients.
    risk : (steps + 1,) float64 array
        The weighted sum of squares before the first step and after each.
    """
    count, rows = learners.first.shape
    k = learners.n_basis
    is_gram = method == "gram"
    warps = gram_warps(count, k, device.shared_memory_per_block) if is_gram else 0
    width = learners.values.shape[-1]
    free = device.shared_memory_per_block - STATIC_SHARED_MEMORY
    free -= shared_bytes(k, 0, count if is_gram else 0)
    pitch = moment_pitch(k, width, free)
    sums = max(moment_sums(k, width, pitch), warps * gram_sums(k))
    needed = shared_bytes(k, sums, count if is_gram else 0)
    instances = (instance(f"boost_{method}", learners.values),)
    (kernel,) = device.kernels("boosting", instances)
    launch = launch_shape(kernel, count, rows, needed)

    def doubles(*shape: int) -> Array:
        return device.empty(shape, np.float64)

    u = residual.astype(np.float64)
    weights = learners.weights
    selected = device.empty((steps,), np.int32)
    updates, risk = doubles(steps, k), doubles(steps + 1)
    risk[:1] = (u * u if weights is None else weights * u * u).sum()
    if steps == 0:
        return selected, updates, risk
    matrices = (
        learners.first,
        learners.values,
        weights,
        learners.gram,
        learners.inverse,
        np.int64(rows),
        np.int32(count),
        np.int32(k),
        np.int32(launch.chunks),
        np.int32(pitch),
        np.float64(learning_rate),
    )
    fits = doubles(2, count, k), doubles(2, count, 2), doubles(launch.blocks)
    sum_size = k * k if is_gram and launch.chunks > 1 else k
    sums_of_chunks = doubles(launch.chunks, count, sum_size)
    grams: tuple[object, ...] = ()
    if is_gram:
        slots = device.zeros((count,), np.int32)
        slots -= 1
        grams = (
            doubles(count, k),
            doubles(min(count, steps), count, k, k),
            device.zeros((count, k), np.float64),
            slots,
            np.int32(warps),
        )
    launches = list(pieces(steps, steps_of_launch(device, learners)))
    arrived = device.zeros((len(launches),), np.uint64)
    for index, part in enumerate(launches):
        limits = (
            (part.start, part.stop, steps) if is_gram else (part.stop - part.start,)
        )
        path = (selected, updates, risk)
        if not is_gram:
            path = (selected[part], updates[part], risk[part.start :])
        kernel(
            (launch.blocks,),
            (THREADS,),
            (
                *matrices,
                *map(np.int32, limits),
                u,
                sums_of_chunks,
                *fits,
                *grams,
                *path,
                arrived[index:],
            ),
            shared_mem=launch.shared_bytes,
            cooperative=True,
        )
    return selected, updates, risk
