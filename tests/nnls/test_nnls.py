"""gpusolve.nnls against SciPy, brute force and the optimality conditions."""

from __future__ import annotations

import io
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from backends import also_by_fallback
from hard_problems import HARD
from oracles import brute_force, objective, residual_norm, scipy_rnorm, violation
from scipy.linalg import toeplitz
from together import together

import gpusolve

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 16 * EPS


@also_by_fallback
@together(
    ("method", "name"),
    [
        *itertools.product(("auto", "qr"), HARD),
        *(("mgs", name) for name in HARD if not name.startswith(("Hilbert", "Kahan"))),
    ],
)
def test_hard_problem(backend: Any, name: str, method: str) -> None:
    A, b = HARD[name]
    result = backend.nnls(A, b, method=method)
    assert result.status == 0
    A_scale = np.abs(A).max(initial=0) or 1.0
    b_scale = np.abs(b).max(initial=0) or 1.0
    A_unit, b_unit = A / A_scale, b / b_scale
    x_unit = result.x * A_scale / b_scale
    assert violation(A_unit, b_unit, x_unit) <= CERTIFIED
    length = np.linalg.norm(b_unit)
    cancelling = length + np.linalg.norm(A_unit, axis=0) @ x_unit
    assert result.kkt * length <= CERTIFIED * cancelling
    twice_objective = (result.rnorm / b_scale) ** 2
    if A.shape[1] <= 3:  # SciPy 1.15 solves "two by two" incorrectly
        expected = 2 * brute_force(A_unit, b_unit)
    else:
        expected = scipy_rnorm(A_unit, b_unit) ** 2
    assert twice_objective == pytest.approx(expected, abs=CERTIFIED * cancelling**2)
    rounding = A.shape[1] * float(np.finfo(np.longdouble).eps) * cancelling * b_scale
    assert result.rnorm == pytest.approx(
        residual_norm(A, b, result.x), rel=1e-13, abs=rounding
    )


@also_by_fallback
@pytest.mark.paper(
    "Luo, (1.1)", "x is not negative, and the norm of the residual equals SciPy's"
)
@pytest.mark.paper(
    "Luo, Algorithm 1, as used",
    "Random systems of 1 x 1 to 300 x 4 and 70 x 130 have the residuals of SciPy, and "
    "fulfil the conditions of optimality to 16 eps",
)
@together(
    ("m", "n"),
    [(1, 1), (3, 3), (8, 5), (5, 8), (33, 31), (64, 48), (70, 130), (300, 4)],
)
@together("order", ["C", "F"])
def test_random_batch_agrees_with_scipy(
    backend: Any, rng: np.random.Generator, m: int, n: int, order: Any
) -> None:
    A = rng.standard_normal((4, m, n))
    b = rng.standard_normal((4, m))
    if order == "F":
        A = np.ascontiguousarray(A.swapaxes(-1, -2)).swapaxes(-1, -2)
    result = backend.nnls(A, b)
    assert (result.status == 0).all()
    for k in range(4):
        assert violation(A[k], b[k], result.x[k]) <= CERTIFIED
        # Both fits may be exact. Then rounding in x determines the residual.
        cancelling = np.linalg.norm(b[k]) + np.linalg.norm(A[k], axis=0) @ result.x[k]
        assert result.rnorm[k] == pytest.approx(
            scipy_rnorm(A[k], b[k]), rel=1e-11, abs=m * EPS * cancelling
        )
        dual = A[k].T @ (b[k] - A[k] @ result.x[k])
        np.testing.assert_allclose(result.dual[k], dual, atol=1e-12 * m)
        entered = result.n_updates[k] - result.n_downdates[k]
        assert entered == np.count_nonzero(result.x[k])


@pytest.mark.parametrize("method", ["gram", "qr"])
def test_kernel_in_every_thread_order(
    schedule: str,
    method: str,
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    A, b = rng.random((3, 40, 30)), rng.random((3, 40))
    expected = gpusolve.nnls(A, b, method=method)
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    result = gpusolve.nnls(A, b, method=method)
    solution = gpusolve.reference.nnls(A, b)
    np.testing.assert_allclose(result.x, solution.x, rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(result.n_updates, expected.n_updates)
    np.testing.assert_array_equal(result.n_downdates, expected.n_downdates)
    np.testing.assert_array_equal(result.nit, expected.nit)


@together("limit", [6_000, 20_000, 60_000, 200_000])
def test_kernel_with_fewer_regions_in_shared_memory(
    limit: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    from gpusolve._device import kernels

    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    monkeypatch.setattr(
        kernels.EmulatedDevice, "shared_memory_per_block", min(limit, 99 * 1024)
    )
    A, b = rng.random((2, 50, 40)), rng.random((2, 50))
    result = gpusolve.nnls(A, b)
    np.testing.assert_allclose(
        result.x, gpusolve.reference.nnls(A, b).x, rtol=1e-10, atol=1e-13
    )


def test_less_memory_gives_fewer_blocks(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    from gpusolve import _emulator

    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    real_empty, refused = _emulator.empty, []

    def empty(shape: Any, dtype: Any) -> Any:
        if np.dtype(dtype) == np.uint8 and np.prod(shape) > 60_000:
            refused.append(shape)
            raise MemoryError
        return real_empty(shape, dtype)

    monkeypatch.setattr(_emulator, "empty", empty)
    A, b = rng.random((9, 90, 80)), rng.random((9, 90))
    result = gpusolve.nnls(A, b)
    assert refused
    np.testing.assert_allclose(
        result.x, gpusolve.reference.nnls(A, b).x, rtol=1e-9, atol=1e-12
    )
    monkeypatch.setattr(
        _emulator, "empty", lambda shape, dtype: empty((10**9,), np.uint8)
    )
    with pytest.raises(MemoryError):
        gpusolve.nnls(A, b)


@also_by_fallback
@together(("l1", "l2"), [(0.3, 0.0), (0.0, 0.7), (0.2, 0.1), (1e3, 0.0)])
@together("m", [4, 9])
def test_penalties_agree_with_brute_force(
    backend: Any, rng: np.random.Generator, m: int, l1: float, l2: float
) -> None:
    A, b = rng.standard_normal((3, m, 6)), rng.standard_normal((3, m))
    result = backend.nnls(A, b, l1=l1, l2=l2)
    for k in range(3):
        found = objective(A[k], b[k], result.x[k], l1, l2)
        assert found == pytest.approx(brute_force(A[k], b[k], l1, l2), rel=1e-9)
        assert violation(A[k], b[k], result.x[k], l1, l2) <= CERTIFIED
        dual = A[k].T @ (b[k] - A[k] @ result.x[k]) - l1 - l2 * result.x[k]
        np.testing.assert_allclose(result.dual[k], dual, atol=1e-12 * (1 + l1))
        fit = np.linalg.norm(A[k] @ result.x[k] - b[k])
        assert result.rnorm[k] == pytest.approx(fit, rel=1e-12)


@also_by_fallback
def test_warm_start(backend: Any, rng: np.random.Generator) -> None:
    A, b = rng.random((5, 30, 20)), rng.random((5, 30))
    cold = backend.nnls(A, b)
    warm = backend.nnls(A, b, warm_start=cold.x)
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-9, atol=1e-12)
    assert (warm.nit <= cold.nit).all()
    assert (warm.nit <= 2).all()
    assert (warm.n_downdates == 0).all()
    poor = backend.nnls(A, b, warm_start=np.ones(20))
    np.testing.assert_allclose(poor.x, cold.x, rtol=1e-9, atol=1e-12)
    invalid = np.array([np.nan, np.inf, -1.0, 1e300] + 16 * [0.5])
    np.testing.assert_allclose(
        backend.nnls(A, b, warm_start=invalid).x, cold.x, rtol=1e-9, atol=1e-12
    )
    twins = np.concatenate([A, A], axis=-1)
    both = backend.nnls(twins, b, warm_start=np.ones(40))
    np.testing.assert_allclose(both.rnorm, cold.rnorm, rtol=1e-9)


@also_by_fallback
def test_broadcasting(backend: Any, rng: np.random.Generator) -> None:
    A, b = rng.random((3, 1, 9, 6)), rng.random((4, 9))
    result = backend.nnls(A, b)
    assert result.x.shape == result.dual.shape == (3, 4, 6)
    for name in ("rnorm", "kkt", "nit", "status", "n_updates", "n_downdates"):
        assert getattr(result, name).shape == (3, 4)
    for i, j in np.ndindex(3, 4):
        alone = backend.nnls(A[i, 0], b[j])
        assert alone.x.shape == (6,)
        assert np.ndim(alone.rnorm) == 0
        np.testing.assert_array_equal(alone.x, result.x[i, j])
    x, rnorm = result
    assert x is result.x
    assert rnorm is result.rnorm
    assert len(result) == 2
    assert result[0] is x
    one_b = backend.nnls(A[:, 0], b[0])
    np.testing.assert_array_equal(one_b.x, result.x[:, 0])
    started = backend.nnls(A[0, 0], b[0], warm_start=np.zeros((2, 6)))
    assert started.x.shape == (2, 6)


class RecordingUnpickler(pickle.Unpickler):
    """Records the modules that a pickle names."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        return super().find_class(module, name)


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_a_pickled_result_names_only_public_modules(
    rng: np.random.Generator, batch: tuple[int, ...]
) -> None:
    result = gpusolve.nnls(rng.random((*batch, 5, 3)), rng.random((*batch, 5)))
    for protocol in (4, 5):
        unpickler = RecordingUnpickler(io.BytesIO(pickle.dumps(result, protocol)))
        loaded = unpickler.load()
        others = unpickler.modules - {"gpusolve"}
        assert "gpusolve" in unpickler.modules
        assert {name.partition(".")[0] for name in others} == {"numpy"}
        assert type(loaded) is gpusolve.NNLSResult
        for name, array in result._asdict().items():
            np.testing.assert_array_equal(getattr(loaded, name), array, strict=True)
        np.testing.assert_array_equal(loaded.residual, result.residual)


def test_strided_views(backend: Any, rng: np.random.Generator) -> None:
    big = rng.random((4, 20, 30))
    A, b = big[::2, ::-2, 3:15:2], big[::2, ::2, -1]
    np.testing.assert_array_equal(
        backend.nnls(A, b).x, backend.nnls(A.copy(), b.copy()).x
    )


@also_by_fallback
@together("bad", [np.nan, np.inf, -np.inf])
@together("where", ["A", "b"])
def test_a_nonfinite_system_does_not_affect_others(
    backend: Any, rng: np.random.Generator, bad: float, where: str
) -> None:
    A, b = rng.random((6, 20, 12)), rng.random((6, 20))
    good = backend.nnls(A, b)
    (A[2] if where == "A" else b[2])[..., 7] = bad
    result = backend.nnls(A, b)
    others = [0, 1, 3, 4, 5]
    assert result.status.tolist() == [0, 0, 2, 0, 0, 0]
    for name in ("x", "rnorm", "dual", "kkt"):
        assert np.isnan(getattr(result, name)[2]).all()
        np.testing.assert_array_equal(
            getattr(result, name)[others], getattr(good, name)[others]
        )
    shared = backend.nnls(np.where(np.isfinite(A[2]), A[2], bad), b)
    assert (shared.status == 2).sum() == (6 if where == "A" else 1)


def test_counts_of_a_nonfinite_system_are_zero(
    backend: Any, rng: np.random.Generator
) -> None:
    A, b = rng.random((20, 12)), rng.random((200, 20))
    b[100:, 3] = np.nan
    result = backend.nnls(A, b)
    assert (result.nit[:100] > 0).all()
    for name in ("nit", "n_updates", "n_downdates"):
        assert (getattr(result, name)[100:] == 0).all()


@also_by_fallback
@pytest.mark.parametrize("method", ["gram", "qr", "mgs"])
def test_iteration_limit(backend: Any, method: str, rng: np.random.Generator) -> None:
    A, b = rng.random((30, 20)), rng.random(30)
    full = backend.nnls(A, b, method=method)
    assert full.nit > (1 if method == "gram" else 3)
    rnorms = []
    for maxiter in range(int(full.nit)):
        result = backend.nnls(A, b, method=method, maxiter=maxiter)
        assert result.status == 1
        assert result.nit == maxiter
        assert (result.x >= 0).all()
        assert result.kkt > CERTIFIED
        assert result.rnorm == pytest.approx(np.linalg.norm(A @ result.x - b))
        rnorms.append(result.rnorm)
    assert rnorms == sorted(rnorms, reverse=True)
    assert backend.nnls(A, b, method=method, maxiter=int(full.nit)).status == 0


@also_by_fallback
@together(
    ("A", "b", "x", "rnorm"),
    [
        (np.zeros((3, 0)), np.array([2.0, 0.0, 0.0]), np.zeros(0), 2.0),
        (np.zeros((0, 3)), np.zeros(0), np.zeros(3), 0.0),
        (np.zeros((0, 0)), np.zeros(0), np.zeros(0), 0.0),
        (np.zeros((0, 4, 3)), np.zeros((0, 4)), np.zeros((0, 3)), np.zeros(0)),
        (np.zeros((4, 3)), np.zeros((0, 4)), np.zeros((0, 3)), np.zeros(0)),
        (np.zeros((2, 3, 0)), np.zeros((2, 3)), np.zeros((2, 0)), np.zeros(2)),
    ],
)
@together("l2", [0.0, 1.0])
def test_empty(backend: Any, A: Any, b: Any, x: Any, rnorm: Any, l2: float) -> None:
    result = backend.nnls(A, b, l2=l2, warm_start=np.ones(A.shape[-1]))
    np.testing.assert_array_equal(result.x, x)
    result = backend.nnls(A, b, l2=l2)
    np.testing.assert_array_equal(result.x, x)
    np.testing.assert_array_equal(result.rnorm, rnorm)
    assert (np.asarray(result.status) == 0).all()
    assert (np.asarray(result.kkt) == 0).all()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.float64, np.float64),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (bool, np.float64),
        (">f8", np.float64),
    ],
)
def test_dtypes(backend: Any, dtype: Any, expected: Any) -> None:
    A = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]).astype(dtype)
    b = np.array([1, 0, 0, 1]).astype(dtype)
    if backend.name == "cuda" and dtype == ">f8":
        pytest.skip("CuPy has no big-endian arrays")
    result = backend.nnls(A, b)
    for name in ("x", "rnorm", "dual", "kkt"):
        assert getattr(result, name).dtype == expected
    assert result.status.dtype == np.int32
    np.testing.assert_allclose(
        result.rnorm, scipy_rnorm(A.astype(float), b.astype(float)), rtol=1e-6
    )


def test_the_certificate_bounds_the_error_of_a_loose_tolerance(
    rng: np.random.Generator,
) -> None:
    A, b = rng.random((30, 20)), rng.random(30)
    loose, tight = gpusolve.nnls(A, b, tol=1e-2), gpusolve.nnls(A, b)
    assert loose.status == 0
    assert 16 * CERTIFIED < loose.kkt <= 1e-2
    reach = np.linalg.norm(A, axis=0) @ (loose.x + tight.x) + np.linalg.norm(b)
    assert CERTIFIED < loose.rnorm - tight.rnorm <= loose.kkt * reach


def test_wide_pulses(backend: Any) -> None:
    """cond(A)**2 is much larger than 1 / eps, and a sparse x fits exactly."""
    time = np.arange(60)
    A = toeplitz(np.exp(-0.5 * (time / 9.0) ** 2))
    b = A @ (time % 17 == 3).astype(float)
    result = backend.nnls(A, b)
    assert result.kkt <= CERTIFIED
    assert result.rnorm <= 1e-11 * np.linalg.norm(b)


def test_systems_not_certified_by_gram_are_solved_by_qr() -> None:
    hard = np.stack([HARD[f"Hilbert {n}"][0][:6, :6] for n in range(6, 15)])
    hard[:, :, 3] = hard[:, :, 2] * (1 + 1e-7 * np.arange(6))
    b = hard @ np.array([0, 1, 2, 0.5, 0, 1])
    gram = gpusolve.nnls(hard, b, method="gram")
    assert (gram.status == 3).any()
    easy = np.random.default_rng(0).random(hard.shape)
    batch = gpusolve.nnls(np.concatenate([easy, hard]), np.concatenate([b, b]))
    assert (batch.status == 0).all()
    assert not batch.repaired[:9].any()
    assert (batch.repaired[9:] >= (gram.status == 3)).all()
    alone = gpusolve.nnls(hard, b)
    np.testing.assert_array_equal(batch.x[9:], alone.x)
    for k in range(9):
        assert residual_norm(hard[k], b[k], batch.x[9 + k]) <= 1e-11


@pytest.mark.parametrize(
    ("method", "expected_grids"),
    [
        ("qr", [(2,)] * 4 + [(1,)]),
        ("gram", [(1,)] * 5),
        ("auto", [(1,), (2,)] * 4 + [(1,), (1,)]),
    ],
)
def test_a_watchdog_gives_more_launches_and_the_same_results(
    method: str,
    expected_grids: list[tuple[int]],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    from gpusolve import _emulator
    from gpusolve._device import kernels
    from gpusolve._nnls import nnls_qr_kernel

    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    A, b = rng.random((9, 12, 8)), rng.random((9, 12))
    start = rng.random((9, 8))
    expected = gpusolve.nnls(A, b, method=method, warm_start=start)
    monkeypatch.setattr(kernels.EmulatedDevice, "has_watchdog", True)
    monkeypatch.setattr(nnls_qr_kernel, "BLOCK_SPEED", 1.0)
    monkeypatch.setattr(_emulator.Kernel, "resident_blocks", lambda *_: 2)
    grids = []
    launch = _emulator.Kernel.__call__

    def counted(self: Any, grid: Any, *args: Any, **options: Any) -> None:
        grids.append(grid)
        launch(self, grid, *args, **options)

    monkeypatch.setattr(_emulator.Kernel, "__call__", counted)
    result = gpusolve.nnls(A, b, method=method, warm_start=start)
    assert grids == expected_grids
    for name in ("x", "rnorm", "dual", "kkt", "nit", "status"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


@pytest.mark.parametrize("shape", [(3, 3), (64, 48), (500, 500)])
def test_chunks_have_a_limited_number_of_entries(shape: tuple[int, int]) -> None:
    """Without the object, interrupts are handled between chunks only."""
    from gpusolve._device.threads import cores
    from gpusolve._nnls.problem import validate
    from gpusolve.studies._compared import solve
    from gpusolve.studies._compared.batch import chunked

    systems = 20_000
    b = np.broadcast_to(np.zeros(()), (systems, shape[0]))
    problem = validate(np.zeros(shape), b)
    for entries in (2**20, solve.CHUNK_ENTRIES):
        chunks = list(chunked(problem, entries, cores()))
        assert [k.start for k in chunks[1:]] == [k.stop for k in chunks[:-1]]
        assert (chunks[0].start, chunks[-1].stop) == (0, systems)
        largest = max(chunk.stop - chunk.start for chunk in chunks)
        assert largest == 1 or largest * shape[0] * shape[1] <= entries
