"""The benchmark of Dask's workers at its smallest size, and the page about scale."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_runs import number, tables

from benchmarks import scale

PAGE = (Path(__file__).parents[1] / "docs" / "scale.md").read_text()


def test_the_page_has_the_tables_on_paper() -> None:
    assert "\n".join(scale.paper()).strip() in PAGE


def test_paper() -> None:
    assert scale.traffic(shared=True) == (64 * 4, 19 * 4)
    seconds = scale.paper_seconds(1e12, shared=True, gpus=1000)
    assert seconds["PCIe 5, 16 lanes"] == pytest.approx(256 / 55)
    assert scale.least_chunk(1000, shared=True) * 256 / 6e9 == pytest.approx(3.0)


@pytest.mark.parametrize("k", range(2))
def test_code_of_the_page_runs(
    k: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask")
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(code) == 2
    names: dict[str, Any] = {"np": np}
    exec(code[0], names)
    exec(code[k], names)
    if k:
        assert (names["status"] == 0).all()
        np.testing.assert_array_equal(
            np.load(tmp_path / "stack" / "0.npy"), names["x"][:5000]
        )


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
