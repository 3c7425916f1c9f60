"""Products of the designs of all learners on the CPU, against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpusolve._device.threads import workers
from gpusolve.gam._boosting import products
from gpusolve.gam._boosting.products import CompiledProducts, Products, products_of
from gpusolve.gam._terms.basis import BSplines
from gpusolve.gam._terms.rows import (
    DesignPart,
    Rows,
    SplinePart,
    dense_rows,
    indicator_rows,
    kronecker,
    side_by_side,
)

N = 701
"""More rows than a block, and no multiple of a block."""

KINDS = {"compiled": CompiledProducts, "NumPy": Products}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def splines(x: np.ndarray, degree: int, dtype: Any = np.float64) -> Rows:
    """Splines of a covariate whose range is -1 to 2, or empty if it is constant."""
    ends = (np.array([-1.0]), np.array([2.0]))
    if x.min() == x.max():
        ends = (x[:1].astype(float), x[:1].astype(float))
    basis = BSplines(*ends, degree + 6, degree)
    return Rows(degree + 6, (SplinePart(x.astype(dtype), basis, "linear", dtype),))


def designs(rng: np.random.Generator) -> list[Rows]:
    x = rng.uniform(-1, 2, N)
    x[:9] = [-1, 2, *np.linspace(-1, 2, 7)]  # the ends, and the knots between the cells
    factor = indicator_rows(rng.integers(-1, 5, N), 5, np.float64)
    wide = dense_rows(rng.random((N, 40)))
    offsets = np.array([0, 3, 4], np.int32)
    gaps = DesignPart(np.int32(rng.integers(0, 6, N)), offsets, rng.random((N, 3)))
    return [
        *(splines(x, degree) for degree in range(6)),
        splines(np.full(N, 7.0), 3),
        factor,
        wide,
        dense_rows(rng.random((N, 1)).astype(np.float32)),
        Rows(10, (gaps,)),
        Rows(10, (gaps, gaps)),
        side_by_side(factor, splines(x, 2)),
        kronecker(splines(x, 3), splines(rng.uniform(-1, 2, N), 2)),
    ]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    found = KINDS[request.param]
    if found is CompiledProducts and type(products_of([splines(np.zeros(3), 0)])) is (
        Products
    ):
        pytest.skip("the package has no compiled object")
    return found


@pytest.mark.parametrize(("rows", "work"), [(64, 300), (2**16, 2**18)])
def test_products_are_those_of_dense_matrices(
    kind: Any,
    rows: int,
    work: int,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one piece, or in many pieces of the rows and of the learners."""
    monkeypatch.setattr(products, "PIECE_ROWS", rows)
    monkeypatch.setattr(products, "PIECE_WORK", work)
    learners = designs(rng)
    made, dense = kind(learners), [design.dense() for design in learners]
    weights = rng.random((2, N))
    u = rng.standard_normal((3, N))
    X = np.concatenate(dense, axis=1)
    close = {"rtol": 0, "atol": 1e-12}
    with workers(*made.work) as run:
        np.testing.assert_allclose(made.project(u, run), u @ X, **close)
        for w in (None, weights[1]):
            for j, Y in enumerate(dense):
                W = np.ones(N) if w is None else w
                found = made.block(j, w, run)
                np.testing.assert_allclose(found, (X.T * W) @ Y, **close)
        for each in ([None], [*weights]):
            squares = made.squares(each, run)
            W = np.ones((1, N)) if each == [None] else weights
            for j, Y in enumerate(dense):
                expected = np.einsum("ri,fr,rj->fij", Y, W, Y)
                np.testing.assert_allclose(squares[j], expected, **close)
                if kind is CompiledProducts:
                    symmetric = squares[j].swapaxes(1, 2)
                    np.testing.assert_array_equal(squares[j], symmetric)
    for j, Y in enumerate(dense):
        f, b = u[0].copy(), rng.standard_normal(Y.shape[1])
        made.add(j, b, f)
        np.testing.assert_allclose(f, u[0] + Y @ b, **close)


def test_values_of_float32_are_read_as_they_are(
    kind: Any, rng: np.random.Generator
) -> None:
    x = rng.uniform(-1, 2, N).astype(np.float32)
    learners = [splines(x, 3, np.float32), splines(x.astype(float), 3)]
    made = kind(learners)
    with workers(*made.work) as run:
        single, double = np.split(made.project(np.ones((1, N)), run), 2, axis=1)
    np.testing.assert_allclose(single, double, rtol=1e-6)


def test_products_of_pairs_are_those_of_dense_matrices(
    kind: Any, rng: np.random.Generator
) -> None:
    """Learners in any order, several times; the sums of a pair have gaps."""
    learners = designs(rng)
    u, widest = rng.standard_normal((3, N)), max(X.functions for X in learners)
    vectors = rng.integers(0, 3, 30)
    chosen = rng.integers(0, len(learners), 30)
    c = np.ones((30, widest + 2))
    kind(learners).project_pairs((vectors, chosen), u, c)
    for row, vector, j in zip(c, vectors, chosen, strict=True):
        expected = np.ones(widest + 2)
        expected[: learners[j].functions] += u[vector] @ learners[j].dense()
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)


def test_columns_are_multiplied_as_a_matrix(
    kind: Any, rng: np.random.Generator
) -> None:
    X, u, weights = rng.random((9, N)), rng.standard_normal(N), rng.random((2, N))
    made = kind([dense_rows(x[:, None]) for x in X])
    for w in (None, weights):
        diagonals = np.ones((1, N)) if w is None else w
        expected = np.einsum("kn,fn,kn->kf", X, diagonals, X)[..., None]
        np.testing.assert_allclose(made.column_squares(w), expected, rtol=1e-13)
    f = u.copy()
    made.add(4, np.array([2.5]), f)
    np.testing.assert_allclose(f, u + 2.5 * X[4], rtol=0, atol=1e-14)
