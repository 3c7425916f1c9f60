"""The notebooks run without errors, and are stored without outputs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from together import together

nbformat = pytest.importorskip("nbformat", reason="nbformat reads the notebooks")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def names(path: Path) -> str:
    return path.stem


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("path", NOTEBOOKS, ids=names)
def test_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs`, which CI runs, executes them, too."""
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
def test_notebook_has_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert not any(cell.outputs or cell.execution_count for cell in code)
