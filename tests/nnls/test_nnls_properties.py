"""Properties that hold for every non-negative least-squares problem."""

from __future__ import annotations

from typing import Any

import numpy as np
from backends import also_by_fallback
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from oracles import brute_force, objective, violation

CERTIFIED = 16 * float(np.finfo(np.float64).eps)

entries = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-10, 10, allow_subnormal=False, width=32),
)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(1, 5))


@st.composite
def batches(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    """A few systems of small integers and floats, often with ties or degenerate."""
    k, m, n = draw(shapes)
    A = draw(npst.arrays(np.float64, (k, m, n), elements=entries))
    b = draw(npst.arrays(np.float64, (k, m), elements=entries))
    return A, b


@also_by_fallback
@given(batches())
def test_solutions_are_optimal(
    backend: Any, batch: tuple[np.ndarray, np.ndarray]
) -> None:
    A, b = batch
    result = backend.nnls(A, b)
    assert (result.status == 0).all()
    assert (result.kkt <= CERTIFIED).all()
    for A_k, b_k, x_k in zip(A, b, result.x, strict=True):
        assert violation(A_k, b_k, x_k) <= CERTIFIED
        best = brute_force(A_k, b_k)
        assert objective(A_k, b_k, x_k) <= best + 1e-10 * (b_k @ b_k)


def well_conditioned(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((3, 12, 6)), rng.standard_normal((3, 12))


seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_permuting_columns_permutes_solutions(backend: Any, seed: int) -> None:
    A, b = well_conditioned(seed)
    order = np.random.default_rng(seed + 1).permutation(6)
    np.testing.assert_allclose(
        backend.nnls(A[..., order], b).x, backend.nnls(A, b).x[:, order], atol=1e-11
    )


@given(seeds)
def test_scaling_columns_scales_solutions_inversely(backend: Any, seed: int) -> None:
    A, b = well_conditioned(seed)
    powers = 2.0 ** np.random.default_rng(seed + 1).integers(-40, 40, 6)
    np.testing.assert_array_equal(
        backend.nnls(A * powers, b).x * powers, backend.nnls(A, b).x
    )
    factors = 10.0 ** np.random.default_rng(seed + 1).uniform(-9, 9, 6)
    np.testing.assert_allclose(
        backend.nnls(A * factors, b).x * factors, backend.nnls(A, b).x, atol=1e-11
    )
