"""``setup.py`` compiles the objects of the CPU solver, and fails no installation.

The objects here have only what they say about themselves: they compile in a second.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools")

from compilers import cpp_compiler

# The names of the files, which ``setup.py`` imports, too.
from gpusolve._device import object_files, objects

ROOT = Path(__file__).parents[2]
NAMES = {object_files.file_name(name) for name in object_files.instruction_sets()}

COMPILER = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *{refused}*) echo "error: {refused} is not known"; exit 1 ;;
esac
exec {compiler} "$@"
"""


@pytest.fixture(autouse=True)
def compiler() -> str:
    found = cpp_compiler()
    if found is None:
        pytest.skip("no C++ compiler")
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What ``setup.py`` needs, and the source of the smallest object."""
    copy = tmp_path / "checkout"
    for name in (
        "setup.py",
        "setup.cfg",
        "README.md",
        "gpusolve/__init__.py",
        "gpusolve/_device/object_files.py",
        "cuda_src/cpu/object.cpp",
        "cuda_src/cpu/exported.h",
    ):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return copy


IN_PLACE = "build_ext", "--inplace"


def build(
    checkout: Path, command: tuple[str, ...] = IN_PLACE, **environment: str
) -> str:
    """Build in place; returns what was printed."""
    return subprocess.run(
        [sys.executable, "setup.py", *command],
        cwd=checkout,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    ).stdout


def files(checkout: Path) -> set[str]:
    """The names of the files among the objects."""
    folder = checkout / "gpusolve" / object_files.FOLDER
    return {file.name for file in folder.glob("*")}


def compiler_that_refuses(option: str, compiler: str, folder: Path) -> Path:
    """A compiler that fails if it gets an option; it writes a log of its arguments."""
    path = folder / "compiler"
    path.write_text(
        COMPILER.format(log=folder / "log", refused=option, compiler=compiler)
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_an_object_for_each_instruction_set(checkout: Path) -> None:
    assert "warning: " not in build(checkout)
    assert files(checkout) == NAMES
    for name in object_files.instruction_sets():
        path = (
            checkout / "gpusolve" / object_files.FOLDER / object_files.file_name(name)
        )
        library = objects.declared(ctypes.CDLL(str(path)))
        assert objects.instruction_set(library) == name
        expected = object_files.fingerprint(checkout / "cuda_src")
        assert objects.sources(library) == expected


def test_an_editable_installation_has_the_best_object(checkout: Path) -> None:
    build(checkout, ("editable_wheel", "--dist-dir", str(checkout / "dist")))
    best = objects.chosen().path
    assert best is not None
    assert files(checkout) == {best.name}


def test_without_a_compiler_there_is_a_warning(checkout: Path) -> None:
    (checkout / "gpusolve" / object_files.FOLDER).mkdir()
    old = checkout / "gpusolve" / object_files.FOLDER / sorted(NAMES)[0]
    old.write_text("of other sources")
    printed = build(checkout, CXX="/nowhere/c++")
    assert "warning: no C++ compiler was found" in printed
    assert files(checkout) == set()


@pytest.mark.parametrize("wrong", ["a file in the place of the folder", "CXX"])
def test_no_error_fails_the_build(checkout: Path, wrong: str) -> None:
    if wrong == "CXX":
        printed = build(checkout, CXX='"g++')
    else:
        (checkout / "gpusolve" / object_files.FOLDER).write_text("a file")
        printed = build(checkout)
    assert "warning: the solver was not compiled" in printed
    assert files(checkout) == set()


@pytest.mark.skipif(len(NAMES) < 2, reason="one instruction set")
def test_each_object_is_optional(checkout: Path, compiler: str, tmp_path: Path) -> None:
    """A compiler may be too old for an instruction set."""
    source = checkout / "cuda_src" / "cpu" / "solver.cpp"
    source.write_text("int answer() { return 42; }\n")
    best, *others = object_files.instruction_sets()
    refusing = compiler_that_refuses(f"-march={best}", compiler, tmp_path)
    printed = build(checkout, CXX=str(refusing))
    assert f"warning: the solver for {best} was not compiled" in printed
    assert f"-march={best} is not known" in printed
    assert files(checkout) == {object_files.file_name(name) for name in others}


def test_options_of_the_compiler(checkout: Path, compiler: str, tmp_path: Path) -> None:
    """What tells whether a CPU has an instruction set is compiled without it."""
    source = checkout / "cuda_src" / "cpu" / "solver.cpp"
    source.write_text("int answer() { return 42; }\n")
    build(checkout, CXX=str(compiler_that_refuses("--none", compiler, tmp_path)))
    commands = (tmp_path / "log").read_text().splitlines()
    compiled = [command for command in commands if command.startswith("-c ")]
    assert len(compiled) == 2 * len(NAMES)
    for command in compiled:
        assert "-ffp-contract=off" in command
        assert "-ffast-math" not in command
        assert "-Ofast" not in command
        needs = "-march" in command
        assert needs == ("solver.cpp" in command and "x86-64-v3" in command)
    assert len(commands) == len(compiled) + len(NAMES)
