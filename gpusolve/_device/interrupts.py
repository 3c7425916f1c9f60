"""Long calls of NumPy's functions that an interrupt ends."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from .arrays import Array, is_cupy

P = ParamSpec("P")
T = TypeVar("T")

UNINTERRUPTED = 2.0**29
"""The most multiplications, of an estimate, for which an interrupt waits."""

running: WeakSet[threading.Thread] = WeakSet()
"""The threads of `interruptible`."""

POLLS = 0.1
"""Seconds between two looks at running threads. On Windows, an interrupt waits so
long."""


def interruptible(
    work: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function here, or on a thread that an interrupt does not wait for.

    LAPACK cannot be stopped: after an interrupt, the thread goes on to the end of the
    function, and keeps its arrays until then. See `wait_at_exit`.

    Parameters
    ----------
    work : float
        An estimate of the multiplications; see `work_of`. Up to `UNINTERRUPTED`, the
        function is called here.
    function : callable
        It spends its time in NumPy's functions, which release the GIL.
    *args, **kwargs
        Its arguments.
    """
    if work <= UNINTERRUPTED:
        return function(*args, **kwargs)
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(function(*args, **kwargs))
        except BaseException as error:
            found.set_exception(error)

    context = copy_context()  # of NumPy's treatment of floating-point errors
    thread = threading.Thread(target=context.run, args=(run,), daemon=True)
    running.add(thread)
    thread.start()
    while not wait([found], POLLS).done:
        pass
    return found.result()


@atexit.register
def wait_at_exit() -> None:
    """Wait for threads that interrupts have left: BLAS must not end before them.

    If an interrupt ends the process, nothing waits: the signal ends all threads.
    """
    by_interrupt = getattr(sys, "last_type", None) is KeyboardInterrupt
    if not by_interrupt or hasattr(sys, "ps1"):
        for thread in list(running):
            thread.join()


def work_of(matrices: Array) -> float:
    """An estimate of the multiplications to factorise matrices; 0 on a GPU."""
    if is_cupy(matrices):
        return 0.0
    return float(matrices.size * min(matrices.shape[-2:]))
