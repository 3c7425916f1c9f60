"""The `__device__` and `__constant__` variables that the kernels of a module share.

Each kernel has an object of its own, and so have the checks and the profile. A module
keeps the values, and copies them to the object of a launch and back.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from ._comments import without_comments
from ._program import Program

Bytes = npt.NDArray[np.uint8]

_DECLARED = (
    r"\b(?:{memory})\b[^;(){{}}=]*?\b(\w+)\s*(?:\[[^;={{]*\]\s*)*(?:=[^;]*|\{{[^;]*)?;"
)
_GLOBAL = "__device__|__managed__"
_ALL = f"{_GLOBAL}|__constant__"


def declared_variables(source: str, memory: str = _ALL) -> list[str]:
    """The names of a source's variables in global or constant memory.

    Examples
    --------
    >>> declared_variables('''
    ...     __constant__ float weights[4] = {1, 2, 3, 4};
    ...     __device__ int count;
    ...     __device__ float twice(float x) { return 2 * x; }
    ... ''')
    ['weights', 'count']
    """
    return re.findall(_DECLARED.format(memory=memory), without_comments(source))


def global_spans(
    program: Program, sources: Iterable[str]
) -> dict[str, tuple[int, int]]:
    """Addresses and sizes of a kernel's variables in global memory, by their names."""
    names = [name for text in sources for name in declared_variables(text, _GLOBAL)]
    variables = program.variables(names) if names else {}
    return {
        name: (memory.ctypes.data, memory.size) for name, memory in variables.items()
    }


class Variables:
    """The values of a module's variables, as bytes by name."""

    def __init__(self, source: str) -> None:
        self._names = declared_variables(source)
        self._values: dict[str, Bytes] = {}

    def of(self, program: Program, name: str) -> Bytes:
        """The bytes of a variable, which the module's kernels read and write.

        Raises
        ------
        KeyError
            If the module has no such variable.
        """
        self._add(program)
        return self._values[name]

    @contextlib.contextmanager
    def loaded(self, program: Program) -> Iterator[None]:
        """Give an object the values for a launch, and keep the values afterwards."""
        own = self._add(program)
        for name, memory in own.items():
            memory[:] = self._values[name]
        yield
        for name, memory in own.items():
            self._values[name][:] = memory

    def _add(self, program: Program) -> dict[str, Bytes]:
        """The memory of the variables in an object; the first has the first values."""
        own = program.variables(self._names)
        for name, memory in own.items():
            self._values.setdefault(name, memory.copy())
        return own
