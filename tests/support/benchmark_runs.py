"""Run a benchmark in a process of its own, and read the tables that it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a script with the import path of the tests."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *options],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )


def report(script: str, *options: str) -> str:
    """Return what a benchmark prints."""
    done = run(script, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tables(text: str) -> list[list[list[str]]]:
    """The tables in Markdown text as rows of cells; the first row is the head."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if not line.startswith("|"):
            found.append([])
        elif not line.startswith("| ---"):
            found[-1].append([cell.strip() for cell in line[1:-1].split("|")])
    return [table for table in found if table]


def number(text: str) -> float:
    return float(text.replace(",", ""))
