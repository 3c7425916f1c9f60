"""The solver of Luo & Duraiswami is counted next to ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmark_runs import number, tables

from benchmarks import published_solver


@pytest.mark.slow
@pytest.mark.paper(
    "Luo, Algorithm 1",
    "A solve of 40 x 40 Gaussians and of random numbers has 4.3 and 4.2 times the "
    "barriers of the update that is used, for each column that enters or leaves",
)
def test_the_published_solver_has_more_barriers() -> None:
    for experiment, times in (("shifted_gaussians", 4.3), ("uniform_random", 4.2)):
        published, used = (
            published_solver.counted(experiment, method, 40) for method in ("mgs", "qr")
        )
        each = [
            counts.barriers / (counts.updates + counts.downdates)
            for counts in (published, used)
        ]
        assert each[0] / each[1] == pytest.approx(times, abs=0.1)
        # One system alone: a block of "qr" has an eighth of the threads, and waits.
        assert published.seconds > used.seconds / 8


@pytest.mark.slow
def test_report_of_the_published_solver(called: Callable[..., str]) -> None:
    found = tables(called(published_solver.main, "--size", "12"))
    assert len(found) == 3
    for lines in found:
        assert [line[0] for line in lines[1:]] == ["mgs", "qr", "gram"]
        assert all(number(cell) >= 0 for line in lines[1:] for cell in line[1:])
