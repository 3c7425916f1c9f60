"""Boosting of any learners and families on a device: the launch of ``stacked.cu``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, contiguous, namespace
from ..._device.kernels import CUDA_TYPES, Device
from ..._device.launch import THREADS, WARP, pieces
from .._terms.rows import Rows
from ..basis import CompactBasis
from ..families import CudaFamily, Family
from .boosting_kernel import steps_of_launch
from .gram_kernel import (
    DOUBLE,
    ROWS_OF_A_WARP,
    balanced_chunks,
    flatten_matrices,
    moment_pitch,
    moment_sums,
)
from .path import Steps
from .problem import PreparedLearners

STATIC_SHARED_MEMORY = 4 * 1024
"""Upper limit of the kernel's static shared memory, in bytes."""
WINDOW_BYTES = 48 * 1024
"""Limit on the shared memory for the sums of a learner with many functions, in bytes;
more functions are summed one window after the other."""
SUMS_OF_A_PASS = 16
"""Number of float64 for each block and fit: ``RowSums::most``."""
SEARCH_SIZE = 4
"""Number of float64 in ``MedianSearch`` and ``ThetaSearch``."""

Numbers = NDArray[np.int64]


# ---- the designs ---------------------------------------------------------------------


class Pool:
    """Arrays that become one; an array that is given twice is stored once."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.places: dict[int, int] = {}
        self.size = 0

    def place(self, array: Array) -> int:
        """The place of an array's first element."""
        if id(array) not in self.places:
            self.places[id(array)] = self.size
            self.arrays.append(array)
            self.size += array.size
        return self.places[id(array)]

    def joined(self, dtype: Any) -> Array:
        """The elements of all arrays."""
        flat = [one.reshape(-1) for one in self.arrays]
        return namespace(flat[0]).concatenate(flat).astype(dtype, copy=False)


class Learner(NamedTuple):
    """What the launch must know of a learner.

    Attributes
    ----------
    parts : range
        The indices of its parts.
    functions : int
    width : int
        The most values of a row in one part.
    row_bytes : int
        The bytes that are read of each row.
    """

    parts: range
    functions: int
    width: int
    row_bytes: int


@dataclass(frozen=True)
class Designs:
    """K design matrices in the arrays that the kernel reads.

    Attributes
    ----------
    first : int32 array
        The first functions of all parts.
    values : float32 or float64 array
        The values of all parts.
    parts : (P, 3) int64 array on the host
        ``PartPlace`` of each part: where its first functions and its values begin, and
        its width.
    offsets : (P, 32) int32 array on the host
        Of each part's values.
    learners : tuple of Learner
    rows : int
    """

    first: Array
    values: Array
    parts: Numbers
    offsets: NDArray[np.int32]
    learners: tuple[Learner, ...]
    rows: int

    @property
    def bytes_read(self) -> int:
        """The bytes that a pass over all learners reads."""
        return self.rows * sum(one.row_bytes for one in self.learners)


def designs_of(rows: Sequence[Rows], basis: CompactBasis | None = None) -> Designs:
    """The arrays of design matrices in parts; those of a basis as they are."""
    first, values = Pool(), Pool()
    places: list[tuple[int, int, int]] = []
    offsets, learners = [], []
    dtype = np.result_type(*(p.values.dtype for one in rows for p in one.parts))
    for one in rows:
        begin = len(places)
        widths = [len(part.offsets) for part in one.parts]
        for part, width in zip(one.parts, widths, strict=True):
            places.append((first.place(part.first), values.place(part.values), width))
            offsets.append(np.pad(part.offsets, (0, WARP - width)))
        row_bytes = sum(widths) * dtype.itemsize + len(widths) * np.int32().itemsize
        parts = range(begin, len(places))
        learners.append(Learner(parts, one.functions, max(widths), row_bytes))
    arrays = basis or (first.joined(np.int32), values.joined(dtype))
    return Designs(
        *arrays,
        np.array(places, np.int64),
        np.array(offsets, np.int32),
        tuple(learners),
        len(rows[0]),
    )


# ---- the launch ----------------------------------------------------------------------


class Sums(NamedTuple):
    """How the sums of a learner's functions are kept in shared memory.

    Attributes
    ----------
    shift : int
        A warp adds a row with ``2**shift`` lanes.
    pitch : int
        Of ``SumCopies``.
    window : int
        Number of functions whose sums are kept at once.
    bytes : int
    """

    shift: int
    pitch: int
    window: int
    bytes: int


def sums_of(functions: int, width: int, limit: int) -> Sums:
    """The copies of a learner's sums that fit in `limit` bytes.

    Examples
    --------
    >>> sums_of(32, 4, limit=49152)  # 8 rows at once
    Sums(shift=2, pitch=32, window=32, bytes=16384)
    >>> sums_of(1000, 16, limit=49152)
    Sums(shift=4, pitch=16, window=768, bytes=49152)
    """
    limit = min(limit, WINDOW_BYTES)
    shift = (width - 1).bit_length()
    lanes = 1 << shift
    most = limit // (DOUBLE * moment_sums(lanes, lanes, lanes)) * lanes
    window = min(functions, most)
    pitch = moment_pitch(window, lanes, limit)
    return Sums(shift, pitch, window, DOUBLE * moment_sums(window, lanes, pitch))


def free_shared_memory(device: Device) -> int:
    """The largest dynamic shared memory of a block, in bytes."""
    return device.shared_memory_per_block - STATIC_SHARED_MEMORY


def vector_bytes(functions: int, inequalities: int) -> int:
    """Shared memory for the fit of a learner, in bytes: see ``cone.cuh``."""
    return DOUBLE * (3 * functions + inequalities * (inequalities + 4))


def first_too_large(problem: PreparedLearners, device: Device) -> int | None:
    """The first learner whose vectors do not fit in shared memory, if there is one."""
    sizes = zip(problem.rows, inequalities_of(problem).tolist(), strict=True)
    needed = [vector_bytes(design.functions, m) for design, m in sizes]
    free = free_shared_memory(device)
    return next((j for j, one in enumerate(needed) if one > free), None)


class Shape(NamedTuple):
    """The launch, and how blocks share the rows.

    Attributes
    ----------
    blocks : int
        All are resident.
    shared_bytes : int
    chunks : (K,) array
        Into how many chunks the rows of each learner are divided.
    row_chunks : int
        Into how many chunks the rows of each fit are divided.
    """

    blocks: int
    shared_bytes: int
    chunks: Numbers
    row_chunks: int


def shape_of(designs: Designs, fits: int, resident: int, shared_bytes: int) -> Shape:
    """The chunks, in proportion to what a learner reads of a row."""
    costs = np.array([one.row_bytes for one in designs.learners], np.float64)
    most = max(1, designs.rows // (ROWS_OF_A_WARP * (THREADS // WARP)))
    chunks = balanced_chunks(len(costs) * fits, resident, most)
    own = np.rint(chunks * costs / costs.mean()).clip(1, most).astype(np.int64)
    blocks = min(resident, fits * int(own.sum()))
    return Shape(blocks, shared_bytes, own, max(1, blocks // fits))


def places_of(
    designs: Designs, sums: Sequence[Sums], chunks: Numbers, inequalities: Numbers
) -> Numbers:
    """``LearnerPlace`` of each learner, (K, 12)."""
    functions = np.array([one.functions for one in designs.learners], np.int64)

    def begins(sizes: Numbers) -> Numbers:
        return np.cumsum(sizes) - sizes

    return np.stack(
        [
            [one.parts.start for one in designs.learners],
            [one.parts.stop for one in designs.learners],
            functions,
            begins(functions),
            begins(functions**2),
            begins(functions * chunks),
            chunks,
            [one.shift for one in sums],
            [one.pitch for one in sums],
            [one.window for one in sums],
            inequalities,
            begins(inequalities * (functions + inequalities)),
        ],
        axis=1,
    ).astype(np.int64)


def pairs_of(chunks: Numbers) -> NDArray[np.int32]:
    """All pairs of a learner and one of its chunks, the first chunks first."""
    pairs = [
        (j, chunk)
        for chunk in range(int(chunks.max()))
        for j in np.flatnonzero(chunks > chunk).tolist()
    ]
    return np.array(pairs, np.int32)


class FitData(NamedTuple):
    """The data of F fits, float64.

    Attributes
    ----------
    y : (n,) or (F, n) array
    weights : (F, n) or (1, n) array or None
    out_of_bag : (F, n) array or None
    start : (F, n) array
        The model before the first step; overwritten by the model after the last one.
    gram, inverse : array
        The matrices of all learners, each (systems, k, k), one after the other.
    cones : array or None
        ``C H`` and ``C H C'`` of the learners with m inequalities, each (systems, m, k)
        and (systems, m, m), those of a system together.
    inequalities : (K,) array on the host
        The number m of each learner; 0 for none.
    systems : int
        1 or F.
    """

    y: Array
    weights: Array | None
    out_of_bag: Array | None
    start: Array
    gram: Array
    inverse: Array
    cones: Array | None
    inequalities: Numbers
    systems: int


def instance(dtype: Any, family: str) -> str:
    """The name of a kernel with its template arguments."""
    return f"boost_stacked<{CUDA_TYPES[np.dtype(dtype)]}, {family}, {THREADS}>"


def make_steps(
    designs: Designs,
    fits: FitData,
    family: CudaFamily,
    learning_rate: float,
    steps: int,
    device: Device,
) -> Steps:
    """Make the steps of all fits, in one launch unless there is a watchdog."""
    free = free_shared_memory(device)
    sums = [sums_of(one.functions, one.width, free) for one in designs.learners]
    most = max(one.functions for one in designs.learners)
    sizes = zip(designs.learners, fits.inequalities.tolist(), strict=True)
    vectors = max(vector_bytes(one.functions, m) for one, m in sizes)
    needed = max(vectors, *(one.bytes for one in sums))
    (kernel,) = device.kernels(
        "stacked", (instance(designs.values.dtype, family.type),), family.definitions
    )
    count, rows = fits.start.shape
    resident = kernel.resident_blocks(THREADS, needed)
    shape = shape_of(designs, count, resident, needed)
    places = places_of(designs, sums, shape.chunks, fits.inequalities)
    pairs = pairs_of(shape.chunks)
    columns = sum(one.functions for one in designs.learners)
    xp = namespace(fits.start)

    def doubles(*shape: int) -> Array:
        return device.empty(shape, np.float64)

    def stride(array: Array | None) -> np.int64:
        return np.int64(0 if array is None or array.size == rows else rows)

    made = Steps(
        device.empty((count, steps), np.int32),
        doubles(count, steps, most),
        doubles(count, steps + 1),
        doubles(count, steps + 1),
        doubles(count, steps + 1),
    )
    given = (
        designs.first,
        designs.values,
        xp.asarray(designs.offsets),
        xp.asarray(designs.parts),
        xp.asarray(places),
        xp.asarray(pairs),
        fits.gram,
        fits.inverse,
        fits.cones,
        fits.y,
        fits.weights,
        fits.out_of_bag,
        stride(fits.y),
        stride(fits.weights),
        np.int64(rows),
        np.int32(len(designs.learners)),
        np.int32(count),
        np.int32(columns),
        np.int32(len(pairs)),
        np.int32(fits.systems),
        np.int32(shape.row_chunks),
        np.float64(family.parameter),
        np.float64(learning_rate),
    )
    work = (
        fits.start,
        doubles(count, rows),
        doubles(count * int((places[:, 2] * places[:, 6]).sum())),
        doubles(count, columns),
        doubles(count, len(designs.learners)),
        doubles(count, shape.row_chunks, SUMS_OF_A_PASS),
        doubles(count, SEARCH_SIZE),
    )
    limit = steps_of_launch(device, count * designs.bytes_read)
    launches = list(pieces(steps + 1, limit))
    arrived = device.zeros((len(launches),), np.uint64)
    for index, part in enumerate(launches):
        limits = map(np.int32, (part.start, part.stop, steps, most))
        kernel(
            (shape.blocks,),
            (THREADS,),
            (*given, *limits, *work, *made, arrived[index:]),
            shared_mem=shape.shared_bytes,
            cooperative=True,
        )
    return made


def inequalities_of(problem: PreparedLearners) -> Numbers:
    """The number of inequalities of each learner, (K,)."""
    sizes = [0 if cone is None else len(cone.constraint) for cone in problem.cones]
    return np.array(sizes, np.int64)


def cones_of(problem: PreparedLearners) -> Array | None:
    """The matrices of the inequalities, as `FitData` says; None if there are none.

    The inequalities are ``C b >= 0`` of the columns b, whose inverse is H. The
    coefficients of the functions are ``T b``, for the transform T.
    """
    found = []
    for cone in problem.cones:
        if cone is not None:
            xp = namespace(cone.root)
            half = xp.matmul(xp.asarray(cone.constraint), cone.root)  # C R, H = R R'
            root = cone.root
            if cone.transform is not None:
                root = xp.matmul(xp.asarray(cone.transform), root)
            projection = xp.matmul(half, root.transpose(0, 2, 1))
            gram = xp.matmul(half, half.transpose(0, 2, 1))
            flat = [one.reshape(len(one), -1) for one in (projection, gram)]
            found.append(xp.concatenate(flat, axis=1))
    return flatten_matrices(found) if found else None


def doubles_of(array: Array | None) -> Array | None:
    """The array as the kernel reads it, or None."""
    return None if array is None else contiguous(array, np.float64)


def boost(
    problem: PreparedLearners,
    family: Family,
    y: Array,
    start: Array,
    learning_rate: float,
    steps: int,
    out_of_bag: Array | None,
    *,
    device: Device,
) -> Steps:
    """`boost_family` on a device."""
    xp = namespace(y)
    shape = problem.fits, len(problem.rows[0])
    fits = FitData(
        contiguous(y, np.float64),
        doubles_of(problem.weights),
        doubles_of(out_of_bag),
        xp.zeros(shape) + start,
        flatten_matrices(problem.gram),
        flatten_matrices(problem.inverse),
        cones_of(problem),
        inequalities_of(problem),
        len(problem.gram[0]),
    )
    designs = designs_of(problem.rows, problem.basis)
    made = make_steps(designs, fits, family.cuda, learning_rate, steps, device)
    return made if out_of_bag is not None else made._replace(out_of_bag=None)
