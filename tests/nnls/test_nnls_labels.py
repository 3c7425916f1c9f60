"""Labels of pandas and xarray, masked arrays, and missing values."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from together import together

import gpusolve

ROWS, VARIABLES, SYSTEMS = list("uvwxyz"), ["a", "b", "c"], ["s1", "s2"]


@pytest.fixture(name="A")
def matrix(rng: Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.random((6, 3)), ROWS, VARIABLES)


@pytest.fixture
def b(rng: Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.random((2, 6)), SYSTEMS, ROWS)


@pytest.fixture
def xarray() -> Any:
    return pytest.importorskip("xarray")


OF_BLAS = 256 * float(np.finfo(float).eps)
"""A frame may have another order in memory, in which BLAS sums in another order. Terms
are about 1, and the squares of condition numbers at most 200."""


def check_labels(
    found: Any, values: Any, *labels: list[str], error: float = 0.0
) -> None:
    """The labels of each axis; the values and the dtype of an array."""
    assert_allclose(found, values, rtol=error, atol=error)
    assert np.asarray(found).dtype == np.asarray(values).dtype
    assert [axis.tolist() for axis in getattr(found, "axes", [])] == [*labels]


def test_frames(A: pd.DataFrame, b: pd.DataFrame) -> None:
    expected = gpusolve.nnls(A.to_numpy(), b.to_numpy())
    result = gpusolve.nnls(A, b)
    read = pickle.loads(pickle.dumps(result))
    for name in ("x", "dual"):
        check_labels(getattr(result, name), getattr(expected, name), SYSTEMS, VARIABLES)
    for name in ("rnorm", "kkt", "nit", "status", "repaired", "method"):
        check_labels(getattr(result, name), getattr(expected, name), SYSTEMS)
        assert getattr(result, name).name == name
    assert read.x.equals(result.x)
    assert read.rnorm.equals(result.rnorm)
    check_labels(result.residual, expected.residual, SYSTEMS, ROWS, error=OF_BLAS)
    assert_allclose(result.covariance(), expected.covariance(), OF_BLAS, OF_BLAS)
    assert result.method_counts == {"gram": 2, "qr": 0}
    one, expected = gpusolve.nnls(A, b.loc["s1"]), gpusolve.nnls(A, b.to_numpy()[0])
    check_labels(one.x, expected.x, VARIABLES)
    check_labels(one.rnorm, expected.rnorm)
    found, both = one.covariance(), [VARIABLES, VARIABLES]
    check_labels(found, expected.covariance(), *both, error=OF_BLAS)


def test_labels_of_one_argument(A: pd.DataFrame, b: pd.DataFrame) -> None:
    of_A = gpusolve.nnls(A, b.to_numpy()).x
    assert of_A.columns.tolist() == VARIABLES
    assert of_A.index.tolist() == [0, 1]
    of_b = gpusolve.nnls(A.to_numpy(), b)
    assert of_b.x.index.tolist() == of_b.rnorm.index.tolist() == SYSTEMS
    assert of_b.x.columns.tolist() == [0, 1, 2]
    more = gpusolve.nnls(A, np.stack([b, b]))
    assert type(more.x) is np.ndarray
    assert isinstance(more.rnorm, pd.DataFrame)


def test_labelled_options(A: pd.DataFrame, b: pd.DataFrame) -> None:
    l1 = pd.Series([0.0, 0.1, 0.2], VARIABLES)
    weights = pd.Series(np.arange(6.0), ROWS)
    total = pd.Series([1.0, 2.0], SYSTEMS)
    upper = pd.DataFrame(np.full((2, 3), 0.9), SYSTEMS, VARIABLES)
    options = {"l1": l1, "weights": weights, "sum_to": total}
    result = gpusolve.lsq_linear(A, b, (0, upper), **options)
    plain = {name: value.to_numpy() for name, value in options.items()}
    expected = gpusolve.lsq_linear(
        A.to_numpy(), b.to_numpy(), (0, upper.to_numpy()), **plain
    )
    assert_array_equal(result.x.to_numpy(), expected.x)
    arrays = gpusolve.nnls(A.to_numpy(), b.to_numpy(), l1=l1)  # stay arrays
    assert all(type(value) is np.ndarray for value in arrays._asdict().values())
    with pytest.raises(ValueError, match="l1 must have the labels of A along 'vari"):
        gpusolve.nnls(A, b, l1=l1[::-1])
    with pytest.raises(ValueError, match="sum_to must have the labels of b along 'sys"):
        gpusolve.nnls(A, b, sum_to=total[::-1])


def test_labels_must_agree(A: pd.DataFrame, b: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="b must have the labels of A along 'row'"):
        gpusolve.nnls(A, b[ROWS[::-1]])
    with pytest.raises(ValueError, match="b must have the labels of A along 'row'"):
        gpusolve.nnls(A, b.loc["s1"].iloc[1:])
    with pytest.raises(ValueError, match=r"A must have the axes \('row', 'variable'\)"):
        gpusolve.nnls(A["a"], b)
    with pytest.raises(ValueError, match="bounds must be a pair"):
        gpusolve.lsq_linear(A, b, 3)


def test_axes_of_xarray(xarray: Any, rng: Generator) -> None:
    """Axes are found by name: the rows of b come first."""
    A, b = rng.random((6, 3)), rng.random((6, 2, 4))
    lat = ("y", "x"), rng.random((2, 4))
    dims, upper = ("band", "y", "x"), [0.5, 1.0, 2.0]
    coords = {"band": range(6), "y": [10, 20], "lat": lat, "time": 3}
    named_A = xarray.DataArray(
        A, dims=("band", "mineral"), coords={"mineral": VARIABLES}
    )
    named_b = xarray.DataArray(b, dims=dims, coords=coords)
    l1 = np.array([0.0, 0.1])
    result = gpusolve.lsq_linear(
        named_A,
        named_b,
        (0, xarray.DataArray(upper, dims="mineral")),
        weights=named_b,
        l1=xarray.DataArray(l1, dims="y"),
    )
    last = np.moveaxis(b, 0, -1)
    expected = gpusolve.lsq_linear(
        A, last, (0, upper), weights=last, l1=l1[:, None, None]
    )
    assert result.x.dims == ("y", "x", "mineral")
    assert result.rnorm.dims == ("y", "x")
    assert result.x["mineral"].to_numpy().tolist() == VARIABLES
    assert result.x["y"].to_numpy().tolist() == [10, 20]
    assert "x" not in result.x.coords
    assert result.x.sel(y=20).coords["lat"].dims == ("x",)
    assert result.rnorm.coords["time"] == 3
    assert_array_equal(result.x.to_numpy(), expected.x)
    assert result.residual.dims == ("y", "x", "band")
    found = result.covariance()
    assert found.dims == ("y", "x", "mineral", "mineral_2")
    assert_array_equal(found.to_numpy(), expected.covariance())
    assert result.method_counts == expected.method_counts
    assert pickle.loads(pickle.dumps(result)).x.equals(result.x)


def test_xarray_with_others(xarray: Any, A: pd.DataFrame, b: pd.DataFrame) -> None:
    named_b = xarray.DataArray(b, dims=("star", "pixel"))
    x = gpusolve.nnls(A, named_b).x
    assert x.dims == ("star", "variable")
    assert x["variable"].to_numpy().tolist() == VARIABLES
    with pytest.raises(ValueError, match="b must have the labels of A along 'pixel'"):
        gpusolve.nnls(A[::-1], named_b)
    l2 = xarray.DataArray([1.0, 2.0, 3.0], dims="element")
    assert gpusolve.nnls(A.to_numpy(), named_b, l2=l2).x.dims == ("star", "element")
    many = xarray.DataArray(np.ones((3, 6, 2)), dims=("model", "pixel", "k"))
    assert gpusolve.nnls(many, named_b).x.dims == ("model", "star", "k")
    with pytest.raises(ValueError, match="b must have the axes"):
        gpusolve.nnls(many, named_b.rename(pixel="channel"))
    own = np.ones((5, 1, 6, 3))
    assert gpusolve.nnls(own, named_b).x.dims == ("dim_0", "star", "variable")


def test_no_package_is_imported_for_arrays() -> None:
    script = (
        "import sys, numpy, gpusolve; gpusolve.nnls([[3, 2], [1, 1]], [3, 2]);"
        "print({'pandas', 'xarray', 'dask', 'distributed'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


def test_labels_of_the_rows_are_on_the_multipliers() -> None:
    A = pd.DataFrame(np.eye(2), columns=["a", "b"])
    limits = pd.DataFrame([[1.0, 1.0]], ["total"], ["a", "b"])
    side = pd.Series([1.0], ["total"])
    result = gpusolve.lsq_linear(A, [1.0, 1.0], A_ub=limits, b_ub=side)
    assert result.dual_ub["total"] == pytest.approx(0.5)
    assert result.x["a"] == pytest.approx(0.5)


# ---- masks and missing values ----


def with_first_differences(A: Any, b: Any, **given: Any) -> Any:
    """The solutions of a path of one lambda."""
    return gpusolve.regularization_path(A, b, "first", [0.1], **given).at(0)


@together("solve", [gpusolve.nnls, gpusolve.lsq_linear, with_first_differences])
def test_what_is_masked_has_weight_zero(rng: Generator, solve: Any) -> None:
    A, b = rng.random((2, 1, 9, 4)), rng.random((3, 9))
    of_A, of_b = rng.random(A.shape) < 0.05, rng.random(b.shape) < 0.1
    kept, weights = ~(of_A.any(-1) | of_b), rng.random(9)
    A[of_A], b[of_b] = np.nan, np.inf
    masked = np.ma.masked_array(A, of_A), np.ma.masked_array(b, of_b)
    assert 0 < of_A.sum() < 9
    assert 0 < of_b.sum() < 9
    assert_array_equal(solve(*masked).x, solve(A, b, weights=kept.astype(float)).x)
    assert_array_equal(
        solve(*masked, weights=weights).x, solve(A, b, weights=kept * weights).x
    )
    clean = np.nan_to_num(A, nan=0.5)
    assert_array_equal(solve(clean, masked[1]).x, solve(clean, b, weights=~of_b).x)
    assert (solve(np.ma.masked_array(clean), b[0] * 0).status == 0).all()


@together("dtype", ["Float64", "Float32", "Int64"])
def test_nullable_columns_of_pandas(rng: Generator, dtype: Any) -> None:
    A, b = (rng.integers(-9, 9, shape).astype(float) for shape in ((6, 3), (6,)))
    frames = pd.DataFrame(A).astype(dtype), pd.Series(b).astype(dtype)
    expected = gpusolve.nnls(A, b)
    result = gpusolve.nnls(*frames)
    assert result.x.dtype == ("f4" if dtype == "Float32" else "f8")
    assert_allclose(result.x, expected.x, rtol=1e-5, atol=1e-6)
    mixed = frames[0].astype({0: "float64"})
    assert_allclose(gpusolve.nnls(mixed, b).x, expected.x, rtol=1e-12)
    frames[1][2] = pd.NA
    assert gpusolve.nnls(*frames).status == 2
    kept = np.arange(6) != 2
    left = gpusolve.nnls(*frames, weights=kept)
    assert_allclose(left.x, gpusolve.nnls(A[kept], b[kept]).x, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match=r"A must have a real dtype .*got object"):
        gpusolve.nnls(frames[0].astype(object), b)
