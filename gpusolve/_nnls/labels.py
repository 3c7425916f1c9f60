"""Labels of pandas and xarray: read from the arguments, put on the results.

Axes have names. An axis of an xarray object keeps its name. Axes of pandas objects are
``system``, ``row`` and ``variable``. Arguments that name the same axis must have the
same labels there. Neither package is imported without such an object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict

from .._device.arrays import Array, as_array
from .._device.frames import is_from
from .arguments import AXES, OWN, ROW, VARIABLE

SYSTEM = "system"


class Labels(TypedDict):
    """Names and labels of axes. It is a plain dictionary, so that pickles stay valid.

    Attributes
    ----------
    package : {"pandas", "xarray"}
    batch : list of str
        The names of the batch axes; more axes may precede them.
    row, variable : str
        The names of the other axes.
    indexes : dict
        The pandas index of each axis with labels.
    coordinates : dict
        Further coordinates of xarray.
    """

    package: str
    batch: list[str]
    row: str
    variable: str
    indexes: dict[str, Any]
    coordinates: dict[str, Any]


class Named(NamedTuple):
    """An array whose axes have names, and labels if they are in `indexes`."""

    values: Array
    axes: tuple[str, ...]
    indexes: dict[str, Any]


def is_xarray(value: object) -> bool:
    return is_from("xarray", value, "DataArray")


def is_pandas(value: object) -> bool:
    return is_from("pandas", value, "DataFrame", "Series")


def plain(value: Any) -> Any:
    """The array of a labelled object; other values as they are."""
    if is_xarray(value):
        return value.data
    return as_array(value, "values") if is_pandas(value) else value


def read(given: dict[str, Any]) -> tuple[dict[str, Any], Labels | None]:
    """The arguments as plain arrays, and the labels; None if A and b have none."""
    both = given["A"], given["b"]
    if not any(is_pandas(value) or is_xarray(value) for value in both):
        return given, None
    row, variable = core_names(given)
    named = {
        name: array
        for name, value in given.items()
        if name in AXES
        and (array := as_named(value, core_of(name, row, variable))) is not None
    }
    indexes = common_indexes(named)
    batch = dict.fromkeys(
        axis
        for array in named.values()
        for axis in array.axes
        if axis not in (row, variable, *OWN)
    )
    arrays = {
        name: arranged(name, array, list(batch), core_of(name, row, variable))
        for name, array in named.items()
    }
    return {**given, **arrays}, Labels(
        package="xarray" if any(map(is_xarray, both)) else "pandas",
        batch=list(batch),
        row=row,
        variable=variable,
        indexes=indexes,
        coordinates={
            name: coordinate.variable
            for value in both
            if is_xarray(value)
            for name, coordinate in value.coords.items()
            if name not in value.indexes
        },
    )


def core_of(name: str, row: str, variable: str) -> tuple[str, ...]:
    """The names of the axes of an argument that belong to one system."""
    names = {ROW: row, VARIABLE: variable, **dict(zip(OWN, OWN, strict=True))}
    return tuple(names[axis] for axis in AXES[name])


def core_names(given: dict[str, Any]) -> tuple[str, str]:
    """The names of the axes of rows and variables.

    They are the last axes of A. If A is not an xarray object, rows are the last axis of
    b, and variables the last axis of an option, unless b has this axis.
    """
    A, b = given["A"], given["b"]
    if is_xarray(A):
        row, variable = (ROW, VARIABLE, *A.dims)[-2:]
        return row, variable
    of_b = (ROW, *b.dims) if is_xarray(b) else (ROW,)
    others: Iterator[str] = (
        value.dims[-1]
        for name, value in given.items()
        if AXES.get(name) == (VARIABLE,) and is_xarray(value) and value.dims
    )
    return of_b[-1], next((axis for axis in others if axis not in of_b), VARIABLE)


def as_named(value: Any, core: tuple[str, ...]) -> Named | None:
    """A labelled object as an array with names; None for other values."""
    if is_xarray(value):
        for axis, name in zip(value.dims[::-1], core[::-1], strict=False):
            value = value.rename({axis: name}) if name in OWN else value
        return Named(value.data, value.dims, dict(value.indexes))
    axes = (SYSTEM, *core)
    if not is_pandas(value) or value.ndim > len(axes):
        return None
    axes = axes[len(axes) - value.ndim :]
    return Named(
        as_array(value, "values"), axes, dict(zip(axes, value.axes, strict=True))
    )


def common_indexes(named: dict[str, Named]) -> dict[str, Any]:
    """The labels of each axis. ValueError if arguments differ in them."""
    found: dict[str, tuple[str, Any]] = {}
    for name, array in named.items():
        for axis, index in array.indexes.items():
            first, expected = found.setdefault(axis, (name, index))
            if not index.equals(expected):
                raise ValueError(
                    f"{name} must have the labels of {first} along {axis!r}, "
                    f"got {index} instead of {expected}"
                )
    return {axis: index for axis, (_, index) in found.items()}


def arranged(name: str, array: Named, batch: list[str], core: tuple[str, ...]) -> Array:
    """The array with its axes in the order of the batch and the core.

    Missing axes get the length 1.
    """
    if name in ("A", "b") and not set(core) <= set(array.axes):
        raise ValueError(f"{name} must have the axes {core}, got {array.axes}")
    wanted = (*batch, *core)
    order = [array.axes.index(axis) for axis in wanted if axis in array.axes]
    places = tuple(slice(None) if axis in array.axes else None for axis in wanted)
    return array.values.transpose(order)[places]


def label(labels: Labels | None, array: Any, name: str) -> Any:
    """A result with its labels.

    pandas has no type for more than two axes: such arrays stay as they are.
    """
    if labels is None or not array.ndim:
        return array
    core = core_of(name, labels["row"], labels["variable"])
    batch = array.ndim - len(core)
    unnamed = [f"dim_{k}" for k in range(batch - len(labels["batch"]))]
    axes = [*unnamed, *labels["batch"], *core]
    indexes = [labels["indexes"].get(axis) for axis in axes]
    if labels["package"] == "pandas":
        return as_pandas(array, indexes, name)
    import xarray

    if len(set(axes)) < len(axes):
        axes[-1] += "_2"
    pairs = zip(axes, indexes, strict=True)
    known = {axis: index for axis, index in pairs if index is not None}
    known |= {
        axis: values
        for axis, values in labels["coordinates"].items()
        if set(values.dims) <= set(axes)
    }
    return xarray.DataArray(array, known, axes, name)


def as_pandas(array: Array, indexes: list[Any], name: str) -> Any:
    """A Series or a DataFrame; an array with more axes as it is."""
    import pandas

    if array.ndim == 1:
        return pandas.Series(array, *indexes, name=name)
    return pandas.DataFrame(array, *indexes) if array.ndim == 2 else array
