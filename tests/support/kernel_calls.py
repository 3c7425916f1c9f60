"""Calls of every public function in each of its paths, for all devices.

The GPU report makes them on a GPU, tests on the second of two devices, and the race
detector on the emulator. The expected result comes from the same call with NumPy
arrays, which other tests compare with independent oracles, or from a formula. Numbers
are small integers where sums are compared exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse

import gpusolve
from gpusolve import gam, sparse
from gpusolve._blocks.reduce import VARIANTS as REDUCTIONS
from gpusolve._blocks.scan_kernel import tile_for
from gpusolve._device.kernels import CudaDevice
from gpusolve._nnls import nnls_gram_kernel
from gpusolve._nnls.nnls_gram_kernel import Team
from gpusolve._nnls.nnls_qr_kernel import (
    STATIC_SHARED_MEMORY,
    region_bytes,
    regions_that_fit,
)
from gpusolve.gam._boosting import gram_kernel
from gpusolve.studies.experiments import EXPERIMENTS

Array = Any

MOST_TILES_IF_SMALL = 16
"""Limit on tiles in small runs, on the emulator."""


class Settings(NamedTuple):
    """Settings of a run.

    Attributes
    ----------
    xp : module
        CuPy.
    small : bool
        Small inputs, for the emulator or a sanitizer, in which a kernel takes seconds.
    """

    xp: Any
    small: bool

    def size(self, large: int, small: int) -> int:
        return small if self.small else large


# ---- a call on the GPU and on the CPU ------------------------------------------------


class Call(NamedTuple):
    """A function and its arguments, as arrays on the host.

    Attributes
    ----------
    function : callable
    given : tuple
        Arrays of NumPy and SciPy are copied to the GPU with their strides.
    options : dict
        Keyword arguments.
    right : callable, optional
        Computes the expected result from the host's arrays; by default `function`.
    rtol : float, optional
        The results must be equal if it is 0.
    """

    function: Callable[..., Any]
    given: tuple[Any, ...]
    options: dict[str, Any] = {}  # noqa: RUF012
    right: Callable[..., Any] | None = None
    rtol: float = 0.0

    def expected(self) -> Any:
        if self.right is not None:
            return self.right(*map(copied, self.given))
        return copy_to_host(self.function(*map(copied, self.given), **self.options))

    def arguments_on_gpu(self, xp: Any) -> list[Any]:
        return [copy_to_gpu(xp, value) for value in self.given]

    def on(self, given: list[Any]) -> Any:
        return self.function(*given, **self.options)

    def compare(self, found: Any, right: Any) -> None:
        compare(copy_to_host(found), right, self.rtol)


Maker = Callable[[Settings], Call]
Named = tuple[str, Maker]


def case(
    name: str,
    function: Callable[..., Any],
    *given: Any,
    right: Callable[..., Any] | None = None,
    rtol: float = 0.0,
    **options: Any,
) -> Named:
    """A call whose inputs are small."""
    return name, lambda settings: Call(function, given, options, right, rtol)


def copied(value: Any) -> Any:
    return value.copy() if isinstance(value, (np.ndarray, dict)) else value


def xp_issparse(value: Any) -> bool:
    return hasattr(value, "tocsr")


def copy_to_gpu(xp: Any, value: Any) -> Any:
    """Copy arrays of NumPy and SciPy to the current device; return others unchanged."""
    if scipy.sparse.issparse(value):
        from cupyx.scipy import sparse as gpu_sparse

        return getattr(gpu_sparse, f"{value.format}_matrix")(value)
    if isinstance(value, dict):
        return {name: copy_to_gpu(xp, one) for name, one in value.items()}
    if isinstance(value, tuple):
        return tuple(copy_to_gpu(xp, one) for one in value)
    if not isinstance(value, np.ndarray):
        return value
    if value.flags.c_contiguous:
        return xp.asarray(value)
    transposed = value.swapaxes(-1, -2) if value.ndim > 1 else value
    if transposed.flags.c_contiguous:
        return xp.asarray(transposed).swapaxes(-1, -2)
    wide = xp.zeros((*value.shape[:-1], 2 * value.shape[-1]), value.dtype)
    wide[..., ::-2] = xp.asarray(np.ascontiguousarray(value))
    return wide[..., ::-2]


def copy_to_host(value: Any) -> Any:
    """Copy a result, or each element of a tuple, to NumPy arrays."""
    if isinstance(value, tuple):
        return tuple(map(copy_to_host, value))
    found = value.get() if hasattr(value, "get") else value
    return found.toarray() if scipy.sparse.issparse(found) else np.asarray(found)


def compare(found: Any, right: Any, rtol: float) -> None:
    """Raise AssertionError unless shapes, dtypes and numbers agree."""
    if isinstance(right, tuple):
        for part, expected in zip(found, right, strict=True):
            compare(part, expected, rtol)
        return
    right = np.asarray(right)
    assert found.dtype == right.dtype, f"dtype {found.dtype} instead of {right.dtype}"
    if rtol == 0 or right.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, right)
    else:
        scale = np.abs(right[np.isfinite(right)]).max(initial=0)
        np.testing.assert_allclose(found, right, rtol=rtol, atol=rtol * scale)


# ---- inputs --------------------------------------------------------------------------


def random() -> np.random.Generator:
    return np.random.default_rng(20261122)


def whole(shape: int | tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Integers from 0 to 3: their sums are exact."""
    return random().integers(0, 4, shape).astype(dtype)


def strided(array: Array) -> Array:
    """The same numbers with a negative stride of two elements."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::-2] = array
    return wide[..., ::-2]


def tiles(settings: Settings, threads: int) -> int:
    """More tiles than there are resident blocks of `threads`; few if small."""
    if settings.small:
        return MOST_TILES_IF_SMALL
    facts = settings.xp.cuda.Device().attributes
    per_multiprocessor = facts["MaxThreadsPerMultiProcessor"] // threads
    resident = facts["MultiProcessorCount"] * min(32, per_multiprocessor)
    return int(2 * resident + 3)


# ---- reduce --------------------------------------------------------------------------

SQUARE = gpusolve.Map("square", "x * x", np.square)
TIMES = gpusolve.Map("times", "x * y", np.multiply, parameters=("x", "y"))
POSITIVE = gpusolve.Map("positive", "x > 0", lambda x: x > 0, dtype=bool)


def reductions() -> Iterator[Named]:
    rows, reduce = whole((2, 5000)), gpusolve.reduce
    for variant in REDUCTIONS:
        yield case(f"reduce, {variant}", reduce, rows, axis=-1, variant=variant)
    for name, x, options in (
        ("strided", strided(whole((20, 300))), {"axis": -1}),
        ("first axis", whole((300, 20)), {"axis": 0}),
        ("no elements", whole((3, 0)), {"axis": -1}),
        ("map", rows, {"axis": -1, "map": SQUARE}),
        ("tree of a map", rows, {"axis": -1, "map": SQUARE, "variant": "tree"}),
    ):
        yield case(f"reduce, {name}", reduce, x, **options)
    yield (
        "reduce, many short rows",
        lambda s: Call(reduce, (whole((s.size(20_000, 300), 40)),), {"axis": -1}),
    )
    yield (
        "reduce, one long row",
        lambda s: Call(reduce, (whole(s.size(5_000_000, 30_000)),)),
    )
    for name, function in (
        ("reduce, map of two arrays", lambda x, y: reduce((x, y), map=TIMES)),
        ("scan, map of two arrays", lambda x, y: gpusolve.scan((x, y), map=TIMES)),
        ("map", partial(gpusolve.map, SQUARE @ TIMES)),
        ("zip", gpusolve.zip),
    ):
        yield name, partial(two_array_call, function)
    yield case("unzip", gpusolve.unzip, whole((500, 2)))
    yield case("any", gpusolve.any, whole((9, 500)), POSITIVE, axis=1)
    yield case("all", gpusolve.all, whole((9, 500)), axis=0)
    for variant in ("tree", "group", "chunked"):
        yield f"maximum_segment_sum, {variant}", partial(segment_sum, variant)


def two_array_call(function: Callable[..., Any], settings: Settings) -> Call:
    return Call(function, tuple(whole((2, settings.size(400_000, 9000)))))


def segment_sum(variant: str, settings: Settings) -> Call:
    def right(x: Array) -> Any:
        sums = np.concatenate([[0], np.cumsum(x)])
        return (sums - np.minimum.accumulate(sums)).max().astype(x.dtype)

    x = random().integers(-9, 10, settings.size(1_000_000, 3000)).astype(np.int64)
    return Call(gpusolve.maximum_segment_sum, (x,), {"variant": variant}, right)


# ---- scan ----------------------------------------------------------------------------


def affine(extra: int) -> gpusolve.Monoid:
    """Composition of maps x -> a x + b, the first map first, and `extra` counters."""
    names = range(2, 2 + extra)

    def compose(f: Array, g: Array) -> Array:
        made = [f[..., 0] * g[..., 0], f[..., 1] * g[..., 0] + g[..., 1]]
        return np.stack([*made, *(f[..., k] + g[..., k] for k in names)], axis=-1)

    return gpusolve.Monoid(
        f"affine{extra}",
        identity=(1, 0, *[0] * extra),
        cuda=(
            "a[0] * b[0]",
            "a[1] * b[0] + b[1]",
            *(f"a[{k}] + b[{k}]" for k in names),
        ),
        numpy=compose,
        commutative=False,
    )


AFFINE = {extra: affine(extra) for extra in (0, 1, 2)}


def maps(n: int, extra: int, dtype: Any) -> Array:
    """Affine maps with slopes 1 and -1, and counters of 1."""
    x = np.ones((n, 2 + extra), dtype)
    x[:, 0] = 1 - 2 * random().integers(0, 2, n)
    x[:, 1] = random().integers(0, 9, n)
    return x


def composed(x: Array) -> Array:
    """The inclusive scan of such maps."""
    slopes = np.cumprod(x[:, 0])
    sums = slopes * np.cumsum(slopes * x[:, 1])
    return np.stack([slopes, sums, *np.cumsum(x[:, 2:], axis=0).T], -1).astype(x.dtype)


def sums(x: Array) -> Array:
    return np.cumsum(x, dtype=x.dtype)


def scan_of_bytes(size: int, settings: Settings) -> Call:
    """A scan of elements of `size` bytes, over more tiles than resident blocks."""
    tile = tile_for(size)
    n = tiles(settings, tile.threads) * tile.size - 5
    if size <= 4:
        x = whole(n, {1: np.uint8, 2: np.int16, 4: np.int32}[size])
        return Call(gpusolve.scan, (x,), {}, sums)
    extra, dtype = {
        8: (0, np.int32),
        12: (1, np.int32),
        16: (0, np.int64),
        24: (1, np.int64),
        32: (2, np.int64),
    }[size]
    options = {"op": AFFINE[extra]}
    return Call(gpusolve.scan, (maps(n, extra, dtype),), options, composed)


ELEMENT_BYTES = (1, 2, 4, 8, 12, 16, 24, 32)


def scans() -> Iterator[Named]:
    for size in ELEMENT_BYTES:
        yield f"scan, {size}-byte elements", partial(scan_of_bytes, size)
    for variant, exclusive in itertools.product(SCANS, (False, True)):
        options = {"variant": variant, "exclusive": exclusive}
        name = f"scan, {variant}{', exclusive' if exclusive else ''}"
        yield name, partial(scan_rows, options)
    numbers = strided(whole((3, 9000), np.float64))
    yield case("scan, complex numbers", gpusolve.scan, whole((2, 9000), np.complex128))
    yield case("scan, maximum of strided rows", gpusolve.scan, numbers, "max")
    yield case("scan, first axis", gpusolve.scan, whole((300, 20)), axis=0)
    yield case("scan, in place", lambda x: gpusolve.scan(x, out=x), whole(9000))
    for name, segment_options in (
        ("bytes", {}),
        ("bits", {"packed": True}),
        ("exclusive", {"exclusive": True}),
        ("sweep", {"variant": "sweep"}),
    ):
        yield f"segmented_scan, {name}", partial(scan_segments, segment_options)
    # Empty segments, segments that are longer than a tile, and short segments.
    lengths = np.array([0, 3, 1, 0, 9000, 1, *[5] * 300])
    x, reduce = whole(int(lengths.sum())), gpusolve.segmented_reduce
    yield case("segment_flags", gpusolve.segment_flags, lengths)
    for dtype in (np.int32, np.int64):
        given = x.astype(dtype), lengths.astype(dtype)
        yield case(f"segmented_reduce, {np.dtype(dtype)}", reduce, *given)
    yield case(
        "segmented_reduce, offsets",
        lambda x, offsets: reduce(x, op="max", offsets=offsets),
        *(x, np.concatenate([[0], np.cumsum(lengths)])),
    )


SCANS = "look_back", "hierarchical", "sweep", "warp"


def scan_rows(options: dict[str, Any], settings: Settings) -> Call:
    x = whole((2, settings.size(400_000, 9000)), np.int64)
    return Call(gpusolve.scan, (x,), options)


def scan_segments(options: dict[str, Any], settings: Settings) -> Call:
    n = settings.size(3_000_000, 9000)
    flags = random().random(n) < 0.001
    if options.get("packed"):
        flags = np.packbits(flags, bitorder="little")
    return Call(gpusolve.segmented_scan, (whole(n, np.int32), flags), options)


# ---- partition -----------------------------------------------------------------------


def partitions() -> Iterator[Named]:
    yield "stable_partition, mask", partial(partition, False)
    yield "stable_partition, predicate", partial(partition, True)
    two_scans = partial(partition, False, variant="two_scans")
    yield "stable_partition, two scans", two_scans
    places = np.append(random().permutation(400), 999)
    target = np.zeros((500, 3), np.float32)
    yield case("scatter", gpusolve.scatter, target, places, whole((401, 3)))
    yield case("replicate", partial(gpusolve.replicate, 500), whole(3))


def partition(predicate: bool, settings: Settings, **options: Any) -> Call:
    x = whole(settings.size(3_000_000, 9000), np.int32)
    mask = POSITIVE if predicate else x > 0
    return Call(gpusolve.stable_partition, (x, mask), options)


# ---- gemv ----------------------------------------------------------------------------


def gemvs() -> Iterator[Named]:
    for variant in ("naive", "threads_per_dot"):
        yield gemv(variant, (40, 70), variant=variant)
    # A segment of a row has several tiles of x.
    yield gemv("threads_per_row", (3, 17_000), variant="threads_per_row")
    yield gemv("a warp for a row", (40, 300))
    yield gemv("blocks for a row", (3, 40_000))
    yield gemv("rows of columns", (70, 40), transpose=True)
    yield gemv("long columns", (40_000, 3), transpose=True)
    x = whole(32)
    yield (
        "gemv, very many rows",
        lambda s: Call(gpusolve.gemv, (whole((s.size(2**20, 999), 32)), x)),
    )
    many = whole((8, 50)), whole((3, 50))
    yield case("gemv, a matrix for many vectors", gpusolve.gemv, *many)
    apart = strided(whole((30, 50))), strided(whole(50))
    yield case("gemv, strided", gpusolve.gemv, *apart)
    for dtype in (np.float16, np.float64, np.int32):
        yield gemv(str(np.dtype(dtype)), (40, 70), dtype)


def gemv(
    name: str, shape: tuple[int, int], dtype: Any = np.float32, **options: Any
) -> Named:
    given = whole(shape, dtype), whole(shape[0 if "transpose" in options else 1], dtype)
    return case(f"gemv, {name}", gpusolve.gemv, *given, **options)


# ---- sparse --------------------------------------------------------------------------


def sparse_products() -> Iterator[Named]:
    for method in ("linear", "scratchpad", "binary", "even", "merge", "gallop"):
        yield f"sparse.multiply, {method}", partial(multiply, method)
    rows, columns = np.int32([3, 1, 1, 0] * 50), np.int32([2, 5, 5, 9] * 50)
    places = np.ones(200, np.float32), (rows, columns)
    unsorted = scipy.sparse.coo_matrix(places, shape=(200, 200))
    given = unsorted, random_matrix(300)
    yield case("sparse.multiply, unsorted with duplicates", sparse.multiply, *given)
    for name, format, options in (
        *((format, format, {}) for format in ("coo", "csr", "csc")),
        ("segmented_scan", "csr", {"method": "segmented_scan"}),
        ("least sums", "csr", {"add": "min", "multiply": "add"}),
    ):
        yield f"sparse.spmv, {name}", partial(spmv, format, options)
    x = whole((3, 500))
    yield (
        "sparse.SpMVPlan, many vectors",
        lambda s: Call(lambda A, x: sparse.SpMVPlan(A)(x), (heavy_row(s), x)),
    )


def random_matrix(entries: int, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(40_000, entries, replace=False))
    values = rng.integers(1, 9, entries).astype(np.float32)
    rows, columns = np.divmod(places.astype(np.int32), 200)
    return scipy.sparse.coo_matrix((values, (rows, columns)), shape=(200, 200))


def multiply(method: str, settings: Settings) -> Call:
    entries = settings.size(20_000, 2000)
    given = random_matrix(entries // 4), random_matrix(entries, 2)
    return Call(sparse.multiply, given, {"method": method})


def heavy_row(settings: Settings) -> Any:
    """A CSR matrix with empty and short rows, and a row of many tiles."""
    rng = random()
    counts = rng.integers(0, 9, 300)
    counts[7] = settings.size(1_000_000, 9000)
    entries = int(counts.sum())
    columns = rng.integers(0, 500, entries).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    values = rng.integers(0, 2, entries).astype(np.float32)
    return scipy.sparse.csr_matrix((values, columns, offsets), shape=(300, 500))


def spmv(format: str, options: dict[str, Any], settings: Settings) -> Call:
    matrix = heavy_row(settings)
    if format != "csr":
        matrix = matrix.asformat(format)
    return Call(sparse.spmv, (matrix, whole(500)), options)


# ---- nnls ----------------------------------------------------------------------------


def fields(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A call whose last argument has options; it returns fields of its result."""

    def call(*given: Any) -> Any:
        *arrays, options = given
        result = function(*arrays, **options)
        found = (getattr(result, name) for name in names)
        return tuple(one() if callable(one) else one for one in found)

    return call


solve_nnls = fields(gpusolve.nnls, "x", "rnorm", "status")
"""The parts of the result that do not depend on rounding."""


def nnls_problems() -> Iterator[Named]:
    for regions in (3, 2, 1, 0):
        name = f"nnls, {regions} of 3 regions in shared memory"
        yield name, partial(nnls_in_regions, regions)
    for name, (team, m, n) in TEAMS.items():
        yield f"nnls, by {name}", partial(nnls_by_team, team, m, n)
    A, b = systems_of(5, 30, 12)
    penalties = {"l1": 0.1, "l2": 0.2, "warm_start": np.ones((5, 12))}
    single = A.astype(np.float32), b.astype(np.float32)
    shared = positive((30, 12)), random().standard_normal((40, 30))
    for name, given, rtol in (
        ("strided", (strided(A), strided(b), {}), 1e-8),
        ("Fortran order", (fortran_ordered(A), b, {}), 1e-8),
        ("penalties and a warm start", (A, b, penalties), 1e-8),
        ("float32", (*single, {}), 1e-4),
        ("a shared matrix", (*shared, {}), 1e-8),
    ):
        yield case(f"nnls, {name}", solve_nnls, *given, rtol=rtol)
    yield (
        "nnls, many systems",
        lambda s: Call(
            solve_nnls, (*systems_of(s.size(5000, 50), 30, 12), {}), rtol=1e-8
        ),
    )
    for name in EXPERIMENTS:
        yield f"nnls, {name} of the paper", partial(nnls_of_the_paper, name)


def bounded_problems() -> Iterator[Named]:
    """Bounds, weights, sums, penalties and linear constraints."""
    x_status = "x", "rnorm", "status"
    A, b = systems_of(5, 30, 12)
    lower, upper = np.full(12, -0.1), np.full(12, 0.4)
    lower[:2], upper[1:4] = -np.inf, np.inf
    bounded = {"bounds": (lower, upper), "weights": positive(b.shape), "sum_to": 0.5}
    for method in ("qr", "gram", "auto"):
        solve = fields(gpusolve.lsq_linear, *x_status)
        given = A, b, {**bounded, "method": method}
        yield case(f"lsq_linear, {method}", solve, *given, rtol=1e-8)
    yield "lsq_linear, sparse", partial(sparse_least_squares, {})
    yield "lsq_linear, sparse, with a sum", partial(sparse_least_squares, {"sum_to": 1})
    solve = fields(gpusolve.nnls, "x", "rnorm", "seminorm")
    penalty = {"L": "second", "lam": 0.1}
    yield case("nnls, Tikhonov's penalty", solve, A, b, penalty, rtol=1e-8)
    G, c = A.swapaxes(-1, -2) @ A, (b[:, None] @ A)[:, 0]
    solve = fields(gpusolve.bounded_qp, "x", "status")
    yield case("bounded_qp", solve, G, c, {}, rtol=1e-6)
    yield case("regularization_path", regularization_path, A, b, rtol=1e-8)
    rng = random()
    limits = 0.1 + rng.random((5, 8))
    limits[-1] = -1e3  # this system has no solution
    rows = {
        "bounds": (-1, 1),
        "A_ub": rng.standard_normal((8, 12)),
        "b_ub": limits,
        "A_eq": np.ones((2, 12)),
        "b_eq": np.ones(2),
    }
    parts = "x", "dual_ub", "status"
    solve = fields(gpusolve.lsq_linear, *parts)
    yield case("lsq_linear, linear constraints", solve, A[0], b, rows, rtol=1e-8)
    solve = fields(gpusolve.bounded_qp, *parts)
    products = A[0].T @ A[0], b @ A[0]
    yield case("bounded_qp, linear constraints", solve, *products, rows, rtol=1e-8)
    yield from many_constraints()


def many_constraints() -> Iterator[Named]:
    """Products and gradients are rounded in float32."""
    rng = random()
    for m, n, rows, dtype, options in (
        (40, 24, 40, "float64", {"l1": 0.1, "l2": 0.1, "sum_to": 0.25}),
        (24, 40, 36, "float32", {}),
    ):
        given = {
            "bounds": (-0.5, 0.5),
            "A_ub": rng.standard_normal((rows, n)).astype(dtype),
            "b_ub": np.full(rows, 0.125, dtype),
            "A_eq": 1 + np.arange(n, dtype=dtype)[None],
            "b_eq": np.ones(1, dtype),
        }
        A = rng.standard_normal((3, m, n)).astype(dtype)
        b = 4 * rng.standard_normal((3, m)).astype(dtype)
        program = A.swapaxes(1, 2) @ A + np.eye(n, dtype=dtype), (b[:, None] @ A)[:, 0]
        for function, arrays in (
            (gpusolve.lsq_linear, (A, b)),
            (gpusolve.bounded_qp, program),
        ):
            name = f"{function.__name__}, many constraints, {dtype}"
            yield case(name, fields(function, "status"), *arrays, given | options)


def sparse_least_squares(options: dict[str, Any], settings: Settings) -> Call:
    """Residuals that cancel, so that all of these are computed in twofold precision."""
    rng, shape = random(), (settings.size(20_000, 60), settings.size(300, 12))
    A = np.where(rng.random(shape) < 0.1, rng.random(shape), 0)
    b = rng.random((5, shape[1])) @ A.T + 1e-9 * rng.standard_normal((5, shape[0]))
    given = {"bounds": (0, 0.9), "weights": abs(b[0]), **options}
    names = "x", "rnorm", "status", "residual", "variance"
    solve = fields(gpusolve.lsq_linear, *names)
    return Call(solve, (scipy.sparse.csr_array(A), b, given), {}, None, 1e-6)


def regularization_path(A: Array, b: Array) -> Any:
    """What every criterion needs: the norms and the degrees of freedom."""
    path = gpusolve.regularization_path(A, b, "first", [0.01, 0.1, 1.0, 10.0])
    chosen = path.at(path.choose("discrepancy", sigma=0.1))
    return path.x, path.seminorm, path.gcv, chosen.x


def positive(shape: tuple[int, ...]) -> Array:
    return random().random(shape)


def fortran_ordered(array: Array) -> Array:
    if array.ndim < 3:
        return array
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def systems_of(count: int, m: int, n: int) -> tuple[Array, Array]:
    """Systems of full rank; about half of the entries of x are zero."""
    rng = random()
    A = rng.random((count, m, n))
    x = np.maximum(0, rng.standard_normal((count, n, 1)))
    return A, (A @ x)[..., 0] + 0.1 * rng.standard_normal((count, m))


def shape_in_regions(regions: int, limit: int) -> tuple[int, int]:
    """The shape of a float64 system with this number of regions in shared memory."""
    side = math.isqrt(limit // 8)
    return {
        3: (30, 20),
        2: (limit // 32, 8),
        1: (side + 10, side),
        0: (limit // 16 + 1, 4),
    }[regions]


def nnls_in_regions(regions: int, settings: Settings) -> Call:
    index = settings.xp.cuda.Device().id
    limit = CudaDevice(index).shared_memory_per_block - STATIC_SHARED_MEMORY
    m, n = shape_in_regions(regions, limit)
    found = regions_that_fit(region_bytes(m, n, 8, min(m, n)), limit)
    assert found == regions, f"{m} x {n} has {found} regions in shared memory"
    given = *systems_of(2, m, n), {"method": "qr"}
    return Call(solve_nnls, given, rtol=1e-8)


TEAMS = {
    "a lane": (Team("LaneTeam<1, 4>", 128, 1, 4), 3, 3),
    "8 lanes": (Team("LaneTeam<8, 2>", 128, 8, 2), 30, 12),
    "warps": (Team("LaneTeam<32, 1>", 128, 32), 30, 20),
    "blocks": (Team("BlockTeam", 128), 60, 40),
    "the grid": (Team("GridTeam", 128), 24, 16),
}
"""Each kind of team of the Gram method, and the size of its systems."""


def nnls_by_team(team: Team, m: int, n: int, settings: Settings) -> Call:
    systems = settings.size(300, 3) if team.is_small else 3
    given = *systems_of(systems, m, n), {"method": "gram"}
    return Call(by_team(team, solve_nnls), given, rtol=1e-8)


def by_team(team: Team, solve: Callable[..., Any]) -> Callable[..., Any]:
    """The call, whose kernel of the Gram method is of this team.

    Shared memory holds few of the rows that are scaled. `choose` would remember the
    team of an earlier call.
    """

    def call(*given: Any) -> Any:
        choose = nnls_gram_kernel.choose.__wrapped__
        with (
            mock.patch.object(nnls_gram_kernel, "teams_for", return_value=[team]),
            mock.patch.object(nnls_gram_kernel, "choose", choose),
            mock.patch.object(nnls_gram_kernel, "HELD_ROWS", 32),
        ):
            return solve(*given)

    return call


def nnls_of_the_paper(name: str, settings: Settings) -> Call:
    """Ill-conditioned systems, whose x depends on rounding."""
    sizes = {"size": 24} if settings.small else {}
    given = EXPERIMENTS[name](settings.size(12, 2), **sizes)
    return Call(fields(gpusolve.nnls, "rnorm"), (*given, {}), rtol=1e-6)


# ---- least squares, in the rare statements of the kernels ----------------------------


def demanding_systems() -> Iterator[Named]:
    """Systems that append, remove and refuse variables; the second has NaN."""
    lanes, warp, block, grid = (TEAMS[name][0] for name in list(TEAMS)[1:])
    for kind, team, m, n, options in (
        ("QR", None, 140, 60, {"method": "qr"}),
        ("QR, fewer rows", None, 16, 24, {"method": "qr"}),
        ("QR, few steps", None, 100, 30, {"method": "qr", "maxiter": 5}),
        ("lanes", lanes, 6, 7, {"method": "auto"}),
        ("warps", warp, 16, 12, {"method": "auto"}),
        ("blocks", block, 50, 40, {"method": "auto"}),
        ("the grid", grid, 16, 24, {"method": "auto"}),
    ):
        for make in (bounded, dependent, similar):
            A, b, limits = make(random(), m, n)
            solve = fields(gpusolve.lsq_linear, "rnorm", "status")
            solve, given = by_team(team, solve) if team else solve, limits | options
            name = f"lsq_linear, {make.__name__} columns, {kind}"
            yield case(name, solve, A, b, given, rtol=1e-6)
    solve = fields(gpusolve.nnls, "rnorm", "status")
    for m, n, options in (
        (16, 24, {}),
        (8, 10, {}),
        (12, 10, {"l1": 0.1, "l2": 0.1, "maxiter": 9}),
        (520, 6, {}),
    ):
        A, b, _ = bounded(random(), m, n)
        given = {"method": "mgs", "warm_start": np.ones(n), **options}
        yield case(f"nnls, as published, {m} x {n}", solve, A, b, given, rtol=1e-6)


Systems = tuple[Array, Array, dict[str, Any]]


def bounded(rng: np.random.Generator, m: int, n: int) -> Systems:
    """Bounds, weights, penalties, a start, and if m > n a sum for each system."""
    A, b = rng.random((3, m, n)) - 0.2, 2 * rng.standard_normal((3, m))
    b[1, 0] = np.nan
    lower = rng.random((3, n)) - 0.8
    options = {
        "bounds": (lower, lower + 0.5),
        "weights": rng.random((3, m)),
        "l1": 0.1 * rng.random((3, n)),
        "l2": 0.1 * rng.random((3, n)),
        "warm_start": lower + rng.choice([0, 0.2, 0.5], (3, n)),
    }
    return A, b, options | ({"sum_to": lower.sum(axis=1) + n / 4} if m > n else {})


def dependent(rng: np.random.Generator, m: int, n: int) -> Systems:
    """Penalties on dependent columns: x moves along the dependences to bounds."""
    A, b = rng.standard_normal((2, 4, 9)), rng.standard_normal((2, 4))
    return A, b, {"bounds": (-0.3, 0.5), "l1": rng.random((2, 9)), "sum_to": 0.3}


def similar(rng: np.random.Generator, m: int, n: int) -> Systems:
    """Columns that differ by 1e-3: the first solution is corrected."""
    m = max(m, n + 10)
    A = rng.random((3, m, 1)) + 1e-3 * rng.random((3, m, n))
    b = (A @ rng.random((3, n, 1)))[..., 0] + 1e-4 * rng.standard_normal((3, m))
    return A, b, {"bounds": (0, np.inf), "warm_start": np.ones((3, n))}


# ---- gam -----------------------------------------------------------------------------


def boosted_models() -> Iterator[Named]:
    yield "gam.BoostedGAM, path", boosting
    yield "gam.BoostedGAM, weights", estimator
    for name in RESPONSES:
        yield f"gam.BoostedGAM, {name}", partial(boosted_family, name)
    yield "gam.BoostedDistribution", distribution


RESPONSES: dict[str, Callable[[Array], Array]] = {
    "huber": lambda y: y,
    "gamma": lambda y: y,
    "negative_binomial": lambda y: y,
    "prop_odds": lambda y: np.digitize(y, [3.0, 8.0]) + 0.0,
    "coxph": lambda y: gam.survival_times(y, y % 3 > 0),
}
"""The response of each family, from counts above 0."""


def boosted_family(name: str, settings: Settings) -> Call:
    """Steps of a spline with inequalities, a spline, a factor and stumps."""
    rows = settings.size(20_000, 300 if name == "huber" else 60)
    X = random().random((rows, 3))
    X[:, 2] = np.floor(3 * X[:, 2])
    wave = 1 + 2 * np.sin(15 * X[:, 0]) + np.sin(6 * X[:, 1])
    y = RESPONSES[name](1.0 + random().poisson(np.exp(wave)))
    terms = [
        gam.bmono(0, constraint="positive", knots=9),
        gam.bbs(1, knots=5),
        gam.brandom(2, df=2),
    ]
    terms += [gam.btree(1, bins=9)]
    folds = random().integers(0, 3, (rows, 2))

    def path(X: Array, y: Array) -> Any:
        options = {"family": name, "max_iter": 6, "method": "stacked"}
        model = gam.BoostedGAM(terms, **options).fit(X, y)
        cv = gam.cv_stop(model, folds, max_iter=6)
        return model.path_.selected, model.path_.risk, cv.risk

    return Call(sharing(settings, path), (X, y), {}, None, 1e-7)


def sharing(settings: Settings, fit: Callable[..., Any]) -> Callable[..., Any]:
    """The call; if it is small, several blocks still share the rows of a learner."""
    if not settings.small:
        return fit
    return mock.patch.object(gram_kernel, "ROWS_OF_A_WARP", 8)(fit)


def distribution(settings: Settings) -> Call:
    X, y = effects(settings)

    def path(X: Array, y: Array) -> Any:
        options = {"family": "negative_binomial", "max_iter": 6, "method": "stacked"}
        made = gam.BoostedDistribution(n_basis=8, **options).fit(X, y)
        return made.selected_, made.risk_

    counts = np.floor(3 + 2 * y)
    return Call(sharing(settings, path), (X, counts), {}, None, 1e-7)


def effects(settings: Settings) -> tuple[Array, Array]:
    X = random().random((settings.size(20_000, 90), settings.size(20, 3)))
    return X, np.sin(6 * X[:, 1]) + X[:, 2]


def path_of(X: Array, y: Array, **options: Any) -> gam.Path:
    return gam.BoostedGAM(n_basis=8, method="stacked", **options).fit(X, y).path_


def boosting(settings: Settings) -> Call:
    def path(X: Array, y: Array) -> Any:
        made = path_of(X, y, max_iter=10, learning_rate=0.5)
        return made.selected, made.updates, made.risk

    return Call(path, effects(settings), {}, None, 1e-7)


def estimator(settings: Settings) -> Call:
    weights = random().integers(0, 3, len(effects(settings)[1])).astype(float)

    def predictions(X: Array, y: Array, weights: Array) -> Any:
        model = gam.BoostedGAM(n_basis=8, max_iter=8)
        fitted = model.fit(X, y, weights)
        return fitted.predict(X), fitted.partial_effect(1, X[:, 1])

    return Call(predictions, (*effects(settings), weights), {}, None, 1e-7)


def named_calls() -> Iterator[Named]:
    """All calls: the solvers before the blocks."""
    yield from nnls_problems()
    yield from bounded_problems()
    yield from demanding_systems()
    yield from scans()
    yield from boosted_models()
    yield from reductions()
    yield from sparse_products()
    yield from partitions()
    yield from gemvs()
