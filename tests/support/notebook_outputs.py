"""Executes the notebooks whose code or data changed, and stores their outputs.

`make pictures` calls it. A notebook is stored with a hash of its code; an output as
text or as a picture with few colours, without counts, metadata and warnings.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from pathlib import Path
from typing import Any

import nbformat
from PIL import Image

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
COLOURS = 64


def fingerprint(notebook: Any) -> str:
    """A hash of the code of a notebook, and of the results that the code reads."""
    cells = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    code = "\0".join(cells)
    read = [ROOT / name for name in re.findall(r"benchmarks/results/[\w.]+", code)]
    parts = [code.encode(), *(path.read_bytes() for path in read)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def small(png: str) -> str:
    """The same picture with few colours."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    buffer = io.BytesIO()
    picture.quantize(COLOURS).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def stored(output: Any) -> Any:
    """A small output, the same in each run; None for a warning."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    png, html, text = map(output.data.get, ("image/png", "text/html", "text/plain"))
    data = {"text/html": html} if html else {"text/plain": text}
    if png:
        data = {"image/png": small(png)}
    if output.output_type == "execute_result":
        return nbformat.v4.new_output("execute_result", data, execution_count=None)
    return nbformat.v4.new_output("display_data", data)


def execute(path: Path) -> None:
    """Execute a notebook, and store it with its outputs."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata = {k: v for k, v in cell.metadata.items() if k != "execution"}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [one for one in map(stored, cell.outputs) if one]
    notebook.metadata = {
        "kernelspec": notebook.metadata["kernelspec"],
        "language_info": {"name": "python"},
        "outputs_of": fingerprint(notebook),
    }
    nbformat.write(notebook, path)


def main() -> None:
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        if notebook.metadata.get("outputs_of") != fingerprint(notebook):
            print(path.name, flush=True)
            execute(path)


if __name__ == "__main__":
    main()
