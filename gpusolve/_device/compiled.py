"""Functions that Numba compiles for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
"""Threads run in parallel; a division by zero gives infinity or NaN, as in NumPy.
Without reference counts, which cost more than a short sum; so no array is allocated."""

PART = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, at its first call.

    The machine code is kept on disk.
    """
    return njit(cache=True, **OPTIONS)(function)  # type: ignore[no-any-return]


def called(function: Function) -> Function:
    """Compile a function that only compiled functions call."""
    return njit(forceinline=False, **PART)(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Compile a short function as a part of its callers."""
    return njit(forceinline=True, **PART)(function)  # type: ignore[no-any-return]


def merged(function: Function) -> Function:
    """Compile a function together with its callers, which is faster if there is one."""
    return njit(inline="always", **PART)(function)  # type: ignore[no-any-return]


def _keep_apart(_context: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


apart: Any = intrinsic(_keep_apart)
"""Called by a function, keeps it out of its callers.

The compiler would inline long functions, too, and then spend minutes on the result.
"""
