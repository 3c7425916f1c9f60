"""The tests of least squares on the CPU that NumPy solves where Numba is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_nnls import (
    test_a_nonfinite_system_does_not_affect_others,
    test_broadcasting,
    test_empty,
    test_hard_problem,
    test_iteration_limit,
    test_penalties_agree_with_brute_force,
    test_random_batch_agrees_with_scipy,
    test_warm_start,
)
from test_nnls_degenerate import LIMIT, check_part, parts
from test_nnls_properties import test_solutions_are_optimal
from test_nnls_regressions import (
    test_a_bad_warm_start_gives_the_same_residual,
    test_a_solution_that_overflows_is_not_certified,
    test_bits_do_not_depend_on_the_batch,
    test_rnorm_of_a_near_exact_fit_under_a_heavy_row,
)

import gpusolve
from gpusolve._nnls import cpu, nnls_gram_cpu

__all__ = [
    "test_a_bad_warm_start_gives_the_same_residual",
    "test_a_nonfinite_system_does_not_affect_others",
    "test_a_solution_that_overflows_is_not_certified",
    "test_bits_do_not_depend_on_the_batch",
    "test_broadcasting",
    "test_empty",
    "test_hard_problem",
    "test_iteration_limit",
    "test_penalties_agree_with_brute_force",
    "test_random_batch_agrees_with_scipy",
    "test_rnorm_of_a_near_exact_fit_under_a_heavy_row",
    "test_solutions_are_optimal",
    "test_warm_start",
]

pytestmark = pytest.mark.usefixtures("without_numba")


@pytest.fixture
def backend(numpy_backend: Any) -> Any:
    """NumPy alone, in the place of all backends."""
    return numpy_backend


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("part", parts(2))
def test_degenerate_systems(part: int, dtype: Any, numpy_backend: Any) -> None:
    check_part(numpy_backend, part, dtype)


def test_numpy_solves_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    solve = nnls_gram_cpu.nnls_gram

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return solve(*args, **options)

    monkeypatch.setattr(cpu, "nnls_gram", counted)
    gpusolve.nnls(np.eye(3), np.ones(3))
    assert calls
