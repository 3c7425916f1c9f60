"""Registers, shared memory and spills of every kernel, from NVRTC without a GPU.

The launchers determine instances and block sizes. ``make tables`` writes the table.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse
from kernel_calls import TIMES

import gpusolve
from gpusolve import sparse
from gpusolve._blocks.reduce import ORDERED_VARIANTS, VARIANTS
from gpusolve._device import kernels
from gpusolve._device.kernels import (
    CUDA_TYPES,
    OPTIONS,
    EmulatedDevice,
    source_directory,
    source_of,
)
from gpusolve._nnls import nnls_qr_kernel
from gpusolve._nnls.launch_arguments import BOUNDS
from gpusolve._nnls.nnls_gram_kernel import Size, teams_for
from gpusolve.gam._boosting.gram_kernel import instance as learners_instance
from gpusolve.gam._boosting.stacked_kernel import instance as stacked_instance
from gpusolve.gam._terms.basis_kernel import instance as basis_instance
from gpusolve.monoid import as_monoid
from gpusolve.studies import _nnls_mgs_kernel
from gpusolve.studies._qr_steps_kernel import THREADS as QR_STEPS
from gpusolve.studies._qr_steps_kernel import instance as qr_steps_instance

ARCHITECTURES = (75, 80, 90, 100)
CUPY_OPTIONS = ("--device-as-default-execution-space", "-ftz=true")
"""Options that CuPy appends to the options of a kernel."""

TABLE = Path(__file__).with_suffix(".md")

IN_TEXTBOOK = {("add", "float32"), ("mssp", "float64")}
"""The operators of ``scan_textbook.cu``, which is a study: one small, one large."""

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

INDICES = ("int32", "int64")
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


@functools.cache
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
        *recorded(
            itertools.chain(
                _calls_of_monoids(),
                _calls_of_partition(),
                _calls_of_sparse_products(),
                _calls_of_gemv(),
            )
        ),
        *_sources_of_boosting(),
    ]


def _sources_of_nnls_gram(numbers: list[str]) -> Iterator[Source]:
    """The kernels for each team: few large systems, and many small systems."""
    sizes = Size(2000, 2000), Size(3, 3), Size(3, 3, BOUNDS)
    teams = (team.name for size in sizes for team in teams_for(size, True))
    for team in dict.fromkeys(teams):
        yield plain("nnls_gram", (f"nnls_gram<{number}, {team}>" for number in numbers))
    yield plain("nnls_gram", (f"scale_columns<{number}>" for number in numbers))


class Silent:
    """A kernel that is not launched."""

    def resident_blocks(self, threads: int, shared_bytes: int) -> int:
        return 1000

    def __call__(self, *args: object, **options: object) -> None:
        pass


Call = tuple[str, Callable[..., object], tuple[Any, ...], dict[str, Any]]
"""Operators, a public function, and its arguments."""

OF_INDICES = "split_path", "make_keys"
"""Kernels that have no operators; several functions use them."""


def recorded(calls: Iterable[Call]) -> Iterator[Source]:
    """The kernels that calls ask for. Nothing is compiled or launched.

    Arrays of results have zeros, so what a call makes of its results is an error at
    most, after its last kernel.
    """
    found: dict[tuple[str, str, str], str] = {}

    def load(file: str, instance: str, definitions: str) -> Silent:
        is_plain = instance.startswith(OF_INDICES)
        key = file, "" if is_plain else definitions, instance
        found.setdefault(key, "" if is_plain else name)
        return Silent()

    with (
        mock.patch.object(kernels, "_emulated_kernel", load),
        mock.patch.object(kernels.EmulatedDevice, "empty", EmulatedDevice.zeros),
        mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1"),
    ):
        for call in calls:
            name, function, args, options = call
            with contextlib.suppress(ValueError, IndexError):
                function(*args, **options)
    sources: dict[tuple[str, str, str], list[str]] = {}
    for (file, definitions, instance), name in found.items():
        sources.setdefault((name, file, definitions), []).append(instance)
    for (name, file, definitions), instances in sources.items():
        yield Source(name, file, definitions, tuple(instances))


def _calls_of_monoids() -> Iterator[Call]:
    """Operators of every size and kind; the largest, 128 bytes, is not spilled."""
    watched: dict[str | gpusolve.Monoid, str] = {
        "add": "int8 int32 int64 float16 float32 float64 complex128",
        "max": "float32",
        "logical_and": "float64",
        "mssp": "int32 float64",
        LARGEST: "float64",
    }
    for op, dtypes in watched.items():
        for dtype in dtypes.split():
            monoid = as_monoid(op)
            name = f"{monoid.name} {dtype}"
            x = np.zeros((2, 3000, *monoid.element_shape), dtype)
            flags = np.zeros((2, 3000), bool)
            bits, offsets = np.zeros((2, 375), np.uint8), np.array([0, 1000, 3000])
            for variant in VARIANTS:
                yield name, gpusolve.reduce, (x[0], op), {"axis": 0, "variant": variant}
            for axis, given in enumerate((x[0], x)):
                yield name, gpusolve.scan, (given, op), {"axis": axis}
            yield name, gpusolve.segmented_scan, (x, flags, op), {}
            yield name, gpusolve.segmented_scan, (x, bits, op), {"packed": True}
            options = {"op": op, "offsets": offsets}
            yield name, gpusolve.segmented_reduce, (x[0],), options
            if (op, dtype) in IN_TEXTBOOK:
                for variant in ("hierarchical", "sweep", "warp"):
                    yield name, gpusolve.scan, (x, op), {"axis": 1, "variant": variant}
                options = {"variant": "sweep"}
                yield name, gpusolve.segmented_scan, (x, flags, op), options
    x = np.zeros(3000, np.float32)
    yield "add two float32", gpusolve.map, (TIMES, x, x), {}
    yield "add two float32", gpusolve.reduce, ((x, x),), {"map": TIMES}
    yield "add two float32", gpusolve.scan, ((x, x),), {"map": TIMES}
    for dtype, variant in itertools.product(("int32", "float64"), ORDERED_VARIANTS):
        given, options = (x.astype(dtype),), {"variant": variant}
        yield f"sums of {dtype}", gpusolve.maximum_segment_sum, given, options


def _calls_of_partition() -> Iterator[Call]:
    even = gpusolve.Map("even", "x % 2 == 0", lambda x: x % 2 == 0, dtype=bool)
    for dtype, test in (("int8", even), ("float32", None), ("complex128", None)):
        x, mask, indices = np.zeros(9, dtype), np.zeros(9, bool), np.arange(9)
        yield dtype, gpusolve.stable_partition, (x, test or mask), {}
        yield dtype, gpusolve.scatter, (x, indices, x), {}


def _calls_of_sparse_products() -> Iterator[Call]:
    methods = dict.fromkeys(("bool", "float32", "complex128"), ("merge", "gallop"))
    methods |= dict.fromkeys(("int8", "float16", "float64"), ("merge", "gallop"))
    for dtype in ("float32", "complex128"):
        methods[dtype] += ("linear", "binary", "scratchpad", "even")
    for (dtype, chosen), index in itertools.product(methods.items(), INDICES):
        places = np.zeros((2, 1), index)
        A = scipy.sparse.coo_array((np.ones(1), places), shape=(9, 9))
        A.data = A.data.astype(dtype)
        A.coords = tuple(places)
        A.has_canonical_format = True
        for method in chosen:
            yield dtype, sparse.multiply, (A, A), {"method": method}
    for add, multiply, entry, number, index in (
        ("add", "mul", "float32", "float32", "int32"),
        ("add", "mul", "float64", "float64", "int64"),
        ("add", "mul", "complex128", "complex128", "int64"),
        ("add", "mul", "bool", "complex128", "int64"),
        ("add", "mul", "float16", "float16", "int32"),
        ("min", "add", "float32", "float32", "int32"),
        ("logical_or", "logical_and", "bool", "bool", "int32"),
    ):
        A = scipy.sparse.csr_array(np.eye(9))
        A.data = A.data.astype(entry)
        A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
        for method in ("fused", "segmented_scan"):
            options = {"add": add, "multiply": multiply, "method": method}
            name = f"{add}-{multiply} {entry} {number}"
            yield name, sparse.spmv, (A, np.zeros(9, number)), options


def _calls_of_gemv() -> Iterator[Call]:
    """Few or many rows, short or long, transposed, perhaps not whole packs apart."""
    for dtype in ("float16", "float32", "float64"):
        for rows, columns in ((64, 64), (2, 2**20), (2**17, 256), (2**20, 16)):
            x, y = np.empty(columns, dtype), np.empty(rows, dtype)
            for spare in (0, 1):
                A = np.empty((rows, columns + spare), dtype)[:, :columns]
                yield dtype, gpusolve.gemv, (A, x), {}
                yield dtype, gpusolve.gemv, (A, y), {"transpose": True}
        A, x = np.empty((64, 64), dtype), np.empty(64, dtype)
        for variant in ("naive", "threads_per_dot", "threads_per_row"):
            yield dtype, gpusolve.gemv, (A, x), {"variant": variant}


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
