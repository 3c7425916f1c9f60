"""Columns and data frames of polars, pyarrow and pandas as arrays."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import gpusolve

# No public function returns the array of a column.
from gpusolve._device.arrays import as_array
from gpusolve._device.frames import ordered_categories

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

COLUMNS = {
    "polars": pl.Series,
    "chunked": lambda values: pa.chunked_array([values[:2], values[2:]]),
    "pyarrow": pa.array,
    "pandas": lambda values: pd.Series(
        values, dtype=pd.ArrowDtype(pa.array(values).type)
    ),
}
"""A column of a package, from a list with None for missing values."""

FRAMES = {
    "polars": pl.DataFrame,
    "table": pa.table,
    "batch": lambda columns: pa.RecordBatch.from_pydict(columns),
    "pandas": lambda columns: pd.DataFrame(columns).convert_dtypes(),
}


def random_column(kind: str, rng: np.random.Generator, missing: bool) -> list[Any]:
    """Values of Python, some of them None."""
    draw = {
        "int": lambda: int(rng.integers(-9, 9)),
        "float": lambda: float(rng.standard_normal()),
        "bool": lambda: bool(rng.random() < 0.5),
        "decimal": lambda: Decimal(int(rng.integers(-(10**6), 10**6))).scaleb(-3),
        "text": lambda: str(rng.choice(["u", "v", "w"])),
    }[kind]
    values = [draw() for _ in range(20)]
    if missing:
        values[1] = values[-1] = None
    return values


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", ["int", "float", "bool", "decimal", "text"])
@pytest.mark.parametrize("package", COLUMNS)
def test_a_column_is_an_array_with_nan_for_missing_numbers(
    package: str, kind: str, missing: bool
) -> None:
    values = random_column(kind, np.random.default_rng(0), missing)
    found = as_array(COLUMNS[package](values), "x")
    if kind == "text":
        assert [x if type(x) is str else None for x in found.tolist()] == values
        return
    expected = [np.nan if x is None else float(x) for x in values]
    assert found.dtype.kind in "biuf"
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("package", FRAMES)
def test_a_data_frame_is_a_matrix(package: str) -> None:
    rng = np.random.default_rng(1)
    columns = {
        kind: random_column(kind, rng, kind != "int")
        for kind in ("int", "float", "bool", "decimal")
    }
    if package == "pandas":
        del columns["decimal"]  # objects of Python
    expected = [
        [np.nan if x is None else float(x) for x in column]
        for column in columns.values()
    ]
    found = as_array(FRAMES[package](columns), "X")
    np.testing.assert_array_equal(found, np.transpose(expected))


def test_categories_have_an_order_if_their_package_says_so() -> None:
    values = ["low", "high", None, "low"]
    codes, categories = pa.array([1, 0, None, 1]), pa.array(["high", "low", "other"])
    ordered = pa.DictionaryArray.from_arrays(codes, categories, ordered=True)
    other = pa.DictionaryArray.from_arrays([0], pa.array(["more"]), ordered=True)
    levels = ("high", "low", "other")
    for column, expected in (
        (ordered, levels),
        (pa.chunked_array([ordered, other]), (*levels, "more")),
        (pl.Series(values, dtype=pl.Enum(levels)), levels),
        (pa.DictionaryArray.from_arrays(codes, categories), None),
        (pl.Series(values, dtype=pl.Categorical), None),
        (pl.Series(values), None),
    ):
        assert ordered_categories(column) == expected
        assert as_array(column, "y").tolist()[:4] == values
    assert ordered_categories(pa.chunked_array([], ordered.type)) == ()


def test_solvers_read_frames() -> None:
    rng = np.random.default_rng(2)
    A, b = rng.random((12, 3)), rng.random(12)
    expected = gpusolve.nnls(A, b).x
    columns = dict(zip("abc", A.T, strict=True))
    for X in (pl.DataFrame(columns), pa.table(columns)):
        for y in (pl.Series(b), pa.array(b), pa.chunked_array([b])):
            np.testing.assert_array_equal(gpusolve.nnls(X, y).x, expected)
            assert gpusolve.reduce(y) == gpusolve.reduce(b)
