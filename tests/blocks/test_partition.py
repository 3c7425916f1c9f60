"""Stable partition, scatter and replicate."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from backends import on_emulator
from monoids import LENGTHS, REALS, is_positive
from numpy.random import Generator
from together import together

import gpusolve

same = np.testing.assert_array_equal
every_variant = together("variant", ["tiles", "two_scans"])

VIEWS = [lambda x: x, lambda x: x[::-2], lambda x: x[1::4]]


# ---- partition ----


def check_partition(
    backend: Any, x: Any, kept: Any, by_predicate: bool = False, **options: Any
) -> None:
    """Kept elements, then the others, both in their order and with all their bits."""
    given = is_positive if by_predicate else kept
    count, y = backend.call(gpusolve.stable_partition, x, given, **options)
    pairs = list(zip(x, kept, strict=True))
    expected = [v for v, keep in pairs if keep] + [v for v, keep in pairs if not keep]
    assert count == sum(kept)
    assert y.dtype == x.dtype
    assert y.tobytes() == np.array(expected, x.dtype).tobytes()


@every_variant
@together("dtype", ["int32", *REALS.split(), "complex64", "complex128"])
@together("view", VIEWS)
def test_partition_by_a_mask(
    backend: Any, view: Any, dtype: str, variant: str, rng: Generator
) -> None:
    """Also the payloads of NaNs and the signs of zeros are preserved."""
    shares, lengths = (0, 0.01, 0.5, 0.99, 1), LENGTHS if dtype == "int32" else (1026,)
    for share, n in itertools.product(shares, lengths):
        x = np.frombuffer(rng.bytes(n * np.dtype(dtype).itemsize), dtype)
        x = x if dtype != "bool" else rng.random(n) < 0.5
        check_partition(backend, view(x), view(rng.random(n) < share), variant=variant)


@every_variant
@together("dtype", ["int16", "int64", "float16", "float32", "float64"])
def test_partition_by_a_predicate(
    backend: Any, dtype: str, variant: str, rng: Generator
) -> None:
    for n in (0, 1, 33, 1025, 5001):
        x = rng.integers(-99, 99, n).astype(dtype)
        check_partition(backend, x, x > 0, by_predicate=True, variant=variant)


@on_emulator
@every_variant
def test_partition_in_any_schedule_of_threads_and_blocks(
    backend: Any, variant: str, schedule: str, rng: Generator
) -> None:
    x, mask = np.arange(9001, dtype=np.int32), rng.random(9001) < 0.5
    check_partition(backend, x, mask, variant=variant)


def test_partition_returns_a_copy(backend: Any, rng: Generator) -> None:
    x, mask = backend.array(np.arange(100)), backend.array(rng.random(100) < 0.5)
    _, y = gpusolve.stable_partition(x, mask)
    y[:] = 0
    same(backend.call(lambda: x), np.arange(100))


# ---- scatter ----


@pytest.mark.paper("Oancea, Scatter")
@together("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_out_of_range_indices_are_ignored(backend: Any, dtype: str) -> None:
    """Indices out of range are ignored."""
    info = np.iinfo(dtype)
    out_of_range = np.array([info.max, 100, info.min if info.min else 101], dtype)
    indices = np.concatenate([out_of_range, np.array([99, 0], dtype), out_of_range])
    target, values = np.zeros(100, np.int32), np.arange(1, 9, dtype=np.int32)
    found = backend.call(gpusolve.scatter, target, indices, values)
    same(np.flatnonzero(found), [0, 99])
    same(found[[0, 99]], [5, 4])


@together("dtype", ["bool", "int8", "uint16", "float32", "complex128"])
@together("shape", [(0,), (3001,), (5, 2, 3)])
def test_scatter_inverts_gather(
    backend: Any, dtype: str, shape: Any, rng: Generator
) -> None:
    """Of numbers and of matrices, into a part of an array, in place."""
    x, order = rng.integers(0, 2, shape).astype(dtype), rng.permutation(shape[0])

    def scatter_into_a_slice(target: Any, indices: Any, values: Any) -> Any:
        part = target[3:-2]
        assert gpusolve.scatter(part, indices, values) is part
        return target

    target = np.zeros((shape[0] + 5, *shape[1:]), dtype)
    found = backend.call(scatter_into_a_slice, target, order, x[order])
    target[3:-2] = x
    same(found, target, strict=True)
    for into, given in ((x, order[:0]), (x[:0], order)):
        found = backend.call(gpusolve.scatter, into.copy(), given, x[: len(given)])
        same(found, into)


def test_duplicate_indices_store_one_of_their_values(backend: Any) -> None:
    values = np.arange(1, 1001, dtype=np.int32)
    indices = np.arange(1000) % 3
    target = backend.call(gpusolve.scatter, np.zeros(4, np.int32), indices, values)
    assert target[3] == 0
    same((target[:3] - 1) % 3, [0, 1, 2])
    assert (target[:3] > 0).all()
    if backend.name == "numpy":
        same(target, [1000, 998, 999, 0])


@together("alias", ["values", "indices"])
def test_scatter_target_may_alias(backend: Any, alias: str, rng: Generator) -> None:
    order, values = rng.permutation(5000), np.arange(5000)
    target = values if alias == "values" else order
    target, other = backend.array(target.copy()), backend.array(order.copy())
    if alias == "values":
        gpusolve.scatter(target, other, target)
    else:
        gpusolve.scatter(target, target, backend.array(values))
    same(backend.numpy(target)[order], values)


# ---- replicate ----


@pytest.mark.paper("Oancea, Replicate")
@together("n", [0, 1, 33, 1025])
@together("value", [True, np.int8(3), np.float32(0.5), 1j, np.array([1.0, 2.0])])
def test_replicate(backend: Any, n: int, value: Any) -> None:
    """replicate(n, v) has n elements v."""
    expected = np.broadcast_to(value, (n, *np.shape(value)))
    given = {} if np.ndim(value) else {"like": np.zeros(2)}
    found = backend.call(gpusolve.replicate, n, value, **given)
    same(found, expected, strict=True)
    found += found.dtype.type(1)  # a copy
    same(value, expected[0] if n else value)
    there = gpusolve.replicate(3, 7, like=backend.array(np.zeros(2)))
    assert type(there) is type(backend.array(np.zeros(2)))
