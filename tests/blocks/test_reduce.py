"""Reductions with operators of their own: all, any, and the maximum segment sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles
import pytest
from monoids import is_even
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve import reference

ORDERED = ("auto", "tree", "group", "chunked")

same = np.testing.assert_array_equal


def sums_of(count: int) -> gpusolve.Monoid:
    """Sums of arrays of `count` numbers."""
    cuda = tuple(f"a[{k}] + b[{k}]" for k in range(count))
    return gpusolve.Monoid("sums", (0,) * count, cuda, np.add, commutative=True)


def test_reduce512_takes_elements_of_64_bytes(backend: Any, rng: Generator) -> None:
    x = rng.integers(-9, 9, (1300, 8)).astype(np.float64)
    found = backend.call(gpusolve.reduce, x, sums_of(8), variant="reduce512")
    same(found, x.sum(axis=0), strict=True)
    with pytest.raises(ValueError, match="at most 64 bytes, got 72 for sums"):
        gpusolve.reduce(np.ones((3, 9)), sums_of(9), variant="reduce512")


# ---- all and any ---------------------------------------------------------------------


@together("dtype", ["bool", "int8", "float32"])
def test_one_element_decides_all_and_any(backend: Any, dtype: str) -> None:
    for n in (1, 33, 1025):
        ones, zeros = np.ones(n, dtype), np.zeros(n, dtype)
        assert backend.call(gpusolve.all, ones)
        assert not backend.call(gpusolve.any, zeros)
        for k in {0, n // 2, n - 1}:
            ones[k], zeros[k] = 0, 1
            assert not backend.call(gpusolve.all, ones)
            assert backend.call(gpusolve.any, zeros)
            ones[k], zeros[k] = 1, 0


def test_all_and_any_of_special_numbers_and_of_none(backend: Any) -> None:
    """A denormal number and NaN are true."""
    assert backend.call(gpusolve.all, np.array([0.25, np.nan, 5e-324]))
    assert backend.call(gpusolve.any, np.array([0, np.nan]))
    assert not backend.call(gpusolve.any, np.array([0.0, -0.0]))
    same(backend.call(gpusolve.any, np.zeros(0)), np.array(False), strict=True)
    found = backend.call(gpusolve.all, np.zeros((2, 0)), axis=1)
    same(found, np.array([True, True]), strict=True)


def test_all_and_any_of_a_predicate(backend: Any) -> None:
    x = np.array([[2, 4, 6], [1, 2, 3], [5, 7, 9]])
    for function, expected in (("all", [True, False, False]), ("any", [True, True, 0])):
        for axis in (1, -1):
            found = backend.call(getattr(gpusolve, function), x, is_even, axis=axis)
            same(found, np.array(expected, bool), strict=True)
        same(getattr(reference, function)(x, is_even, axis=1), expected)
    same(reference.all(x, axis=1), [True] * 3)
    same(reference.any(x - 1, axis=0), [True] * 3)


# ---- the maximum segment sum ---------------------------------------------------------


@pytest.mark.paper("Oancea, Exercise 1")
@together("variant", ORDERED)
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
        x = np.diff(prefixes)
        found = backend.call(gpusolve.maximum_segment_sum, x)
        gains = prefixes - np.minimum.accumulate(prefixes, axis=1)
        same(found, gains.max(axis=1), strict=True)


def test_maximum_segment_sum_of_special_rows(backend: Any) -> None:
    x = np.ones((4, 3000))
    x[0, [5, 1000, 2500]] = -np.inf
    x[1, 2000] = np.inf
    x[2, 7] = np.nan
    x[3] = -1
    found = backend.call(gpusolve.maximum_segment_sum, x.reshape(2, 2, 3000))
    same(found, [[1499, np.inf], [np.nan, 0]])
    found = backend.call(gpusolve.maximum_segment_sum, np.zeros((2, 0), np.float32))
    same(found, np.zeros(2, np.float32), strict=True)
