"""The compared methods of gpusolve.nnls: a solution is optimal, or has a status."""

from __future__ import annotations

from typing import Any

import cupy_stand_in
import numpy as np
import pytest
from hard_problems import HARD
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from oracles import brute_force, objective, residual_norm, violation
from together import together

import gpusolve

# Single steps and counts of factorisations: results have the last x only.
from gpusolve._nnls.arguments import COMPARED
from gpusolve._numerics.system import scale
from gpusolve.studies._compared import batch as chunks
from gpusolve.studies._compared import (
    block_pivoting,
    interior_point,
    l1_ls,
    mgs,
    normal_equations,
    pqn,
)
from gpusolve.studies._compared.normal_equations import NormalEquations
from gpusolve.studies.experiments import EXPERIMENTS

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 1e-10
"""The largest certificate of status 0, but for rounding errors of a large x."""

ACCURATE = 256 * EPS
"""Limit on the violation by the methods of well-conditioned systems."""

INTERIOR = ("interior_point", "newton_like", "l1_ls")
COUNTING = tuple(name for name in COMPARED if name not in INTERIOR)
ON_HOSTS = tuple(name for name in COMPARED if not COMPARED[name].on_devices)

every_method = together("method", COMPARED)


# ---- optimality ----------------------------------------------------------------------


@together(("m", "n"), [(1, 1), (8, 5), (9, 6), (50, 30), (0, 3), (3, 0)])
@together(("l1", "l2"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.7), (0.2, 0.1), (1e3, 0.0)])
@together("shape", [(), (4,), (3, 1)])
@together("dtype", [np.float32, np.float64])
@every_method
def test_batches_are_optimal(
    rng: Generator,
    method: str,
    m: int,
    n: int,
    l1: float,
    l2: float,
    shape: Any,
    dtype: Any,
) -> None:
    """Of A and b whose axes broadcast; a system alone has the same bits."""
    A = rng.standard_normal((*shape, m, n)).astype(dtype)
    b, options = rng.standard_normal((4, m)).astype(dtype), {"l1": l1, "l2": l2}
    result = gpusolve.nnls(A, b, method=method, **options)
    batch = np.broadcast_shapes(shape, (4,))
    assert_array_equal(result.status, np.zeros(batch))
    assert result.x.shape == result.dual.shape == (*batch, n)
    assert result.x.dtype == result.rnorm.dtype == dtype
    assert result.method_counts == {"gram": 0, "qr": 0, method: np.prod(batch)}
    limit = ACCURATE * float(np.finfo(dtype).eps) / EPS
    every = np.broadcast_to(A, (*batch, m, n)).astype(float)
    for k in np.ndindex(batch):
        x, one, side = result.x[k], every[k], b[k[-1]].astype(float)
        assert violation(one, side, x, l1, l2) <= limit
        assert result.rnorm[k] == pytest.approx(residual_norm(one, side, x), rel=limit)
        dual = one.T @ (side - one @ x) - l1 - l2 * x
        assert_allclose(result.dual[k], dual, atol=limit * (1 + l1 + m))
        entered = result.n_updates[k] - result.n_downdates[k]
        assert entered == (np.count_nonzero(x) if method in COUNTING else 0)
        if n <= 6:
            least = brute_force(one, side, l1, l2)
            found = objective(one, side, x, l1, l2)
            assert found == pytest.approx(least, rel=1e-9 * limit / ACCURATE)
    alone = gpusolve.nnls(every[k].astype(dtype), b[-1], method=method, **options)
    assert_array_equal(alone.x, result.x[k])


@every_method
def test_a_certified_hard_problem_is_optimal(method: str) -> None:
    for name, (A, b) in HARD.items():
        if name.startswith("Hilbert") and int(name[-2:]) % 3:
            continue  # three of them suffice
        result = gpusolve.nnls(A, b, method=method, maxiter=300)
        expected = residual_norm(A, b, result.x)
        A_scale, b_scale = (np.abs(array).max() or 1.0 for array in (A, b))
        A, b, x = A / A_scale, b / b_scale, result.x * A_scale / b_scale
        length = np.linalg.norm(b)
        cancelling = b_scale * (length + np.linalg.norm(A, axis=0) @ x)
        rounding = A.shape[1] * float(np.finfo(np.longdouble).eps) * cancelling
        assert result.rnorm == pytest.approx(expected, rel=1e-13, abs=rounding)
        assert (x >= 0).all()
        assert result.rnorm <= (1 + 4 * EPS) * length * b_scale
        if result.status == 0:
            assert violation(A, b, x) <= CERTIFIED, name
        else:
            assert name.startswith(("Hilbert", "Kahan")), name
            assert result.status == 1 or result.kkt > CERTIFIED


@together("method", COUNTING)
def test_warm_start(rng: Generator, method: str) -> None:
    A, b = rng.random((5, 30, 20)), rng.random((5, 30))
    cold = gpusolve.nnls(A, b, method=method)
    warm = gpusolve.nnls(A, b, method=method, warm_start=cold.x)
    assert (warm.status == 0).all()
    assert (warm.nit <= 1).all()
    assert (warm.n_downdates == 0).all()
    start = np.where(rng.random(20) < 0.5, rng.random(20), np.nan)
    for guess in (start, np.ones(20), np.full(20, -1.0)):
        other = gpusolve.nnls(A, b, method=method, warm_start=guess)
        assert_allclose(other.x, cold.x, rtol=1e-9, atol=1e-11)


@every_method
def test_iteration_limit(rng: Generator, method: str) -> None:
    A, b = rng.random((3, 30, 20)), rng.random((3, 30))
    full = gpusolve.nnls(A, b, method=method)
    for maxiter in range(3):
        result = gpusolve.nnls(A, b, method=method, maxiter=maxiter)
        assert (result.status == 1).all()
        assert (result.nit == maxiter).all()
        assert (result.x >= 0).all()
        if method != "fcnnls":  # It starts far from the optimum.
            longest = (1 + 4 * EPS) * np.linalg.norm(b, axis=-1)
            assert (result.rnorm <= longest).all()
        assert (result.kkt > CERTIFIED).all()
    enough = gpusolve.nnls(A, b, method=method, maxiter=int(full.nit.max()))
    assert_array_equal(enough.x, full.x)


# ---- batches -------------------------------------------------------------------------


@together("shared", [False, True])
@every_method
def test_a_bad_system_changes_no_bit_of_others(
    rng: Generator, method: str, shared: bool
) -> None:
    A, b = rng.random((20, 12) if shared else (6, 20, 12)), rng.random((6, 20))
    good = gpusolve.nnls(A, b, method=method)
    b[2, 7] = np.nan
    result = gpusolve.nnls(A, b, method=method)
    assert result.status.tolist() == [0, 0, 2, 0, 0, 0]
    assert result.method_counts[method] == 6
    for name in ("x", "rnorm", "dual", "kkt"):
        assert np.isnan(getattr(result, name)[2]).all()
    for name in ("x", "rnorm", "dual", "kkt", "nit", "n_updates", "n_downdates"):
        values, other = (np.delete(getattr(r, name), 2, axis=0) for r in (result, good))
        assert_array_equal(values, other)


# ---- refused arguments ---------------------------------------------------------------

EYE, ONES = np.eye(2), np.ones(2)
OTHERS = r"method must be one of \('auto', 'qr', 'gram'\), got '{}'"


@every_method
def test_what_compared_methods_do_not_take(method: str) -> None:
    only_nnls = OTHERS.format(method)
    with pytest.raises(ValueError, match=only_nnls):
        gpusolve.lsq_linear(EYE, ONES, (0, 1), method=method)
    with pytest.raises(ValueError, match=only_nnls):
        gpusolve.bounded_qp(EYE, ONES, method=method)
    with pytest.raises(ValueError, match=f"with sum_to, got '{method}'"):
        gpusolve.nnls(EYE, ONES, method=method, sum_to=1)
    if method in INTERIOR:
        with pytest.raises(ValueError, match=f"'cd'.* with warm_start, got '{method}'"):
            gpusolve.nnls(EYE, ONES, method=method, warm_start=ONES)
    if method in ON_HOSTS:
        with (
            cupy_stand_in.installed() as cupy,
            pytest.raises(ValueError, match=f"'mgs'.* on a GPU, got '{method}'"),
        ):
            gpusolve.nnls(cupy.asarray(EYE), cupy.asarray(ONES), method=method)


# ---- what is particular to a method --------------------------------------------------


def lawson_hanson(A: Any, b: Any, norm: Any) -> tuple[Any, list[int]]:
    """The textbook's loop, with columns over `norm`; x, and how many enter and leave.

    The variable of the largest gradient enters.
    """
    A, x, passive = A / norm, np.zeros(A.shape[1]), np.zeros(A.shape[1], bool)
    counts = [0, 0]
    while True:
        w = np.where(passive, 0, A.T @ (b - A @ x))
        if w.max() <= 1e-12:
            return x / norm, counts
        passive[np.argmax(w)] = True
        counts[0] += 1
        while True:
            y = np.zeros_like(x)
            y[passive] = np.linalg.lstsq(A[:, passive], b, rcond=None)[0]
            low = passive & (y <= 0)
            if not low.any():
                break
            step = (x[low] / (x[low] - y[low])).min()
            x += step * (y - x)
            leaving = passive & (x <= 1e-14)
            counts[1] += int(leaving.sum())
            passive &= ~leaving
            x[leaving] = 0
        x = y


@pytest.mark.paper("Luo, 1.2 FNNLS")
@pytest.mark.paper("Luo, 7 lsqnonneg")
@pytest.mark.parametrize("method", ["lsqnonneg", "fnnls"])
def test_the_columns_of_the_textbook_enter_and_leave(
    rng: Generator, method: str
) -> None:
    """In 6 systems as many columns enter and leave as by the textbook's method."""
    A, b = rng.random((6, 40, 30)), rng.random((6, 40))
    A[..., ::2] -= 0.5
    result = gpusolve.nnls(A, b, method=method)
    for k in range(6):
        x, counts = lawson_hanson(A[k], b[k], np.linalg.norm(A[k], axis=0))
        assert_allclose(result.x[k], x, atol=1e-12)
        assert [result.n_updates[k], result.n_downdates[k]] == counts
    assert result.n_downdates.any()


@pytest.mark.paper("Luo, Algorithm 1")
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_columns_of_algorithm_1_enter_and_leave(
    backend: Any, experiment: str
) -> None:
    """As published, the same columns enter and leave as in a loop that solves for each
    passive set by LAPACK, and takes the column of the largest gradient.

    The columns have units, so their gradients decide which column enters first.
    """
    A, b = EXPERIMENTS[experiment](2, size=48)
    A = np.broadcast_to(A, (2, 48, 48)) * np.linspace(1, 3, 48)
    result = backend.nnls(A, b, method="mgs")
    assert (result.status == 0).all()
    for k in range(2):
        x, counts = lawson_hanson(A[k], b[k], 1.0)
        assert_allclose(result.x[k], x, atol=1e-11)
        assert [result.n_updates[k], result.n_downdates[k]] == counts


def test_r_of_mgs_is_as_printed() -> None:
    """Products with columns themselves: Q loses its orthogonality, and QR leaves A."""
    A, b = EXPERIMENTS["shifted_gaussians"](1, size=40)
    solution = mgs.PassiveSolution(scale(A[:, ::2], b[0]))
    solution.of(np.ones(20, bool))
    Q, R = solution.factors.factors()
    assert np.abs(Q @ R - solution.factors.A.values).max() > 1e-13


@pytest.mark.paper("Luo, 7 lsqnonneg")
def test_lsqnonneg_factorises_in_each_step(
    monkeypatch: pytest.MonkeyPatch, rng: Generator
) -> None:
    """Each solve is a QR factorisation of all passive columns.

    The columns of this system only enter. The certificate factorises at the end.
    """
    A, b, columns, real = rng.random((30, 12)), rng.random(30), [], np.linalg.qr

    def counted(passive: Any) -> Any:
        columns.append(passive.shape[1])
        return real(passive)

    monkeypatch.setattr(np.linalg, "qr", counted)
    result = gpusolve.nnls(A, b, method="lsqnonneg")
    assert result.nit == np.count_nonzero(result.x) > 3
    assert columns[: int(result.nit)] == list(range(1, int(result.nit) + 1))


@pytest.mark.paper("Luo, 1.2 FCNNLS")
@pytest.mark.parametrize("method", ["fnnls", "fcnnls", "block_pivoting"])
def test_systems_of_one_passive_set_share_a_factorisation(
    monkeypatch: pytest.MonkeyPatch, rng: Generator, method: str
) -> None:
    """20 systems with the same passive sets need as many factorisations
    as one system.
    """
    A, b, calls = rng.random((30, 12)), rng.random(30), []
    real = normal_equations.inverse_factor

    def counted(G: Any) -> Any:
        calls.append(len(G))
        return real(G)

    monkeypatch.setattr(normal_equations, "inverse_factor", counted)
    monkeypatch.setattr(chunks, "cores", lambda: 1)
    alone = gpusolve.nnls(A, b, method=method)
    single = len(calls)
    result = gpusolve.nnls(A, b * np.arange(1, 21)[:, None], method=method)
    assert_allclose(result.x[-1], 20 * alone.x, rtol=1e-12, atol=1e-15)
    assert len(calls) - single == (20 * single if method == "fnnls" else single)


CYCLE = (
    np.array([[-1, 2, 1, -3], [2, 0, -1, 3], [1, -2, -2, 3], [2, -2, 0, 2.0]]),
    np.array([-2, -3, 3, 1.0]),
)
"""Block exchanges visit the same passive sets again and again."""


@pytest.mark.paper("Luo, 1.2 block pivoting")
def test_block_pivoting_needs_its_safeguard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges of blocks alone visit the same sets for 1000 solves; the safeguard ends
    that.
    """
    A, b = CYCLE
    result = gpusolve.nnls(A, b, method="block_pivoting")
    assert result.status == 0
    assert violation(A, b, result.x) <= ACCURATE
    monkeypatch.setattr(block_pivoting, "PATIENCE", 10**6)
    endless = gpusolve.nnls(A, b, method="block_pivoting", maxiter=1000)
    assert endless.status == 1
    assert endless.nit == 1000


@pytest.mark.paper("Luo, 1.2 block pivoting")
def test_block_pivoting_by_single_exchanges(
    monkeypatch: pytest.MonkeyPatch, rng: Generator
) -> None:
    """Exchanges of blocks need fewer solves than single exchanges, and have the same
    solutions.
    """
    A, b = rng.standard_normal((20, 12, 8)), rng.standard_normal((20, 12))
    blocks = gpusolve.nnls(A, b, method="block_pivoting")
    monkeypatch.setattr(block_pivoting, "PATIENCE", -1)
    single = gpusolve.nnls(A, b, method="block_pivoting", maxiter=2**8)
    assert (single.status == 0).all()
    assert single.nit.sum() > blocks.nit.sum()
    assert_allclose(single.x, blocks.x, atol=1e-12)


@pytest.mark.paper("Luo, 1.2 coordinates")
def test_a_sweep_of_cd_minimises_over_each_variable(rng: Generator) -> None:
    """A sweep minimises over each variable in turn, to 1e-14."""
    A, b = rng.random((9, 5)), rng.random(9)
    x = np.zeros(5)
    for sweeps in range(1, 4):
        for j in range(5):
            r = b - A @ x + A[:, j] * x[j]
            x[j] = max(0, A[:, j] @ r / (A[:, j] @ A[:, j]))
        found = gpusolve.nnls(A, b, method="cd", maxiter=sweeps)
        assert_allclose(found.x, x, atol=1e-14)


@pytest.mark.paper("Luo, 1.2 PQN")
def test_a_step_of_pqn_learns_the_curvature(rng: Generator) -> None:
    """After a step S maps the change of the gradient to the step, to 1e-12."""
    A, x = rng.random((9, 4)), 1 + rng.random(4)
    b, G = A @ (x + 0.1 * rng.random(4)), A.T @ A
    equations = NormalEquations(G, (A.T @ b)[None])
    S = np.diag(1 / np.diagonal(G))[None].copy()
    w = A.T @ (b - A @ x)
    found, S = pqn.step(scale(A, b[None]), equations, w[None], x[None], S)
    assert (found > 0).all()
    moved = found[0] - x
    assert_allclose(S[0] @ G @ moved, moved, rtol=1e-12, atol=1e-12)
    assert_allclose(S[0], S[0].T, atol=1e-12)
    assert np.linalg.norm(b - A @ found[0]) < np.linalg.norm(b - A @ x)


@pytest.mark.paper("Luo, 1.2 interior points")
def test_a_step_of_interior_point_solves_the_equations_of_the_paper(
    rng: Generator,
) -> None:
    """A step solves the equations for x and its multipliers together, to 1e-9.

    As linear systems for u and v together, without eliminating v.
    """
    A, b = rng.random((9, 4)), rng.random(9)
    G, x, y = A.T @ A, rng.random(4), rng.random(4)
    w = A.T @ (b - A @ x)
    left = np.block([[np.diag(y), np.diag(x)], [G, -np.eye(4)]])

    def reach(change: Any) -> float:
        both = np.append(x, y)
        falls = change < 0
        return min(1.0, float(0.99995 * (-both[falls] / change[falls]).min()))

    first = np.linalg.solve(left, np.append(-x * y, w + y))
    u, v = first[:4], first[4:]
    theta = reach(first)
    mu = (x + theta * u) @ (y + theta * v) / 16
    second = np.linalg.solve(left, np.append(mu - x * y - u * v, w + y))
    expected = np.append(x, y) + reach(second) * second
    equations = NormalEquations(G, (A.T @ b)[None])
    found = interior_point.step(scale(A, b[None]), equations, w[None], x[None], y[None])
    assert_allclose(np.concatenate(found, axis=1)[0], expected, rtol=1e-9)


@pytest.mark.paper("Luo, 1.2 interior points")
@pytest.mark.parametrize(
    ("method", "most"), [("interior_point", 30), ("newton_like", 30), ("l1_ls", 100)]
)
@pytest.mark.parametrize("n", [10, 100])
def test_interior_methods_need_few_steps_for_any_size(
    rng: Generator, method: str, most: int, n: int
) -> None:
    """Matrices with 10 and with 100 columns need at most 30 steps, and 100 of the
    method of Kim et al., whose steps double t.
    """
    result = gpusolve.nnls(rng.random((3, n, n)), rng.random((3, n)), method=method)
    assert (result.status == 0).all()
    assert result.nit.max() <= most


@pytest.mark.paper("Luo, 1.2 interior points")
def test_a_step_of_l1_ls_is_a_part_of_newtons(
    monkeypatch: pytest.MonkeyPatch, rng: Generator
) -> None:
    """A step of the method of Kim et al. is the largest part 1, 1/2, 1/4, ... of the
    Newton step by LAPACK, to 1e-9, that decreases t times half the squared residual,
    less sum log x.

    With conjugate gradients that do not stop early; some whole steps stay inside.
    """
    monkeypatch.setattr(l1_ls, "ACCURACY", 1e-14)
    A, b = rng.random((9, 4)), rng.random(9)
    system, equations = scale(A, b[None]), NormalEquations(A.T @ A, (A.T @ b)[None])

    def barrier(x: Any, t: float) -> float:
        inside = (x > 0).all()
        return t * np.sum((A @ x - b) ** 2) / 2 - np.log(x).sum() if inside else np.inf

    parts, inside = [], []
    points, times = 10 * rng.random((1000, 4)) ** 2, 10 ** rng.uniform(-2, 4, 1000)
    for x, t in zip(points, times, strict=True):
        w = A.T @ (b - A @ x)
        slope = -t * w - 1 / x
        newton = -np.linalg.solve(t * A.T @ A + np.diag(1 / x**2), slope)
        fall = 0.01 * (slope @ newton)
        part, least = 1.0, barrier(x, t)
        while barrier(x + part * newton, t) > least + part * fall:
            part /= 2
        parts.append(part)
        inside.append((x + newton > 0).all())
        state = w[None], x[None], np.full((1, 1), t)
        moved, grown = l1_ls.step(system, equations, *state)
        assert_allclose(moved[0], x + part * newton, rtol=1e-9)
        gap = moved[0] @ np.abs(A.T @ (b - A @ moved[0]))
        expected = max(t, 2 * min(t, 4 / gap)) if part >= 1 / 2 else t
        assert grown[0, 0] == pytest.approx(expected, rel=1e-9)
    assert any(part < 1 and whole for part, whole in zip(parts, inside, strict=True))
    assert {*parts} == {1, 1 / 2}


@pytest.mark.paper("Luo, 1.2 interior points")
@every_method
def test_a_degenerate_solution(rng: Generator, method: str) -> None:
    """The Newton-like method reaches a degenerate solution in at most 10 steps.

    Half of the variables at 0 have a dual of 0, too.
    """
    Q = np.linalg.qr(rng.standard_normal((20, 12)))[0]
    A = Q @ np.linalg.cholesky(np.eye(12) + 0.3 * np.ones((12, 12))).T
    x = np.append(rng.random(4), np.zeros(8))
    dual = np.append(np.zeros(8), -rng.random(4))
    r = Q @ np.linalg.solve(np.linalg.cholesky(A.T @ A), dual)
    result = gpusolve.nnls(A, A @ x + r, method=method)
    assert result.status == 0
    assert_allclose(result.x, x, atol=1e-7)
    assert_allclose(result.dual, dual, atol=1e-7)
    assert violation(A, A @ x + r, result.x) <= CERTIFIED
    if method == "newton_like":
        assert result.nit <= 10
