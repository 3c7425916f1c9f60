"""Every kernel of ``cuda_src/``: its file, its operators and its instances.

Public functions and launchers determine the instances; nothing is compiled.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
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
    EmulatedDevice,
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
    teams = (team.name for size in sizes for team in teams_for(size, True, True))
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
