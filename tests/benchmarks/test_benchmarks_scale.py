"""The benchmark of Dask's workers at its smallest size, and the page about scale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from benchmark_runs import number, tables

from benchmarks import scale

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()


def test_the_page_has_the_tables_on_paper() -> None:
    assert "\n".join(scale.paper()).strip() in PAGE


def test_paper() -> None:
    assert scale.traffic(shared=True) == (64 * 4, 19 * 4)
    seconds = scale.paper_seconds(1e12, shared=True, gpus=1000)
    assert seconds["PCIe 5, 16 lanes"] == pytest.approx(256 / 55)
    assert scale.least_chunk(1000, shared=True) * 256 / 6e9 == pytest.approx(3.0)


@pytest.mark.slow
def test_every_chunk_and_worker_is_measured(called: Callable[..., str]) -> None:
    pytest.importorskip("distributed")
    options = ("--systems", "200", "--chunks", "50", "100", "--workers", "1", "2")
    printed = called(scale.main, *options, "--repeats", "1")
    overhead, scaling, *paper = tables(printed)
    assert [line[:2] for line in overhead[1:]] == [["50", "4"], ["100", "2"]]
    assert [line[:2] for line in scaling[1:]] == [["1", "200"], ["2", "400"]]
    assert all(number(line[3]) > 0 for line in scaling[1:])
    assert len(paper) == 3
