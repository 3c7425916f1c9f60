"""Stable partition, scatter and replicate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import without_gpu
from hypothesis import given
from hypothesis import strategies as st
from monoids import LENGTHS, REALS, is_even, is_positive, square
from together import together

import gpusolve
from gpusolve import emulator
from gpusolve._device.arrays import is_cupy

same = np.testing.assert_array_equal
every_variant = together("variant", ["tiles", "two_scans"])


def partition_by_brute_force(values: list[Any], kept: list[bool]) -> list[Any]:
    """Kept values, then the other values, both in their order; by brute force."""
    pairs = list(zip(values, kept, strict=True))
    return [v for v, keep in pairs if keep] + [v for v, keep in pairs if not keep]


# ---- partition ----


@pytest.mark.paper(
    "Oancea, Exercise 3",
    "partition2(even, [5, 4, 2, 10, 3, 7, 8]) is (4, [4, 2, 10, 8, 5, 3, 7])",
)
@every_variant
def test_partition_example_from_the_slides(backend: Any, variant: str) -> None:
    x = np.array([5, 4, 2, 10, 3, 7, 8])
    for mask in (x % 2 == 0, is_even):
        count, y = backend.call(gpusolve.stable_partition, x, mask, variant=variant)
        assert count.shape == ()
        assert count.dtype.kind == "i"
        assert count == 4
        same(y, np.array([4, 2, 10, 8, 5, 3, 7]), strict=True)


@pytest.mark.paper(
    "Oancea, Exercise 3",
    "Two scans and a scatter give inds = [4, 0, 1, 2, 5, 6, 3]",
)
def test_partition2_by_map_scan_and_scatter(backend: Any) -> None:
    """The slides' listing, with each of its arrays."""
    X = np.array([5, 4, 2, 10, 3, 7, 8])
    cs = backend.call(gpusolve.map, is_even, X)
    isT = backend.call(gpusolve.scan, cs.astype(int))
    tmps = backend.call(gpusolve.scan, (~cs).astype(int))
    isF = tmps + isT[-1]
    inds = np.where(cs, isT - 1, isF - 1)
    same(isT, [0, 1, 2, 3, 3, 3, 4])
    same(isF, [5, 5, 5, 5, 6, 7, 7])
    same(inds, [4, 0, 1, 2, 5, 6, 3])
    res = backend.call(gpusolve.scatter, np.zeros(7, int), inds, X)
    same(res, [4, 2, 10, 8, 5, 3, 7])


@every_variant
@together("share", [0, 0.01, 0.5, 0.99, 1])
def test_partition_by_a_mask(
    backend: Any, share: float, variant: str, rng: np.random.Generator
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
    backend: Any, dtype: str, variant: str, rng: np.random.Generator
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
def test_partition_preserves_all_bits(
    backend: Any, dtype: str, rng: np.random.Generator
) -> None:
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


def test_partition_of_strided_views(backend: Any, rng: np.random.Generator) -> None:
    x, mask = rng.integers(0, 99, 3000), rng.random(6000) < 0.5
    _, y = backend.call(
        lambda x, mask: gpusolve.stable_partition(x[::-2], mask[1::4]), x, mask
    )
    same(y, partition_by_brute_force(x[::-2].tolist(), mask[1::4].tolist()))


@every_variant
def test_partition_in_any_schedule_of_threads_and_blocks(
    variant: str, schedule: str, rng: np.random.Generator, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    x, mask = np.arange(9001, dtype=np.int32), rng.random(9001) < 0.5
    count, y = gpusolve.stable_partition(x, mask, variant=variant)
    assert count == mask.sum()
    same(y, np.argsort(~mask, kind="stable"))


@given(st.lists(st.booleans(), max_size=200))
def test_partition_is_a_stable_permutation(backend: Any, mask: list[bool]) -> None:
    x = np.arange(len(mask), dtype=np.int32)
    count, y = backend.call(gpusolve.stable_partition, x, np.array(mask, bool))
    same(np.sort(y), x)
    assert all(mask[k] for k in y[:count])
    assert not any(mask[k] for k in y[count:])
    assert (np.diff(y[:count]) > 0).all()
    assert (np.diff(y[count:]) > 0).all()


def test_partition_returns_a_copy(backend: Any, rng: np.random.Generator) -> None:
    x, mask = backend.array(np.arange(100)), backend.array(rng.random(100) < 0.5)
    _, y = gpusolve.stable_partition(x, mask)
    y[:] = 0
    same(backend.call(lambda: x), np.arange(100))


def test_mask_may_be_a_list(backend: Any) -> None:
    count, y = gpusolve.stable_partition(
        backend.array(np.array([1, 2, 3])), [False, True, True]
    )
    assert int(count) == 2
    same(backend.numpy(y), [2, 3, 1])


def test_mask_may_be_an_empty_list(backend: Any) -> None:
    count, y = gpusolve.stable_partition(backend.array(np.empty(0)), [])
    assert (int(count), len(y)) == (0, 0)


# ---- scatter ----


@pytest.mark.paper(
    "Oancea, Scatter", "With I = [2, 4, 1, -1] X becomes [a0, b2, b0, a3, b1, a5]"
)
def test_scatter_example_from_the_slides(backend: Any) -> None:
    a, b = np.arange(6.0), np.array([10.0, 20.0, 30.0, 40.0])
    found = backend.call(gpusolve.scatter, a.copy(), np.array([2, 4, 1, -1]), b)
    same(found, np.array([a[0], b[2], b[0], a[3], b[1], a[5]]), strict=True)


@pytest.mark.paper(
    "Oancea, Scatter",
    "4 values need 1 launch and 80 bytes, in 6 elements and in 100,000",
)
@pytest.mark.parametrize("length", [6, 100_000])
def test_scatter_is_proportional_to_its_values(length: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    with emulator.profile() as report:
        gpusolve.scatter(np.zeros(length, int), np.array([2, 4, 1, -1]), np.arange(4))
    (kernel,) = report.kernels
    # All four indices, and three values that are read and written.
    assert (kernel.launches, kernel.global_bytes) == (1, 80)


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


@pytest.mark.paper("Oancea, Scatter", "Indices out of range are ignored")
@together("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_out_of_range_indices_are_ignored(backend: Any, dtype: str) -> None:
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
def test_scatter_inverts_gather(
    backend: Any, dtype: str, rng: np.random.Generator
) -> None:
    x = rng.integers(0, 2, 3001).astype(dtype)
    order = rng.permutation(3001)
    found = backend.call(gpusolve.scatter, np.zeros_like(x), order, x[order])
    same(found, x, strict=True)


def test_scatter_of_matrices(backend: Any, rng: np.random.Generator) -> None:
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


def test_scatter_target_may_alias_values(
    backend: Any, rng: np.random.Generator
) -> None:
    order = rng.permutation(5000)
    x = backend.array(np.arange(5000) * 10)
    gpusolve.scatter(x, backend.array(order), x)
    inverse = np.empty(5000, int)
    inverse[order] = np.arange(5000)
    same(backend.numpy(x), inverse * 10)


def test_scatter_target_may_alias_indices(
    backend: Any, rng: np.random.Generator
) -> None:
    order = rng.permutation(5000)
    target = backend.array(order.copy())
    gpusolve.scatter(target, target, backend.array(np.arange(5000)))
    same(backend.numpy(target)[order], np.arange(5000))


def test_scatter_accepts_empty_lists(backend: Any) -> None:
    x = backend.array(np.arange(3.0))
    same(backend.numpy(gpusolve.scatter(x, [], [])), [0.0, 1.0, 2.0])


# ---- replicate ----


@pytest.mark.paper("Oancea, Replicate", "replicate(n, v) has n elements v")
@together("n", [0, 1, 33, 1025])
@together("value", [True, np.int8(3), np.float32(0.5), 1j])
def test_replicate_a_scalar(backend: Any, n: int, value: Any) -> None:
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


# ---- invalid arguments ----

x, mask = np.arange(5), np.array([True, False, True, True, False])
read_only = np.zeros(5)
read_only.flags.writeable = False


@without_gpu
@together(
    ("arguments", "error", "message"),
    [
        ((x, mask[:4]), ValueError, r"mask must have shape \(5,\), got \(4,\)"),
        ((x, mask[:, None]), ValueError, r"mask must .*got .*\(5, 1\)"),
        ((x, mask.astype(int)), TypeError, "mask must .*got int64"),
        ((x, np.isfinite), TypeError, "mask"),
        ((x, square), (TypeError, ValueError), "square"),
        ((3, True), ValueError, "x"),
        ((x.astype(object), mask), TypeError, "object"),
    ],
)
def test_invalid_partitions_are_rejected(
    backend: Any, arguments: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.stable_partition(*arguments)


@without_gpu
def test_an_unknown_variant_of_partition_is_rejected(backend: Any) -> None:
    with pytest.raises(ValueError, match=r"variant must .*got 'quick'"):
        gpusolve.stable_partition(x, mask, variant="quick")


@without_gpu
@together(
    ("target", "indices", "values", "error", "message"),
    [
        (x, [0.0, 1.0], [1, 2], TypeError, "indices must .*got float64"),
        (x, [0, 1], [1, 2, 3], ValueError, r"values must .*got .*\(3,\)"),
        (x, [[0, 1]], [[1, 2]], ValueError, r"indices must .*got .*\(1, 2\)"),
        (x, [0, 1], [0.5, 1.5], TypeError, "values must .*int64, got float64"),
        ([1, 2, 3], [0], [7], TypeError, "target"),
        (read_only, [0], [7], ValueError, "target must be .*writeable"),
        (np.zeros(10)[::2], [0], [7], ValueError, "target must be contiguous"),
        (np.array(3), [0], [7], ValueError, r"target must have shape .*got \(\)"),
    ],
)
def test_invalid_scatters_are_rejected(
    backend: Any, target: Any, indices: Any, values: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.scatter(target, np.array(indices), np.array(values))


@without_gpu
@together(
    ("n", "error", "message"),
    [
        (-1, ValueError, "n must .*got -1"),
        (2.5, TypeError, "int"),
        ("3", TypeError, "int"),
    ],
)
def test_invalid_replicates_are_rejected(
    backend: Any, n: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.replicate(n, 0)
