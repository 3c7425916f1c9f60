"""Texts of CUDA sources without their comments."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def without_comments(text: str) -> str:
    """The text with a space, and the same lines, in place of each comment.

    Examples
    --------
    >>> without_comments("int x;  // a number")
    'int x;   '
    """
    return _COMMENT.sub(lambda found: " " + "\n" * found[0].count("\n"), text)
