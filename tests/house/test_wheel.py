"""The wheel contains the kernels and the objects, and runs without the source tree.

A wheel that is built without a compiler lacks the objects, and runs, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from compilers import cpp_compiler

# The names of the files, which ``setup.py`` imports, too.
from gpusolve._device import object_files

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "tests" / "support" / "installed.py"

PYTHONS = ("3.11", "3.14")
"""The oldest and the newest Python that the package supports."""


def run(*command: object, **options: object) -> str:
    found = subprocess.run(
        [str(part) for part in command],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    return str(found.stdout)


def copied(folder: Path) -> Path:
    """A copy of the checkout, so that the source tree gets no build folder."""
    ignored = shutil.ignore_patterns(
        ".*", "build", "dist", "*.egg-info", "__pycache__", object_files.FOLDER
    )
    shutil.copytree(ROOT, folder / "gpusolve", ignore=ignored)
    return folder / "gpusolve"


def hide_compiler(folder: Path) -> dict[str, str]:
    """An environment in which no compiler is found."""
    empty = folder / "empty"
    empty.mkdir()
    return {**os.environ, "PATH": str(empty), "CXX": str(empty / "c++")}


def without_optimisation(folder: Path) -> str:
    """A C++ compiler that needs a tenth of the time, and makes the same results."""
    if cpp_compiler() is None:
        pytest.skip("no C++ compiler")
    script = folder / "c++"
    script.write_text(f'#!/bin/sh\nexec {cpp_compiler()} "$@" -O0\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the source distribution, to save time with the
    objects of the solver alone."""
    folder, out = (tmp_path_factory.mktemp(name) for name in ("source", "wheel"))
    env = {**os.environ, "GPUSOLVE_BUILD": "gpusolve"}
    env["CXX"] = without_optimisation(folder)
    copy = copied(folder)
    run(sys.executable, "-m", "build", "--outdir", out, copy, env=env)
    assert list(out.glob("*.tar.gz"))
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter of the parameter's version."""
    version = request.param
    if sys.version.startswith(f"{version}."):
        return sys.executable
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "-c", ""], check=False).returncode:
        pytest.skip(f"no Python {version}")
    return found


def contents(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def objects_in(names: set[str]) -> set[str]:
    """The names of the objects in a wheel."""
    folder = f"gpusolve/{object_files.FOLDER}/"
    return {name.removeprefix(folder) for name in names if name.startswith(folder)}


def test_the_wheel_has_the_kernels_the_machine_and_the_objects(wheel: Path) -> None:
    """For a platform and every Python."""
    names = contents(wheel)
    assert "gpusolve/py.typed" in names
    for folder, target in (
        ("cuda_src", "gpusolve/cuda_src"),
        ("cuda_src/cpu", "gpusolve/cuda_src/cpu"),
        ("gpusolve/_emulator/machine", "gpusolve/_emulator/machine"),
    ):
        files = [path for path in (ROOT / folder).iterdir() if path.is_file()]
        assert files
        assert {f"{target}/{path.name}" for path in files} <= names
    (metadata,) = {name.split("/")[0] for name in names} - {"gpusolve"}
    assert objects_in(names) == {
        object_files.file_name(name, "gpusolve")
        for name in object_files.instruction_sets()
    }
    assert re.search(r"-py3-none-(linux|macosx|win)\w*\.whl$", wheel.name)
    archive = zipfile.ZipFile(wheel)
    assert b"Root-Is-Purelib: false" in archive.read(f"{metadata}/WHEEL")
    description = archive.read(f"{metadata}/METADATA").decode()
    assert "License-Expression: BSD-3-Clause" in description
    assert "# gpusolve" in description
    assert not re.findall(r"\]\((?!https?:)", description), "relative links"


def test_the_source_distribution_has_no_tests(wheel: Path) -> None:
    (archive,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = opened.getnames()
    assert any(name.endswith("/cuda_src/scan.cu") for name in names)
    assert not [name for name in names if re.search(r"/(tests\b|test_)", name)]


@pytest.mark.parametrize("python", PYTHONS, indirect=True)
def test_installed_wheel_solves(wheel: Path, tmp_path: Path, python: str) -> None:
    environment = tmp_path / "venv"
    run(python, "-m", "venv", environment)
    installed = environment / "bin" / "python"
    run(installed, "-m", "pip", "install", "-q", wheel)
    variables = {**os.environ, "GPUSOLVE_EMULATE": "0", "PYTHONPATH": ""}
    run(installed, CHECK, "object", cwd=tmp_path, env=variables)


def test_installed_wheel_runs_kernels_on_the_emulator(
    wheel: Path, tmp_path: Path
) -> None:
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        tmp_path / "site",
        wheel,
    )
    variables = {
        **os.environ,
        "GPUSOLVE_EMULATE": "1",
        "GPUSOLVE_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path / "site"),
    }
    for machine in (ROOT / "gpusolve" / "_objects").glob("machine-*.so"):
        shutil.copy(machine, tmp_path / "site" / "gpusolve" / "_objects")
    run(sys.executable, CHECK, "object", cwd=tmp_path, env=variables)
    assert any((tmp_path / "cache").rglob("*"))


def test_an_installation_without_a_compiler_solves(tmp_path: Path) -> None:
    """From a checkout; the wheel is for every platform."""
    copy, variables = copied(tmp_path), hide_compiler(tmp_path)
    pip, site = (sys.executable, "-m", "pip"), tmp_path / "site"
    run(*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, copy, env=variables)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not objects_in(contents(wheel))
    run(*pip, "install", "-q", "--no-deps", "--target", site, wheel, env=variables)
    variables |= {"GPUSOLVE_EMULATE": "0", "PYTHONPATH": str(site)}
    printed = run(sys.executable, CHECK, "none", cwd=tmp_path, env=variables)
    assert "is missing" in printed
