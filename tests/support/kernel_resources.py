"""Registers, shared memory and spills of every kernel, from NVRTC without a GPU.

The launchers determine instances and block sizes. ``make tables`` writes the table.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gpusolve
from gpusolve._blocks.operators import ELEMENT_TYPES, operators
from gpusolve._blocks.partition_kernel import items_for, predicate_operators
from gpusolve._blocks.reduce_kernel import atomic_instance, chunked_instances
from gpusolve._blocks.scan_kernel import scan_instance, tile_for
from gpusolve._blocks.segments_kernel import segmented_reduce_instance
from gpusolve._device.kernels import CUDA_TYPES, OPTIONS, source_directory, source_of
from gpusolve._device.launch import THREADS
from gpusolve._gemv.gemv_kernel import (
    COLUMN_ADDERS,
    ROWS_OF_BLOCK,
    THREADS_OF_DOT,
    TILE_OF_X,
    Operands,
    axpys_instance,
    axpys_of,
    dots_instance,
    dots_of,
    operands_of,
    uses_dots,
)
from gpusolve._nnls import nnls_qr_kernel
from gpusolve._nnls.launch_arguments import BOUNDS
from gpusolve._nnls.nnls_gram_kernel import Size, teams_for
from gpusolve.gam._boosting.gram_kernel import instance as learners_instance
from gpusolve.gam._boosting.stacked_kernel import instance as stacked_instance
from gpusolve.gam._terms.basis_kernel import instance as basis_instance
from gpusolve.monoid import as_monoid, segment_sums_of_one
from gpusolve.sparse._coo_multiply_kernel import (
    gallop_instances,
    merge_instances,
)
from gpusolve.sparse._csr import CompressedRows
from gpusolve.sparse._semiring import semiring
from gpusolve.sparse._spmv_kernel import multiply_instance
from gpusolve.sparse._spmv_kernel import tile_for as spmv_tile_for
from gpusolve.studies import _nnls_mgs_kernel
from gpusolve.studies._coo_versions_kernel import (
    even_instances,
    scratchpad_instance,
    search_instances,
)
from gpusolve.studies._qr_steps_kernel import THREADS as QR_STEPS
from gpusolve.studies._qr_steps_kernel import instance as qr_steps_instance

ARCHITECTURES = (75, 80, 90, 100)
CUPY_OPTIONS = ("--device-as-default-execution-space", "-ftz=true")
"""Options that CuPy appends to the options of a kernel."""

TABLE = Path(__file__).with_suffix(".md")

SEGMENTS = ("none", "rows", "bytes", "bits")
"""The forms of ``scan.cu``."""

TEXTBOOK = (
    "scan_warps",
    "up_sweep",
    "down_sweep",
    "clear_root",
    "segmented_up_sweep",
    "segmented_down_sweep",
    "add_prefixes",
    "shift",
    "resize_rows",
    "add_elements",
)
"""The kernels of ``scan_textbook.cu`` that are templates over the monoid alone."""

IN_TEXTBOOK = {("add", "float32"), ("mssp", "float64")}
"""The operators of these kernels, which are a study: one small, one large."""

LARGEST = gpusolve.Monoid(
    "sums_of_16",
    (0,) * 16,
    tuple(f"a[{k}] + b[{k}]" for k in range(16)),
    np.add,
    commutative=True,
)
"""Elements of 128 bytes for float64, the largest that no kernel spills."""

REALS = (np.dtype(np.float32), np.dtype(np.float64))
"""The dtypes of the solvers."""

INDICES = ("int", "long long")
"""The types of the indices of a sparse matrix."""


class Source(NamedTuple):
    """A file of kernels and its instances for one choice of operators."""

    operators: str
    file: str
    definitions: str
    instances: tuple[str, ...]


class Resources(NamedTuple):
    """What ``ptxas`` reports for a kernel on one architecture."""

    operators: str
    instance: str
    architecture: int
    registers: int
    shared_bytes: int
    stack_bytes: int
    spilled_bytes: int


class Compiled(NamedTuple):
    """Machine code, the log of ``ptxas -v``, and the symbol of each instance."""

    cubin: bytes
    log: str
    symbols: tuple[str, ...]


class CompileError(RuntimeError):
    """A source does not compile; the message is NVRTC's log."""


def plain(file: str, instances: Iterable[str], operators: str = "") -> Source:
    """A source without definitions of operators."""
    return Source(operators, file, "", tuple(instances))


def all_sources() -> list[Source]:
    """Every kernel, for operators and dtypes of every size and kind."""
    each = list(itertools.product(REALS, (False, True)))
    numbers = [CUDA_TYPES[one] for one in REALS]
    return [
        plain("nnls_qr", itertools.starmap(nnls_qr_kernel.instance, each)),
        plain("nnls_constrained", (f"nnls_constrained<{one}>" for one in numbers)),
        plain("nnls_mgs", itertools.starmap(_nnls_mgs_kernel.instance, each)),
        plain("qr_steps", (qr_steps_instance(name, REALS[0]) for name in QR_STEPS)),
        *_sources_of_nnls_gram(numbers),
        *_sources_of_monoids(),
        plain("segments", (f"split_path<{one}>" for one in INDICES)),
        *_sources_of_two_arrays(),
        *_sources_of_partition(),
        *_sources_of_sparse_products(),
        *_sources_of_spmv(),
        *_sources_of_gemv(),
        *_sources_of_boosting(),
    ]


def _sources_of_nnls_gram(numbers: list[str]) -> Iterator[Source]:
    """The kernels for each team: few large systems, and many small systems."""
    sizes = Size(2000, 2000), Size(3, 3), Size(3, 3, BOUNDS)
    teams = (team.name for size in sizes for team in teams_for(size, True))
    for team in dict.fromkeys(teams):
        yield plain("nnls_gram", (f"nnls_gram<{number}, {team}>" for number in numbers))
    yield plain("nnls_gram", (f"scale_columns<{number}>" for number in numbers))


def _sources_of_monoids() -> Iterator[Source]:
    watched: dict[str | gpusolve.Monoid, str] = {
        "add": "int8 int32 int64 float16 float32 float64 complex128",
        "max": "float32",
        "logical_and": "float64",
        "mssp": "int32 float64",
        LARGEST: "float64",
    }
    for op, dtypes in watched.items():
        monoid = as_monoid(op)
        for name in dtypes.split():
            dtype = np.dtype(name)
            map = segment_sums_of_one if op == "mssp" else None
            ops = operators(monoid, dtype, map)
            tile = tile_for(ops.element_bytes)
            atomic = monoid.commutative and ops.element_bytes <= 8
            in_blocks = monoid.commutative and ops.element_bytes <= 64
            instances = {
                "map": (f"map_elements<{ops.map}>",),
                "reduce": (
                    f"reduce_tree<{ops.monoid}>",
                    f"reduce_group<{ops.monoid}>",
                    f"reduce_chunked<{ops.monoid}, {ops.map}>",
                    *((f"reduce_by_reduce512<{ops.monoid}>",) if in_blocks else ()),
                    *(
                        atomic_instance(monoid, ops, by_warp=by_warp)
                        for by_warp in (True, False)
                        if atomic
                    ),
                ),
                "scan": tuple(
                    scan_instance(ops._replace(map=ops.keep), segments)
                    for segments in SEGMENTS
                ),
                "segments": (
                    segmented_reduce_instance(ops._replace(map=ops.keep)),
                    f"add_carries<{ops.monoid}>",
                ),
            }
            if (op, name) in IN_TEXTBOOK:
                instances["scan_textbook"] = (
                    *(f"{kernel}<{ops.monoid}>" for kernel in TEXTBOOK),
                    f"scan_chunks<{ops.monoid}, {tile.threads}, {tile.items}>",
                )
            for file, names in instances.items():
                yield Source(f"{monoid.name} {name}", file, ops.definitions, names)


def _sources_of_two_arrays() -> Iterator[Source]:
    """The kernels that read several arrays, for products of two."""
    times = gpusolve.Map("times", "x * y", np.multiply, parameters=("x", "y"))
    single = np.dtype(np.float32)
    ops = operators(as_monoid("add"), single, times, (single,))
    for file, instance in {
        "map": f"map_elements<{ops.map}{ops.more}>",
        "reduce": chunked_instances(ops)[0],
        "scan": scan_instance(ops, "none"),
    }.items():
        yield Source("add two float32", file, ops.definitions, (instance,))


def _sources_of_partition() -> Iterator[Source]:
    even = gpusolve.Map("even", "x % 2 == 0", lambda x: x % 2 == 0, dtype=bool)
    for name, test in (("int8", even), ("float32", None), ("complex128", None)):
        dtype = np.dtype(name)
        predicate = predicate_operators(test, dtype)
        shape = f"{THREADS}, {items_for(dtype)}"
        number = CUDA_TYPES[dtype]
        kernels = f"count_kept<{predicate.map}, {shape}>", f"move<{number}, {shape}>"
        yield Source(name, "partition", predicate.definitions, kernels)
        yield Source(name, "scatter", predicate.definitions, (f"scatter<{number}>",))


def _sources_of_sparse_products() -> Iterator[Source]:
    indices = np.dtype(np.int32), np.dtype(np.int64)
    makers = (f"make_keys<{CUDA_TYPES[index]}>" for index in indices)
    splits = (merge_instances(np.dtype(bool), index)[0] for index in indices)
    yield plain("coo_multiply", (*makers, *splits), "keys")
    for dtype in map(np.dtype, ("float32", "complex128")):
        versions = [
            (
                *search_instances("LinearSearch", dtype, index),
                *search_instances("BinarySearch", dtype, index),
                scratchpad_instance(dtype, index),
                *even_instances(dtype, index),
            )
            for index in indices
        ]
        yield plain("coo_versions", itertools.chain(*versions), dtype.name)
    for name in ("bool", "int8", "float16", "float32", "float64", "complex128"):
        dtype = np.dtype(name)
        products = [
            (merge_instances(dtype, index)[1], *gallop_instances(dtype, index))
            for index in indices
        ]
        yield plain("coo_multiply", itertools.chain(*products), name)


def _sources_of_spmv() -> Iterator[Source]:
    for add, multiply, entry, number, index in (
        ("add", "mul", "float32", "float32", "int32"),
        ("add", "mul", "float64", "float64", "int64"),
        ("add", "mul", "complex128", "complex128", "int64"),
        ("add", "mul", "bool", "complex128", "int64"),
        ("add", "mul", "float16", "float16", "int32"),
        ("min", "add", "float32", "float32", "int32"),
        ("logical_or", "logical_and", "bool", "bool", "int32"),
    ):
        of_A, of_x = np.dtype(entry), np.dtype(number)
        ops = semiring(as_monoid(add), as_monoid(multiply), of_A, of_x)
        none = np.empty(0, index)
        matrix = CompressedRows(none, none, np.empty(0, of_A), (0, 0))
        operands = ", ".join(CUDA_TYPES[one] for one in (of_A, of_x, none.dtype))
        instances = (
            multiply_instance(matrix, of_x, spmv_tile_for(of_A, ops.result)),
            f"multiply_entries<Product, {operands}>",
        )
        name = f"{add}-{multiply} {entry} {number}"
        yield Source(name, "spmv", ops.definitions, instances)


def _sources_of_gemv() -> Iterator[Source]:
    M, P = COLUMN_ADDERS
    for name in ("float16", "float32", "float64"):
        dtype = np.dtype(name)
        number = CUDA_TYPES[dtype]
        instances = (
            f"gemv_naive<{number}>",
            f"gemv_threads_per_dot<{number}, {ROWS_OF_BLOCK}, {THREADS_OF_DOT}>",
            f"gemv_threads_per_row<{number}, {THREADS}, {TILE_OF_X}>",
            f"gemv_add_columns<{number}, {M}, {P}>",
            *dict.fromkeys(map(_gemv_instance, _gemv_operands(dtype))),
        )
        yield Source(name, "gemv", ELEMENT_TYPES, instances)


def _gemv_operands(dtype: np.dtype[Any]) -> Iterator[Operands]:
    """Operands for every way to launch: few or many rows, short or long, transposed.

    With one spare column, rows are not whole packs apart.
    """
    for rows, columns in ((64, 64), (2, 2**20), (2**17, 256), (2**20, 16)):
        for spare in (0, 1):
            A = np.empty((rows, columns + spare), dtype)[:, :columns]
            yield operands_of(A, np.empty(columns, dtype), ())
            yield operands_of(A.T, np.empty(rows, dtype), ())


def _gemv_instance(operands: Operands) -> str:
    """The instance that the launcher chooses; chunks are summed by another kernel."""
    given = operands.dtype
    if uses_dots(operands):
        dots = dots_of(operands)
        return dots_instance(given, _sums(operands, dots.chunks), dots)
    axpys = axpys_of(operands)
    return axpys_instance(given, _sums(operands, axpys.chunks), axpys)


def _sums(operands: Operands, chunks: int) -> np.dtype[Any]:
    return operands.dtype if chunks == 1 else operands.sums_dtype


FAMILIES = {
    "boost_stacked": "Gaussian Poisson BinomialHalfLogit Huber<Nuisance::median> "
    "Gamma<Nuisance::shape> NegativeBinomial<Nuisance::theta> PropOdds "
    "LogNormal<Nuisance::scale> CoxPH",
    "boost_coupled": "Multinomial distributions::Gaussian distributions::StudentT",
}
"""The families of each kernel of ``stacked.cu``, for each kind of nuisance."""


def _sources_of_boosting() -> Iterator[Source]:
    """A program of ``stacked.cu`` for each family, as it is compiled."""
    widths = list(itertools.product(REALS, (1, 4, 6)))
    empty = (np.empty((0, width), dtype) for dtype, width in widths)
    yield plain("gram", (learners_instance("gram_matrices", one) for one in empty))
    for kernel, families in FAMILIES.items():
        for name in families.split():
            instances = (stacked_instance(dtype, name, kernel) for dtype in REALS)
            yield plain("stacked", instances)
    every = itertools.product(REALS, REALS, (1, 4, 6))
    yield plain("basis", itertools.starmap(basis_instance, every))


@functools.cache
def compile_source(source: Source, architecture: int) -> Compiled:
    """Compile the instances of one source to machine code."""
    from cupy.cuda import nvrtc

    text = source_of(source.file, source.definitions)
    program = nvrtc.createProgram(text, f"{source.file}.cu", (), ())
    for instance in source.instances:
        nvrtc.addNameExpression(program, instance)
    options = (
        *OPTIONS,
        f"-I{source_directory()}",
        *CUPY_OPTIONS,
        f"--gpu-architecture=sm_{architecture}",
        "--ptxas-options=-v",
    )
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        raise CompileError(nvrtc.getProgramLog(program)) from error
    return Compiled(
        nvrtc.getCUBIN(program) + b"\0",  # CuPy drops the last byte, which is a zero
        nvrtc.getProgramLog(program),
        tuple(nvrtc.getLoweredName(program, one) for one in source.instances),
    )


def resources_of(source: Source, architecture: int) -> list[Resources]:
    """The resources of the instances of one source."""
    compiled = compile_source(source, architecture)
    return [
        read_log(
            compiled.log,
            symbol,
            Resources(source.operators, instance, architecture, 0, 0, 0, 0),
        )
        for instance, symbol in zip(source.instances, compiled.symbols, strict=True)
    ]


def read_log(log: str, symbol: str, blank: Resources) -> Resources:
    """One kernel's figures in the log of ``ptxas -v``."""
    start = log.index(f"Compiling entry function '{symbol}'")
    part = log[start : log.find("Compiling entry function", start + 1)]

    def figure(pattern: str) -> int:
        found = re.search(pattern, part)
        return int(found.group(1)) if found else 0

    stores = figure(r"(\d+) bytes spill stores")
    loads = figure(r"(\d+) bytes spill loads")
    return blank._replace(
        registers=figure(r"Used (\d+) registers"),
        shared_bytes=figure(r"registers,[^\n]*?(\d+) bytes smem"),
        stack_bytes=figure(r"(\d+) bytes stack frame"),
        spilled_bytes=stores + loads,
    )


def some_sources() -> list[Source]:
    """The first source of each file, with the first instance of each kernel."""
    first = {source.file: source for source in reversed(all_sources())}
    return [
        source._replace(instances=first_of_each_kernel(source.instances))
        for source in first.values()
    ]


def first_of_each_kernel(instances: tuple[str, ...]) -> tuple[str, ...]:
    first = {one.partition("<")[0]: one for one in reversed(instances)}
    return tuple(one for one in instances if one in first.values())


def resources_on(architecture: int, sources: list[Source]) -> list[Resources]:
    """The instances of these sources on one architecture."""
    return [
        resources
        for source in sources
        for resources in resources_of(source, architecture)
    ]


def registers(rows: list[Resources]) -> list[str]:
    """One line for each kernel, as in the table."""
    return [f"{r.operators} {r.instance}: {r.registers} {r.shared_bytes}" for r in rows]


def written_registers(architecture: int) -> list[str]:
    """`registers` of one architecture, read from the table."""
    column = ARCHITECTURES.index(architecture)
    return [
        f"{cells[0]} {cells[1]}: {cells[2 + column].replace(' + ', ' ')}"
        for cells in written_cells(TABLE)
    ]


def written_cells(path: Path) -> list[list[str]]:
    """The cells of the kernels' lines of a table."""
    return [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in path.read_text().splitlines()
        if "`" in line and line.startswith("|")
    ]


def table() -> str:
    """All kernels on all architectures, as a Markdown table."""
    columns = [resources_on(one, all_sources()) for one in ARCHITECTURES]
    names = " | ".join(f"sm_{one}" for one in ARCHITECTURES)
    lines = [
        "# Registers and shared memory of the kernels",
        "",
        "Registers per thread + bytes of static shared memory per block. No kernel",
        "spills registers. `as_solved`, which the emulator profiles, and",
        "`nnls_constrained` use a stack. Written by `make tables` with NVRTC 12.9,",
        "without a GPU.",
        "",
        f"| operators | kernel | {names} |",
        "| --- | --- " + "| --- " * len(ARCHITECTURES) + "|",
    ]
    for kernel in zip(*columns, strict=True):
        cells = " | ".join(f"{one.registers} + {one.shared_bytes}" for one in kernel)
        lines.append(f"| {kernel[0].operators} | `{kernel[0].instance}` | {cells} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table())
