"""Training data that are read in blocks, and many learners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest

from gpusolve.gam import BoostedGAM, bbs, bols
from gpusolve.gam._boosting.learner_fits import COLUMN_BLOCKS
from gpusolve.gam._boosting.products import products_of
from gpusolve.gam._terms import frame as blocks
from gpusolve.gam._terms.frame import Frame, columns_in_memory


@pytest.fixture(name="X")
def data() -> np.ndarray:
    return np.random.default_rng(0).random((300, 5))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 64)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_blocks_have_the_numbers_of_the_array(
    X: np.ndarray, dtype: str, tmp_path: Path
) -> None:
    X = (10 * X).astype(dtype)
    stored = np.memmap(tmp_path / "X", dtype, "w+", shape=X.shape)
    stored[:] = X
    lazy = da.from_array(X, chunks=(70, 3))
    unknown = lazy[da.from_array(np.arange(300) % 3 > 0, chunks=70)]
    for source, expected in (
        (X, X),
        (X[::2], X[::2]),
        (stored, X),
        (lazy, X),
        (unknown, X[np.arange(300) % 3 > 0]),
    ):
        found = columns_in_memory(source)
        np.testing.assert_array_equal(found, expected)
        if dtype != "int64" or source is lazy:
            assert found.flags.f_contiguous
            assert found.dtype == (dtype if dtype == "float32" else "float64")


def test_dask_arrays_are_fitted_as_arrays(X: np.ndarray) -> None:
    y, w = np.sin(6 * X[:, 0]) + X[:, 1], np.arange(300) % 4 + 1.0
    expected = BoostedGAM(max_iter=20).fit(X, y, w)
    lazy = [da.from_array(array, chunks=77) for array in (X, y, w)]
    model = BoostedGAM(max_iter=20).fit(*lazy)
    np.testing.assert_array_equal(model.risk_, expected.risk_)
    assert model.n_features_in_ == 5
    np.testing.assert_array_equal(model.predict(lazy[0]), expected.predict(X))


def test_dask_data_frames_are_fitted_as_data_frames(X: np.ndarray) -> None:
    pytest.importorskip("pyarrow", reason="dask.dataframe needs it")
    dd: Any = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["g"] = pd.Categorical(np.where(X[:, 2] > 0.5, "u", "v"))
    frame["s"] = np.where(X[:, 3] > 0.5, "p", "q")
    expected = BoostedGAM(max_iter=20).fit(frame, X[:, 4])
    model = BoostedGAM(max_iter=20).fit(dd.from_pandas(frame, npartitions=3), X[:, 4])
    np.testing.assert_array_equal(model.risk_, expected.risk_)
    assert model.names_ == expected.names_


@pytest.mark.parametrize("outside", ["linear", "error"])
def test_a_robust_range_copies_no_column(X: np.ndarray, outside: str) -> None:
    """Values outside the range have the functions at its ends."""
    X = np.asfortranarray(X)
    X[0, 0], X[1, 0] = -50.0, 90.0
    term = bbs(0, boundary="robust").learn(Frame.of(X))
    ((lower, upper),) = term.ends
    assert -50 < lower < upper < 90
    rows = term.rows(Frame.of(X), outside=outside)
    assert np.shares_memory(rows.parts[0].x, X)
    within = term.rows(Frame.of(X.clip(lower, upper)), outside=outside)
    np.testing.assert_array_equal(rows.dense(), within.dense())
    u = np.linspace(1, 2, len(X))
    for design in (rows, within):
        found = products_of([design]).project(u[None], lambda work: work(slice(None)))
        np.testing.assert_allclose(found[0], u @ within.dense(), rtol=1e-12)


def test_the_products_of_columns_are_updated_from_step_to_step(X: np.ndarray) -> None:
    """Lines without intercept; the path is the path of passes over the rows."""
    y = X @ np.arange(5.0) + np.sin(9 * X[:, 0])
    w = np.arange(300) % 3 + 0.5
    Z = np.hstack([X, X**2, np.sin(9 * X)]) - 0.5
    assert Z.shape[1] > COLUMN_BLOCKS
    lines = [bols(j, intercept=False) for j in range(15)]
    made = [
        BoostedGAM(lines, max_iter=200, method=method).fit(Z, y, w)
        for method in ("auto", "gram", "stacked")
    ]
    assert [model.method_ for model in made] == ["gram", "gram", "stacked"]
    assert len(set(made[1].selected_.tolist())) > COLUMN_BLOCKS
    np.testing.assert_array_equal(made[1].selected_, made[2].selected_)
    np.testing.assert_allclose(made[1].risk_, made[2].risk_, rtol=1e-12)
    np.testing.assert_allclose(made[1].coefficients_, made[2].coefficients_, rtol=1e-9)


def test_importances_ask_for_the_names_once(
    X: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BoostedGAM(max_iter=5).fit(X, X[:, 0])
    asked = []
    names = type(model).names_.fget
    assert names is not None
    watched = property(lambda self: asked.append(None) or names(self))
    monkeypatch.setattr(type(model), "names_", watched)
    for count, method in enumerate(
        (model.importance, model.selection_frequencies, model.summary), 1
    ):
        method()
        assert len(asked) == count
