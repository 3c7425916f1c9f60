"""The tables of the NNLS paper and the study of its waveforms, at small sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmark_runs import number, tables
from lvis_files import contents, written
from together import together

import gpusolve
from benchmarks import nnls_paper, paper_ratios, waveform_counts
from benchmarks.harness import Timed, wall_clock
from benchmarks.nnls_paper import TOO_SLOW, Way, column, crossing, ways
from gpusolve.studies.experiments import (
    EXPERIMENTS,
    PAPER_COUNTS,
    PAPER_SYSTEMS,
    PAPER_TABLES,
    uniform_random,
    waveforms,
)

HOST = SimpleNamespace(cupy=None, stopwatch=wall_clock, repeats=3, xp=np)

Called = Callable[..., str]


# ---- the tables ----------------------------------------------------------------------


@pytest.mark.slow
def test_the_tables_have_all_ways_and_the_papers_layout(
    called: Called, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws the times")
    picture = tmp_path / "times.png"
    options = ("--cpu", "--quick", "--repeats", "1", "--picture", str(picture))
    printed = tables(called(nnls_paper.main, *options))
    assert len(printed) == len(EXPERIMENTS)
    for head, *lines in printed:
        assert head == ["systems", "1", "3"]
        assert [cells[0] for cells in lines[4:]] == [way.name for way in ways(HOST)]
        for _, *cells in lines[:4]:
            assert number(cells[0]) <= number(cells[1])
        assert all(number(cell.split(" ")[0]) > 0 for cell in lines[4][1:])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_table_7_1_of_a_level_1b_file(
    monkeypatch: pytest.MonkeyPatch, called: Called, tmp_path: Path
) -> None:
    pytest.importorskip("h5py", reason="h5py reads and writes HDF5")
    few = [way for way in ways(HOST) if way.name in ("auto", "fnnls")]
    monkeypatch.setattr(nnls_paper, "ways", lambda machine: few)
    path = written(tmp_path, contents())
    printed = called(nnls_paper.main, "--cpu", "--quick", "--lvis", str(path))
    assert "The waveforms are from `LVIS1B.h5`." in printed
    updates = [number(cell) for cell in tables(printed)[0][1][1:]]
    assert updates[1] == 3 * updates[0] > 0


def test_the_papers_rows_follow_its_numbers_of_systems() -> None:
    cells = [nnls_paper.Cell(1.0, 1.0, gpusolve.nnls([[1.0]], [[1.0]]))] * 5
    found = {"fnnls": cells, "auto": cells}
    lines = list(nnls_paper.table("uniform_random", found, PAPER_SYSTEMS, 1.0))
    assert "| updates | 52 | 1,169 | 2,361 | 4,766 | 9,525 |" in lines
    assert lines[-1].startswith("| Matlab PQN | 1.59 |")
    short = list(nnls_paper.table("uniform_random", found, PAPER_SYSTEMS[:1], 1.0))
    assert not any("Matlab" in line for line in short)


def test_tables_are_the_papers() -> None:
    """By the means that its text and the README quote."""
    means = {name: tuple(map(round, two)) for name, two in PAPER_COUNTS.items()}
    assert means == {
        "deconvolution": (63, 10),
        "shifted_gaussians": (161, 86),
        "uniform_random": (50, 1),
    }
    for table in PAPER_TABLES.values():
        rows = (table.updates, table.downdates, *table.seconds.values())
        assert all(list(row) == sorted(row) for row in rows)
        assert {len(row) for row in rows} == {len(PAPER_SYSTEMS)}


# ---- the limit -----------------------------------------------------------------------


def slow(seconds: float) -> tuple[Any, list[int]]:
    """A stopwatch that reports these seconds for each system, and its calls."""
    calls: list[int] = []

    def stopwatch(call: Any) -> Timed:
        result = call()
        calls.append(len(result.x))
        return Timed(seconds * len(result.x), result)

    return stopwatch, calls


@pytest.mark.parametrize(
    ("limit", "solved"), [(100.0, [1, 2, 8]), (7.9, [1, 2]), (1.9, [1])]
)
@pytest.mark.parametrize("name", ["qr", "fnnls"])
def test_a_way_stops_at_the_limit(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: float, solved: list[int]
) -> None:
    """Calls are repeated three times, if the first is within the limit."""
    stopwatch, calls = slow(2.0)
    monkeypatch.setattr(nnls_paper, "wall_clock", stopwatch)
    monkeypatch.setattr(nnls_paper, "cores", lambda: 2)
    way = Way(name, partial(gpusolve.nnls, method=name))
    cells = column(HOST, way, uniform_random(8, size=6), (1, 2, 8), limit)
    assert calls == [n for n in solved for _ in range(4 if 2 * n <= limit else 1)]
    assert [np.isinf(cell.seconds) for cell in cells].count(True) == 3 - len(solved)
    assert [cell is TOO_SLOW for cell in cells].count(True) == (
        0 if name in nnls_paper.COUNTED else 3 - len(solved)
    )
    assert nnls_paper.text(TOO_SLOW, limit) == f"> {limit:g}"


def test_a_time_is_the_median_of_the_calls_after_the_first() -> None:
    seconds = iter([4.0, 1.0, 9.0, 2.0])
    taken = nnls_paper.repeated(lambda call: Timed(next(seconds), call()), int, 3, 5.0)
    assert taken == (2.0, 0)


def test_counts_of_batches_that_are_too_large_to_be_timed() -> None:
    """Table 7.1 has updates and downdates of all 192 systems."""
    way = Way("fnnls", partial(gpusolve.nnls, method="fnnls"))
    cells = column(HOST, way, uniform_random(8, size=6), (1, 8), limit=0.0)
    found = {"fnnls": cells, "auto": cells}
    lines = list(nnls_paper.table("uniform_random", found, (1, 8), 0.0))
    counted = [str(cell.result.n_updates.sum()) for cell in cells]
    assert lines[2] == f"| updates, fnnls | {counted[0]} | {counted[1]} |"
    assert lines[-1].endswith("| > 0 |")


def test_a_cell_says_what_has_no_certificate() -> None:
    A, b = uniform_random(4, size=12)
    b[0, 0] = np.nan
    (cell,) = column(
        HOST, Way("fnnls", partial(gpusolve.nnls, method="fnnls")), (A, b), (4,), 10.0
    )
    assert nnls_paper.text(cell, 10.0).endswith(" (75%)")
    assert nnls_paper.text(cell._replace(certified=np.nan), 10.0).count("(") == 0


# ---- where a GPU is faster -----------------------------------------------------------


def test_crossing_of_powers() -> None:
    systems = (1, 10, 100)
    assert crossing(systems, (4, 4, 4), (1, 10, 100)) == pytest.approx(4)
    assert crossing(systems, (1, 1, 1), (2, 2, 2)) == 1
    assert crossing(systems, (2, 2, 2), (1, 1, 1)) is None
    assert crossing(systems, (1, 3, 1), (2, 2, 2)) > 10


@pytest.mark.paper(
    "Luo, 7 crossing",
    "The GPU is faster with 48, 24 and 192 systems, and slower with 24, 1 and 96; "
    "between these numbers our interpolation has 36, 9 and 177",
)
def test_crossings_of_the_paper() -> None:
    slower, faster, crossings = (24, 1, 96), (48, 24, 192), (36, 9, 177)
    for name, *ends, at in zip(EXPERIMENTS, slower, faster, crossings, strict=True):
        seconds = PAPER_TABLES[name].seconds
        wins = np.less(seconds["GPU NNLS"], seconds["CPU NNLS"])
        assert [bool(wins[PAPER_SYSTEMS.index(n)]) for n in ends] == [False, True]
        assert round(PAPER_TABLES[name].crossing or 0) == at


# ---- what the text says of its tables ------------------------------------------------

FACTORS = {
    "C code for Matlab's lsqnonneg": ("1.5-3", 1.48, 2.24, True),
    "updating instead of a full QR": ("1-3", 3.28, 7.33, False),
    "CPU for GPU, one waveform": ("11", 11.68, 11.68, True),
    "GPU for CPU, more systems than multiprocessors": ("1-3", 0.73, 2.95, False),
    "GPU for CPU, waveforms, 192 systems": ("1-2", 1.73, 1.73, True),
    "GPU for CPU, Gaussians, 192 systems": ("3", 2.95, 2.95, True),
    "GPU for C lsqnonneg, Gaussians, 192 systems": ("23", 21.27, 21.27, False),
    "updating instead of a full QR, random, 192 systems": ("1.7", 4.01, 4.01, False),
}
"""What the text states; the least and the largest factor of its tables; whether they
agree."""


@pytest.mark.paper(
    "Luo, 7 C code",
    "The text says that C code is 1.5 to 3 times as fast as Matlab's; its tables have "
    "1.48 to 2.24",
)
@pytest.mark.paper(
    "Luo, 7 updating",
    "The text says that updating is 1 to 3 times as fast as a full QR; its tables have "
    "3.28 to 7.33",
)
@pytest.mark.paper(
    "Luo, 7 GPU",
    "The text says that with more systems than its 14 multiprocessors the GPU is 1 to "
    "3 times as fast as the CPU; its tables have 0.73 to 2.95",
)
@pytest.mark.paper(
    "Luo, 7.1 factors",
    "The text says that the CPU is 11 times as fast as the GPU for one system, and the "
    "GPU 1 to 2 times for many; its table has 11.68, and 1.73 for 192",
)
@pytest.mark.paper(
    "Luo, 7.2 factors",
    "The text says that the GPU is 3 and 23 times as fast as the CPU, with updating "
    "and without; its table has 2.95 and 21.27",
)
@pytest.mark.paper(
    "Luo, 7.3 factors",
    "The text says that updating is 1.7 times as fast as a full QR; its table has 4.01",
)
@together("name", FACTORS)
def test_factors_of_the_text(name: str) -> None:
    ratio, (stated, least, most, agrees) = paper_ratios.RATIOS[name], FACTORS[name]
    found = ratio.factors(paper_ratios.PAPERS)
    assert ratio.stated == stated
    assert len(found) == len(ratio.tables) * len(ratio.systems)
    assert (min(found), max(found)) == pytest.approx((least, most), abs=0.005)
    assert ratio.agrees == agrees
    assert min(paper_ratios.MANY) > 14


def test_factors_of_rows_that_were_not_timed() -> None:
    some = {"lsqnonneg": [8.0, *[np.inf] * 4], "qr": [2.0, 4.0, 8.0, 16.0, 32.0]}
    seconds = {"uniform_random": some}
    ratio = paper_ratios.Ratio("lsqnonneg", "qr", "", 0, 9)
    assert ratio.factors(seconds) == [4.0]
    assert ratio._replace(faster="").factors(seconds) == []
    assert paper_ratios.span([]) == ""
    assert paper_ratios.span([2.0, 0.5]) == "0.50 to 2.00"
    lines = list(paper_ratios.ratio_table(seconds))
    assert len(lines) == 3 + len(paper_ratios.RATIOS)
    assert lines[4].endswith("| differs | 4.00 |")


@pytest.mark.paper(
    "Luo, 2",
    "By Tables 7.1 to 7.3, 87.7, 85.4 and 90.4 % of the variables remain in Z at the "
    "end, not a small subset",
)
def test_most_variables_remain_at_zero() -> None:
    """Of Tables 7.1, 7.2 and 7.3; and of systems that are solved here."""
    remain = [
        1 - (paper.updates - paper.downdates) / nnls_paper.PAPER_SIZES[name]
        for name, paper in PAPER_COUNTS.items()
    ]
    assert remain == pytest.approx([0.877, 0.854, 0.904], abs=5e-4)
    for (name, make), part in zip(EXPERIMENTS.items(), remain, strict=True):
        x = gpusolve.nnls(*make(2, size=nnls_paper.PAPER_SIZES[name])).x
        assert np.mean(x == 0) == pytest.approx(part, abs=0.06)


def test_uniform_systems_change_least() -> None:
    """As section 7.2 says: fewer updates and downdates than the other experiments."""
    waves, gaussians, uniform = PAPER_COUNTS.values()
    assert uniform.updates < waves.updates < gaussians.updates
    assert uniform.downdates < waves.downdates < gaussians.downdates


def test_a_gpu_adds_its_ways() -> None:
    names = [way.name for way in ways(SimpleNamespace(cupy=np))]
    assert names[:3] == ["auto, GPU", "qr, GPU", "gram, GPU"]
    assert names[3:] == [way.name for way in ways(HOST)]


# ---- what decides the counts of waveforms --------------------------------------------


def test_counts_of_other_waveforms(called: Called) -> None:
    printed = called(waveform_counts.main, "--systems", "2", "--size", "60")
    ((_, paper, *lines),) = tables(printed)
    assert paper == ["the paper's", "62.8", "9.6"]
    assert [cells[0] for cells in lines] == list(waveform_counts.PROPERTIES)


def test_properties_are_those_of_their_names() -> None:
    (wave,) = waveforms(1, 60)
    counted = waveform_counts.digitise(wave, 50).b / wave.b.max() * 50
    np.testing.assert_allclose(counted, np.rint(counted), atol=1e-12)
    assert counted.max() == pytest.approx(50)
    cut = waveform_counts.apply_threshold(wave, 3).b
    assert ((cut == 0) | (cut >= 0.03)).all()
    rough = waveform_counts.roughen_pulse(wave, 0.03)
    assert 0 < np.abs(rough.pulse - wave.pulse).max() < 0.15
    assert rough.A[30, 30] == rough.pulse[len(rough.pulse) // 2]
