"""Products of designs, against products of their dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from gpusolve.gam._terms.rows import DesignPart, Rows, kronecker, side_by_side

N = 60


def local_rows(
    rng: np.random.Generator, functions: int, offsets: tuple[int, ...]
) -> Rows:
    """A design with one part."""
    first = rng.integers(0, functions - offsets[-1], N, dtype=np.int32)
    values = rng.standard_normal((N, len(offsets)))
    return Rows(functions, (DesignPart(first, np.array(offsets, np.int32), values),))


def designs(rng: np.random.Generator) -> dict[str, Rows]:
    """None is dense enough for products of dense matrices."""
    spline = local_rows(rng, 20, (0, 1, 2, 3))
    a, b = local_rows(rng, 30, (0, 2, 5)), local_rows(rng, 30, (0, 1))
    return {
        "spline": spline,
        "gaps": a,
        "next to each other": side_by_side(spline, b),
        "in the same functions": Rows(30, a.parts + b.parts),
        "surface": kronecker(spline, local_rows(rng, 30, tuple(range(9)))),
    }


@pytest.mark.parametrize("fits", [None, 1, 3])
def test_gram_matrices_are_those_of_dense_matrices(
    fits: int | None, rng: np.random.Generator
) -> None:
    weights = None if fits is None else rng.random((fits, N))
    each = np.ones((1, N)) if weights is None else weights
    for name, design in designs(rng).items():
        assert not design.is_dense
        X = design.dense()
        expected = np.einsum("ri,fr,rj->fij", X, each, X)
        found = design.gram(weights)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=name)


def test_sparse_matrices_have_the_values_and_small_indices(
    rng: np.random.Generator,
) -> None:
    for design in designs(rng).values():
        np.testing.assert_array_equal(design.csr.toarray(), design.dense())
        assert design.csr.indices.dtype == design.csr.indptr.dtype == np.int32
