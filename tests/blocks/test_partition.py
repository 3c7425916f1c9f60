"""Stable partition, scatter and replicate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from monoids import LENGTHS, REALS, is_positive
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve._device.arrays import is_cupy

same = np.testing.assert_array_equal
every_variant = together("variant", ["tiles", "two_scans"])


def partition_by_brute_force(values: list[Any], kept: list[bool]) -> list[Any]:
    """Kept values, then the other values, both in their order; by brute force."""
    pairs = list(zip(values, kept, strict=True))
    return [v for v, keep in pairs if keep] + [v for v, keep in pairs if not keep]


# ---- partition ----


@every_variant
@together("share", [0, 0.01, 0.5, 0.99, 1])
def test_partition_by_a_mask(
    backend: Any, share: float, variant: str, rng: Generator
) -> None:
    for n in LENGTHS:
        x, mask = np.arange(n, dtype=np.int32), rng.random(n) < share
        count, y = backend.call(gpusolve.stable_partition, x, mask, variant=variant)
        assert count == sum(mask.tolist())
        expected = np.array(
            partition_by_brute_force(x.tolist(), mask.tolist()), np.int32
        )
        same(y, expected, strict=True, err_msg=f"{n} elements")


@every_variant
@together("dtype", ["int16", "int64", "float16", "float32", "float64"])
def test_partition_by_a_predicate(
    backend: Any, dtype: str, variant: str, rng: Generator
) -> None:
    for n in (0, 1, 33, 1025, 5001):
        x = rng.integers(-99, 99, n).astype(dtype)
        partition = gpusolve.stable_partition
        count, y = backend.call(partition, x, is_positive, variant=variant)
        kept = [value > 0 for value in x.tolist()]
        assert count == sum(kept)
        same(
            y, np.array(partition_by_brute_force(x.tolist(), kept), dtype), strict=True
        )


@together("dtype", [*REALS.split(), "complex64", "complex128"])
def test_partition_preserves_all_bits(backend: Any, dtype: str, rng: Generator) -> None:
    """Also the payloads of NaNs and the signs of zeros."""
    n = 1025
    x = rng.integers(0, 256, n * np.dtype(dtype).itemsize).astype(np.uint8).view(dtype)
    if dtype == "bool":
        x = rng.random(n) < 0.5
    mask = rng.random(n) < 0.4
    _, y = backend.call(gpusolve.stable_partition, x, mask)
    assert y.dtype == x.dtype
    as_bytes = x.view(np.uint8).reshape(n, -1)
    same(
        y.view(np.uint8).reshape(n, -1),
        partition_by_brute_force(as_bytes.tolist(), mask.tolist()),
    )


def test_partition_of_strided_views(backend: Any, rng: Generator) -> None:
    x, mask = rng.integers(0, 99, 3000), rng.random(6000) < 0.5
    _, y = backend.call(
        lambda x, mask: gpusolve.stable_partition(x[::-2], mask[1::4]), x, mask
    )
    same(y, partition_by_brute_force(x[::-2].tolist(), mask[1::4].tolist()))


@every_variant
def test_partition_in_any_schedule_of_threads_and_blocks(
    variant: str, schedule: str, rng: Generator, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    x, mask = np.arange(9001, dtype=np.int32), rng.random(9001) < 0.5
    count, y = gpusolve.stable_partition(x, mask, variant=variant)
    assert count == mask.sum()
    same(y, np.argsort(~mask, kind="stable"))


def test_partition_returns_a_copy(backend: Any, rng: Generator) -> None:
    x, mask = backend.array(np.arange(100)), backend.array(rng.random(100) < 0.5)
    _, y = gpusolve.stable_partition(x, mask)
    y[:] = 0
    same(backend.call(lambda: x), np.arange(100))


# ---- scatter ----


def test_scatter_is_in_place(backend: Any) -> None:
    def scatter_into_a_slice(target: Any, indices: Any, values: Any) -> Any:
        found = gpusolve.scatter(target[3:8], indices, values)
        return found, target

    target = np.zeros(10, np.int32)
    indices, values = np.array([4, 0, 5, -1]), np.array([1, 2, 3, 4], np.int32)
    found, target = backend.call(scatter_into_a_slice, target, indices, values)
    same(found, [2, 0, 0, 0, 1])
    same(target, [0, 0, 0, 2, 0, 0, 0, 1, 0, 0])

    def returns_target(target: Any, indices: Any, values: Any) -> bool:
        return gpusolve.scatter(target, indices, values) is target

    assert backend.call(returns_target, target, indices, values)


@pytest.mark.paper("Oancea, Scatter")
@together("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_out_of_range_indices_are_ignored(backend: Any, dtype: str) -> None:
    """Indices out of range are ignored."""
    info = np.iinfo(dtype)
    out_of_range = np.array([info.max, 100, info.min if info.min else 101], dtype)
    indices = np.concatenate([out_of_range, np.array([99, 0], dtype), out_of_range])
    target, values = np.zeros(100, np.int32), np.arange(1, 9, dtype=np.int32)
    found = backend.call(gpusolve.scatter, target, indices, values)
    assert found[99] == 4
    assert found[0] == 5
    assert (found[1:99] == 0).all()


def test_scatter_of_empty_arrays(backend: Any) -> None:
    no_values, no_indices = np.zeros(0), np.zeros(0, np.int64)
    found = backend.call(gpusolve.scatter, no_values, np.arange(3), np.ones(3))
    assert len(found) == 0
    found = backend.call(gpusolve.scatter, np.ones(3), no_indices, no_values)
    same(found, np.ones(3))


@together("dtype", ["bool", "int8", "uint16", "float32", "complex128"])
def test_scatter_inverts_gather(backend: Any, dtype: str, rng: Generator) -> None:
    x = rng.integers(0, 2, 3001).astype(dtype)
    order = rng.permutation(3001)
    found = backend.call(gpusolve.scatter, np.zeros_like(x), order, x[order])
    same(found, x, strict=True)


def test_scatter_of_matrices(backend: Any, rng: Generator) -> None:
    target, values = np.zeros((5, 2, 3)), rng.standard_normal((3, 2, 3))
    found = backend.call(gpusolve.scatter, target, np.array([4, 9, 1]), values)
    expected = np.zeros((5, 2, 3))
    expected[4], expected[1] = values[0], values[2]
    same(found, expected, strict=True)


def test_duplicate_indices_store_one_of_their_values(backend: Any) -> None:
    values = np.arange(1, 1001, dtype=np.int32)
    indices = np.arange(1000) % 3
    target = backend.call(gpusolve.scatter, np.zeros(4, np.int32), indices, values)
    assert target[3] == 0
    same((target[:3] - 1) % 3, [0, 1, 2])
    assert (target[:3] > 0).all()
    if backend.name == "numpy":
        same(target, [1000, 998, 999, 0])


def test_scatter_target_may_alias_values(backend: Any, rng: Generator) -> None:
    order = rng.permutation(5000)
    x = backend.array(np.arange(5000) * 10)
    gpusolve.scatter(x, backend.array(order), x)
    inverse = np.empty(5000, int)
    inverse[order] = np.arange(5000)
    same(backend.numpy(x), inverse * 10)


def test_scatter_target_may_alias_indices(backend: Any, rng: Generator) -> None:
    order = rng.permutation(5000)
    target = backend.array(order.copy())
    gpusolve.scatter(target, target, backend.array(np.arange(5000)))
    same(backend.numpy(target)[order], np.arange(5000))


# ---- replicate ----


@pytest.mark.paper("Oancea, Replicate")
@together("n", [0, 1, 33, 1025])
@together("value", [True, np.int8(3), np.float32(0.5), 1j])
def test_replicate_a_scalar(backend: Any, n: int, value: Any) -> None:
    """replicate(n, v) has n elements v."""
    like = np.zeros(2)
    found = backend.call(gpusolve.replicate, n, value, like=like)
    same(found, np.full(n, value), strict=True)
    same(gpusolve.replicate(n, value), np.full(n, value), strict=True)


@pytest.mark.parametrize("n", [1, 3])
def test_replicate_returns_a_copy(backend: Any, n: int) -> None:
    def change_replicas(element: Any) -> Any:
        found = gpusolve.replicate(n, element)
        found += 1
        return found, element

    found, element = backend.call(change_replicas, np.array([1.0, 2.0]))
    same(found, np.full((n, 2), [2.0, 3.0]))
    same(element, [1.0, 2.0])


def test_replicate_result_is_on_the_device_of_like(backend: Any) -> None:
    found = gpusolve.replicate(3, 7, like=backend.array(np.zeros(2)))
    assert is_cupy(found) == (backend.name == "cuda")
