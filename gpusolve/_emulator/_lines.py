"""Source lines of instructions, and of errors."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple, NoReturn


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
