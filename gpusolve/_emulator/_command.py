"""``python -m gpusolve.emulator program.cu``: run a whole program on a CPU."""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._checks import memcheck, races
from ._errors import CompileError
from ._profile import Report, profile
from ._schedule import ORDERS, parsed, schedule
from .program import FAILURE, HostProgram


def main(given: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    parser = _parser()
    options = parser.parse_args(given)
    counts = options.profile or options.lines or options.html
    if counts and (options.races or options.memcheck):
        parser.error("--profile, --lines and --html exclude --races and --memcheck")
    compiler = [f"-D{value}" for value in options.define]
    compiler += [f"-I{Path(path).resolve()}" for path in options.include]
    compiler += options.nvcc
    with contextlib.ExitStack() as stack:
        stack.enter_context(schedule(options.schedule.order, options.schedule.seed))
        if options.races:
            stack.enter_context(races())
        if options.memcheck:
            stack.enter_context(memcheck())
        report = stack.enter_context(profile()) if counts else Report()
        show = functools.partial(_show, report, options)
        try:
            program = HostProgram(options.program, compiler, options.devices, show)
        except CompileError as error:
            print(f"error: {error}", file=sys.stderr)
            return FAILURE
        program.run(options.arguments)


def _show(report: Report, options: argparse.Namespace) -> None:
    """Print or write what the kernels cost."""
    if options.profile:
        print(report, file=sys.stderr)
    if options.lines:
        print(report.listing(), file=sys.stderr)
    if options.html:
        options.html.write_text(f"<!doctype html>\n{report.html()}\n", "utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpusolve.emulator",
        description="Compile and run a CUDA program on a CPU. The exit status is the "
        "program's, or 1 after an error of a kernel.",
    )
    add_options(parser)
    parser.add_argument("program", type=Path, help="a .cu file with main()")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options, without the program and its arguments."""
    parser.allow_abbrev = False
    parser.add_argument("--races", action="store_true", help="report data races")
    parser.add_argument(
        "--memcheck", action="store_true", help="check each access to memory"
    )
    parser.add_argument(
        "--profile", action="store_true", help="print what the kernels cost"
    )
    parser.add_argument(
        "--lines", action="store_true", help="print what each source line costs"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write what each source line costs"
    )
    parser.add_argument(
        "--schedule",
        type=parsed,
        default="forward",
        metavar="ORDER[:SEED]",
        help=f"the order of the threads: {', '.join(ORDERS)}",
    )
    parser.add_argument(
        "--devices", type=int, default=1, metavar="N", help="how many GPUs there are"
    )
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument(
        "--nvcc", metavar="OPTION", help="of nvcc, such as --nvcc=-std=c++20", **several
    )
    parser.add_argument("-D", dest="define", metavar="NAME[=VALUE]", **several)
    parser.add_argument("-I", dest="include", metavar="DIRECTORY", **several)
