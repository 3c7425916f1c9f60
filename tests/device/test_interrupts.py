"""Long calls end at an interrupt, and large systems make such calls only."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from together import together

import gpusolve

# Systems that are large enough take seconds.
from gpusolve._device import interrupts
from gpusolve._device.interrupts import interruptible
from gpusolve._nnls import nnls_constrained_kernel


@pytest.fixture
def interruptions() -> Iterator[None]:
    """Python's own handler of interrupts; a shell may have replaced it."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptions")
def test_an_interrupt_does_not_wait_for_the_function() -> None:
    main, ended, may_end = threading.get_ident(), threading.Event(), threading.Event()

    def long() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        may_end.wait()
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        interruptible(np.inf, long)
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(timeout=10)


PROGRAM = """
    import os, signal, threading, time
    from gpusolve._device.interrupts import interruptible

    def long():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep({seconds})
        print("ended", flush=True)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interruptible(float("inf"), long)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        {then}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
@pytest.mark.parametrize(
    ("seconds", "then", "code", "printed"),
    [
        (0.5, "pass", 0, ["interrupted", "ended"]),
        (60, "raise", -signal.SIGINT, ["interrupted"]),
    ],
    ids=["caught", "not caught"],
)
def test_an_exit_waits_unless_an_interrupt_ends_the_process(
    seconds: float, then: str, code: int, printed: list[str]
) -> None:
    program = textwrap.dedent(PROGRAM.format(seconds=seconds, then=then))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == code
    assert done.stdout.split() == printed


@together("work", [0.0, np.inf])
def test_values_errors_and_the_treatment_of_floating_point_errors(work: float) -> None:
    assert interruptible(work, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        interruptible(work, divmod, 7, 0)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        interruptible(work, np.divide, 1.0, 0.0)
    with np.errstate(divide="ignore"):
        assert interruptible(work, np.divide, 1.0, 0.0) == np.inf


FACTORISATIONS = "eigh", "qr", "svd", "inv", "cholesky"


UNKNOWN: dict[str, Any] = {"maxiter": 97}
"""An option that no other test has: a call that is known factorises nothing here."""


def program(A: Any, b: Any) -> None:
    gpusolve.bounded_qp(A.T @ A, A.T @ b, **UNKNOWN)


def constrained(A: Any, b: Any) -> None:
    A = np.concatenate([A, A[:, :1]], axis=1)
    rows = {"A_ub": np.eye(4)[:2] - 1, "b_ub": [0.1, 0.2]}
    gpusolve.lsq_linear(A, b, **rows, A_eq=[[1, 1, 1, 1]], b_eq=[1], **UNKNOWN)


def covariance(A: Any, b: Any) -> None:
    gpusolve.nnls(A, b, L="first").covariance()


def gradient(A: Any, b: Any) -> None:
    gpusolve.nnls(A, b).vjp(np.ones(3))


def path(A: Any, b: Any) -> None:
    assert gpusolve.regularization_path(A, b, "first", [0.1, 1.0]).gcv.shape == (2,)


def sparse(A: Any, b: Any) -> None:
    gpusolve.nnls(scipy.sparse.csr_array(A), b)


@together("compute", [program, constrained, covariance, gradient, path, sparse])
def test_large_systems_are_factorised_on_threads(
    compute: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit of no work, every system is large, also for the compiled object."""
    here, callers = threading.get_ident(), []

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            callers.append(threading.get_ident())
            return function(*args, **kwargs)

        return call

    for name in FACTORISATIONS:
        monkeypatch.setattr(np.linalg, name, watched(getattr(np.linalg, name)))
    monkeypatch.setattr(interrupts, "UNINTERRUPTED", 0.0)
    monkeypatch.setattr(nnls_constrained_kernel, "MOST_NUMBERS", 0)
    rng = np.random.default_rng(0)
    compute(rng.standard_normal((6, 3)), rng.standard_normal(6))
    assert callers
    assert here not in callers
