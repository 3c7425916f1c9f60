"""The Gram method: its specification, and its kernel with every kind of team."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles import scipy_rnorm, violation

import gpusolve
from gpusolve import _emulator, reference
from gpusolve._device import kernels
from gpusolve._nnls import device, nnls_gram_kernel
from gpusolve._nnls.inputs import validate
from gpusolve._nnls.nnls_gram_kernel import Size, Team, choose, layout_of, teams_for
from gpusolve.reference import _nnls_gram
from gpusolve.reference._nnls_gram import PassiveInverse
from gpusolve.reference._nnls_qr import Solution

Array = NDArray[Any]

TEAMS = {
    "thread": Team("ThreadTeam", 128, 128, 128),
    "warp": Team("WarpTeam", 128, 4),
    "block": Team("BlockTeam", 64),
    "grid": Team("GridTeam", 64),
}
SMALL = (5, 3)
EPS = {np.dtype(one): float(np.finfo(one).eps) for one in (np.float32, np.float64)}


def solve(A: Array, b: Array, **options: Any) -> Solution:
    """Solve by the kernel alone, on the emulator."""
    problem = validate(A, b, **options)
    return device.nnls(problem, kernels.EmulatedDevice(), "gram")


def use(team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this team solve systems of any size."""
    monkeypatch.setattr(nnls_gram_kernel, "teams_for", lambda *_: [TEAMS[team]])
    monkeypatch.setattr(nnls_gram_kernel, "choose", choose.__wrapped__)


def assert_optimal(
    A: Array, b: Array, found: Solution, l1: float = 0, l2: float = 0
) -> None:
    assert (found.status == 0).all()
    systems = len(found.x)
    A = np.broadcast_to(A, (systems, *A.shape[-2:]))
    b = np.broadcast_to(b, (systems, b.shape[-1]))
    limit = 16 * EPS[A.dtype]
    for A_k, b_k, x_k in zip(A, b, found.x, strict=True):
        assert violation(A_k, b_k, x_k, l1, l2) <= limit


# ---- the specification ---------------------------------------------------------------


def test_the_inverse_after_many_changes(rng: np.random.Generator) -> None:
    A = rng.standard_normal((40, 20))
    G = A.T @ A
    inverse = PassiveInverse(20)
    for _ in range(300):
        passive = inverse.passive.tolist()
        free = sorted(set(range(20)) - set(passive))
        if free and (not passive or rng.random() < 0.6):
            j = int(rng.choice(free))
            g = G[j, inverse.passive]
            u = inverse.multiply(g)
            inverse.append(j, u, G[j, j] - u @ g)
        else:
            inverse.remove(int(rng.integers(len(passive))))
        passive = inverse.passive.tolist()
        H = inverse.H[: len(passive), : len(passive)]
        expected = np.linalg.inv(G[np.ix_(passive, passive)])
        # Errors of 300 updates, magnified by the condition number of G, about 30.
        np.testing.assert_allclose(H, expected, atol=300 * 30 * EPS[H.dtype])


@pytest.mark.parametrize("shape", [(1, 1), (7, 4), (30, 20), (20, 30), (64, 48)])
def test_the_specification_against_scipy(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    A, b = rng.random((6, *shape)), rng.random((6, shape[0]))
    found = reference.nnls_gram(A, b)
    assert_optimal(A, b, found)
    expected = [scipy_rnorm(*one) for one in zip(A, b, strict=True)]
    np.testing.assert_allclose(found.rnorm, expected, atol=1e-13)


def test_several_variables_enter_at_once(rng: np.random.Generator) -> None:
    A, b = rng.random((60, 40)), rng.random(60)
    found, one = reference.nnls_gram(A, b), reference.nnls_qr(A, b)
    np.testing.assert_allclose(found.x, one.x, atol=1e-13)
    assert 2 * found.nit < one.nit


def test_columns_that_are_alike_do_not_enter_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neighbouring Gaussians: most of a group that entered would leave again."""
    time = np.arange(128)
    A = np.exp(-0.5 * ((time[:, None] - time) / 4.32) ** 2)
    b = np.random.default_rng(0).random((4, 128))
    found = reference.nnls_gram(A, b)
    monkeypatch.setattr(_nnls_gram, "ALIKE", 2.0)
    together = reference.nnls_gram(A, b)
    assert not found.status.any()
    assert not together.status.any()
    assert 1.2 * found.nit.sum() < together.nit.sum()


# ---- the kernel ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("team", TEAMS)
def test_kernel_against_the_specification(
    team: str, dtype: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    use(team, monkeypatch)
    A, b = (
        rng.random((5, *SMALL)).astype(dtype),
        rng.random((5, SMALL[0])).astype(dtype),
    )
    for l1, l2 in [(0.0, 0.0), (0.1, 0.0), (0.05, 0.3)]:
        found = solve(A, b, l1=l1, l2=l2)
        expected = reference.nnls_gram(A, b, l1=l1, l2=l2)
        assert_optimal(A, b, found, l1, l2)
        np.testing.assert_allclose(found.x, expected.x, atol=300 * EPS[A.dtype])
        np.testing.assert_allclose(found.rnorm, expected.rnorm, rtol=8 * EPS[A.dtype])
        for name in ("nit", "n_updates", "n_downdates", "status"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("team", ["warp", "block", "grid"])
def test_larger_systems(
    team: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    use(team, monkeypatch)
    A, b = rng.random((2, 40, 30)), rng.random((2, 40))
    found = solve(A, b)
    assert_optimal(A, b, found)
    np.testing.assert_array_equal(found.nit, reference.nnls_gram(A, b).nit)


@pytest.mark.parametrize("team", TEAMS)
def test_strides_and_broadcasting(
    team: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Whether a matrix is shared, and its memory layout, change no bit."""
    use(team, monkeypatch)
    one, b = rng.random(SMALL), rng.random((5, SMALL[0]))
    expected = solve(np.stack([one] * 5), b)
    padded = np.zeros((10, 6))
    padded[::2, ::-2] = one
    for A in (one, one[None], np.asfortranarray(one), padded[::2, ::-2]):
        found = solve(A, b)
        for name, field in found._asdict().items():
            np.testing.assert_array_equal(field, getattr(expected, name), name)
    pair = rng.random((2, 1, *SMALL))
    found = solve(pair, b[:3])
    expected = solve(np.repeat(pair, 3, axis=1), b[:3])
    np.testing.assert_array_equal(found.x, expected.x)


@pytest.mark.parametrize("limit", [2500, 4500, 6000])
def test_less_shared_memory_changes_no_bit(
    limit: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """The vectors, or a part of the inverse, are in global memory."""
    use("block", monkeypatch)
    A, b = rng.random((3, 40, 30)), rng.random((3, 40))
    expected = solve(A, b)
    monkeypatch.setattr(kernels.EmulatedDevice, "shared_memory_per_block", limit)
    size = Size(40, 30, 40)
    assert layout_of(TEAMS["block"], size, False, limit - 2048).workspace > 0
    found = solve(A, b)
    for name, field in found._asdict().items():
        np.testing.assert_array_equal(field, getattr(expected, name), name)


@pytest.mark.parametrize("team", TEAMS)
def test_a_warm_start_takes_fewer_steps(
    team: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    use(team, monkeypatch)
    A, b = rng.random((3, *SMALL)), rng.random((3, SMALL[0]))
    cold = solve(A, b)
    warm = solve(A, b, warm_start=cold.x)
    np.testing.assert_allclose(warm.x, cold.x, atol=300 * EPS[A.dtype])
    assert (warm.nit <= 1).all()
    np.testing.assert_array_equal(warm.n_updates, np.count_nonzero(cold.x, axis=1))
    wrong = solve(A, b, warm_start=np.where(cold.x > 0, 0, 1.0))
    assert_optimal(A, b, wrong)


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_nonfinite_system_changes_no_other(
    team: str, bad: float, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    use(team, monkeypatch)
    A, b = rng.random((4, *SMALL)), rng.random((4, SMALL[0]))
    good = solve(A, b)
    A[1, 2, 1] = b[2, 0] = bad
    found = solve(A, b)
    np.testing.assert_array_equal(found.status, [0, 2, 2, 0])
    assert np.isnan(found.x[1:3]).all()
    assert np.isnan(found.kkt[1:3]).all()
    np.testing.assert_array_equal(found.x[::3], good.x[::3])


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4])
def test_float32_with_a_small_residual(
    noise: float, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Everything is computed in float64, so a small residual is no obstacle."""
    A = rng.random((16, 40, 20)).astype(np.float32)
    x = np.maximum(rng.standard_normal((16, 20)), 0)
    b = np.einsum("kij,kj->ki", A, x) + noise * rng.standard_normal((16, 40))
    b = b.astype(np.float32)
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    found = gpusolve.nnls(A, b)
    assert (found.status == 0).all()
    assert not found.method.any()
    assert found.x.dtype == np.float32


@pytest.mark.parametrize("team", TEAMS)
def test_a_tiny_column_does_not_disturb_the_l2_penalty(
    team: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    use(team, monkeypatch)
    A, b = rng.random((3, *SMALL)), rng.random((3, SMALL[0]))
    expected = solve(A, b)
    A[..., 1] *= 2.0**-600
    found = solve(A, b)
    assert (found.status == 0).all()
    np.testing.assert_array_equal(found.x * [1, 2.0**-600, 1], expected.x)


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, -1.0])
def test_useless_warm_starts(
    team: str, value: float, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    use(team, monkeypatch)
    A, b = rng.random((3, *SMALL)), rng.random((3, SMALL[0]))
    expected = solve(A, b)
    found = solve(A, b, warm_start=np.full((3, SMALL[1]), value))
    np.testing.assert_array_equal(found.status, 0)
    np.testing.assert_array_equal(found.x, expected.x)
    spec = reference.nnls_gram(A, b, warm_start=np.full(SMALL[1], value))
    np.testing.assert_array_equal(spec.status, 0)


def test_qr_replaces_a_solution_only_by_a_better_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some of these systems are certified, but not to a few eps."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((200, 17, 3)) @ rng.standard_normal((200, 3, 9))
    A += 1e-6 * rng.standard_normal(A.shape)
    b = rng.standard_normal((200, 17))
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    auto, gram = gpusolve.nnls(A, b), gpusolve.nnls(A, b, method="gram")
    assert auto.repaired.any()
    kept = gram.status == 0
    assert (auto.status[kept] == 0).all()
    limit = 1e-10 * np.linalg.norm(b, axis=1)
    assert (auto.rnorm[kept] <= gram.rnorm[kept] + limit[kept]).all()


@pytest.mark.parametrize("team", TEAMS)
def test_iteration_limit(
    team: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    use(team, monkeypatch)
    A = rng.random((3, *SMALL)) - 0.3
    b = rng.random((3, SMALL[0]))
    full = solve(A, b)
    for maxiter in range(int(full.nit.max()) + 1):
        found = solve(A, b, maxiter=maxiter)
        np.testing.assert_array_equal(found.status, full.nit > maxiter)
        assert (found.x >= 0).all()
        np.testing.assert_array_equal(found.nit, np.minimum(full.nit, maxiter))


@pytest.mark.parametrize("limit", [40 * 30 * 8 * 4, 40 * 30 * 8])
def test_less_memory_changes_no_bit(
    limit: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """The scaled matrices of a few systems fit into memory at the same time."""
    A, b = rng.random((9, 40, 33)), rng.random((9, 40))
    start = rng.random((9, 33))
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    expected = gpusolve.nnls(A, b, warm_start=start)
    monkeypatch.setattr(_emulator, "empty", with_limit(_emulator.empty, 2 * limit))
    found = gpusolve.nnls(A, b, warm_start=start)
    assert not found.method.any()
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.nit, expected.nit)


def test_without_memory_for_one_matrix_qr_is_used(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    A, b = rng.random((3, 40, 33)), rng.random((3, 40))
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    expected = gpusolve.nnls(A, b, method="qr")
    monkeypatch.setattr(_emulator, "empty", with_limit(_emulator.empty, 10_000))
    found = gpusolve.nnls(A, b)
    assert found.method.all()
    np.testing.assert_array_equal(found.x, expected.x)
    with pytest.raises(MemoryError):
        gpusolve.nnls(A, b, method="gram")


def with_limit(empty: Any, limit: int) -> Any:
    """An allocation that fails for arrays of more than `limit` bytes."""

    def limited(shape: Any, dtype: Any) -> Any:
        if np.prod(shape) * np.dtype(dtype).itemsize > limit:
            raise MemoryError
        return empty(shape, dtype)

    return limited


def test_team_for_each_size() -> None:
    def chosen(m: int, n: int, systems: int = 1000, limit: int = 225 * 1024) -> str:
        return choose(Size(m, n, m), systems < 5, False, limit)[0].name

    assert chosen(3, 3) == "ThreadTeam"
    assert chosen(30, 10) == "WarpTeam"
    assert chosen(64, 32) == "WarpTeam"
    assert chosen(64, 32, limit=20_000) == "BlockTeam"
    assert chosen(64, 33) == "BlockTeam"
    assert chosen(5000, 2000) == "BlockTeam"
    assert chosen(5000, 2000, systems=1) == "GridTeam"
    assert teams_for(Size(2, 10_000, 2), True)[0].name == "BlockTeam"
