"""Dask arrays of systems, in this process and on a local cluster of two processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
from every_option import KINDS, assert_same, problem
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from together import together

import gpusolve
from gpusolve import gam
from gpusolve._device import threads  # tells on how many cores a chunk is solved
from gpusolve._nnls import blocks, solve  # the task of a chunk, which Dask would call

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
cloudpickle = pytest.importorskip("cloudpickle")

cloudpickle.register_pickle_by_value(sys.modules[__name__])

M, N, SYSTEMS = 6, 3, 40


def local_client(**options: Any) -> Iterator[Any]:
    """A client of two workers of one thread each, at any free port."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address="localhost:0",
            **options,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


processes = pytest.fixture(local_client, scope="module")
"""A client of two worker processes, which take seconds to start."""


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of two workers in this process."""
    yield from local_client(processes=False)


def chunked(array: Any, chunks: Any) -> Any:
    return da.from_array(array, chunks)


@together("kind", KINDS)
@together("own", [False, True])
def test_chunks_have_the_bits_of_one_call(kind: str, own: bool) -> None:
    """Options and matrices are cut with the systems."""
    whole = problem(kind, (M, N), np.float64)
    expected, given = gpusolve.lsq_linear(**whole), {**whole}
    if own and given["A"].ndim > 2:
        given["A"] = chunked(given["A"], (2, *given["A"].shape[1:]))
    given["b"] = chunked(given["b"], (len(given["b"]) // 2, M))
    result = gpusolve.lsq_linear(**given)
    for name, field in expected._asdict().items():
        assert getattr(result, name).dtype == field.dtype
        assert getattr(result, name).shape == field.shape
    sent = cloudpickle.loads(cloudpickle.dumps(result))
    (found,) = dask.compute(sent, scheduler="sync")
    assert_same(found, expected)
    if kind == "strided":  # NumPy sums its products in another order than of a copy
        products = np.matmul(abs(whole["A"]), abs(expected.x)[..., None])[..., 0]
        rounding = (N + 1) * np.finfo(np.float64).eps * (abs(whole["b"]) + products)
        assert (abs(found.residual - expected.residual) <= 2 * rounding).all()
    else:
        assert_array_equal(found.residual, expected.residual)
    assert_array_equal(found.covariance(), expected.covariance())


def test_labels_of_xarray_are_kept(rng: Generator) -> None:
    xarray = pytest.importorskip("xarray")
    A = rng.standard_normal((M, N))
    image = xarray.DataArray(rng.standard_normal((M, 5, 8)), dims=("band", "y", "x"))
    spectra = xarray.DataArray(A, {"stain": list("abc")}, ("band", "stain"))
    expected = gpusolve.nnls(spectra, image)
    result = gpusolve.nnls(spectra, image.chunk({"x": 3}))
    assert result.x.chunks == ((5,), (3, 3, 2), (3,))
    xarray.testing.assert_identical(result.x.compute(), expected.x)


def calls(rng: Generator) -> dict[str, tuple[Any, dict[str, Any]]]:
    """A function and its arguments, of which the second has the systems."""
    A, b = rng.random((9, 6)), rng.standard_normal((20, 9))
    G, side = A.T @ A + np.eye(6), rng.random((20, 6))
    program = {"l1": rng.random((20, 1)), "l2": 0.1, "warm_start": rng.random(6)}
    smooth = {"L": rng.random((20, 4, 6)), "lam": rng.random(20), "prior": side[0]}
    rows = {"A_ub": rng.standard_normal((3, 6)), "b_ub": -np.ones(3)}
    return {
        "bounded_qp": (gpusolve.bounded_qp, {"G": G, "c": side, **program}),
        "constraints": (gpusolve.lsq_linear, {"A": A, "b": b, **rows}),
        "differences": (gpusolve.nnls, {"A": A, "b": b, "L": "second"}),
        "penalty": (gpusolve.nnls, {"A": A, "b": b, **smooth}),
    }


@together("name", ["bounded_qp", "constraints", "differences", "penalty"])
def test_blocks_files_and_chunks_are_those_of_one_call(
    rng: Generator, name: str
) -> None:
    function, given = calls(rng)[name]
    batch = "c" if name == "bounded_qp" else "b"
    expected = function(**given)
    x = np.empty_like(expected.x)
    written = function(**given, devices="cpu", out={"x": x})
    assert written.x is x
    later = function(**{**given, batch: chunked(given[batch], (7, -1))})
    if "L" in given:
        with pytest.raises(TypeError, match="need a result of NumPy or CuPy arrays"):
            _ = later.seminorm
    (lazy,) = dask.compute(later, scheduler="sync")
    for found in written, lazy:
        for field, values in expected._asdict().items():
            if values is not None:
                assert_allclose(getattr(found, field), values, atol=1e-14)
        assert_array_equal(found.residual, expected.residual)
        assert_array_equal(found.covariance(), expected.covariance())
        if "L" in given:
            assert_array_equal(found.seminorm, expected.seminorm)


# ---- what is sent and computed -------------------------------------------------------


def test_results_are_lazy_and_each_chunk_is_solved_once(
    rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_of, calls = solve.key_of, []

    def counted(*args: Any) -> Any:
        calls.append(threads.cores())
        return key_of(*args)

    monkeypatch.setattr(solve, "key_of", counted)
    A = rng.standard_normal((M, N))
    b = chunked(rng.standard_normal((SYSTEMS, M)), (10, M))
    result = gpusolve.nnls(A, b)
    assert not calls
    dask.compute(result, result.kkt.max(), scheduler="sync")
    assert calls == [1, 1, 1, 1], "each chunk once, on one core"
    assert result.x.name == gpusolve.nnls(A, b).x.name, "the same call has the same key"
    with pytest.raises(TypeError, match=r"call dask\.compute"):
        result.covariance()
    with pytest.raises(TypeError, match=r"call dask\.compute"):
        _ = result.residual


def test_a_shared_matrix_is_a_task_of_its_own(rng: Generator) -> None:
    """Options of each system are cut as b is."""
    A, weights = rng.standard_normal((200, 40)), rng.random((400, 200))
    b = da.random.default_rng(1).standard_normal((400, 200), chunks=(20, 200))
    (graph,) = dask.optimize(gpusolve.nnls(A, b, weights=weights).status)
    sizes = [len(cloudpickle.dumps(task)) for task in dict(graph.dask).values()]
    assert sum(size >= A.nbytes for size in sizes) == 1


@pytest.mark.slow
def test_a_shared_matrix_is_sent_once_to_each_worker(
    processes: Any, rng: Generator
) -> None:
    A = rng.standard_normal((200, 40))
    b = da.random.default_rng(1).standard_normal((400, 200), chunks=(20, 200))
    gpusolve.nnls(A, b).status.sum().compute()

    def received(dask_worker: Any) -> list[int]:
        logs = dask_worker.transfer_incoming_log
        sizes = [list(log["keys"].values()) for log in logs]
        return [size for some in sizes for size in some if size == A.nbytes]

    counts = [len(sizes) for sizes in processes.run(received).values()]
    assert sum(counts) <= 1, "the worker that has it first receives it in its task"


# ---- what goes wrong -----------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(
    processes: Any, rng: Generator, tmp_path: Path
) -> None:
    A, b = rng.standard_normal((M, N)), rng.standard_normal((SYSTEMS, M))
    flag = tmp_path / "killed"

    def read(part: Any, block_info: Any = None) -> Any:
        if block_info[0]["chunk-location"] == (2, 0) and not flag.exists():
            flag.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    spectra = chunked(b, (10, M)).map_blocks(read, dtype=b.dtype)
    (found,) = dask.compute(gpusolve.nnls(A, spectra))
    assert flag.exists()
    assert_same(found, gpusolve.nnls(A, b))


def test_integers_beyond_float64_fail_in_their_chunk() -> None:
    b = chunked(np.array([[1, 2], [2**53 + 1, 1]]), (1, 2))
    result = gpusolve.nnls(np.eye(2), b)
    assert result.status[0].compute(scheduler="sync") == 0
    with pytest.raises(ValueError, match="b must have integers of magnitude at most"):
        result.status.compute(scheduler="sync")


CHUNKED = da.ones((SYSTEMS, M), chunks=(10, M))
OF_A = r"A must .* last 2 axes, .*A\.rechunk\(\{-2: -1, -1: -1\}\)"

REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"b": CHUNKED.rechunk({1: 2})},
        r"b must .* last axis, .*b\.rechunk\(\{-1: -1\}\)",
    ),
    ({"A": da.ones((M, N), chunks=(2, N))}, OF_A),
    ({"A": da.ones((M, N), chunks=(M, 1))}, OF_A),
    ({"b": CHUNKED[CHUNKED[:, 0] > 0]}, r"call b\.compute_chunk_sizes\(\) first"),
    ({"devices": "all"}, "devices and out must be None for dask"),
    ({"out": {}}, "devices and out must be None for dask"),
]


@together(("given", "message"), REFUSED, ids=str)
def test_what_chunks_may_not_be(given: dict[str, Any], message: str) -> None:
    valid = {"A": da.ones((M, N)), "b": CHUNKED}
    gpusolve.nnls(**valid)
    with pytest.raises(ValueError, match=message):
        gpusolve.nnls(**valid | given)
    with pytest.raises(ValueError, match=r"G must have one chunk .* call G\.rechunk"):
        gpusolve.bounded_qp(da.ones((4, 6, 6), chunks=(4, 3, 6)), np.ones(6))


# ---- boosted models ------------------------------------------------------------------


@together("name", ["folds", "classes", "halves"])
def test_parts_of_a_selection_are_tasks(client: Any, rng: Generator, name: str) -> None:
    X = rng.random((60, 4))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(60)
    if name == "classes":
        y = rng.integers(0, 3, 60)
    kind = gam.BoostedGAMClassifier if name == "classes" else gam.BoostedGAM
    select = gam.stability_selection if name == "halves" else gam.cv_stop
    options: dict[str, Any] = {"random_state": 0}
    if name == "halves":
        options |= {"q": 2, "cutoff": 0.9, "B": 4}
    model = kind(max_iter=10).fit(X, y)
    expected = select(model, **options)
    found = select(model, **options, client=client)
    field = "paths" if name == "halves" else "risk"
    assert_array_equal(getattr(found, field), getattr(expected, field))


# ---- workers -------------------------------------------------------------------------


def test_chunks_on_a_gpu_are_solved_there(rng: Generator) -> None:
    A, b = rng.standard_normal((M, N)), rng.standard_normal((SYSTEMS, M))
    with cupy_stand_in.installed() as cupy:
        with cupy.cuda.Device(1):
            there = cupy.asarray(b)
        given: dict[str, Any] = {"names": ("A", "b"), "method": "auto", "numbers": {}}
        found = blocks.solve_dask_chunk(A, there, solve=solve.least_squares, **given)
        assert found.x.device.id == 1
        x = found.x.get()
    assert_allclose(x, gpusolve.nnls(A, b).x, rtol=1e-12, atol=1e-13)
