"""Exceptions of the emulator, and the source lines that they name."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple, NoReturn


class CompileError(RuntimeError):
    """A kernel does not compile. The message has its name and the compiler's log.

    See Also
    --------
    RawKernel, RawModule

    Examples
    --------
    >>> from gpusolve import emulator
    >>> try:
    ...     emulator.RawKernel("__global__ void f(int* x) { x[0] = y; }", "f")
    ... except emulator.CompileError as error:
    ...     print("y" in str(error))
    True
    """


class KernelError(RuntimeError):
    """A kernel failed. The message names the kernel, block, thread, line and error.

    The arrays of the launch keep their values from before it.

    See Also
    --------
    races, memcheck

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve import emulator
    >>> kernel = emulator.RawKernel(
    ...     '''
    ...     extern "C" __global__ void scale(float* x, int n, float factor) {
    ...         const int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...         if (i < n) x[i] *= factor;
    ...     }
    ...     ''',
    ...     "scale",
    ... )
    >>> try:
    ...     kernel((1,), (32,), (np.ones(4, np.float32), np.int32(5), np.float32(2)))
    ... except emulator.KernelError as error:
    ...     print("element 4 of x" in str(error))
    True
    """


class LaunchError(ValueError):
    """A launch that a GPU refuses, with CUDA's number of the error."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class SourceLine(NamedTuple):
    """A line of a source file. Its text is ``name:number``."""

    file: Path
    number: int

    def __str__(self) -> str:
        return f"{self.file.name}:{self.number}" if self.number else "unknown line"


UNKNOWN_LINE = SourceLine(Path(), 0)


def raise_at(line: SourceLine | None, kernel: str, error: Exception) -> NoReturn:
    """Raise an error with a traceback that ends at a source line of a kernel."""
    __tracebackhide__ = True
    if line is None:
        raise error
    tree = ast.parse("raise error")
    for node in (tree.body[0], *ast.iter_child_nodes(tree.body[0])):
        # Without columns, which Python would mark in the line.
        places = {"lineno": line.number, "end_lineno": line.number}
        vars(node).update(places, col_offset=-1, end_col_offset=-1)
    code = compile(tree, str(line.file), "exec")
    exec(code.replace(co_name=kernel), {"error": error})
    raise error
