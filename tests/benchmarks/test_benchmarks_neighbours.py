"""The benchmark of all neighbouring packages in one run, with few systems."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmark_runs import tables

from benchmarks import neighbours


def test_every_part_has_a_table(called: Callable[..., str]) -> None:
    pytest.importorskip("sklearn")
    options = ("--systems", "3", "--sizes", "20", "12", "2", "--most", "2")
    page = called(neighbours.main, *options, "--repeats", "1", "--no-peers")
    cases = [[row[0] for row in table[1:]] for table in tables(page)]
    assert len(cases) == 3
    assert all(case.startswith(("30 x 10", "200 x 50")) for case in cases[0])
    assert cases[1] == ["random", "two fibres"]
    assert set(cases[2]) == {"dense", "sparse"}
