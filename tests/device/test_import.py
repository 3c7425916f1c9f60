"""``import gpusolve`` loads few modules and needs no GPU, driver or CuPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpusolve

ROOT = Path(__file__).parents[2]

NO_CUPY = "raise ImportError('CuPy is not installed')"
BROKEN_CUPY = "raise RuntimeError('libcuda.so.1 cannot be loaded')"
NO_DRIVER = """
class ndarray: pass
class cuda:
    def is_available(): raise RuntimeError('CUDA driver version is insufficient')
__version__ = '0'
"""

WITHOUT_POSIX = """
import mmap, numpy, os, sys
for name in [name for name in vars(mmap) if name.startswith(('PROT', 'MAP'))]:
    delattr(mmap, name)
for name in ('fcntl', 'resource', 'pwd'):
    sys.modules[name] = None
"""
SOLVE = """
import gpusolve
assert gpusolve.nnls([[3, 2], [1, 1]], [3, 2]).status == 0
gpusolve.show_config()
"""


def run(script: str, cupy: str, folder: Path) -> str:
    """Output of a script in a new interpreter; `cupy` is the source of its CuPy."""
    (folder / "cupy").mkdir()
    (folder / "cupy" / "__init__.py").write_text(cupy)
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "GPUSOLVE_EMULATE": ""}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.paper(
    "Sieminski, 5 set-up",
    "It works on the CPU without CuPy, with a broken CuPy, and without a driver",
)
@pytest.mark.parametrize(
    ("cupy", "first"),
    [
        pytest.param(NO_CUPY, WITHOUT_POSIX, id="no CuPy, no POSIX"),
        pytest.param(BROKEN_CUPY, "", id="broken CuPy"),
        pytest.param(NO_DRIVER, "", id="no driver"),
        pytest.param(NO_DRIVER, "import cupy\n", id="no driver, CuPy imported first"),
    ],
)
def test_nnls_works_without_cupy_or_driver(
    tmp_path: Path, cupy: str, first: str
) -> None:
    assert "numpy" in run(first + SOLVE, cupy, tmp_path)


def test_modules_are_imported_when_they_are_first_used(tmp_path: Path) -> None:
    """The solvers need NumPy and threadpoolctl only."""
    script = """
import sys
before = set(sys.modules)
import gpusolve
print(*[name for name in sys.modules if name.startswith(("gpusolve.", "numpy"))])
from gpusolve import emulator
solvers = {f"gpusolve.{name}" for name in ("_blocks", "_nnls", "gam", "studies")}
print(*solvers & set(sys.modules))
from gpusolve import gemv, nnls, scan
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(name for name in loaded - sys.stdlib_module_names if name[0] != "_"))
print(gpusolve.studies.experiments.PAPER_SYSTEMS, gpusolve.gam.__name__)
"""
    loaded, after = "gpusolve numpy threadpoolctl", "(1, 24, 48, 96, 192) gpusolve.gam"
    assert run(script, NO_CUPY, tmp_path) == f"\n\n{loaded}\n{after}\n"


def test_an_unknown_name_of_the_package_is_an_error() -> None:
    assert {"gam", "nnls"} <= set(dir(gpusolve))
    with pytest.raises(AttributeError, match="'gpusolve' has no attribute 'gams'"):
        gpusolve.gams  # noqa: B018
