"""Run another library in a process of its own, which can be stopped.

A library may take hours for a large batch, and it may never return. So it gets a budget
of seconds for each batch, and solves as many systems as fit. If it does not return in
`PATIENCE` times the budget, its process is killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

import numpy as np
from harness import Timing, timing, to_host, wall_clock
from nnls_peers import Array, Peer

FEW = 2
"""Number of systems that are solved first, to predict the time of all."""

REPEATS = 5
"""The fewest calls that are timed, after the first."""

PATIENCE = 20
"""A process is killed after this many budgets. Much of the time it may compile."""

SENT_BYTES = 2**29
"""Limit on the matrices that a process gets; the other systems it does not solve."""

TINY = np.ones((2, 1)), np.ones((1, 2))
"""The first batch of each process, which makes it import the library."""

START_SECONDS = 120.0
"""Limit on the time for `TINY`."""


class Answer(NamedTuple):
    """What a library made of a batch.

    Attributes
    ----------
    repeats : int
        Calls after the first.
    seconds, spread : float
        Time for each system: the median of the calls, their interquartile range.
    x : (solved, n) array
        The solutions of the first systems.
    note : str
        Why no more systems were solved, if that is not for lack of time.
    """

    repeats: int
    seconds: float
    spread: float
    x: Array
    note: str = ""


def timed_call(peer: Peer, A: Array, b: Array) -> Timing:
    """Time a library in its process."""
    timed = timing(wall_clock, peer.prepare(A, b), REPEATS)
    return timed._replace(result=np.asarray(to_host(timed.result)))


class PeerProcess:
    """A library in a process, which starts when it is needed; a context manager."""

    def __init__(self, peer: Peer, budget: float) -> None:
        self.peer, self.budget = peer, budget
        self.pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the process and its children."""
        if self.pool is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.number, signal.SIGKILL)
            self.pool.shutdown()
        self.pool = None

    def solve(self, A: Array, b: Array) -> Answer:
        """Solve `FEW` systems, and then as many as fit into the budget.

        The first call may compile and does not count; the others fit into the budget.
        """
        answer = Answer(0, np.nan, np.nan, np.empty((0, A.shape[-1])))
        if A.ndim > 2:
            b = b[: max(1, SENT_BYTES // A[0].nbytes)]
        limit = START_SECONDS
        try:
            if self.pool is None:
                context = multiprocessing.get_context("spawn")
                self.pool = ProcessPoolExecutor(1, context, os.setsid)
                self.number = self.pool.submit(os.getpid).result(limit)
                self.pool.submit(timed_call, self.peer, *TINY).result(limit)
            limit = PATIENCE * self.budget
            until, following = time.monotonic() + limit, min(FEW, len(b))
            while following > (count := len(answer.x)):
                given = A if A.ndim == 2 else A[:following], b[:following]
                future = self.pool.submit(timed_call, self.peer, *given)
                timed = future.result(until - time.monotonic())
                count, median = following, timed.median / following
                repeats, spread = len(timed.seconds), timed.spread / following
                answer = Answer(repeats, median, spread, timed.result)
                fitting = min(len(b), int(self.budget / ((1 + REPEATS) * median)))
                if fitting == len(b) or fitting >= 2 * count:
                    following = fitting
        except TimeoutError:
            self.kill()
            return answer._replace(note=f"stopped after {limit:g} s")
        except BrokenProcessPool:
            self.kill()
            return answer._replace(note="crashes")
        except Exception as error:
            return answer._replace(note=f"fails: {type(error).__name__}")
        return answer
