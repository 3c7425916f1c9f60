"""Flags and reductions of segments on a device: scatter, and a segmented scan."""

from __future__ import annotations

import numpy as np

from .. import monoid
from .._device.arrays import Array, contiguous, namespace
from .._device.kernels import Device
from ..monoid import Monoid
from .scan_kernel import scan_rows
from .scatter_kernel import scatter


def offsets_of(lengths: Array, device: Device) -> Array:
    """(m,) lengths -> (m + 1,) offsets of int64, by an exclusive scan."""
    with device.current():
        offsets = device.zeros((1, len(lengths) + 1), np.int64)
        offsets[0, :-1] = lengths
        scan_rows(offsets, monoid.add, offsets, device, exclusive=True)
        return offsets[0]


def segment_flags(lengths: Array, total: int, device: Device) -> Array:
    """(m,) lengths -> (total,) flags; an empty segment has none."""
    with device.current():
        starts = offsets_of(lengths, device)[:-1]
        starts = namespace(lengths).where(lengths == 0, -1, starts)
        return flags_at(starts, total, device)


def flags_at(starts: Array, total: int, device: Device) -> Array:
    """(total,) flags, set at these indices; indices outside are ignored."""
    flags = device.zeros((total,), np.bool_)
    scatter(flags, starts, namespace(starts).ones(len(starts), bool), device)
    return flags


def segmented_reduce(x: Array, offsets: Array, monoid: Monoid, device: Device) -> Array:
    """(n, *element) -> (m, *element), the last prefix of each segment.

    `offsets` is (m + 1,) of int64, checked.
    """
    dtype, shape = monoid.dtype_of(x.dtype), monoid.element_shape
    with device.current():
        xp = namespace(x)
        identity = xp.asarray(monoid.identity_of(dtype))
        starts, ends = offsets[:-1], offsets[1:]
        if len(x) == 0 or len(starts) == 0:
            return xp.full((len(starts), *shape), identity, dtype)
        empty = starts == ends
        flags = flags_at(xp.where(empty, -1, starts), len(x), device)
        prefixes = device.empty((1, len(x), *shape), dtype)
        rows = contiguous(x)[None]
        flags = flags.view(np.uint8)
        scan_rows(rows, monoid, prefixes, device, exclusive=False, flags=flags)
        last = prefixes[0, xp.maximum(ends - 1, 0)]
        return xp.where(empty.reshape(-1, *(1,) * len(shape)), identity, last)
