"""Faults that `make test` must notice: each is put into a copy of the sources.

``python tests/support/mutations.py [rooms]`` prints the test that fails first, or
"survives". A fault is in the sources that the emulator or Python runs, or in the
emulator's machine, which is compiled again. The CPU solver has none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COPIED = (
    "benchmarks",
    "cuda_src",
    "gpusolve",
    "tests",
    "pyproject.toml",
    "README.md",
    "setup.cfg",
    "setup.py",
)
OBJECTS = Path("gpusolve", "_objects")


class Mutation(NamedTuple):
    """A text of a file that is replaced, and the folder of tests that must notice."""

    room: str
    file: str
    old: str
    new: str


TABLE = Path(__file__).with_suffix(".txt")
"""Lines like "blocks cuda_src/scan.cu: a < b => a <= b"."""


def mutations() -> list[Mutation]:
    """The rows of the table."""
    rows = []
    for line in TABLE.read_text().splitlines():
        place, _, texts = line.partition(": ")
        rows.append(Mutation(*place.split(), *texts.split(" => ")))
    return rows


def copied(folder: Path) -> Path:
    """A copy of the sources and the tests."""
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


def compile_machine(tree: Path) -> None:
    """Compile the machine of a copy."""
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=tree,
        env={**os.environ, "GPUSOLVE_BUILD": "machine"},
        check=True,
    )


def first_failure(mutation: Mutation, tree: Path) -> str:
    """The doctest or quick test of the room that fails first, or "survives"."""
    path = tree / mutation.file
    text = path.read_text()
    path.write_text(text.replace(mutation.old, mutation.new))
    is_compiled = path.parent.name == "machine"
    if is_compiled:
        compile_machine(tree)
    doctests = [mutation.file] if path.suffix == ".py" else []
    options = ["-q", "-x", "-m", "not slow and not gpu", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *doctests, f"tests/{mutation.room}"],
        cwd=tree,
        env={**os.environ, "XDG_CACHE_HOME": str(tree / "cache")},
        capture_output=True,
        text=True,
    )
    path.write_text(text)
    if is_compiled:
        shutil.copytree(ROOT / OBJECTS, tree / OBJECTS, dirs_exist_ok=True)
    if run.returncode == 0:
        return "survives"
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    return found[1] if found else run.stdout[-500:] + run.stderr[-500:]


def main() -> int:
    rooms = sys.argv[1:]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        for mutation in mutations():
            if not rooms or mutation.room in rooms:
                found = first_failure(mutation, tree)
                survivors += found == "survives"
                print(f"{mutation.file}: {mutation.new}: {found}", flush=True)
    return min(survivors, 1)


if __name__ == "__main__":
    sys.exit(main())
