"""Whether the arguments of a launch are what the kernel's parameters want.

A GPU takes any bytes for any parameter and computes garbage from the wrong ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
"""NumPy's kinds that a kernel takes, and the parameter's that they fit."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    Parameters
    ----------
    kind : {"f", "i", "s", "v"}
        Of the value, or of what the pointer points to: floating, integer, structure or
        void.
    bytes : int
        Its size.
    is_const : bool
        Whether nothing is written through the pointer.
    """

    name: str
    is_pointer: bool
    kind: str
    bytes: int
    is_const: bool = False

    def __str__(self) -> str:
        value = _CPP_NAMES.get((self.kind, self.bytes), f"{self.bytes} bytes")
        if not self.is_pointer:
            return value
        return f"a pointer to {value}" if self.kind in "fi" else "a pointer"

    def fits(self, dtype: np.dtype[Any]) -> bool:
        """Whether a value of this dtype is one for the parameter, or its target."""
        if self.is_pointer and (self.kind in "vs" or self.bytes == 1):
            return True  # bytes, or numbers taken together
        if dtype.itemsize != self.bytes:
            return False
        return self.kind == "s" or _KINDS.get(dtype.kind) == self.kind


def checked(
    kernel: str, parameters: Sequence[Parameter], arguments: Sequence[object]
) -> list[Array | np.generic | None]:
    """The arguments, as arrays, NumPy scalars and, for null pointers, None.

    Python's numbers become what CuPy makes of them: bool, int64 and float64. They must
    then fit the parameter like any other.

    Raises
    ------
    TypeError
        Where number, kind or size differ from the kernel's parameters.
    """
    if len(arguments) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        raise TypeError(
            f"{kernel} was given {len(arguments)} arguments; {len(parameters)} are "
            f"wanted: {names}"
        )
    return [
        _checked_one(kernel, parameter, argument)
        for parameter, argument in zip(parameters, arguments, strict=True)
    ]


def _checked_one(
    kernel: str, parameter: Parameter, argument: object
) -> Array | np.generic | None:
    value = _as_numpy(argument)
    if isinstance(value, np.ndarray):
        fits = parameter.is_pointer and parameter.fits(value.dtype)
    elif isinstance(value, np.generic):
        fits = not parameter.is_pointer and parameter.fits(value.dtype)
    else:
        fits = parameter.is_pointer and argument is None
    if not fits:
        raise TypeError(
            f"{parameter.name} of {kernel} is {parameter}; it was given "
            f"{_described(argument, value)}"
        )
    return value


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


def _described(argument: object, value: Array | np.generic | None) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if value is None:
        return repr(argument)
    if isinstance(argument, np.generic):
        return f"a {value.dtype} value"
    return f"a Python {type(argument).__name__}, which a launch passes as {value.dtype}"
