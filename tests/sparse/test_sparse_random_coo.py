"""Random sparse matrices."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.random import Generator
from together import together

from gpusolve.sparse import random_coo

same = np.testing.assert_array_equal

HUGE = 2**31 - 1


def places(A: Any) -> list[tuple[int, int]]:
    return list(zip(A.row.tolist(), A.col.tolist(), strict=True))


SHAPES = [(0, 0), (0, 9), (9, 0), (1, 1), (7, 5), (1, 300), (300, 1), (40, 40)]


@pytest.mark.paper("Cupp, 2.2, Figure 2")
@together("shape", SHAPES)
@together("density", [0, 0.001, 0.3, 0.5, 0.51, 0.75, 0.999, 1])
def test_number_of_entries_is_exact_and_places_are_distinct(
    shape: tuple[int, int], density: float
) -> None:
    """The three arrays have an element for each nonzero value, not for each place, at
    densities from 0 to 1.
    """
    A = random_coo(shape, density, rng=1)
    found = places(A)
    assert A.shape == shape
    assert len(found) == round(density * shape[0] * shape[1])
    assert len(set(found)) == len(found)
    assert found == sorted(found)
    assert set(found) <= set(itertools.product(*map(range, shape)))
    assert A.has_canonical_format
    assert isinstance(A, scipy.sparse.coo_array)


@together(
    ("shape", "index"),
    [
        ((HUGE, HUGE), np.int32),
        ((1, HUGE), np.int32),
        ((2**40, 2**23), np.int64),
        ((1, 2**63 - 1), np.int64),
        ((2**63 - 1, 1), np.int64),
        ((2**33, 2**30), np.int64),
    ],
)
def test_huge_shapes(shape: tuple[int, int], index: type[np.integer[Any]]) -> None:
    A = random_coo(shape, 500 / (shape[0] * shape[1]), rng=1)
    assert len(set(places(A))) == A.nnz == 500
    assert A.row.dtype == A.col.dtype == index
    for found, size in zip((A.row, A.col), shape, strict=True):
        assert found.min() >= 0
        assert found.max() < size
        if size >= HUGE:
            assert found.max() > 0.9 * size
            assert 0.4 * size < np.mean(found / size) * size < 0.6 * size


@pytest.mark.paper("Cupp, 2.2, random matrices")
@pytest.mark.parametrize("count", [2, 4])
def test_all_sets_of_places_are_equally_likely(count: int, rng: Generator) -> None:
    """`random_coo` draws again instead: all 15 sets of 2 or 4 of 6 places are equally
    likely.

    For densities below and above one half.
    """
    draws = 3000
    sets = Counter(
        tuple(places(random_coo((2, 3), count / 6, rng=rng))) for _ in range(draws)
    )
    assert len(sets) == 15
    expected = draws / 15
    assert max(abs(n - expected) for n in sets.values()) < 5 * expected**0.5


@together(
    "dtype",
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint64", "float32"),
        *("float64", "longdouble", "complex64", "complex128"),
    ],
)
def test_values_are_uniform(dtype: str) -> None:
    """Integers from 1 to 9, other numbers from 0 to 1."""
    A = random_coo((100, 100), 0.9, rng=1, dtype=dtype)
    assert A.dtype == dtype
    if A.dtype.kind in "iub":
        same(np.unique(A.data), [True] if dtype == "bool" else np.arange(1, 10))
        return
    for part in (A.data.real, A.data.imag)[: 1 + (A.dtype.kind == "c")]:
        assert 0 < part.min() < 0.01
        assert 0.99 < part.max() <= 1
        assert 0.48 < part.mean() < 0.52


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_zero_from_the_generator_becomes_one(dtype: str) -> None:
    """A generator may return 0, but so seldom that no test would see it."""

    class Zeros(np.random.Generator):
        def random(self, *shape: Any, **options: Any) -> Any:
            return np.zeros(*shape, **options)

    zeros = Zeros(np.random.PCG64())
    A = random_coo((3, 3), 1, rng=zeros, dtype=dtype)
    assert (A.data.real == 1).all()


def test_seed_determines_the_matrix() -> None:
    first, same_seed, other = (
        random_coo((30, 30), 0.2, rng=seed) for seed in (3, 3, 4)
    )
    same(first.toarray(), same_seed.toarray())
    assert (first.toarray() != other.toarray()).any()
    generator = np.random.default_rng(3)
    same(random_coo((30, 30), 0.2, rng=generator).toarray(), first.toarray())
    following = random_coo((30, 30), 0.2, rng=generator)
    assert (following.toarray() != first.toarray()).any()
    assert random_coo((30, 30), 0.2).nnz == 180
