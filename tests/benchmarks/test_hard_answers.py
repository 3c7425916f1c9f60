"""The table of hard problems: what an answer is worth."""

from __future__ import annotations

import numpy as np
import pytest
from benchmark_runs import tables
from hard_problems import HARD
from nnls_peer_process import Answer
from scipy.optimize import nnls

from benchmarks import hard_answers


def answer(x: np.ndarray) -> Answer:
    return Answer(1, 0.0, 0.0, x[None])


def test_worth_bounds_the_excess_of_every_answer() -> None:
    A, b = HARD["exactly solvable, sparse"]
    b = b + np.linspace(-1, 1, len(b))
    x, rnorm = nnls(A, b)
    rng = np.random.default_rng(0)
    tried = [x, 1.01 * x, 0 * x, x + 0.1 * rng.random(len(x))]
    found = hard_answers.worth(A, b, [answer(one) for one in tried])
    for one, bound in zip(tried, found, strict=True):
        excess = (np.linalg.norm(b - A @ one) - rnorm) / np.linalg.norm(b)
        assert excess <= bound + 1e-15
        assert bound <= 100 * max(excess, 1e-16)


def test_answers_without_a_number_are_told() -> None:
    A, b = HARD["wide"]
    broken = answer(np.full(A.shape[1], np.nan))
    missing = Answer(0, np.nan, np.nan, np.empty((0, A.shape[1])), "fails: OSError")
    found = hard_answers.worth(A, b, [broken, missing])
    assert np.isnan(found).all()
    cells = map(hard_answers.cell, [broken, missing], found)
    assert list(cells) == ["not finite", "fails"]


def test_gpusolve_proves_what_its_answers_are_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")
    monkeypatch.setattr(hard_answers, "SOLVERS", [])
    head, *lines = tables("\n".join(hard_answers.report()))[0]
    assert head == ["problem", "gpusolve says", "gpusolve"]
    names = [cells[0].rpartition(",")[0] for cells in lines[:-1]]
    assert names == list(hard_answers.PROBLEMS)
    assert lines[-1][-1] == "20"
