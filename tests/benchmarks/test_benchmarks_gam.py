"""The benchmark of the boosted GAM, at its smallest size."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_runs import number, report, tables
from records import Run

pytestmark = pytest.mark.slow

SMALL = ("--sizes", "200", "--columns", "4", "--repeats", "1")


def test_all_methods_end_with_the_same_risk() -> None:
    parts = ("--quick", "--parts", "methods")
    (table,) = tables(report("gam.py", "--cpu", *parts, *SMALL))
    named = dict(zip(*table, strict=True))
    risks = {named[f"{method} loss"] for method in ("stacked", "gram")}
    assert len(risks) == 1
    assert number(named["1 step s"].split()[0]) > 0


@pytest.mark.parametrize(
    ("where", "parts"), [("--cpu", ("families", "folds")), ("--emulate", ("folds",))]
)
def test_families_have_losses_and_folds_have_times(
    where: str, parts: tuple[str, ...]
) -> None:
    found = tables(report("gam.py", where, "--parts", *parts, "--no-peers", *SMALL))
    for part, (head, *lines) in zip(parts, found, strict=True):
        assert [cells[0] for cells in lines] == ["gaussian", "poisson", "binomial"]
        shown = {"families": "BoostedGAM loss", "folds": "cv_stop s"}[part]
        values = [cells[head.index(shown)].split()[0] for cells in lines]
        assert all(number(value) > 0 for value in values)


def test_other_libraries_fit_the_families(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page, the data and the chart are written."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads that spin, on few cores
    page = tmp_path / "page.md"
    report("gam.py", "--cpu", "--parts", "families", *SMALL, "--output", str(page))
    results = Run.load(page.with_suffix(".json")).results
    assert len({(one.name, one.peer) for one in results}) == len(results) == 9
    assert all(one.error is not None and 0 < one.error < 1e4 for one in results)
    assert (tmp_path / "page-rows.png").exists()
    table = tables(page.read_text())[0]
    assert [number(cells[6]) for cells in table[1:]] == pytest.approx(
        [one.error for one in results if one.peer == "BoostedGAM"], rel=1e-3
    )


def test_wide_fits_have_peers() -> None:
    (table,) = tables(report("gam_wide.py", "--quick", "--repeats", "1"))
    names = " ".join(name for name, _ in table[1:])
    assert all(peer in names for peer in ("NumPy loop", "lars_path", "glmboost"))
    assert all(number(seconds) >= 0 for _, seconds in table[1:])
