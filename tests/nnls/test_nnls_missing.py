"""Masked arrays, missing values of pandas, and numbers that are arrays without axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from together import together

import gpusolve


def with_first_differences(A: Any, b: Any, **given: Any) -> Any:
    """The solutions of a path of one lambda."""
    return gpusolve.regularization_path(A, b, "first", [0.1], **given).at(0)


@together("solve", [gpusolve.nnls, gpusolve.lsq_linear, with_first_differences])
def test_what_is_masked_has_weight_zero(rng: np.random.Generator, solve: Any) -> None:
    A, b = rng.random((2, 1, 9, 4)), rng.random((3, 9))
    of_A, of_b = rng.random(A.shape) < 0.05, rng.random(b.shape) < 0.1
    kept, weights = ~(of_A.any(-1) | of_b), rng.random(9)
    A[of_A], b[of_b] = np.nan, np.inf
    masked = np.ma.masked_array(A, of_A), np.ma.masked_array(b, of_b)
    assert 0 < of_A.sum() < 9
    assert 0 < of_b.sum() < 9
    np.testing.assert_array_equal(
        solve(*masked).x, solve(A, b, weights=kept.astype(float)).x
    )
    np.testing.assert_array_equal(
        solve(*masked, weights=weights).x, solve(A, b, weights=kept * weights).x
    )
    clean = np.nan_to_num(A, nan=0.5)
    np.testing.assert_array_equal(
        solve(clean, masked[1]).x, solve(clean, b, weights=~of_b).x
    )
    assert (solve(np.ma.masked_array(clean), b[0] * 0).status == 0).all()


@together("dtype", ["Float64", "Float32", "Int64"])
def test_nullable_columns_of_pandas(rng: np.random.Generator, dtype: Any) -> None:
    A, b = (rng.integers(-9, 9, shape).astype(float) for shape in ((6, 3), (6,)))
    frames = pd.DataFrame(A).astype(dtype), pd.Series(b).astype(dtype)
    expected = gpusolve.nnls(A, b)
    result = gpusolve.nnls(*frames)
    assert result.x.dtype == ("f4" if dtype == "Float32" else "f8")
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-5, atol=1e-6)
    mixed = frames[0].astype({0: "float64"})
    np.testing.assert_allclose(gpusolve.nnls(mixed, b).x, expected.x, rtol=1e-12)
    frames[1][2] = pd.NA
    assert gpusolve.nnls(*frames).status == 2
    kept = np.arange(6) != 2
    left = gpusolve.nnls(*frames, weights=kept)
    np.testing.assert_allclose(
        left.x, gpusolve.nnls(A[kept], b[kept]).x, rtol=1e-5, atol=1e-6
    )
    with pytest.raises(TypeError, match=r"A must have a real dtype .*got object"):
        gpusolve.nnls(frames[0].astype(object), b)
