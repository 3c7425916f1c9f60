"""Checks the arguments of a launch against the kernel's parameters.

A GPU does not check them: a wrong type gives wrong results without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_CPP_NAMES = {
    ("f", 4): "float",
    ("f", 8): "double",
    ("i", 1): "an 8-bit integer",
    ("i", 2): "a 16-bit integer",
    ("i", 4): "int",
    ("i", 8): "long long",
}

_KINDS = {"f": "f", "i": "i", "u": "i", "b": "i"}
"""The kind of parameter for each of NumPy's kinds of dtypes."""


class Pointer(Protocol):
    """A pointer in a struct."""

    @property
    def name(self) -> str:
        """The member of the struct."""

    @property
    def array(self) -> Array | None:
        """None is a null pointer."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Of the array; None if the pointer points to structs."""

    @property
    def is_const(self) -> bool:
        """Whether it points to const."""


@runtime_checkable
class Struct(Protocol):
    """A struct that is passed by value, with pointers to arrays."""

    def pointers(self) -> Sequence[Pointer]:
        """The pointers, with the arrays that they point to."""

    def packed(self, address: Callable[[Array], int]) -> bytes:
        """The bytes of the struct, if arrays have these addresses."""


Value = Array | np.generic | Struct | None
"""An argument of a launch; None is a null pointer."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    Parameters
    ----------
    name : str
    is_pointer : bool
    kind : {"f", "i", "s", "v", "?"}
        Floating point, integer, structure or void: the type of the value, or of the
        pointer's target. "?" is a value or a pointer of a kernel of PTX.
    bytes : int
        Size of the value, or of the target.
    is_const : bool
        Whether it is a pointer to const.
    """

    name: str
    is_pointer: bool
    kind: str
    bytes: int
    is_const: bool = False

    @classmethod
    def from_pointer(cls, pointer: Pointer) -> Parameter:
        """The parameter that a pointer in a struct is like."""
        dtype = pointer.dtype
        if dtype is None:
            return cls(pointer.name, True, "s", 0, pointer.is_const)
        kind = _KINDS[dtype.kind]
        return cls(pointer.name, True, kind, dtype.itemsize, pointer.is_const)

    def __str__(self) -> str:
        if self.kind == "?":
            return f"an array, a NumPy scalar or None, of {self.bytes} bytes"
        value = _CPP_NAMES.get((self.kind, self.bytes), f"{self.bytes} bytes")
        if not self.is_pointer:
            return value
        return f"a pointer to {value}" if self.kind in "fi" else "a pointer"

    def fits(self, dtype: np.dtype[Any]) -> bool:
        """Whether this dtype can be passed: of the value, or of the array."""
        if self.is_pointer and (self.kind in "vs" or self.bytes == 1):
            return True  # bytes, or structures of several numbers
        if dtype.itemsize != self.bytes:
            return False
        return self.kind == "s" or _KINDS.get(dtype.kind) == self.kind


def check_arguments(
    kernel: str, parameters: Sequence[Parameter], arguments: Sequence[object]
) -> list[Value]:
    """The arguments as arrays, NumPy scalars, structs and, for null pointers, None.

    Python numbers become bool, int64 or float64, as in CuPy. Like other arguments, they
    must have the type of the parameter.

    Raises
    ------
    TypeError
        If the number of arguments, or an argument's kind or size, is wrong. This
        includes arrays in structs.
    """
    if len(arguments) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        raise TypeError(
            f"{kernel} must have {len(parameters)} arguments ({names}), got "
            f"{len(arguments)}"
        )
    return [
        _checked_one(kernel, parameter, argument)
        for parameter, argument in zip(parameters, arguments, strict=True)
    ]


def _checked_one(kernel: str, parameter: Parameter, argument: object) -> Value:
    if isinstance(argument, Struct):
        return _checked_struct(kernel, parameter, argument)
    value = _as_numpy(argument)
    if parameter.kind == "?":
        size = value.itemsize if isinstance(value, np.generic) else 8
        fits = size == parameter.bytes and (value is not None or argument is None)
    elif isinstance(value, np.ndarray):
        fits = parameter.is_pointer and parameter.fits(value.dtype)
    elif isinstance(value, np.generic):
        fits = not parameter.is_pointer and parameter.fits(value.dtype)
    else:
        fits = parameter.is_pointer and argument is None
    if not fits:
        raise TypeError(
            f"{parameter.name} of {kernel} must be {parameter}, got "
            f"{_describe(parameter, argument, value)}"
        )
    return value


def _checked_struct(kernel: str, parameter: Parameter, argument: Struct) -> Struct:
    """The struct, if its size and the types of its arrays are right."""
    for pointer in argument.pointers():
        _checked_one(kernel, Parameter.from_pointer(pointer), pointer.array)
    size = len(argument.packed(lambda _: 0))
    if parameter.is_pointer or parameter.kind not in "s?" or parameter.bytes != size:
        raise TypeError(
            f"{parameter.name} of {kernel} must be {parameter}, got {argument!r} of "
            f"{size} bytes"
        )
    return argument


def _as_numpy(argument: object) -> Array | np.generic | None:
    if isinstance(argument, (np.ndarray, np.generic)):
        return argument
    if isinstance(argument, bool):
        return np.bool_(argument)
    if isinstance(argument, int):
        return np.int64(argument)
    if isinstance(argument, float):
        return np.float64(argument)
    return None


def _describe(
    parameter: Parameter, argument: object, value: Array | np.generic | None
) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if value is None:
        return repr(argument)
    if isinstance(argument, np.generic):
        return f"a {value.dtype} value"
    given = f"a Python {type(argument).__name__}"
    if parameter.is_pointer:
        return given
    return (
        f"{given}, which is passed as {value.dtype}; pass a NumPy scalar of the right "
        "type, such as numpy.int32(3)"
    )
