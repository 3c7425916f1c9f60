"""The benchmark of the boosted GAM, at its smallest size."""

from __future__ import annotations

from benchmark_runs import report, tables


def test_all_methods_end_with_the_same_risk() -> None:
    sizes = ("--quick", "--sizes", "200", "--columns", "4", "--repeats", "1")
    (table,) = tables(report("gam.py", "--cpu", *sizes))
    risks = {cells[3]: cells[-1] for cells in table[1:]}
    methods = ("direct", "stacked", "gram", "NumPy loop")
    assert len({risks[method] for method in methods}) == 1
