"""Products of matrices and their transposes."""

from __future__ import annotations

from typing import Any

import numpy as np
from cupy_stand_in.install import installed
from together import together

from gpusolve._device.products import (
    product,
    times_transposes,
    transposed_product,
)

SHAPES = [(1, 1, 1), (3, 4, 7), (2, 9, 2)]
EPS = {np.float64: 2.0**-52, np.float32: 2.0**-23}


@together("dtype", EPS)
@together("shape", SHAPES)
def test_products_with_numpy(
    shape: tuple[int, int, int], dtype: Any, rng: np.random.Generator
) -> None:
    rows = rng.standard_normal(shape).astype(dtype)
    expected = np.einsum("bik,bjk->bij", rows, rows)
    np.testing.assert_allclose(times_transposes(rows), expected, atol=99 * EPS[dtype])


@together("dtype", EPS)
@together("shape", SHAPES)
def test_products_on_the_current_gpu(
    shape: tuple[int, int, int], dtype: Any, rng: np.random.Generator
) -> None:
    rows = rng.standard_normal(shape).astype(dtype)
    expected = np.einsum("bik,bjk->bij", rows, rows)
    with installed(2) as cupy, cupy.cuda.Device(1):
        found = times_transposes(cupy.asarray(rows))
        assert found.device.id == 1
        np.testing.assert_allclose(found.get(), expected, atol=99 * EPS[dtype])


@together("shape", [(4, 4), (5, 3), (2, 4, 4), (2, 5, 3)])
def test_products_of_shared_and_own_matrices(
    shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Of a square matrix, too, which fits from both sides."""
    A, x, y = rng.random(shape), rng.random((2, shape[-1])), rng.random((2, shape[-2]))
    each = np.broadcast_to(A, (2, *shape[-2:]))
    np.testing.assert_allclose(product(A, x), np.einsum("kmn,kn->km", each, x))
    expected = np.einsum("kmn,km->kn", each, y)
    np.testing.assert_allclose(transposed_product(A, y), expected)
