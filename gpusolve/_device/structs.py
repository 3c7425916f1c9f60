"""C++ structs that kernels take by value.

A `StructType` has the declaration of the struct in C++. A `Struct` has the values of
its fields. CuPy, the emulator and a C function take it as the same bytes; only the
addresses differ.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, address_of

POINTER = "P"
CODES = {"long long": "q", "int": "i", "double": "d"}
"""Codes of :mod:`struct` for the types of numbers in a struct."""

TARGETS: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "unsigned char": np.dtype(np.uint8),
    "int": np.dtype(np.int32),
    "long long": np.dtype(np.int64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}
"""The dtypes of arrays that pointers point to. Other names are structs."""

COMMENT = re.compile("//.*")
MEMBER = re.compile(r"([\w\s]+?)\s*(\*?)\s*(\w+)")
"""The type of a member, whether it is a pointer, and its name."""


class Field(NamedTuple):
    """A member of a struct: `type` is ``"const T*"``, ``"int"``, ..."""

    name: str
    type: str

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*")

    @property
    def is_const(self) -> bool:
        """Whether it points to const."""
        return self.type.startswith("const ")

    @property
    def code(self) -> str:
        return POINTER if self.is_pointer else CODES[self.type]


class Pointer(NamedTuple):
    """A pointer in a struct.

    Attributes
    ----------
    name : str
    array : array or None
        None is a null pointer.
    dtype : numpy.dtype or None
        Of the array. None: any, because the pointer points to structs.
    is_const : bool
    """

    name: str
    array: Array | None
    dtype: np.dtype[Any] | None
    is_const: bool


class StructType:
    r"""A C++ struct of pointers and numbers, in their natural alignment.

    Parameters
    ----------
    name : str
    declaration : str
        The members as in C++: pointers, ``long long``, ``int`` and ``double``. `T` is
        the target of some pointers.

    Examples
    --------
    >>> import numpy as np
    >>> rows = StructType("Rows", "const T* A; long long stride; int m, n;")
    >>> [rows.offset(name) for name in rows.names], rows.bytes
    ([0, 8, 16, 20], 24)
    >>> rows(np.dtype(np.float64), A=np.eye(3), stride=3, m=3, n=3).packed()[8:]
    b'\x03\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x03\x00\x00\x00'
    """

    def __init__(self, name: str, declaration: str) -> None:
        self.name = name
        self.fields = tuple(_fields(declaration))
        self.names = tuple([field.name for field in self.fields])
        codes = [field.code for field in self.fields]
        last = "0" + max(codes, key=struct.calcsize)  # pads to the widest member
        self._codes = codes
        self._layout = struct.Struct("@" + "".join(codes) + last)
        self.pack = self._layout.pack
        self.bytes = self._layout.size
        self.dtype = np.dtype((np.void, self.bytes))
        self.pointers = tuple([k for k, code in enumerate(codes) if code == POINTER])
        """The indices of the pointers among the fields."""

    def __repr__(self) -> str:
        return f"<struct {self.name} of {self.bytes} bytes>"

    def __call__(self, T: np.dtype[Any] | None = None, /, **values: Any) -> Struct:
        """The struct with these values; all fields, in any order.

        Raises
        ------
        TypeError
            If a field is missing, or the struct does not have a field.
        """
        if len(values) == len(self.names):
            with contextlib.suppress(KeyError):
                return Struct(self, T, list(map(values.__getitem__, self.names)))
        different = ", ".join(sorted(values.keys() ^ set(self.names)))
        raise TypeError(
            f"{self.name} must have the fields {', '.join(self.names)}, got others or "
            f"not all: {different}"
        )

    def of(self, T: np.dtype[Any] | None, *values: Any) -> Struct:
        """The struct with these values, in the order of the fields."""
        return Struct(self, T, list(values))

    def offset(self, name: str) -> int:
        """Bytes before a field."""
        k = self.names.index(name)
        return struct.calcsize("@" + "".join(self._codes[:k]) + "0" + self._codes[k])


class Struct:
    """The values of a struct, in the order of its fields.

    Values of pointers are arrays, None for null pointers, or addresses. The emulator
    takes no addresses.
    """

    __slots__ = ("T", "type", "values")

    def __init__(
        self, type: StructType, T: np.dtype[Any] | None, values: list[Any]
    ) -> None:
        self.type, self.T, self.values = type, T, values

    def __repr__(self) -> str:
        return f"<struct {self.type.name}>"

    def __getitem__(self, name: str) -> Any:
        return self.values[self.type.names.index(name)]

    def replace(self, **changes: Any) -> Struct:
        """The same struct with other values of some fields."""
        values = self.values.copy()
        for name, value in changes.items():
            values[self.type.names.index(name)] = value
        return Struct(self.type, self.T, values)

    def packed(self, address: Callable[[Any], int] | None = None) -> bytes:
        """The bytes of the struct in memory.

        They have the addresses of the arrays, which must stay alive as long as the
        bytes are in use.

        Parameters
        ----------
        address : callable, optional
            The address of an array; by default of its first element.

        Raises
        ------
        TypeError
            If a number is not of its field's type.
        """
        address = address or address_of
        values = self.values.copy()
        for k in self.type.pointers:
            if (value := values[k]) is None:
                values[k] = 0
            elif type(value) is not int:
                values[k] = address(value)
        try:
            return self.type.pack(*values)
        except struct.error:
            raise TypeError(self._describe_misfit(values)) from None

    def _describe_misfit(self, values: list[Any]) -> str:
        """The first value that is not of its field's type."""
        for field, value in zip(self.type.fields, values, strict=True):
            try:
                struct.pack(field.code, value)
            except struct.error:
                break
        return f"{field.name} of {self.type.name} must be {field.type}, got {value!r}"

    def packed_array(self) -> PackedStruct:
        """The argument of a CuPy kernel.

        CuPy passes a NumPy array of size 1 by value. The driver copies its bytes during
        the launch; the memory of the arrays is reused in the order of the stream. So
        nothing has to stay alive after the launch.
        """
        packed = self.packed(device_address)
        array = np.ndarray.__new__(PackedStruct, (), self.type.dtype, packed)
        array.struct = self
        return array

    def pointers(self) -> list[Pointer]:
        """The pointers, in the order of the fields."""
        type = self.type
        found = [(type.fields[k], self.values[k]) for k in type.pointers]
        return [
            Pointer(field.name, value, self._target(field), field.is_const)
            for field, value in found
        ]

    def _target(self, field: Field) -> np.dtype[Any] | None:
        target = field.type.removeprefix("const ").removesuffix("*")
        return self.T if target == "T" else TARGETS.get(target)


class PackedStruct(np.ndarray[Any, Any]):
    """The bytes of a struct: an array of size 1, which CuPy passes by value."""

    struct: Struct
    """It keeps the arrays alive to which the bytes point."""


def device_address(array: Array) -> int:
    """The address of an array on a GPU; TypeError for a NumPy array."""
    if isinstance(array, np.ndarray):
        raise TypeError(in_host_memory(array))
    return int(array.data.ptr)


def in_host_memory(array: np.ndarray[Any, Any]) -> str:
    """The message for an array that a kernel on a GPU cannot read."""
    return (
        "a kernel on a GPU takes CuPy arrays, got a NumPy array of shape "
        f"{array.shape} and dtype {array.dtype}"
    )


def _fields(declaration: str) -> list[Field]:
    """The members, from their declarations in C++."""
    fields = []
    for member in COMMENT.sub("", declaration).split(";"):
        first, *more = [declarator.strip() for declarator in member.split(",")]
        if found := MEMBER.fullmatch(first):
            target, *declarator = found.groups()
            for name in ("".join(declarator), *more):
                star = "*" * name.count("*")
                fields.append(Field(name.strip("* "), " ".join(target.split()) + star))
    return fields
