"""The demo, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import harness
import pytest


@pytest.mark.slow
def test_the_quick_demo(tmp_path: Path) -> None:
    pytest.importorskip("skimage", reason="scikit-image has the pictures")
    folder = tmp_path / "made" / "pictures"
    script = Path(harness.__file__).with_name("demo.py")
    printed = subprocess.check_output(
        [sys.executable, str(script), "--quick", "--folder", str(folder)],
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert re.match(r"Running on the (CPU|GPU)", printed)
    certificates = re.findall(r"largest certificate (\S+)", printed)
    differences = re.findall(r"largest difference (\S+)", printed)
    assert len(certificates) == len(differences) == 2
    assert all(0 < float(kkt) < 1e-12 for kkt in certificates)
    assert all(float(difference) < 1e-6 for difference in differences)
    quality = re.search(r"(\S+) dB blurred, (\S+) dB deblurred", printed)
    assert quality
    assert float(quality[2]) > float(quality[1]) + 3
    found = "20 of 20 covariates with an effect were selected, and 0 others"
    assert printed.count(found) == 2
    assert "10 folds, 60 iterations" in printed
    pictures = [Path(one) for one in printed.partition("pictures:\n")[2].split()]
    names = "deblurring.png", "boosting.png", "gam-effects.png"
    assert pictures == [folder / name for name in names]
    assert all(picture.stat().st_size > 10_000 for picture in pictures)
