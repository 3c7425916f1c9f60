"""The benchmark of linear constraints, with few systems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from benchmark_runs import number, tables

from benchmarks import constraints


def test_both_cases_are_measured(called: Callable[..., str]) -> None:
    options = ("--sizes", "12", "--repeats", "1", "--no-peers", "--cpu")
    (table,) = tables(called(constraints.main, *options))
    for row, name in zip(table[1:], ("random", "two fibres"), strict=True):
        case, systems, active, certified, kkt, seconds, *peers = row
        assert (case, systems, certified) == (name, "12", "100.00%")
        assert 0 < number(active) < 60
        assert float(kkt) < 1e-11
        assert number(seconds) > 0
        assert not any(peers)


def test_fibres_are_blurred_functions_on_the_sphere() -> None:
    """A constant function has the mean of the response in all directions."""
    case = constraints.fibres(np.random.default_rng(1), 3)
    assert np.linalg.cond(case.A) < 1e4
    constant = np.linalg.lstsq(case.C, np.ones(60))[0]
    np.testing.assert_allclose(case.C @ constant, 1, atol=1e-9)
    t = np.linspace(-1, 1, 10_001)
    np.testing.assert_allclose(
        case.A @ constant, np.exp(-3 * t**2).mean(), rtol=0.1, atol=0
    )


def test_quadprog_finds_the_same_solutions() -> None:
    pytest.importorskip("quadprog")
    rng = np.random.default_rng(2)
    for case in (constraints.random_case(rng, 5), constraints.fibres(rng, 5)):
        found = constraints.by_quadprog(case, 5)
        own = constraints.gpusolve.lsq_linear(
            case.A, case.b, A_ub=-case.C, b_ub=np.zeros(60)
        )
        assert (own.status == 0).all()
        assert abs(constraints.excess(case, own.x, found)) < 1e-12
