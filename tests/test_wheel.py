"""The wheel contains the kernels, and runs them without the source tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

SOLVE = """
import sys
import gpusolve
assert gpusolve.__file__.startswith(sys.prefix), gpusolve.__file__
x, rnorm = gpusolve.nnls([[3.0, 2.0], [1.0, 1.0]], [3.0, 2.0])
assert x[0] == 0 and abs(x[1] - 1.6) < 1e-15, x
assert abs(rnorm - 0.2**0.5) < 1e-15, rnorm
"""


def run(*command: object, **options: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that the source tree gets no build folder."""
    copy = tmp_path_factory.mktemp("source") / "gpusolve"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=ignored)
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--outdir", out, copy)
    assert list(out.glob("*.tar.gz"))
    (built,) = out.glob("*.whl")
    return built


def test_wheel_contains_kernels_and_runtime(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "gpusolve/py.typed" in names
    for folder, target in (
        ("cuda_src", "gpusolve/cuda_src"),
        ("gpusolve/_emulator/runtime", "gpusolve/_emulator/runtime"),
    ):
        files = [path for path in (ROOT / folder).iterdir() if path.is_file()]
        assert files
        assert {f"{target}/{path.name}" for path in files} <= names
    folders = {name.split("/")[0] for name in names}
    metadata = {folder for folder in folders if folder.endswith(".dist-info")}
    assert folders == {"gpusolve"} | metadata


@pytest.mark.parametrize("emulate", ["1", "0"])
def test_installed_wheel_solves(wheel: Path, tmp_path: Path, emulate: str) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", wheel)
    variables = {
        **os.environ,
        "GPUSOLVE_EMULATE": emulate,
        "GPUSOLVE_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": "",
    }
    run(python, "-c", SOLVE, cwd=tmp_path, env=variables)
    assert any((tmp_path / "cache").rglob("*")) == (emulate == "1")
