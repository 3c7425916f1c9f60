"""Functions that Numba compiles for the CPU, if it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function of arrays and numbers at its first call.

    It runs without the interpreter lock, so that threads run it in parallel. The
    machine code is kept on disk. Floating-point operations keep their order, and a
    division by zero gives infinity or NaN, as in NumPy.
    """
    return cast(Function, njit(nogil=True, cache=True, error_model="numpy", _nrt=False)(function))


def inlined(function: Function) -> Function:
    """Compile a function that only compiled functions call, as a part of them."""
    return cast(Function, njit(nogil=True, error_model="numpy", _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def called(function: Function) -> Function:
    """Compile a function that only compiled functions call, as a part of them."""
    return cast(Function, njit(nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))
