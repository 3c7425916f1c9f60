"""Reads the names of a kernel's parameters from its source, for error messages."""

from __future__ import annotations

import re

from ._comments import without_comments

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


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
