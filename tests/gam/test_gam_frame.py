"""Named columns from data frames, mappings and matrices, compared with pandas."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from together import together

from gpusolve._device.arrays import namespace, on_host
from gpusolve.gam._terms.frame import UNKNOWN, Factor, Frame

pd = pytest.importorskip("pandas")

CODES = np.int32([1, 0, -1, 1])


def factor(column: Any) -> Factor:
    return Frame.of({"g": column}).factor("g")


# ---- factors -------------------------------------------------------------------------


@together(
    ("column", "levels"),
    [
        (["b", "a", None, "b"], ("a", "b")),
        (np.array(["b", "a", None, "b"], object), ("a", "b")),
        (np.array([7.5, -1.0, np.nan, 7.5]), (-1.0, 7.5)),
        (np.array([True, False, None, True], object), (False, True)),
        (pd.Series(["b", "a", None, "b"]), ("a", "b")),
        (pd.Series(["b", "a", None, "b"], dtype=object), ("a", "b")),
        (pd.Series(["b", "a", pd.NA, "b"], dtype="string"), ("a", "b")),
        (pd.Series(["b", "a", None, "b"], dtype="category"), ("a", "b")),
        (pd.Categorical(["b", "a", None, "b"]), ("a", "b")),
    ],
)
def test_levels_are_sorted_and_missing_values_have_no_code(
    column: Any, levels: tuple[Any, ...]
) -> None:
    found = factor(column)
    assert found.levels == levels
    assert not found.ordered
    np.testing.assert_array_equal(found.codes, CODES)
    assert found.codes.dtype == np.int32


@pytest.mark.parametrize(("column", "kind"), [([3, 1, 3], int), ([True, False], bool)])
def test_integers_and_bools_are_numeric_and_stay_levels(
    column: Any, kind: type
) -> None:
    frame = Frame.of({"g": column})
    assert not frame.is_factor("g")
    assert frame.numeric("g").tolist() == [float(value) for value in column]
    assert frame.factor("g").levels == tuple(sorted(set(column)))
    assert all(type(level) is kind for level in frame.factor("g").levels)


def test_a_categorical_keeps_its_levels_and_their_order() -> None:
    levels = ["low", "high", "unused"]
    column = pd.Categorical(["high", "low"], levels, ordered=True)
    for given in (column, pd.Series(column)):
        found = factor(given)
        assert found.levels == tuple(levels)
        assert found.ordered
        np.testing.assert_array_equal(found.codes, [1, 0])


def test_codes_among_other_levels() -> None:
    found = factor(["c", "a", None, "b"])
    expected = [UNKNOWN, 1, -1, 0]
    np.testing.assert_array_equal(found.codes_in(("b", "a", "z")), expected)
    assert found.codes_in(("a", "b", "c")) is found.codes
    again = Factor(found.codes_in(("b", "a", "z")), ("b", "a", "z"))
    np.testing.assert_array_equal(again.codes_in(("z", "a")), [UNKNOWN, 1, -1, UNKNOWN])


# ---- numbers -------------------------------------------------------------------------


@together(
    "column",
    [
        [1, 2, 4],
        np.array([1, 2, 4], np.uint8),
        np.array([1.0, 2, 4], object),
        pd.Series([1, 2, 4], dtype="Int64"),
        pd.Series([1, 2, 4], dtype="UInt8"),
        [Decimal("1.0"), Decimal(2), 4],
    ],
)
def test_numbers_of_any_kind_are_float64(column: Any) -> None:
    x = Frame.of({"x": column}).numeric("x")
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, [1, 2, 4])


@together(
    "column",
    [
        [1.0, np.nan],
        np.array([1, None], object),
        np.array([1, pd.NA], object),
        [Decimal(1), None],
        np.ma.masked_array([1, 7], [False, True]),
        np.ma.masked_array([1.0, np.inf], [False, True]),
        pd.Series([1, pd.NA], dtype="Int64"),
        pd.Series([1.0, None]),
    ],
)
def test_missing_numbers_are_nan(column: Any) -> None:
    np.testing.assert_array_equal(Frame.of({"x": column}).numeric("x"), [1, np.nan])


def test_float32_is_kept(backend: Any) -> None:
    for x in (backend.array(np.float32([1, 2])), pd.Series([1, 2], dtype="Float32")):
        assert Frame.of({"x": x}).numeric("x").dtype == np.float32


# ---- frames --------------------------------------------------------------------------


def test_columns_of_a_matrix_are_positions(backend: Any) -> None:
    frame = Frame.of(backend.array(np.arange(6.0).reshape(3, 2)))
    assert (frame.names, frame.rows) == ((0, 1), 3)
    np.testing.assert_array_equal(on_host(frame.numeric(1)), [1, 3, 5])


def test_names_and_positions_of_a_data_frame() -> None:
    data = pd.DataFrame({"x": [1.0, 2.0], "g": ["u", "v"], "when": ["no", 1]})
    frame = Frame.of(data, columns=["g", 0, "g"])
    assert frame.names == ("g", 0)
    np.testing.assert_array_equal(frame.numeric(0), [1, 2])
    np.testing.assert_array_equal(Frame.of(data[["x", "g"]]).numeric(0), [1, 2])
    assert Frame.of(frame) is frame


def test_a_frame_of_numbers_and_text_by_position() -> None:
    frame = Frame.of(np.array([[1, "u"], [2, "v"]], object))
    np.testing.assert_array_equal(frame.numeric(0), [1, 2])
    assert frame.factor(1).levels == ("u", "v")


@together("rows", [slice(1, 3), [2, 1], [False, True, True]])
def test_take_keeps_all_levels(backend: Any, rows: Any) -> None:
    frame = Frame.of({"x": backend.array(np.arange(3.0)), "g": ["a", "b", "c"]})
    index = rows if isinstance(rows, slice) else backend.array(np.array(rows))
    some = frame.take(index)
    expected = np.arange(3)[rows]
    np.testing.assert_array_equal(on_host(some.numeric("x")), expected)
    np.testing.assert_array_equal(on_host(some.factor("g").codes), expected)
    assert some.factor("g").levels == ("a", "b", "c")
    assert some.rows == 2


def test_codes_are_on_the_device_of_the_numbers(backend: Any) -> None:
    x = backend.array(np.array([2, 1, 2]))
    frame = Frame.of({"g": ["b", "a", None], "x": x})
    for name in ("g", "x"):
        codes = frame.factor(name).codes
        assert namespace(codes) is namespace(x)
    np.testing.assert_array_equal(on_host(frame.factor("g").codes), [1, 0, -1])
    np.testing.assert_array_equal(on_host(frame.factor("x").codes), [1, 0, 1])
    assert isinstance(Frame.of({"x": x}, "cpu").numeric("x"), np.ndarray)


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["cuda"], indirect=True)
def test_numbers_on_two_devices_are_an_error(backend: Any) -> None:
    x = backend.array(np.ones(2))
    with pytest.raises(TypeError, match="a on the CPU"):
        Frame.of({"a": np.ones(2), "b": x})
    assert namespace(Frame.of({"a": np.ones(2), "b": x}, "cuda").numeric("a")) is not np


@together(
    ("X", "error", "message"),
    [
        ({"age": [1.0, np.inf]}, ValueError, "age must be finite"),
        ({"age": ["u", "v"]}, TypeError, r"age must be numeric, .* \('u', 'v'\)"),
        ({"age": np.ones((2, 2))}, ValueError, r"age must have shape \(n,\)"),
        ({"age": [1j, 2j]}, TypeError, "age must be real"),
        ({"age": np.zeros(2, "M8[s]")}, TypeError, r"age must be real .*datetime64"),
        (
            pd.DataFrame({"age": pd.to_datetime(["2020-01-01"]).tz_localize("UTC")}),
            TypeError,
            r"age must be real .*datetime64",
        ),
        ({"age": np.array(["u", 1], object)}, TypeError, "age must have levels"),
        ({"age": [1.0], "b": [1.0, 2.0]}, ValueError, "the same length, .*'age': 1"),
        ({"b": [1.0]}, KeyError, "must have the column 'age'"),
        ({}, ValueError, "at least one column"),
        ({"age": []}, ValueError, "at least one row"),
        (np.ones(3), ValueError, "Expected 2D array"),
        (np.ones((3, 0)), ValueError, r"0 feature\(s\)"),
        (csr_array(np.eye(2)), TypeError, "dense array"),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), ValueError, "different names"),
    ],
)
def test_errors_name_the_column(X: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Frame.of(X).numeric("age")
