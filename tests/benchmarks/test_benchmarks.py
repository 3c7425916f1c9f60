"""Each benchmark runs, and its results are right, at its smallest size."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gpu_calls
import harness
import pytest
from certificates import Certifier
from nnls_peers import solve_by_scipy
from records import OURS, Run

from gpusolve._emulator._gpu import DEVICES
from gpusolve.studies.experiments import uniform_random

BENCHMARKS = Path(harness.__file__).parent

SCRIPTS = {
    "nnls.py --cpu": (4, 1e-4),
    "constraints.py --cpu": (2, 1e-9),
    "hard.py --cpu": (3, 1e-9),
    "sparse_least_squares.py": (1, 1e-9),
    "gam.py --cpu": (6, 1e3),
    "gam_defaults.py --cpu": (1, 1e3),
    "blocks.py --cpu --no-peers": (20, 0),
    "blocks.py --emulate --parts gemv spmv": (6, 0),
    "scale.py --cpu": (2, 0),
    "gpu_calls.py": (17, 0),
}
"""For each: the least number of batches, and the largest error of our results. The last
runs on the stand-in for CuPy."""


@pytest.mark.slow
@pytest.mark.parametrize("line", SCRIPTS)
def test_small_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has the results of the data, and is made from them a second time."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads that spin, on few cores
    page, again = tmp_path / "made" / "page.md", tmp_path / "again.md"
    script, *options = line.split()
    stand_in = ["-m", "cupy_stand_in"] * (script == "gpu_calls.py")
    command = [sys.executable, *stand_in, str(BENCHMARKS / script)]
    outputs = (
        [*options, "--small", "--output", str(page)],
        ["--data", str(page.with_suffix(".json")), "--output", str(again)],
    )
    for arguments in outputs:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    run = Run.load(page.with_suffix(".json"))
    assert run.command == f"python benchmarks/{line} --small"
    ours = [one for one in run.results if one.peer == OURS]
    batches, largest = SCRIPTS[line]
    assert len(ours) >= batches
    for one in ours:
        assert one.solved == one.systems or not one.median
        assert one.error is None or one.error <= largest
        assert f"| {one.label} | {one.systems:,} |" in page.read_text()
    warns = "no figure here says anything about a GPU" in page.read_text()
    assert warns != bool(stand_in)
    tables = [re.findall(r"^\| .*", file.read_text(), re.M) for file in (page, again)]
    assert tables[0] == tables[1]


# ---- what the scripts rely on --------------------------------------------------------


def test_a_wrong_answer_has_a_large_certificate() -> None:
    A, b = uniform_random(5, size=20)
    x = solve_by_scipy(A, b)
    judge = Certifier(A, b, x)
    assert judge.worst(x) < 1e-14
    wrong = x.copy()
    wrong[2, x[2].argmax()] *= 1.001
    assert judge.worst(wrong) > 1e-7


def test_a_library_that_fails_costs_its_own_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")  # undone at the end, set by `choose`

    def fail() -> None:
        raise MemoryError

    machine = harness.choose(cpu=True)
    found, _ = machine.measure("NumPy", "a name", (1, 1), fail)
    assert (found.note, found.solved) == ("fails: MemoryError", 0)
    with pytest.raises(MemoryError):
        machine.measure(OURS, "a name", (1, 1), fail)


# ---- calls on a GPU ------------------------------------------------------------------


def test_every_case_has_a_prediction_for_every_device() -> None:
    """A scan reads and writes each element once; a reduction reads it."""
    stored = Run.load(gpu_calls.TABLE).results
    expected = [(case.label, device) for case in gpu_calls.CASES for device in DEVICES]
    assert [(one.name, one.peer) for one in stored] == expected
    moved = {"reduce, 1e8": 4e8, "scan, 1e8": 8e8}
    for one in stored:
        low = one.median - one.spread / 2
        assert low > moved.get(one.name, 0) / DEVICES[one.peer].memory
