"""The compiled object of the CPU solver: instruction sets, threads and interrupts."""

from __future__ import annotations

import math
import multiprocessing
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from every_option import (
    DTYPES,
    KINDS,
    METHODS,
    Array,
    assert_same,
    check_against_specification,
    problem,
)
from exact_programs import dot, exact
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from together import together

import gpusolve

# No argument sets threads, memory or interrupts of the compiled object.
from gpusolve._device import objects
from gpusolve._nnls import dense

CONVERGED, NOT_WRITTEN = 0, -1


def usable_objects() -> list[Path]:
    """The objects of this checkout that this CPU can run."""
    folder = Path(gpusolve.__file__).parent / objects.FOLDER
    found = [folder / objects.file_name(name) for name in objects.instruction_sets()]
    return [path for path in found if objects.choose(str(path)).library is not None]


OBJECTS = usable_objects()

pytestmark = pytest.mark.skipif(not OBJECTS, reason="the compiled object is missing")
every_method = pytest.mark.parametrize("method", METHODS)


# ---- instruction sets ----------------------------------------------------------------


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("dtype", DTYPES)
@together("kind", KINDS)
@every_method
def test_every_instruction_set_agrees_with_the_specification(
    method: str, kind: str, dtype: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSOLVE_OBJECT", str(path))
    for shape in ((1, 1), (4, 3), (17, 5), (45, 33)):
        batch = problem(kind, shape, dtype)
        found = gpusolve.lsq_linear(method=method, **batch)
        check_against_specification(found, batch, kind)


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_small_residuals_against_exact_arithmetic(
    path: Path, monkeypatch: pytest.MonkeyPatch, rng: Generator
) -> None:
    """Most digits of the terms cancel. Sums of 16, four and single rows."""
    monkeypatch.setenv("GPUSOLVE_OBJECT", str(path))
    A = rng.standard_normal((8, 23, 6))
    b = (A @ (1 + rng.random((8, 6, 1))))[..., 0] + 1e-9 * rng.random((8, 23))
    found = gpusolve.nnls(A, b, method="gram")
    for matrix, right, x, rnorm in zip(A, b, found.x, found.rnorm, strict=True):
        rows = zip(matrix, exact(right), strict=True)
        residual = [y - dot(exact(row), exact(x)) for row, y in rows]
        assert_allclose(rnorm, math.sqrt(dot(residual, residual)), rtol=1e-15)


@together("m, n", [(512, 1), (513, 2), (1030, 7), (1600, 12)])
def test_rows_are_multiplied_in_blocks(m: int, n: int, rng: Generator) -> None:
    """A wrong ``A^T A`` would take more steps. A row of weight 0 has NaN."""
    A, b, weights = rng.random((m, n)), rng.random((5, m)), rng.random((5, m))
    A[3 * m // 4], weights[:, 3 * m // 4] = np.nan, 0
    found = gpusolve.nnls(A, b, method="gram", weights=weights)
    rows = np.pad(A, ((0, -m % 512), (0, 0))), np.pad(b, ((0, 0), (0, -m % 512)))
    more = np.pad(weights, ((0, 0), (0, -m % 512)))
    expected = gpusolve.nnls(*rows, method="gram", weights=more)
    assert_array_equal(found.nit, expected.nit)
    assert (found.status == CONVERGED).all()
    used = weights[0] > 0
    for k in range(5):
        root = np.sqrt(weights[k, used])
        x, _ = scipy.optimize.nnls(root[:, None] * A[used], root * b[k, used])
        assert_allclose(found.x[k], x, atol=1e-12)


# ---- threads and processes -----------------------------------------------------------


@pytest.fixture
def threads_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also small calls use several threads."""
    monkeypatch.setattr(dense, "ENOUGH_FOR_THREADS", 0)


def hard_batch(rng: Generator, shares: bool) -> tuple[Array, Array]:
    """Forty systems; QR solves those in which two columns are nearly the same."""
    A, b = rng.random((40, 30, 12)), rng.random((40, 30))
    A[::3, :, 4] = A[::3, :, 2] * (1 + 1e-9 * rng.standard_normal((14, 30)))
    return (A[0] if shares else A), b


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.paper("Luo, 4.1")
@pytest.mark.parametrize("shares", [False, True])
@every_method
def test_bits_do_not_depend_on_the_threads(
    method: str, shares: bool, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1, 2, 3 or 8 threads at the same time solve a batch, to the same bits.

    Each thread waits for the others before it takes its first system.
    """
    A, b = hard_batch(rng, shares)
    alone = gpusolve.nnls(A, b, method=method)
    assert alone.repaired.any() == (method == "auto")
    real, solving = dense.call_keeping, set()

    def together(*args: Any) -> int:
        barrier.wait()
        solving.add(threading.get_ident())
        return real(*args)

    monkeypatch.setattr(dense, "call_keeping", together)
    for threads in (1, 2, 3, 8):
        solving.clear()
        barrier = threading.Barrier(threads, timeout=60)
        monkeypatch.setattr(dense, "cores", lambda threads=threads: threads)
        assert_same(gpusolve.nnls(A, b, method=method), alone)
        passes = 2 if method == "auto" else 1
        assert threads <= len(solving) <= passes * threads


@pytest.mark.usefixtures("threads_for_all")
def test_calls_from_eight_threads(rng: Generator) -> None:
    """All call at the same time, and each call starts threads of its own."""
    problems = [hard_batch(rng, bool(k % 2)) for k in range(8)]
    expected = [gpusolve.nnls(*given) for given in problems]
    together = threading.Barrier(8)

    def solve(k: int) -> list[Any]:
        together.wait()
        return [gpusolve.nnls(*problems[k]) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        for k, results in enumerate(pool.map(solve, range(8))):
            for result in results:
                assert_same(result, expected[k])


def solved(A: Array, b: Array) -> Array:
    return np.asarray(gpusolve.nnls(A, b).x)


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="fork is missing"
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_solves(rng: Generator) -> None:
    """After this process has loaded the object and used threads."""
    A, b = hard_batch(rng, False)
    expected = solved(A, b)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        waiting = [pool.apply_async(solved, (A, b)) for _ in range(4)]
        for task in waiting:
            assert_array_equal(task.get(timeout=300), expected)
    assert_array_equal(solved(A, b), expected)


# ---- interrupts ----------------------------------------------------------------------


class Interrupt:
    """Sends SIGINT to the main thread when a thread has taken the first system.

    `fields` are the arrays of the solution; a status that is not written is -1.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fields: list[Array] = []
        self.counters = np.zeros(2, np.uint64)
        self.sender: threading.Thread | None = None
        self.empty_together, self.run = dense.empty_together, dense.run
        monkeypatch.setattr(dense, "empty_together", self.allocated)
        monkeypatch.setattr(dense, "run", self.started)

    def allocated(self, *given: Any) -> Any:
        self.fields, addresses = self.empty_together(*given)
        self.status[...], self.n_updates[...] = NOT_WRITTEN, 0
        return self.fields, addresses

    def started(self, prepared: Any, used: Any, *given: Any) -> None:
        self.counters = used[-1][-1]
        self.sender = threading.Thread(target=self.send)
        self.sender.start()
        self.run(prepared, used, *given)

    def send(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self.counters[0]:
            time.sleep(1e-3)
        signal.pthread_kill(main, signal.SIGINT)

    @property
    def status(self) -> Array:
        return self.fields[5]

    @property
    def n_updates(self) -> Array:
        return self.fields[6]

    def after(self, call: Callable[[], Any]) -> None:
        """Call, and wait for the interrupt if the call ends before."""
        call()
        if self.sender is not None:
            self.sender.join()

    def ends(self, call: Callable[[], Any]) -> None:
        """Call, and expect the interrupt."""
        with pytest.raises(KeyboardInterrupt):
            self.after(call)
        assert self.counters[0] >= dense.STOP


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Interrupt]:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield Interrupt(monkeypatch)
    signal.signal(signal.SIGINT, before)


@every_method
def test_an_interrupt_ends_a_long_batch(
    method: str, interrupt: Interrupt, rng: Generator
) -> None:
    A, b = rng.standard_normal((64, 16)), rng.standard_normal((100, 64))
    many = np.broadcast_to(b, (10_000, 100, 64))
    interrupt.ends(lambda: gpusolve.nnls(A, many, method=method))
    assert (interrupt.status == NOT_WRITTEN).mean() > 0.1


@pytest.mark.parametrize("kind", ["cold", "warm", "free"])
@every_method
def test_an_interrupt_ends_a_large_system(
    method: str, kind: str, interrupt: Interrupt, rng: Generator
) -> None:
    m, n = 2500, 1800
    A, b = rng.standard_normal((m, n)), rng.standard_normal(m)
    lower = -np.inf if kind == "free" else 0.0
    start = 1 + rng.random(n) if kind == "warm" else None
    interrupt.ends(
        lambda: gpusolve.lsq_linear(
            A, b, (lower, np.inf), method=method, warm_start=start
        )
    )
    assert interrupt.status != CONVERGED


# ---- memory --------------------------------------------------------------------------


LIMITED = """
    import resource
    import numpy as np
    import gpusolve

    A, b = np.ones((3000, 2000), np.float32), np.ones(3000, np.float32)
    gpusolve.nnls(np.eye(3), np.ones(3))
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**25, used + 2**25))
    for batch in A, np.broadcast_to(A, (3, *A.shape)):
        for method in "auto", "gram", "qr":
            try:
                gpusolve.nnls(batch, b, method=method)
            except MemoryError as error:
                print(error)
    print(gpusolve.nnls(np.eye(3), np.ones(3)).x)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_without_memory_goes_on() -> None:
    program = textwrap.dedent(LIMITED)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    *messages, x = done.stdout.splitlines()
    message = "systems of shape 3000 x 2000 need more memory than there is"
    assert messages == [message] * 6
    assert x == "[1. 1. 1.]"


def test_what_is_prepared_for_later_calls_keeps_no_array() -> None:
    """A and b broadcast along different axes: their offsets are arrays."""
    rng, given = np.random.default_rng(5), []
    for _ in range(3):
        A, b = rng.random((4, 1, 9, 3)), rng.random((4, 50, 9))
        other = A[:, 0].copy(), b[:, :1].swapaxes(0, 1).copy()
        for matrix, rhs in ((A, b), (A[0, 0].copy(), b), other):
            expected = gpusolve.nnls(np.asfortranarray(matrix), rhs)
            found = gpusolve.nnls(matrix, rhs)
            assert_allclose(found.x, expected.x, atol=1e-13)
            given += map(weakref.ref, (matrix, rhs, found.x))
    del A, b, other, matrix, rhs, expected, found
    assert [array() for array in given] == [None] * len(given)


def test_known_calls_with_rows_read_what_is_given() -> None:
    """Calls of one kind share what was prepared; other dtypes and faults are seen."""
    rng = np.random.default_rng(6)
    for _ in range(3):
        A, b = rng.standard_normal((7, 4)), rng.standard_normal(7)
        rows = {"A_ub": rng.standard_normal((3, 4)), "b_ub": rng.random(3)}
        rows |= {"A_eq": rng.standard_normal((1, 4)), "b_eq": rng.standard_normal(1)}
        other = rows | {"A_ub": np.asfortranarray(rows["A_ub"])}
        for solver, *given in (
            (gpusolve.lsq_linear, A, b),
            (gpusolve.bounded_qp, A.T @ A, A.T @ b),
        ):
            assert_same(solver(*given, **rows), solver(*given, **other))
            assert_same(solver(*given), solver(np.asfortranarray(given[0]), given[1]))
    G, c, C, d = np.eye(2), np.ones(2), np.ones((1, 2)), np.ones(1)
    good = gpusolve.bounded_qp(G, c, A_ub=C, b_ub=d)
    single = gpusolve.bounded_qp(G, c, A_ub=C.astype(np.float32), b_ub=d)
    assert_array_equal(single.x, good.x)
    with pytest.raises(ValueError, match="symmetric"):
        gpusolve.bounded_qp(G + np.eye(2, k=1), c, A_ub=C, b_ub=d)
    assert gpusolve.bounded_qp(G, c, A_ub=C, b_ub=-d).status == 4
