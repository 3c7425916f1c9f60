"""The variants of scan in several launches of ``cuda_src/scan_textbook.cu``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._blocks.inputs import Elements, SegmentFlags
from .._blocks.map_kernel import map_elements
from .._blocks.operators import Operators, operators_of
from .._blocks.scan_kernel import scan_along_axis, tile_for
from .._device.arrays import Array
from .._device.kernels import Device
from .._device.launch import THREADS, WARP, blocks_for, ceil_div, round_up

KERNELS = {
    "warp": ("scan_warps", "add_prefixes", "shift"),
    "sweep": ("resize_rows", "up_sweep", "clear_root", "down_sweep", "add_elements"),
    "segmented_sweep": (
        "resize_rows",
        "segmented_up_sweep",
        "clear_root",
        "segmented_down_sweep",
        "add_elements",
    ),
    "hierarchical": ("scan_chunks", "add_prefixes", "shift"),
}
"""The kernels of each variant."""


def scan(
    given: Elements, device: Device, out: Array | None, variant: str, *, exclusive: bool
) -> Array:
    """Scan along an axis, by a variant in several launches."""

    def scan_elements(x: Array, y: Array) -> None:
        scan_rows(x, operators_of(given), y, device, variant, exclusive=exclusive)

    return scan_mapped_elements(given, device, out, scan_elements)


def segmented_scan(
    given: Elements,
    segments: SegmentFlags,
    device: Device,
    out: Array | None,
    *,
    exclusive: bool,
) -> Array:
    """Scan each segment of the last axis, by an up-sweep and a down-sweep."""
    flags = segments.unpacked(given.shape[-1]).values

    def scan_elements(x: Array, y: Array) -> None:
        textbook = Textbook(operators_of(given), "segmented_sweep", device)
        textbook.sweep(x, y, exclusive, flags.reshape(x.shape[:2]))

    return scan_mapped_elements(given, device, out, scan_elements)


def scan_mapped_elements(
    given: Elements,
    device: Device,
    out: Array | None,
    scan_elements: Callable[[Array, Array], None],
) -> Array:
    """Scan by a function of x and y, both (rows, length, *element), not empty.

    A separate pass applies the map.
    """
    ops = operators_of(given)

    def scan_into(x: Array, more: Sequence[Array], y: Array) -> None:
        if y.size:
            shape = x.shape[:2] + ops.element_shape
            scan_elements(map_elements(x, ops, device, more), y.reshape(shape))

    return scan_along_axis(given, device, out, scan_into)


def scan_rows(
    x: Array, ops: Operators, y: Array, device: Device, variant: str, *, exclusive: bool
) -> None:
    """Scan the rows of x into y, both (rows, length, *element), not empty."""
    textbook = Textbook(ops, variant, device)
    if variant == "sweep":
        textbook.sweep(x, y, exclusive)
        return
    inclusive = textbook.empty(*y.shape[:2]) if exclusive else y
    if variant == "warp":
        textbook.warps(x, inclusive)
    else:
        textbook.hierarchical(x, inclusive)
    if exclusive:
        textbook.shift(inclusive, y)


def textbook_instance(name: str, ops: Operators) -> str:
    """The kernel's name with its template arguments."""
    if name != "scan_chunks":
        return f"{name}<{ops.monoid}>"
    tile = tile_for(ops.element_bytes)
    return f"{name}<{ops.monoid}, {tile.threads}, {tile.items}>"


class Textbook:
    """The launches of a variant, for a monoid on a device.

    All arrays are (rows, length, *element).
    """

    def __init__(self, ops: Operators, variant: str, device: Device) -> None:
        self.ops = ops
        self.device = device
        names = KERNELS[variant]
        instances = tuple(textbook_instance(name, ops) for name in names)
        compiled = device.kernels("scan_textbook", instances, ops.definitions)
        self.kernels = dict(zip(names, compiled, strict=True))

    def warps(self, x: Array, y: Array) -> None:
        """Inclusive: each warp scans 32 elements; then the totals the same way."""
        rows, length = x.shape[:2]
        warps = ceil_div(length, WARP)
        totals = self.empty(rows, warps)
        blocks = blocks_for(rows * warps * WARP)
        self._launch("scan_warps", blocks, THREADS, x, rows, length, y, totals)
        if warps > 1:
            self.warps(totals, totals)
            self._add_prefixes(totals, WARP, y)

    def sweep(
        self, x: Array, y: Array, exclusive: bool, flags: Array | None = None
    ) -> None:
        """Up-sweep and down-sweep over a binary tree, a launch for each level.

        `flags`, (rows, length) of bool, mark where segments begin.
        """
        rows, length = x.shape[:2]
        padded = 1 << (length - 1).bit_length()
        tree = self.empty(rows, padded)
        self._resize(x, tree)
        up, upward = "up_sweep", [tree]
        down, downward = "down_sweep", [tree]
        if flags is not None:
            begins = self.device.zeros((rows, padded), np.uint8)
            begins[:, :length] = flags
            reached = begins.copy()
            up, upward = "segmented_up_sweep", [tree, reached]
            down, downward = "segmented_down_sweep", [tree, begins, reached]
        nodes = rows * padded // 2
        distances = [1 << level for level in range(padded.bit_length() - 1)]
        for distance in distances:
            self._each(up, nodes // distance, *upward, nodes // distance, distance)
        self._each("clear_root", rows, tree, rows, padded)
        for distance in reversed(distances):
            self._each(down, nodes // distance, *downward, nodes // distance, distance)
        if exclusive:
            self._resize(tree, y)
        else:
            size = rows * length
            self._each("add_elements", size, tree, padded, x, rows, length, y)

    def hierarchical(self, x: Array, y: Array) -> None:
        """Inclusive, in six steps; a single tile holds the totals of all chunks."""
        rows, length = x.shape[:2]
        tile = tile_for(self.ops.element_bytes).size
        tiles = ceil_div(length, tile)
        chunk = round_up(tiles, tile)
        totals = self.empty(rows, ceil_div(length, chunk))
        self._scan_chunks(x, chunk, y, totals)
        if totals.shape[1] > 1:
            self._scan_chunks(totals, tile, totals, self.empty(rows, 1))
            self._add_prefixes(totals, chunk, y)

    def shift(self, x: Array, y: Array) -> None:
        """The exclusive scan y of the inclusive scan x."""
        rows, length = x.shape[:2]
        self._each("shift", rows * length, x, rows, length, y)

    def empty(self, rows: int, length: int) -> Array:
        """Allocate rows of elements."""
        shape = (rows, length, *self.ops.element_shape)
        return self.device.empty(shape, self.ops.dtype)

    def _scan_chunks(self, x: Array, chunk: int, y: Array, totals: Array) -> None:
        (rows, length), chunks = x.shape[:2], totals.shape[1]
        threads = tile_for(self.ops.element_bytes).threads
        sizes = (length, chunk, chunks)
        self._launch("scan_chunks", rows * chunks, threads, x, *sizes, y, totals)

    def _resize(self, x: Array, y: Array) -> None:
        rows, wanted = y.shape[:2]
        self._each("resize_rows", rows * wanted, x, x.shape[1], rows, wanted, y)

    def _add_prefixes(self, prefixes: Array, chunk: int, y: Array) -> None:
        rows, length = y.shape[:2]
        self._each("add_prefixes", rows * length, prefixes, rows, length, chunk, y)

    def _each(self, name: str, count: int, *arguments: Array | int) -> None:
        """Launch a kernel with a thread for each of `count` elements."""
        self._launch(name, blocks_for(count), THREADS, *arguments)

    def _launch(
        self, name: str, blocks: int, threads: int, *arguments: Array | int
    ) -> None:
        """Launch a kernel of the variant; integers are passed as 64-bit."""
        values = [np.int64(a) if isinstance(a, int) else a for a in arguments]
        self.kernels[name]((blocks,), (threads,), values)
