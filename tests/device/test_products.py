"""Products of matrices and their transposes."""

from __future__ import annotations

from typing import Any

import numpy as np
from cupy_stand_in.install import installed
from together import together

from gpusolve._device.products import times_transposes

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
