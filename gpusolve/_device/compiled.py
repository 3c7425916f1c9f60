"""Functions that Numba compiles for the CPU."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

from numba import njit, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def has_option(name: str) -> bool:
    """Whether this version of Numba has an option that it does not document."""
    target = getattr(njit(has_option), "targetdescr", None)
    return hasattr(getattr(target, "options", None), name)


OPTIONS = {"nogil": True, "error_model": "numpy"}
"""Threads run in parallel; a division by zero gives infinity or NaN, as in NumPy."""

if has_option("_nrt"):
    # Without reference counts, which cost more than a short sum. No array is allocated.
    OPTIONS["_nrt"] = False

PART = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, at its first call.

    The machine code is kept on disk. It is renewed when the function's file changes, or
    the value of a variable in its closure, such as a `fingerprint` of other files.
    """
    return njit(cache=True, **OPTIONS)(function)  # type: ignore[no-any-return]


def fingerprint(package: str, prefix: str) -> int:
    """A hash of this file and of a package's files whose names have a prefix."""
    names = sorted(one.name for one in files(package).iterdir())
    sources = [files(package) / name for name in names if name.startswith(prefix)]
    sources += [files(__package__) / "compiled.py"]
    digest = hashlib.sha256(b"".join(one.read_bytes() for one in sources))
    return int.from_bytes(digest.digest()[:7], "big")


def called(function: Function) -> Function:
    """Compile a function that only compiled functions call."""
    return njit(forceinline=False, **PART)(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Compile a short function as a part of its callers."""
    return njit(forceinline=True, **PART)(function)  # type: ignore[no-any-return]


def reordered(function: Function) -> Function:
    """Like `inlined`, with sums in any order and fused multiply-adds."""
    options = {**PART, "fastmath": {"reassoc", "nsz", "contract"}}
    return njit(forceinline=True, **options)(function)  # type: ignore[no-any-return]


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
