"""The benchmark of the boosted GAM, at its smallest size."""

from __future__ import annotations

import pytest
from benchmark_runs import number, report, tables

pytestmark = pytest.mark.slow

SMALL = ("--sizes", "200", "--columns", "4", "--repeats", "1")


def test_all_methods_end_with_the_same_risk() -> None:
    parts = ("--quick", "--parts", "gaussian")
    (table,) = tables(report("gam.py", "--cpu", *parts, *SMALL))
    risks = {cells[3]: cells[-1] for cells in table[1:]}
    methods = ("direct", "stacked", "gram", "NumPy loop")
    assert len({risks[method] for method in methods}) == 1


@pytest.mark.parametrize("where", ["--cpu", "--emulate"])
def test_families_and_folds_have_finite_losses_and_ratios(where: str) -> None:
    given = ("--parts", "families", "folds", "--no-peers")
    families, folds = tables(report("gam.py", where, *given, *SMALL))
    assert [cells[1] for cells in families[1:]] == ["poisson", "binomial"]
    assert all(number(cells[-1]) > 0 for cells in families[1:])
    assert [cells[1] for cells in folds[1:]] == ["gaussian", "poisson", "binomial"]
    assert all(number(cells[-2]) > 0 for cells in folds[1:])


def test_other_libraries_fit_the_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads that spin, on few cores
    (table,) = tables(report("gam.py", "--cpu", "--parts", "families", *SMALL))
    losses = {(family, name): number(loss) for _, family, name, _, loss in table[1:]}
    assert len(losses) == 6
    assert all(0 < loss < 10 for loss in losses.values())


def test_large_fits_have_finite_losses() -> None:
    (table,) = tables(report("gam_large.py", "--quick", "--repeats", "1"))
    ours = [cells for cells in table[1:] if cells[3].startswith("BoostedGAM")]
    assert len(ours) == 2
    assert all(0 < number(cells[-1]) < 10 for cells in ours)


def test_wide_fits_have_peers() -> None:
    (table,) = tables(report("gam_wide.py", "--quick", "--repeats", "1"))
    names = " ".join(name for name, _ in table[1:])
    assert all(peer in names for peer in ("NumPy loop", "lars_path", "glmboost"))
    assert all(number(seconds) >= 0 for _, seconds in table[1:])
