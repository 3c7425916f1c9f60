"""The names of a kernel's parameters, read from its source for better messages."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def parameter_names(source: str, instance: str, count: int) -> list[str]:
    """The names in the definition; "argument 1" and so on where that is not understood.

    Parameters
    ----------
    source : str
        The text of the ``.cu`` file.
    instance : str
        The kernel, with template arguments if it has any.
    count : int
        How many parameters the compiled kernel has.

    Examples
    --------
    >>> text = "__global__ void scale(const float* x, int n) {}"
    >>> parameter_names(text, "scale", 2)
    ['x', 'n']
    """
    name = instance.partition("<")[0].strip().rpartition("::")[2]
    text = _COMMENT.sub(" ", source)
    start = re.search(rf"__global__[^;{{]*?\b{re.escape(name)}\s*\(", text)
    if start:
        declarations = _split(text[start.end() :])
        found = [_IDENTIFIER.findall(declaration) for declaration in declarations]
        if len(found) == count and all(found):
            return [identifiers[-1] for identifiers in found]
    return [f"argument {number + 1}" for number in range(count)]


def _split(text: str) -> list[str]:
    """The parameters in front of the parenthesis that closes the list."""
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
