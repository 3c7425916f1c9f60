"""The demo, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("skimage", reason="scikit-image has the pictures")
pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib draws")

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run_demo(
    *options: str, script: str = "demo.py"
) -> subprocess.CompletedProcess[str]:
    """Run a demo on the same import path as the tests."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *options],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo writes; a folder that it has to make."""
    return tmp_path_factory.mktemp("demo") / "made" / "picture.png"


@pytest.fixture(scope="module")
def printed(picture: Path) -> str:
    """What the quick demo prints."""
    run = run_demo("--quick", "--output", str(picture))
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def rows(printed: str) -> dict[str, dict[str, str]]:
    """The table: the cells by job and head."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines()]
    head = next(line for line in lines if line[0] == "job")
    return {
        line[0]: dict(zip(head, line, strict=True))
        for line in lines
        if line[0] in ("deblurring", "unmixing")
    }


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_says_where_it_solves(printed: str) -> None:
    assert re.match(r"Solving on the (CPU|GPU)", printed)


def test_sizes(rows: dict[str, dict[str, str]]) -> None:
    sizes = {
        job: tuple(number(row[key]) for key in ("systems", "m", "n"))
        for job, row in rows.items()
    }
    assert sizes == {"deblurring": (32, 512, 1024), "unmixing": (32 * 512, 3, 3)}


@pytest.mark.parametrize("job", ["deblurring", "unmixing"])
def test_is_certified(rows: dict[str, dict[str, str]], job: str) -> None:
    assert number(rows[job]["max KKT"]) < 1e-12
    assert number(rows[job]["updates"]) > number(rows[job]["downdates"]) >= 0


def test_agrees_with_scipy(printed: str) -> None:
    difference = re.search(r"difference from SciPy's x.*: (\S+)", printed)
    assert difference
    assert float(difference[1]) < 1e-6


def test_deblurs(printed: str) -> None:
    quality = re.search(r"(\S+) dB blurred, (\S+) dB deblurred", printed)
    assert quality
    assert float(quality[2]) > float(quality[1]) + 3


def test_inversion_needs_less_eosin_than_none(printed: str) -> None:
    eosin = re.search(r"eosin (\S+)%", printed)
    assert eosin
    assert float(eosin[1]) > 90


def test_draws(printed: str, picture: Path) -> None:
    assert f"Picture: {picture}" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    pixels = pyplot.imread(picture)
    assert pixels.shape[1] > 900
    assert np.ptp(pixels[..., :3]) > 0.9


def test_refuses_too_many_lines() -> None:
    run = run_demo("--lines", "513")
    assert run.returncode == 2
    assert "1 to 512" in run.stderr


def test_boosting(tmp_path: Path) -> None:
    picture = tmp_path / "boosting.png"
    run = run_demo("--quick", "--output", str(picture), script="demo_gam.py")
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    fits = {line[0]: line[1:] for line in lines if line[:1] in (["gram"], ["stacked"])}
    for rows, features, steps, _, _, found, others in fits.values():
        assert (rows, features, steps) == ("1,000", "100", "200")
        assert (found, others) == ("20", "0")
    assert len(fits) == 2
    assert "The same path by both methods: True." in run.stdout
    assert pyplot.imread(picture).std() > 0.05
