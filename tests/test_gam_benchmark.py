"""The benchmark of the boosted GAM, with the smallest problem."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "gam.py"


def test_writes_a_table(tmp_path: Path) -> None:
    output = tmp_path / "gam.md"
    options = ["--cpu", "--quick", "--rows", "200", "--columns", "4", "--repeats", "1"]
    subprocess.run(
        [sys.executable, str(BENCHMARK), *options, "--output", str(output)],
        check=True,
        capture_output=True,
    )
    table = [line for line in output.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:]]
    risks = {cell[3]: cell[-1] for cell in cells}
    ours = {risks[name] for name in ("direct", "stacked", "gram", "NumPy loop")}
    assert len(ours) == 1
