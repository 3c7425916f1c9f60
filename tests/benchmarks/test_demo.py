"""The demo, as a user runs it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benchmark_runs import report

pytestmark = pytest.mark.slow

pytest.importorskip("skimage", reason="scikit-image has the pictures")
pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib draws")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo writes; the folder does not exist yet."""
    return tmp_path_factory.mktemp("demo") / "made" / "pictures"


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """What the quick demo prints."""
    return report("demo.py", "--quick", "--folder", str(folder))


def test_device_is_printed(printed: str) -> None:
    assert re.match(r"Running on the (CPU|GPU)", printed)


def test_sizes(printed: str) -> None:
    found = re.findall(r"([\d,]+) systems of (\d+) x (\d+)", printed)
    assert found == [("32", "512", "1024"), ("16,384", "3", "3")]


def test_certificates_are_small(printed: str) -> None:
    certificates = re.findall(r"largest certificate (\S+)", printed)
    assert len(certificates) == 2
    assert all(0 < float(kkt) < 1e-12 for kkt in certificates)


def test_solutions_agree_with_scipy(printed: str) -> None:
    differences = re.findall(r"largest difference (\S+)", printed)
    assert len(differences) == 2
    assert all(float(difference) < 1e-6 for difference in differences)


def test_deblurring_improves_the_photograph(printed: str) -> None:
    quality = re.search(r"(\S+) dB blurred, (\S+) dB deblurred", printed)
    assert quality
    assert float(quality[2]) > float(quality[1]) + 3


def test_plain_inversion_gives_negative_eosin(printed: str) -> None:
    eosin = re.search(r"eosin (\S+)%", printed)
    assert eosin
    assert float(eosin[1]) > 90


def test_boosting_finds_the_active_covariates(printed: str) -> None:
    found = "20 of 20 covariates with an effect were selected, and 0 others"
    assert printed.count(found) == 2
    assert "the same steps by both methods: True" in printed


def test_counts_have_every_learner(printed: str) -> None:
    assert "10 folds, 60 iterations" in printed
    learners = set(re.findall(r"^ *(\w+\(\S+) .*%$", printed, re.MULTILINE))
    assert learners == {"bbs(age)", "bols(sex)", "brandom(clinic)", "bspatial(lon,"}


def test_the_demo_ends_with_the_pictures(printed: str, folder: Path) -> None:
    _, _, paths = printed.partition("Open the pictures:\n")
    pictures = [Path(line.strip()) for line in paths.splitlines()]
    names = "deblurring.png", "boosting.png", "gam-effects.png"
    assert pictures == [folder / name for name in names]
    for picture in pictures:
        pixels = pyplot.imread(picture)
        assert pixels.shape[1] > 800
        assert np.ptp(pixels[..., :3]) > 0.9
