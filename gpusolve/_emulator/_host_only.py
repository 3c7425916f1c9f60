"""Refuses kernels that use classes of the standard library which a GPU lacks."""

from __future__ import annotations

import re

from ._errors import CompileError

_IGNORED = re.compile(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\([^)]*\)", re.DOTALL)
_KERNEL = re.compile(r"__global__\b[^;{}]*?\b(\w+)\s*\([^;{}]*\)\s*\{")
_HOST_ONLY = re.compile(
    r"\bstd::(vector|string|map|set|unordered_map|unordered_set|deque|list|function"
    r"|shared_ptr|unique_ptr|cout|cerr)\b"
)


def check_kernels(text: str, file: str) -> None:
    """Raise CompileError for a kernel that uses a class for the host.

    Examples
    --------
    >>> kernel = "__global__ void f() { std::vector<int> x(3); }"
    >>> check_kernels(kernel, "kernel.cu")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    gpusolve._emulator._errors.CompileError: kernel.cu:1: the kernel f uses std::vector,
    which is for the host only
    """
    text = _IGNORED.sub(lambda found: "\n" * found[0].count("\n"), text)
    for kernel in _KERNEL.finditer(text):
        body = text[kernel.end() : _end_of_block(text, kernel.end())]
        if used := _HOST_ONLY.search(body):
            line = text.count("\n", 0, kernel.end() + used.start()) + 1
            raise CompileError(
                f"{file}:{line}: the kernel {kernel[1]} uses {used[0]}, which is for "
                "the host only"
            )


def _end_of_block(text: str, begin: int) -> int:
    """The position after the brace that closes a block that begins before."""
    depth = 1
    for position in range(begin, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position + 1
    return len(text)
