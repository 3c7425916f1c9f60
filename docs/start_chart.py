"""The chart of the start page, as a table whose bars are drawn by the browser.

So its text is text, in the light and in the dark, and at any width.
"""

from __future__ import annotations

import json
from pathlib import Path

SYSTEMS = 10_000
SHAPES = [200, 50], [30, 10]


def chart(results: Path) -> str:
    """Seconds of a loop over SciPy and of gpusolve, from the records of `nnls.py`."""
    run = json.loads(results.read_text())
    seconds = {
        (*one["shape"], one["peer"]): one["median"]
        for one in run["results"]
        if one["systems"] == SYSTEMS and one["name"] == "one matrix"
    }
    longest = max(seconds[m, n, "SciPy"] for m, n in SHAPES)
    rows = [
        f"<tr><th scope=row>{m} x {n}</th>"
        + "".join(bar(seconds[m, n, peer], longest) for peer in ("SciPy", "gpusolve"))
        + "</tr>"
        for m, n in SHAPES
    ]
    machine = run["machine"]
    busy = ", which other programs used, too" if float(machine["load"]) > 1.3 else ""
    return f"""<figure class="bars">
<figcaption>Seconds for {SYSTEMS:,} systems with one matrix, on a CPU:
{machine["processor"]}{busy}. SciPy uses one core.
<a href="results.html">All results</a></figcaption>
<table><tr><th scope=col>matrix</th><th scope=col>SciPy, a loop</th>
<th scope=col>gpusolve</th></tr>
{"".join(rows)}</table></figure>
"""


def bar(seconds: float, longest: float) -> str:
    """A cell with a number, and a bar of that length."""
    style = f"--length: {seconds / longest:.4f}"
    return f'<td><span style="{style}">{seconds:.2g}</span></td>'
