"""Reductions with operators of their own: all, any, and the maximum segment sum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import oracles
import pytest
from monoids import is_even
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve import reference

same = np.testing.assert_array_equal


def test_reduce512_takes_elements_of_64_bytes(backend: Any, rng: Generator) -> None:
    cuda = tuple(f"a[{k}] + b[{k}]" for k in range(8))
    sums = gpusolve.Monoid("sums", (0,) * 8, cuda, np.add, commutative=True)
    x = rng.integers(-9, 9, (1300, 8)).astype(np.float64)
    found = backend.call(gpusolve.reduce, x, sums, variant="reduce512")
    same(found, x.sum(axis=0), strict=True)


# ---- all and any ---------------------------------------------------------------------


def deciding(dtype: str) -> Iterator[Any]:
    """Arrays of ones or zeros but for one element, which may decide; and of none."""
    yield np.zeros((2, 0), dtype)
    for n in (1, 33, 1025):
        for value in (0, 1):
            yield np.full(n, value, dtype)
            for k in {0, n // 2, n - 1}:
                x = np.full(n, value, dtype)
                x[k] = 1 - value
                yield x
    if dtype == "float64":  # a subnormal number and NaN are true
        yield from map(np.array, ([0.25, np.nan, 5e-324], [0, np.nan], [0.0, -0.0]))


@together("dtype", ["bool", "int8", "float64"])
@pytest.mark.parametrize("name", ["all", "any"])
def test_all_and_any_agree_with_numpy(backend: Any, name: str, dtype: str) -> None:
    function, specified, numpy = (getattr(m, name) for m in (gpusolve, reference, np))
    for x in deciding(dtype):
        for axis in (None, -1):
            expected = np.asarray(numpy(x, axis))
            same(backend.call(function, x, axis=axis), expected, strict=True)
        same(specified(x, axis=-1), expected)
    x = np.array([[2, 4, 6], [1, 2, 3], [5, 7, 9]])
    for axis in (1, -2):
        expected = numpy(x % 2 == 0, axis)
        same(backend.call(function, x, is_even, axis=axis), expected, strict=True)
        same(specified(x, is_even, axis=axis), expected)


# ---- the maximum segment sum ---------------------------------------------------------


@pytest.mark.paper("Oancea, Exercise 1")
@together("variant", ["auto", "tree", "group", "chunked"])
@together("dtype", ["int32", "int64", "float32", "float64"])
def test_maximum_segment_sum_agrees_with_brute_force(
    backend: Any, dtype: str, variant: str, rng: Generator
) -> None:
    """Each variant gives the largest sum of all segments."""
    for n in (0, 1, 2, 31, 32, 33, 257, 1025):
        x = rng.integers(-50, 50, n).astype(dtype)
        found = backend.call(gpusolve.maximum_segment_sum, x, variant=variant)
        expected = np.array(oracles.maximum_segment_sum(x.tolist()), dtype)
        same(found, expected, strict=True, err_msg=f"{n} elements")
        same(reference.maximum_segment_sum(x), expected)
    for start, stop in ((0, 3), (2000, 7001), (10006, 10007), (0, 10007)):
        x = np.full(10007, -7, dtype)
        x[start:stop] = 2
        found = backend.call(gpusolve.maximum_segment_sum, x, variant=variant)
        assert found == 2 * (stop - start)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_maximum_segment_sum_reaches_the_largest_integer(
    backend: Any, dtype: str, rng: Generator
) -> None:
    """Prefix sums between 0 and the largest integer: no sum of a segment overflows."""
    largest = np.iinfo(dtype).max
    for n in (2, 65, 1025):
        prefixes = rng.integers(0, largest, (40, n + 1), dtype, endpoint=True)
        prefixes[:, ::3] = rng.choice([0, largest], prefixes[:, ::3].shape)
        found = backend.call(gpusolve.maximum_segment_sum, np.diff(prefixes))
        gains = prefixes - np.minimum.accumulate(prefixes, axis=1)
        same(found, gains.max(axis=1), strict=True)


def test_maximum_segment_sum_of_special_rows(backend: Any) -> None:
    x = np.ones((4, 3000))
    x[0, [5, 1000, 2500]] = -np.inf
    x[1, 2000], x[2, 7], x[3] = np.inf, np.nan, -1
    found = backend.call(gpusolve.maximum_segment_sum, x.reshape(2, 2, 3000))
    same(found, [[1499, np.inf], [np.nan, 0]])
    found = backend.call(gpusolve.maximum_segment_sum, np.zeros((2, 0), np.float32))
    same(found, np.zeros(2, np.float32), strict=True)
