"""The compiled object under the address and undefined-behaviour sanitizers of GCC."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# The object is compiled again, with the sources and flags of the package.
from gpusolve._device import object_files
from gpusolve._device.kernels import source_directory

TESTS = Path(__file__).parents[1]

FLAGS = (
    "-std=c++17",
    "-g",
    "-O0",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-Wno-psabi",
    "-fPIC",
    "-shared",
)

OPTIONS = {"x86-64-v3": ("-march=x86-64-v3", "-DGPUSOLVE_X86_64_V3")}
"""What the compiler is told about an instruction set."""

SEPARATE = {
    "team.cuh": (
        "::at(reinterpret_cast<T*>(first)).from(before);",
        "::at(static_cast<T*>(malloc(count * sizeof(T))));",
    ),
    "certified_system.cuh": (
        "T* piece = next;",
        "T* piece = static_cast<T*>(malloc(count * sizeof(T)));",
    ),
}
"""A line of a file, and the line that allocates an array by itself in its place."""


def library(name: str) -> str:
    """The path of a library of the compiler; the test is skipped if there is none."""
    compiler = shutil.which("g++")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs GCC on Linux")
    found = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True
    ).stdout.strip()
    if not Path(found).is_file():
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def separated_sources(tmp_path: Path) -> Path:
    """The sources, with an allocation for each array of a thread."""
    copy = tmp_path / "cuda_src"
    shutil.copytree(source_directory(), copy)
    for name, (line, changed) in SEPARATE.items():
        text = (copy / name).read_text(encoding="utf-8")
        assert text.count(line) == 1, name
        text = text.replace(line, changed)
        (copy / name).write_text(f"#include <cstdlib>\n{text}", encoding="utf-8")
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("instruction_set", object_files.instruction_sets())
def test_no_access_is_outside_an_array(
    instruction_set: str, separated_sources: Path, tmp_path: Path
) -> None:
    preloaded = library("libasan.so")
    target = tmp_path / object_files.file_name(instruction_set)
    sources = sorted((separated_sources / "cpu").glob("*.cpp"))
    subprocess.run(
        [
            "g++",
            *FLAGS,
            *OPTIONS.get(instruction_set, ()),
            '-DGPUSOLVE_SOURCES=""',
            f'-DGPUSOLVE_INSTRUCTION_SET="{instruction_set}"',
            *map(str, sources),
            "-o",
            str(target),
        ],
        check=True,
    )
    done = subprocess.run(
        [sys.executable, str(TESTS / "support" / "sanitized_solves.py")],
        env={
            **os.environ,
            "GPUSOLVE_OBJECT": str(target),
            "LD_PRELOAD": preloaded,
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": str(TESTS.parent),
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert int(done.stdout) > 2000
