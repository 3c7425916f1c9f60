"""The notebooks run without errors, and are stored with small outputs of their code."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from together import together

pytest.importorskip("nbformat", reason="nbformat reads the notebooks")

import nbformat
from notebook_outputs import NOTEBOOKS, fingerprint

OF_THE_MACHINE = re.compile(r"\d s\b|127\.0\.0\.1| at 0x|/home/|\.cache")
"""Times, addresses and paths."""

NOT_FOR_USERS = re.compile(
    r"gpusolve[\w.]*\._|import benchmarks|from (benchmarks|gpusolve[\w.]* import _)"
    r"|perf_counter|%%time|timeit"
)
"""Private modules, benchmarks and measurements in code."""


def names(path: Path) -> str:
    return path.stem


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=names)
def test_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient runs the notebooks")
    pytest.importorskip("ipykernel", reason="ipykernel runs the notebooks' code")
    pytest.importorskip("skimage", reason="scikit-image has the example images")
    pytest.importorskip("matplotlib", reason="matplotlib draws the plots")
    pytest.importorskip("statsmodels", reason="statsmodels has the visits to doctors")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()


@together("path", NOTEBOOKS, ids=names)
def test_notebook_has_small_outputs_of_its_code(path: Path) -> None:
    """`make pictures` renews them. The code imports what is installed."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert notebook.metadata["outputs_of"] == fingerprint(notebook)
    assert not any(cell.execution_count for cell in code)
    assert not any(output.get("metadata") for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert path.stat().st_size < 600_000
    assert not [cell.source for cell in code if NOT_FOR_USERS.search(cell.source)]
    for output in outputs:
        data = output.get("data", {})
        text = output.get("text") or data.get("text/plain", data.get("text/html"))
        assert not OF_THE_MACHINE.search(text or ""), text
