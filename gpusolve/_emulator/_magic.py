"""The cell magic ``%%cuda`` of IPython: run a CUDA program, or define kernels.

``%load_ext gpusolve.emulator`` adds it to a notebook.

- A cell with ``main`` is a whole program. It is compiled and run, with what stands
  behind ``%%cuda``: ``--races``, ``--memcheck``, ``--profile`` and the other options of
  ``python -m gpusolve.emulator``, then the arguments of the program. With ``--profile``
  the source is shown with what each line costs.
- A cell without ``main`` defines kernels: Python variables with their names, which are
  launched as a `RawKernel`.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.display import HTML, display

from ._errors import CompileError
from ._raw import RawModule, stored
from ._signature import without_comments

_MAIN = re.compile(r"\bint\s+main\s*\(")
_KERNEL = re.compile(
    r"(?P<template>\btemplate\s*<[^;{}]*>\s*)?(\bextern\s*\"C\"\s*|\bstatic\s+)?"
    r"\b__global__\s+(__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
    r"(__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\("
)


class CellError(RuntimeError):
    """A cell does not compile, or its program failed. It is shown as its message."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


def register(shell: InteractiveShell) -> None:
    """Add the magic to a shell."""

    def cuda(line: str, cell: str) -> None:
        # An empty line stands for the magic, so that lines have the cell's numbers.
        source = stored(f"\n{cell}")
        if _MAIN.search(without_comments(cell)):
            _run(source, shlex.split(line))
        elif line.strip():
            raise UsageError("%%cuda: options need a cell with main()")
        else:
            shell.push(_kernels(source))

    cuda.__doc__ = __doc__
    shell.register_magic_function(cuda, "cell")


def _run(source: Path, given: list[str]) -> None:
    """Run a program in a process of its own, which its errors end."""
    from ._command import add_options  # here, because kernels do without nvcc

    parser = MagicArgumentParser(prog="%%cuda", add_help=False)
    add_options(parser)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parsed = parser.parse_args(given)
    options = given[: len(given) - len(parsed.arguments)]
    command = [sys.executable, "-m", "gpusolve.emulator", *options]
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "lines.html"
        if parsed.profile:
            command = [word for word in command if word != "--profile"]
            command += ["--html", str(page)]
        done = subprocess.run(
            [*command, str(source), *parsed.arguments], capture_output=True, text=True
        )
        print(done.stdout, end="")
        if page.exists():
            display(HTML(page.read_text("utf-8")))
    if done.returncode:
        status = f"the exit status is {done.returncode}"
        raise CellError(done.stderr.strip() or status)
    print(done.stderr, end="", file=sys.stderr)


def _kernels(source: Path) -> dict[str, object]:
    """The kernels of a file that are not templates, by their names."""
    text = without_comments(source.read_text())
    found = list(_KERNEL.finditer(text))
    names = [kernel["name"] for kernel in found if not kernel["template"]]
    if not names:
        raise UsageError(
            "%%cuda: the cell must have main(), or kernels that are not templates; use "
            "RawKernel for an instance of a template"
        )
    module = RawModule(source)
    try:
        return {name: module.get_function(name) for name in names}
    except CompileError as error:
        raise CellError(str(error)) from None
