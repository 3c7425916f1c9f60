"""How much of a directory of CUDA sources the emulator compiles and runs.

    python benchmarks/emulator_coverage.py DIRECTORY
    python benchmarks/emulator_coverage.py DIRECTORY -I DIRECTORY/common --memcheck

A file with ``main`` is compiled and run as a program, without arguments. Another file
is compiled as a part of an empty program, or, if its host code does not compile, each
kernel that is not a template by itself. The table has a line for each file; results are
Markdown. The sources of others are not in this repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness import Machine, choose, head, parser, publish, row, table_head

from gpusolve.emulator import CompileError, RawKernel

IGNORED = re.compile(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\([^)]*\)", re.DOTALL)
MAIN = re.compile(r"\bmain\s*\(")
KERNEL = re.compile(
    r"(template\s*<[^;{}]*>\s*)?(?:extern\s*\"C\"\s*|static\s+|inline\s+)*"
    r"__global__\b[^;{}()]*?\b(\w+)\s*\("
)

SECONDS = 300
"""The most seconds of a program."""


class Coverage(NamedTuple):
    """Of a file: its kernels, how many are compiled, and what came of its program."""

    kernels: int
    compiled: int
    outcome: str


def kernels_of(text: str) -> dict[str, bool]:
    """The names of the kernels, and whether each is a template."""
    found = KERNEL.findall(IGNORED.sub(" ", text))
    return {name: bool(template) for template, name in found}


def run_program(file: Path, options: list[str]) -> tuple[bool, str]:
    """Whether a program compiles, and its outcome: right, reported or too slow."""
    command = [sys.executable, "-m", "gpusolve.emulator", *options, str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return True, f"more than {SECONDS} s"
    if "does not compile" in done.stderr:
        return False, first_error(done.stderr)
    if done.returncode == 0:
        return True, "right"
    return True, done.stderr.strip().splitlines()[-1] if done.stderr else "failed"


def first_error(log: str) -> str:
    """The first error of a compiler's log."""
    lines = (line.partition("error: ")[2] for line in log.splitlines()[1:])
    return next((line for line in lines if line), "does not compile")


def cover(file: Path, options: list[str], include: list[str]) -> Coverage:
    """Compile the file, and run it if it is a program."""
    text = file.read_text(errors="replace")
    kernels = kernels_of(text)
    if MAIN.search(IGNORED.sub(" ", text)):
        compiles, outcome = run_program(file, [*options, *include])
        return Coverage(len(kernels), len(kernels) * compiles, outcome)
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / file.name
        program.write_text(f'#include "{file.resolve()}"\nint main() {{}}\n')
        if run_program(program, include)[0]:
            return Coverage(len(kernels), len(kernels), "compiled")
    names = [name for name, is_template in kernels.items() if not is_template]
    compiled, errors = 0, []
    for name in names:
        try:
            RawKernel(file, name, include)
            compiled += 1
        except CompileError as error:
            errors.append(first_error(str(error)))
    return Coverage(len(names), compiled, errors[0] if errors else "compiled")


def report(machine: Machine, options: Any) -> Iterator[str]:
    """The lines of the table."""
    yield from head("What the emulator compiles and runs", machine)
    yield from table_head("file", "kernels", "compiled", "outcome")
    include = [f"-I{path}" for path in options.include]
    checks = [f"--{name}" for name in ("races", "memcheck") if getattr(options, name)]
    found = []
    for file in sorted(options.directory.rglob("*.cu")):
        coverage = cover(file, checks, include)
        found.append(coverage)
        outcome = coverage.outcome.replace("|", "/")[:120]
        name = file.relative_to(options.directory)
        yield row(str(name), coverage.kernels, coverage.compiled, outcome)
    kernels, compiled = (sum(item[k] for item in found) for k in range(2))
    right = sum(item.outcome == "right" for item in found)
    share = compiled / max(kernels, 1)
    yield f"\nKernels compiled: {compiled} of {kernels}, {share:.0%}."
    yield f"Programs that end with status 0: {right}."


def main() -> None:
    made = parser(__doc__)
    made.add_argument("directory", type=Path)
    made.add_argument("-I", dest="include", action="append", default=[])
    made.add_argument("--races", action="store_true")
    made.add_argument("--memcheck", action="store_true")
    options = made.parse_args()
    publish(report(choose(cpu=True), options), options.output)


if __name__ == "__main__":
    main()
