"""Named columns on one device: what the terms of a model read.

A column is numeric, or a factor: one code for each row, and the levels that the codes
count. Pandas' categoricals, and ordered categories of polars and pyarrow, keep their
levels and their order; the levels of other columns are their sorted values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import (
    Array,
    as_array,
    check_gpus,
    floating,
    gpu_of,
    namespace,
    on_host,
)
from ..._device.frames import named_columns, ordered_categories
from ..._device.kernels import current_device
from ..._device.launch import ceil_div
from .._data import inputs
from .._data.inputs import checked_matrix, dense_array, unmasked

Name: TypeAlias = str | int
"""The name of a column: a string, or the position in a matrix."""

Level: TypeAlias = Any
"""A level of a factor: a string, a number or a bool."""

MISSING = -1
"""The code of a missing value."""

UNKNOWN = -2
"""The code of a level that is not among the levels asked for."""

SHOWN = 5
"""The most levels that a message lists."""

EXAMINED = 4096
"""The most rows of a column that the host examines."""


class Values(NamedTuple):
    """What the host knows of the values of a numeric column that are not missing.

    Attributes
    ----------
    lower, upper : float
        The least and the greatest value.
    some : (m,) array on the host
        Evenly spaced rows, at most `EXAMINED`, in ascending order.
    are_all : bool
        Whether no value is missing.
    """

    lower: float
    upper: float
    some: NDArray[Any]
    are_all: bool


@dataclass(frozen=True, eq=False)
class Factor:
    """A categorical column.

    Attributes
    ----------
    codes : (n,) int32 array
        The index of each row's level; -1 for a missing value.
    levels : tuple
        Strings, numbers or bools.
    ordered : bool
        Whether the order of the levels has a meaning.
    """

    codes: Array
    levels: tuple[Level, ...]
    ordered: bool = False

    def codes_in(self, levels: tuple[Level, ...]) -> Array:
        """The codes of the rows among other levels; `UNKNOWN` for other values."""
        if levels == self.levels:
            return self.codes
        index = {level: code for code, level in enumerate(levels)}
        codes = [index.get(level, UNKNOWN) for level in self.levels]
        by_code = np.array([*codes, UNKNOWN, MISSING], np.int32)  # -2 and -1 stay
        table = namespace(self.codes).asarray(by_code)
        return table[self.codes]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The levels of the rows, as an array of objects."""
        return values_on_host(self)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Factor:
        """The factor of some rows, with all levels."""
        return replace(self, codes=self.codes[rows])


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns of equal length on one device.

    Attributes
    ----------
    columns : mapping of name to (n,) array or Factor

    Examples
    --------
    >>> frame = Frame.of({"x": [1.0, 2.0, 4.0], "g": ["b", "a", "b"]})
    >>> frame.numeric("x")
    array([1., 2., 4.])
    >>> frame.factor("g").levels, frame.factor("g").codes
    (('a', 'b'), array([1, 0, 1], dtype=int32))
    """

    columns: Mapping[Name, Array | Factor]
    _finite: set[Name] = field(default_factory=set, init=False, repr=False)
    """The columns of floating numbers that have been checked."""
    _values: dict[Name, Values] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls, X: Any, device: str = "auto", columns: Iterable[Name] | None = None
    ) -> Frame:
        """The columns of a data frame, a mapping or a matrix, as in `BoostedGAM.fit`.

        The columns of a matrix have the names 0, 1, .. `columns` are the columns that
        are read, by default all; an integer that is not a name is a position. The codes
        of factors are on the device of the numeric columns.

        KeyError if a column does not exist; TypeError or ValueError if a column cannot
        be read, or the columns differ in length.
        """
        if isinstance(X, cls):
            return X
        source = columns_of(X)
        names = list(source) if columns is None else list(dict.fromkeys(columns))
        read = {
            name: column_of(source[key_of(source, name)], str(name)) for name in names
        }
        lengths = {name: len(column) for name, column in read.items()}
        if not lengths:
            raise ValueError("X must have at least one column")
        if len(set(lengths.values())) > 1:
            raise ValueError(f"all columns must have the same length, got {lengths}")
        if not all(lengths.values()):
            raise ValueError("X must have at least one row")
        return cls(move_columns(read, device))

    @property
    def names(self) -> tuple[Name, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    @property
    def rows(self) -> int:
        """The number n of rows."""
        return len(self.like)

    @property
    def like(self) -> Array:
        """An array on the device of the columns, with their rows."""
        column = next(iter(self.columns.values()))
        return column.codes if isinstance(column, Factor) else column

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 if all numeric columns are float32, else float64."""
        numeric = {c.dtype for c in self.columns.values() if not isinstance(c, Factor)}
        return np.dtype(np.float32 if numeric == {np.dtype("f4")} else np.float64)

    def current(self) -> AbstractContextManager[object]:
        """Make the device of the columns current."""
        return current_device(self.like)

    def __getitem__(self, name: Name) -> Array | Factor:
        """A column, by its name or its position; KeyError if it does not exist."""
        return self.columns[key_of(self.columns, name)]

    def numeric(self, name: Name) -> Array:
        """A numeric column, (n,) of float32 or float64; NaN is a missing value.

        TypeError for a factor, ValueError for infinity.
        """
        column = self[name]
        if name in self._finite:
            return column
        x = self._floating(name)
        if x is column:
            with self.current():
                if bool(namespace(x).isinf(x).any()):
                    raise ValueError(f"{name} must be finite, got infinity")
            self._finite.add(name)
        return x

    def _floating(self, name: Name) -> Array:
        """`numeric`, also with infinity."""
        column = self[name]
        if isinstance(column, Factor):
            raise TypeError(
                f"{name} must be numeric, got a factor with levels "
                f"{listed(column.levels)}"
            )
        with self.current():
            return floating({str(name): column})[str(name)]

    def values(self, name: Name) -> Values:
        """What the host knows of a numeric column; ValueError if all are missing."""
        if name not in self._values:
            self._examine([name])
        if name not in self._values:
            (found,) = examined([present_values(name, self)])
            self._values[name] = found._replace(are_all=False)
        return self._values[name]

    def examine(self, names: Iterable[Name]) -> None:
        """Copy the `values` of numeric columns from a device, of all columns at once.

        Columns with missing values are read when they are needed, as on a host.
        """
        if namespace(self.like) is not np:
            self._examine(names)

    def _examine(self, names: Iterable[Name]) -> None:
        """Store the `values` of the numeric columns that are finite."""
        columns = {
            name: self._floating(name)
            for name in dict.fromkeys(names)
            if name not in self._values and not self.is_factor(name)
        }
        for own in alike(columns):
            with self.current():
                found = zip(own, examined([*own.values()]), strict=True)
            known = {
                name: v for name, v in found if np.isfinite((v.lower, v.upper)).all()
            }
            self._values.update(known)
            self._finite.update(name for name in known if columns[name] is self[name])

    def has_all(self, name: Name) -> bool:
        """Whether a numeric column is known to have no missing value."""
        return name in self._values and self._values[name].are_all

    def factor(self, name: Name) -> Factor:
        """A column as a factor; the levels of numbers are their sorted values."""
        column = self[name]
        if isinstance(column, Factor):
            return column
        found = factor_of(on_host(column), str(name))
        with self.current():
            return replace(found, codes=namespace(column).asarray(found.codes))

    def is_factor(self, name: Name) -> bool:
        """Whether a column is categorical or text, not numeric."""
        return isinstance(self[name], Factor)

    def take(self, rows: Any) -> Frame:
        """Some rows, by a slice, an index or a mask on the device of the columns."""
        with self.current():
            return Frame({name: self.columns[name][rows] for name in self.columns})

    def on_host(self) -> dict[Name, NDArray[Any]]:
        """The values of the columns; the levels of a factor, None if missing."""
        columns = dict(self.columns)
        if namespace(self.like) is not np:
            numeric = {n: c for n, c in columns.items() if not isinstance(c, Factor)}
            with self.current():
                for own in alike(numeric):
                    together = namespace(self.like).stack([*own.values()])
                    columns.update(zip(own, on_host(together), strict=True))
        return {name: values_on_host(column) for name, column in columns.items()}


def alike(columns: Mapping[Name, Array]) -> Iterator[dict[Name, Array]]:
    """Numeric columns, divided by their dtypes."""
    for dtype in dict.fromkeys(x.dtype for x in columns.values()):
        yield {name: x for name, x in columns.items() if x.dtype == dtype}


def values_on_host(column: Array | Factor) -> NDArray[Any]:
    """The values of a column; the levels of a factor, None if they are missing."""
    if isinstance(column, Factor):
        levels = np.array([*column.levels, None], object)
        return np.asarray(levels[on_host(column.codes)])
    return np.asarray(on_host(column))


# ---- columns of the user -------------------------------------------------------------


def columns_of(X: Any) -> Mapping[Name, Any]:
    """The columns of a data frame, a mapping or a matrix by name.

    ValueError if two columns have the same name; TypeError or ValueError for a matrix
    that is not real.
    """
    X = named_columns(X)
    if isinstance(X, Mapping):
        return X
    names = getattr(X, "columns", None)
    if names is None:
        matrix = checked_matrix(dense_array(X, "X"))
        return {j: matrix[:, j] for j in range(matrix.shape[1])}
    if len(set(names)) < len(names):
        raise ValueError(f"the columns of X must have different names, got {[*names]}")
    return {name: X[name] for name in names}


def key_of(columns: Mapping[Name, Any], name: Name) -> Name:
    """The name of a column that is given by its name or its position."""
    if name in columns:
        return name
    if isinstance(name, int) and 0 <= name < len(columns):
        return list(columns)[name]
    raise KeyError(f"X must have the column {name!r}, got {listed(tuple(columns))}")


def listed(values: tuple[Any, ...]) -> str:
    """The first few values for a message."""
    text = ", ".join(repr(value) for value in values[:SHOWN])
    return f"({text}{', ..' if len(values) > SHOWN else ''})"


def column_of(column: Any, name: str) -> Array | Factor:
    """A column as a numeric array or a factor, where its data are.

    TypeError for complex numbers, times, and values without an order; ValueError for
    more than one dimension.
    """
    categorical = categorical_of(column, name)
    if categorical is not None:
        return categorical
    array = as_array(unmasked(column), name)
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got {array.shape}")
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind in "Mm":
        raise TypeError(
            f"{name} must be real or a factor, got {array.dtype}: a time must be made "
            "a number or a category"
        )
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must be real or a factor, got {array.dtype}")
    numbers = numbers_of(array) if array.dtype.kind == "O" else None
    return factor_of(array, name) if numbers is None else numbers


def categorical_of(column: Any, name: str) -> Factor | None:
    """A categorical of pandas, or a column of ordered categories; None for others."""
    if isinstance(column, Factor):
        return column
    kept = getattr(column, "cat", column)
    if hasattr(kept, "codes") and hasattr(kept, "categories"):
        codes = np.asarray(kept.codes, np.int32)
        return Factor(codes, tuple(kept.categories.tolist()), bool(kept.ordered))
    levels = ordered_categories(column)
    if levels is None:
        return None
    found = factor_of(as_array(column, name), name)
    return Factor(found.codes_in(levels), levels, ordered=True)


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and value != value)
    )


def are_present(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are not missing, (n,)."""
    if array.dtype.kind != "O":
        return (
            ~np.isnan(array) if array.dtype.kind == "f" else np.ones(len(array), bool)
        )
    return np.array([not is_missing(value) for value in array.tolist()], bool)


def numbers_of(array: NDArray[Any]) -> NDArray[np.float64] | None:
    """Objects as numbers, NaN for missing values; None if not all are numbers."""
    values = [np.nan if is_missing(value) else value for value in array.tolist()]
    if not all(isinstance(value, Real | Decimal) for value in values):
        return None
    return np.array(values, np.float64)


def factor_of(array: NDArray[Any], name: str) -> Factor:
    """A factor with the sorted values as levels; TypeError if these have no order."""
    present = are_present(array)
    codes = np.full(len(array), MISSING, np.int32)
    try:
        levels, codes[present] = np.unique(array[present], return_inverse=True)
    except TypeError as error:
        raise TypeError(
            f"{name} must have levels that can be sorted: the argument must be all "
            "strings or all numbers, got values of different types"
        ) from error
    return Factor(codes, tuple(levels.tolist()))


def examined(columns: Sequence[Array]) -> list[Values]:
    """`Values` of columns of the same dtype, as if no value was missing.

    The ends of a column with a missing value are NaN.
    """
    xp, rows = namespace(columns[0]), len(columns[0])
    X = xp.stack(columns) if len(columns) > 1 else columns[0][None]
    lower, upper = on_host(xp.stack([X.min(axis=1), X.max(axis=1)])).tolist()
    some = on_host(xp.sort(X[:, :: ceil_div(rows, EXAMINED)], axis=1))
    return [Values(*own, True) for own in zip(lower, upper, some, strict=True)]


def present_values(name: Name, frame: Frame) -> Array:
    """The values of a column that are not missing; ValueError if there are none."""
    x = frame.numeric(name)
    if frame.has_all(name):
        return x
    x = x[~namespace(x).isnan(x)]
    if not len(x):
        raise ValueError(f"{name} must have values that are not missing, got none")
    return x


def check_levels(name: Name, levels: tuple[Level, ...], least: int) -> None:
    """ValueError unless a factor has enough levels."""
    if len(levels) < least:
        raise ValueError(
            f"{name} must have at least {least} levels, got {listed(levels)}"
        )


def move_columns(
    columns: dict[Name, Array | Factor], device: str
) -> dict[Name, Array | Factor]:
    """The columns on one device; "auto" is the device of the numeric columns.

    TypeError or ValueError if their devices differ and `device` is "auto".
    """
    numeric = {
        str(name): column
        for name, column in columns.items()
        if not isinstance(column, Factor)
    }
    if device == "auto":
        check_gpus({name: gpu_of(array) for name, array in numeric.items()}, "columns")
    like = inputs.to_device(next(iter(numeric.values()), np.empty(0)), device)
    moved = partial(inputs.to_device_of, like)
    return {
        name: replace(column, codes=moved(column.codes))
        if isinstance(column, Factor)
        else moved(column)
        for name, column in columns.items()
    }


# ---- reading by terms ---------------------------------------------------------------
