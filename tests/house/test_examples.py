"""The examples of the gallery are short, and run without errors or warnings."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
PRINTED = {
    "boosted_gam": r"'bspatial\(lon, lat, knots=8\)': \d\d",
    "deconvolve_spectra": r"all certified: True  largest kkt: \d\.\d+e-1[4-7]",
    "factorise_a_matrix": r"entries: 0\.006\d*\nlargest error .*: 0\.0[01]\d*",
    "learn_a_pulse": r"width: 3\.9\d|4\.0\d",
    "own_operator": r"distances from town 0: \[0\. 3\. 1\. 8\.\]",
    "profile_a_kernel": r"(?s)request: 16\.5\n.*request: 1\.0\nprediction for H200",
    "redshifts": r"systems: 20000  right redshifts: 0\.9\d+\nmedian var.*: 0\.0\d+",
    "unmix_with_bounds": r"systems: 4096  certified: True",
    "waveform_nnls": r"shots: 200  median arrival from the ground: 110\.0",
}
"""What each example prints, as a regular expression."""


def test_every_example_is_tested() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(PRINTED)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 40
    title, underline = text.splitlines()[1:3]
    assert underline == "=" * len(title)
    if "matplotlib" in text:
        pyplot = pytest.importorskip("matplotlib.pyplot")
        monkeypatch.setattr(pyplot, "show", lambda: pyplot.close("all"))
    if "torch" in text:
        pytest.importorskip("torch")
    if "emulator" in text and not shutil.which("c++"):
        pytest.skip("the emulator needs a C++ compiler")
    runpy.run_path(str(path), run_name="__main__")
    assert re.search(PRINTED[path.stem], capsys.readouterr().out)
