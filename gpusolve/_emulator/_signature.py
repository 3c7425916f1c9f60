"""Names and types of a kernel's parameters, from its source and its C++ type."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ._arguments import Parameter

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_QUALIFIER = re.compile(r"\b(const|volatile|__restrict__|signed)\b")

_SIZES = {
    "i": {"bool": 1, "char": 1, "short": 2, "int": 4, "long": 8, "long long": 8},
    "f": {"__half": 2, "Half": 2, "float": 4, "double": 8},
}
"""Bytes of integers and of floating-point numbers, as a demangled type names them."""


def without_comments(text: str) -> str:
    """The text with a space, and the same lines, in place of each comment.

    Examples
    --------
    >>> without_comments("int x;  // a number")
    'int x;   '
    """
    return _COMMENT.sub(lambda found: " " + "\n" * found[0].count("\n"), text)


def parameters_of(
    type: str, source: str, instance: str, sizes: Sequence[int]
) -> list[Parameter]:
    """The parameters of a kernel.

    Parameters
    ----------
    type : str
        The type of a pointer to the kernel, such as ``void (*)(float*, int)``; empty if
        it is not known.
    source, instance : str
        The text of the ``.cu`` file, and the kernel with its template arguments.
    sizes : sequence of int
        Bytes of the parameters.

    Examples
    --------
    >>> text = "__global__ void scale(const float* x, int n) {}"
    >>> x, n = parameters_of("void (*)(float const*, int)", text, "scale", [8, 4])
    >>> x.name, x.kind, x.bytes, x.is_pointer, x.is_const
    ('x', 'f', 4, True, True)
    >>> n.name, n.kind, n.bytes, n.is_pointer
    ('n', 'i', 4, False)
    """
    names = parameter_names(source, instance, len(sizes))
    types = _split(type.partition("(*)(")[2])
    if len(types) != len(sizes):
        types = [""] * len(sizes)
    return [
        _parameter(name, type, size)
        for name, type, size in zip(names, types, sizes, strict=True)
    ]


def _parameter(name: str, type: str, size: int) -> Parameter:
    words = _QUALIFIER.sub(" ", type).replace("unsigned", " ").split()
    target = " ".join(words).replace(" *", "*")
    is_pointer = target.endswith("*")
    target = target.removesuffix("*").strip()
    is_const = is_pointer and "const" in _words_of_target(type)
    for kind, sizes in _SIZES.items():
        if target in sizes:
            return Parameter(name, is_pointer, kind, sizes[target], is_const)
    if is_pointer:
        kind, bytes = ("s", 8) if target.endswith("*") else ("s", 0)
        return Parameter(name, True, "v" if target == "void" else kind, bytes, is_const)
    return Parameter(name, False, "s", size)


def _words_of_target(type: str) -> list[str]:
    """The words of what a pointer points to: after its own last ``*`` but one."""
    return _IDENTIFIER.findall(type.rpartition("*")[0].rpartition("*")[2])


def parameter_names(source: str, instance: str, count: int) -> list[str]:
    """The parameters' names; "argument 1" and so on if the source cannot be parsed.

    Parameters
    ----------
    source : str
        The text of the ``.cu`` file.
    instance : str
        The kernel, with its template arguments.
    count : int
        Number of parameters of the compiled kernel.

    Examples
    --------
    >>> text = "__global__ void scale(const float* x, int n) {}"
    >>> parameter_names(text, "scale", 2)
    ['x', 'n']

    Names come before default arguments:

    >>> text = "__global__ void clear(float* x = NULL, int n = 0) {}"
    >>> parameter_names(text, "clear", 2)
    ['x', 'n']

    The parameters of a pack are numbered:

    >>> text = "__global__ void add(float* x, const T*... more) {}"
    >>> parameter_names(text, "add<float, int>", 3)
    ['x', 'more0', 'more1']
    """
    name = instance.partition("<")[0].strip().rpartition("::")[2]
    text = without_comments(source)
    start = re.search(rf"__global__[^;{{]*?\b{re.escape(name)}\s*\(", text)
    if start:
        declarations = _split(text[start.end() :])
        if declarations and "..." in declarations[-1]:
            pack = declarations.pop()
            rest = range(count - len(declarations))
            declarations += [f"{pack}{number}" for number in rest]
        found = [
            _IDENTIFIER.findall(declaration.partition("=")[0])
            for declaration in declarations
        ]
        if len(found) == count and all(found):
            return [identifiers[-1] for identifiers in found]
    return [f"argument {number + 1}" for number in range(count)]


def _split(text: str) -> list[str]:
    """The declarations before the parenthesis that closes the parameter list."""
    depth, start = 0, 0
    parameters = []
    for position, character in enumerate(text):
        if character in ",)" and depth == 0:
            parameters.append(text[start:position])
            start = position + 1
            if character == ")":
                break
        elif character in "(<[":
            depth += 1
        elif character in ")>]":
            depth -= 1
    return [parameter for parameter in parameters if parameter.strip()]
