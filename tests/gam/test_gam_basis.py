"""B-splines and penalties, compared with the reference and their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from together import together

from gpusolve.emulator import profile
from gpusolve.gam import BSplines, CompactBasis, penalty_matrix


def test_edges_of_the_range() -> None:
    """Values are clamped; training data are within; a range may have no width."""
    basis = BSplines(np.zeros(1), np.ones(1), 8)
    B = basis.evaluate(np.array([[-5.0], [0.0], [1.0], [9.0]]), outside="clamp").dense(
        8
    )
    np.testing.assert_array_equal(B[0, 0], B[0, 1])
    np.testing.assert_array_equal(B[0, 3], B[0, 2])
    x = np.linspace(0.1, 0.7, 50)[:, None] * np.array([1, 1e-12, 1e12])
    BSplines.spanning(x, 12).evaluate(x, outside="error")
    for constant in (np.full((4, 1), 3.0), np.array([[0.0], [5e-324]])):
        assert not BSplines.spanning(constant, 6).evaluate(constant).values.any()


# ---- the kernel ----------------------------------------------------------------------


def emulate(basis: BSplines, X: np.ndarray, **options: Any) -> CompactBasis:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSOLVE_EMULATE", "1")
        return basis.evaluate(X, **options)


def check_kernel(basis: BSplines, X: np.ndarray, **options: Any) -> None:
    """Kernel and NumPy compute the same positions, and the same values up to rounding.

    NumPy rounds 4 times for each degree, the kernel 3 times and twice to divide by the
    factorial; then both multiply the slope by the excess, and add. All terms of the
    recursion are positive, so relative errors add up, to at most ``(7 d + 6) / 2`` eps.
    Values and slopes are at most 1. At the upper end NumPy may also add the rounding
    error of the position, 2 eps.
    """
    found, expected = (emulate(basis, X, **options), basis.evaluate(X, **options))
    assert found.values.dtype == expected.values.dtype
    np.testing.assert_array_equal(found.first, expected.first)
    width = (basis.upper - basis.lower) / basis.cells
    position = (X - basis.lower) / np.where(width > 0, width, 1)
    excess = abs(position - np.clip(position, 0, basis.cells)).T[..., None]
    roundings = (7 * basis.degree + 6) / 2 * (1 + excess) + 2 * basis.cells
    tolerance = np.finfo(np.float64).eps * roundings
    if expected.values.dtype == np.float32:
        tolerance = tolerance + np.finfo(np.float32).eps * abs(expected.values)
    assert (abs(found.values - expected.values) <= tolerance).all()


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-2, 3, shape)


VIEWS: dict[str, Any] = {
    "1 x 1": random(1, 1),
    "31 x 2": random(31, 2),
    "32 x 7": random(32, 7),
    "100 x 33": random(100, 33),
    "1100 x 70": random(1100, 70),
    "columns": np.asfortranarray(random(70, 45)),
    "strided": random(70, 45)[::2, ::3],
    "reversed": random(70, 45)[::-1, ::-1],
    "transposed": random(70, 45).T,
    "one column": np.broadcast_to(random(70, 1), (70, 45)),
    "one row": np.broadcast_to(random(1, 45), (70, 45)),
    "unaligned": random(70, 9).astype([("skip", "i1"), ("x", "f8")])["x"],
    "float32": random(70, 5).astype(np.float32),
    "float16": random(70, 5).astype(np.float16),
    "big-endian": random(70, 5).astype(">f8"),
    "integers": np.arange(60).reshape(20, 3) % 17,
    "bools": np.arange(60).reshape(20, 3) % 2 > 0,
    "constants": np.stack([np.full(40, 3.0), np.full(40, -1e300)], axis=1),
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((4, 0)),
}


@together("view", VIEWS)
@together("dtype", [np.float32, np.float64])
def test_kernel_evaluates_any_array(view: str, dtype: Any) -> None:
    X = VIEWS[view]
    columns = X.shape[1]
    basis = BSplines(np.full(columns, -1.0), np.full(columns, 2.5), 9)
    if view == "constants":
        basis = BSplines.spanning(X, 8)
        assert not emulate(basis, X + 1).values.any()
    check_kernel(basis, X, dtype=dtype)


@together("value", [-1e-9, 1 + 1e-9])
def test_kernel_reports_one_element_outside(
    value: float, rng: np.random.Generator
) -> None:
    X = rng.random((300, 40))
    basis = BSplines(np.zeros(40), np.ones(40), 8)
    emulate(basis, X, outside="error")
    X[123, 34] = value
    with pytest.raises(ValueError, match="within the range"):
        emulate(basis, X, outside="error")


@together("order", ["C", "F"])
@together("columns", [1, 20, 64])
def test_kernel_reads_and_writes_once(
    order: Any, columns: int, rng: np.random.Generator
) -> None:
    """One launch, no temporary arrays, and only full sectors."""
    X = np.asarray(rng.random((1024, columns)), order=order)
    basis = BSplines.spanning(X, 12)
    with profile() as report:
        emulate(basis, X)
    (kernel,) = report.kernels
    assert (report.host.launches, report.host.allocations) == (1, 2)
    assert kernel.barriers == kernel.blocks
    for name, size in (("x", 8), ("first", 4), ("values", 4 * 8)):
        array = kernel.arrays[name]
        assert array.bytes == array.distinct_bytes == size * X.size
        assert array.sectors == array.fewest_sectors == size * X.size // 32


# ---- penalties -----------------------------------------------------------------------


@pytest.mark.paper(
    "Sieminski, 2.1.1, (3)",
    "c'Kc is the sum of the squares of c for the ridge, and of its second differences "
    "for the P-spline",
)
@together("order", [1, 2, 3])
def test_penalties_are_squares_of_differences(order: int) -> None:
    """Of neighbouring coefficients, also around the ring."""
    c = np.random.default_rng(order).standard_normal(9)
    rough = c @ penalty_matrix(9, "difference", order) @ c
    np.testing.assert_allclose(rough, (np.diff(c, order) ** 2).sum())
    K = penalty_matrix(9, "cyclic", order)
    np.testing.assert_array_equal(np.roll(K, (1, 1), (0, 1)), K)
    around = (np.diff(np.tile(c, 3), order)[9:18] ** 2).sum()
    np.testing.assert_allclose(c @ K @ c, around)
    np.testing.assert_array_equal(penalty_matrix(9, "ridge", order), np.eye(9))
