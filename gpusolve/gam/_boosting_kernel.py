"""The boosting loop on a device: the launches of ``cuda_src/boosting.cu``."""

from __future__ import annotations

import numpy as np

from .._device.arrays import Array
from .._device.kernels import Device
from .._device.launch import LAUNCH_SECONDS, THREADS, WARP, pieces
from ._gram_kernel import gram_warps, instance, plan, shared_bytes
from .learners import Learners

READ_SPEED = 2e10
"""Bytes a second that any device reads, at least. Assumed, not measured."""


def steps_of_launch(device: Device, learners: Learners) -> int:
    """How many steps one launch may make: all, or what a watchdog bears."""
    if not device.has_watchdog:
        return 2**31 - 1
    of_a_step = learners.values.nbytes + learners.first.nbytes
    return max(1, int(LAUNCH_SECONDS * READ_SPEED / of_a_step))


def boost(
    learners: Learners,
    residual: Array,
    learning_rate: float,
    steps: int,
    method: str,
    device: Device,
) -> tuple[Array, Array, Array]:
    """Boost `steps` times on the current stream.

    In one launch, or in several short ones where the device has a watchdog.

    Parameters
    ----------
    learners : Learners
        K of them, with k functions each, on the device.
    residual : (n,) array
        Of the start.
    learning_rate : float
    steps : int
    method : {"stacked", "gram"}

    Returns
    -------
    selected : (steps,) int32 array
        The learner of each step.
    updates : (steps, k) float64 array
        By how much its coefficients change.
    risk : (steps + 1,) float64 array
        The weighted sum of squares before the first step and after each.

    Raises
    ------
    ValueError
        For "gram" with more functions than a block's shared memory has room for.
    """
    count, rows = learners.first.shape
    k = learners.n_basis
    kernel = device.kernel("boosting", instance(f"boost_{method}", learners.values))
    is_gram = method == "gram"
    warps = gram_warps(count, k, device.shared_memory_per_block) if is_gram else 0
    if is_gram and warps == 0:
        raise ValueError(
            f"method is 'gram' with {k} basis functions, which do not fit in a block's "
            f"{device.shared_memory_per_block} bytes of shared memory; 'stacked' is "
            "wanted"
        )
    sums = max(THREADS // WARP * k, warps * k * k)
    needed = shared_bytes(k, sums, count if is_gram else 0)
    launch = plan(kernel, count, rows, needed)

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
        np.float64(learning_rate),
    )
    fits = doubles(2, count, k), doubles(2, count, 2), doubles(launch.blocks)
    part = k * k if is_gram and launch.chunks > 1 else k
    sums_of_chunks = doubles(launch.chunks, count, part)
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
    for at, own in enumerate(launches):
        made = (own.start, own.stop, steps) if is_gram else (own.stop - own.start,)
        path = (selected, updates, risk)
        if not is_gram:
            path = (selected[own], updates[own], risk[own.start :])
        kernel(
            (launch.blocks,),
            (THREADS,),
            (
                *matrices,
                *map(np.int32, made),
                u,
                sums_of_chunks,
                *fits,
                *grams,
                *path,
                arrived[at:],
            ),
            shared_mem=launch.shared_bytes,
            cooperative=True,
        )
    return selected, updates, risk
