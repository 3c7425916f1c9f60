"""Refuses kernels that use classes or functions which only the host has."""

from __future__ import annotations

import re

from ._comments import without_comments
from ._errors import CompileError

_BOUNDS = re.compile(r"__launch_bounds__\s*\([^)]*\)")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.DOTALL | re.MULTILINE)
_KERNEL = re.compile(r"__global__\b[^;{}]*?\b(\w+)\s*\([^;{}]*\)\s*\{")
_HOST_ONLY = re.compile(
    r"\bstd::(vector|string|map|set|unordered_map|unordered_set|deque|list|function"
    r"|shared_ptr|unique_ptr|cout|cerr)\b"
)

_PLAIN = (
    r"(?:static|inline|const|unsigned|signed|void|bool|char|short|int|long|float|double"
    r"|size_t|u?int\d+_t)\b"
)
_HOST_FUNCTION = re.compile(
    rf"(?:\A|[;}}])\s*(?:{_PLAIN}[\s*&]*)+\b(\w+)\s*\([^;{{}}()]*\)\s*\{{"
)
"""A definition without other words before its name: a macro may be `__device__`."""

_DEVICE_FUNCTION = re.compile(r"__device__[^;{}()]*?\b(\w+)\s*\(")


def check_kernels(text: str, file: str, *, by_nvcc: bool = False) -> None:
    """Raise CompileError for a kernel that uses a class or function for the host.

    CuPy asks NVRTC to compile a function without `__device__` for the device; nvcc
    compiles it for the host. Functions of included files, templates and members of
    namespaces are not checked.

    Examples
    --------
    >>> kernel = "__global__ void f() { std::vector<int> x(3); }"
    >>> check_kernels(kernel, "kernel.cu")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    gpusolve._emulator._errors.CompileError: kernel.cu:1: the kernel f uses std::vector,
    which is for the host only
    """
    text = _BOUNDS.sub("", without_comments(text))
    text = _DIRECTIVE.sub(lambda found: ";" + "\n" * found[0].count("\n"), text)
    host_only = _HOST_ONLY.pattern
    if by_nvcc and (names := host_functions(text)):
        host_only += rf"|(?<![.>:\w])(?:{'|'.join(sorted(names))})(?=\s*\()"
    for kernel in _KERNEL.finditer(text):
        body = text[kernel.end() : _end_of_block(text, kernel.end())]
        if used := re.search(host_only, body):
            line = text.count("\n", 0, kernel.end() + used.start()) + 1
            raise CompileError(
                f"{file}:{line}: the kernel {kernel[1]} uses {used[0]}, which is for "
                "the host only"
            )


def host_functions(text: str) -> set[str]:
    """The names of functions that are defined without `__device__` only.

    Examples
    --------
    >>> sorted(host_functions("int f(int x) { return x; } HD int g() { return 1; }"))
    ['f']
    """
    return {*_HOST_FUNCTION.findall(text)} - {*_DEVICE_FUNCTION.findall(text)}


def _end_of_block(text: str, begin: int) -> int:
    """The position after the brace that closes a block that begins before."""
    depth = 1
    for position in range(begin, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position + 1
    return len(text)
