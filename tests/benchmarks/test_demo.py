"""The demos, as a user runs them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benchmark_runs import number, report, run

pytestmark = pytest.mark.slow

pytest.importorskip("skimage", reason="scikit-image has the pictures")
pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib draws")


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo writes; the folder does not exist yet."""
    return tmp_path_factory.mktemp("demo") / "made" / "picture.png"


@pytest.fixture(scope="module")
def printed(picture: Path) -> str:
    """What the quick demo prints."""
    return report("demo.py", "--quick", "--output", str(picture))


@pytest.fixture(scope="module")
def rows(printed: str) -> dict[str, dict[str, str]]:
    """The cells of the table by job and column."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines()]
    head = next(line for line in lines if line[0] == "job")
    return {
        line[0]: dict(zip(head, line, strict=True))
        for line in lines
        if line[0] in ("deblurring", "unmixing")
    }


def test_device_is_printed(printed: str) -> None:
    assert re.match(r"Solving on the (CPU|GPU)", printed)


def test_sizes(rows: dict[str, dict[str, str]]) -> None:
    sizes = {
        job: tuple(number(row[key]) for key in ("systems", "m", "n"))
        for job, row in rows.items()
    }
    assert sizes == {"deblurring": (32, 512, 1024), "unmixing": (32 * 512, 3, 3)}


@pytest.mark.parametrize("job", ["deblurring", "unmixing"])
def test_certificates_are_small(rows: dict[str, dict[str, str]], job: str) -> None:
    assert number(rows[job]["max KKT"]) < 1e-12
    assert number(rows[job]["updates"]) > number(rows[job]["downdates"]) >= 0


def test_solutions_agree_with_scipy(printed: str) -> None:
    difference = re.search(r"difference from SciPy's x.*: (\S+)", printed)
    assert difference
    assert float(difference[1]) < 1e-6


def test_deblurring_improves_the_photograph(printed: str) -> None:
    quality = re.search(r"(\S+) dB blurred, (\S+) dB deblurred", printed)
    assert quality
    assert float(quality[2]) > float(quality[1]) + 3


def test_plain_inversion_gives_negative_eosin(printed: str) -> None:
    eosin = re.search(r"eosin (\S+)%", printed)
    assert eosin
    assert float(eosin[1]) > 90


def test_picture_is_written(printed: str, picture: Path) -> None:
    assert f"Picture: {picture}" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    pixels = pyplot.imread(picture)
    assert pixels.shape[1] > 900
    assert np.ptp(pixels[..., :3]) > 0.9


def test_too_many_lines_are_an_error() -> None:
    done = run("demo.py", "--lines", "513")
    assert done.returncode == 2
    assert "--lines must be from 1 to 512, got 513" in done.stderr


def test_boosting_finds_the_active_covariates(tmp_path: Path) -> None:
    picture = tmp_path / "boosting.png"
    printed = report("demo_gam.py", "--quick", "--output", str(picture))
    lines = [line.split() for line in printed.splitlines()]
    fits = {line[0]: line[1:] for line in lines if line[:1] in (["gram"], ["stacked"])}
    for rows, features, steps, _, _, found, others in fits.values():
        assert (rows, features, steps) == ("1,000", "100", "200")
        assert (found, others) == ("20", "0")
    assert len(fits) == 2
    assert "The same path by both methods: True." in printed
    assert pyplot.imread(picture).std() > 0.05


def test_counts_from_a_formula_to_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "made" / "effects.png"
    printed = report("demo_counts.py", "--quick", "--output", str(picture))
    assert "10 folds, 60 iterations" in printed
    learners = set(re.findall(r"^ *(\w+\(\S+) .*%", printed, re.MULTILINE))
    assert learners == {"bbs(age)", "bols(sex)", "brandom(clinic)", "bspatial(lon,"}
    assert pyplot.imread(picture).std() > 0.05
