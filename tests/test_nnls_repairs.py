"""A certified solution is never replaced by another one that is not.

The penalty of these systems falls, at the level of rounding, along a dependence of
their columns: no minimum exists, and x may become as large as rounding allows. The
solvers see differences of this size, or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import without_gpu

from gpusolve._device.kernels import device_of
from gpusolve._nnls.inputs import Problem, validate
from gpusolve._nnls.solve import solve
from gpusolve.reference._certificate import Certificate, certify
from gpusolve.reference._nnls_qr import nnls_qr

SLOPE = 1e-14


def problem(systems: int = 64, n: int = 8) -> Problem:
    """Three equal columns, mixed bounds, and a penalty of rounding size."""
    rng = np.random.default_rng(7)
    A = rng.standard_normal((systems, 16, n))
    A[..., 1] = A[..., 2] = A[..., 0]
    b = rng.standard_normal((systems, 16))
    lower = np.where(rng.random((systems, n)) < 0.5, 0, -np.inf)
    penalty = SLOPE * np.eye(n)[0] - SLOPE * np.eye(n)[1]
    return validate(A, b, bounds=(lower, np.inf))._replace(l1=penalty)


@without_gpu
def test_repairs_never_replace_better_solutions(backend: Any) -> None:
    given = problem()
    results = {}
    for method in ("gram", "auto"):
        results[method] = solve(given, device_of(given.A), method)
    certified = results["gram"].status == 0
    assert certified.sum() > 40
    assert (results["auto"].status[certified] == 0).all()
    rnorm = {name: result.rnorm[certified] for name, result in results.items()}
    assert (rnorm["auto"] <= rnorm["gram"] * (1 + 1e-9)).all()


def test_a_later_attempt_never_replaces_a_certified_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first attempt is certified, but not settled; the second one is not."""
    attempts: list[Certificate] = []

    def certify_first(*args: Any) -> Certificate:
        found = certify(*args)
        worse = {"by_x": 5e-11, "angle": 9e-11, "kkt": 1.4e-10}
        if attempts:
            worse = {"by_x": 1.0, "kkt": 1.0, "rnorm": found.rnorm - 1e-3}
        attempts.append(found._replace(**{k: np.asarray(v) for k, v in worse.items()}))
        return attempts[-1]

    monkeypatch.setattr("gpusolve.reference._nnls_qr.certify", certify_first)
    solution = nnls_qr(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
    assert len(attempts) > 1
    assert solution.status == 0
    assert solution.kkt == attempts[0].kkt
