"""Run another library in a process of its own, which can be stopped.

A library may take hours for a large batch, and it may never return. So it gets a budget
of seconds for each batch, and solves as many systems as fit. If it does not return in
`PATIENCE` times the budget, its process is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from typing import NamedTuple

import numpy as np
from harness import timing, to_host, wall_clock
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

EXIT_SECONDS = 10.0
"""A process that has nothing more to do is killed after this time."""

CODE = "import sys, nnls_peer_process as p; p.serve(p.Connection(int(sys.argv[1])))"
"""What the process runs. Its argument is the file descriptor of the connection."""


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


# ---- in the library's process --------------------------------------------------------


def answers(peer: Peer, A: Array, b: Array, budget: float) -> Iterator[Answer]:
    """Solve `FEW` systems, and then more of them, as many as fit into the budget.

    The first call may compile and does not count; the others fit into the budget.
    """
    count, following = 0, min(FEW, len(b))
    while following > count:
        count = following
        call = peer.prepare(A if A.ndim == 2 else A[:count], b[:count])
        timed = timing(wall_clock, call, REPEATS)
        median, spread = timed.median / count, timed.spread / count
        repeats = len(timed.seconds)
        yield Answer(repeats, median, spread, np.asarray(to_host(timed.result)))
        fitting = min(len(b), int(budget / ((1 + REPEATS) * median)))
        following = fitting if fitting == len(b) or fitting >= 2 * count else count


def serve(connection: Connection) -> None:
    """Answer each batch with answers and, at the end, the reason why they end."""
    peer = connection.recv()
    with contextlib.suppress(EOFError):
        while True:
            batch = connection.recv()
            try:
                for answer in answers(peer, *batch):
                    connection.send(answer)
                connection.send("")
            except Exception as error:
                connection.send(f"fails: {type(error).__name__}")


# ---- in the process of the benchmark -------------------------------------------------


class PeerProcess:
    """A library in a process, which starts when it is needed; a context manager."""

    def __init__(self, peer: Peer, budget: float) -> None:
        self.peer = peer
        self.budget = budget
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.connection.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(EXIT_SECONDS)
            self.kill()

    def solve(self, A: Array, b: Array) -> Answer:
        """Return the last answer, or an answer without systems."""
        if self.process is None:
            self.start()
            answer = self.ask(*TINY, START_SECONDS)
            if answer.note:
                return answer
        if A.ndim > 2:
            sent = max(1, SENT_BYTES // A[0].nbytes)
            A, b = A[:sent], b[:sent]
        return self.ask(A, b, PATIENCE * self.budget)

    def start(self) -> None:
        self.connection, other = Pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(other.fileno())],
            pass_fds=[other.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )
        other.close()
        self.connection.send(self.peer)

    def ask(self, A: Array, b: Array, limit: float) -> Answer:
        """Send a batch to the process, and kill it if it does not end in time."""
        answer = Answer(0, np.nan, np.nan, np.empty((0, A.shape[-1])))
        try:
            self.connection.send((A, b, self.budget))
            until = time.monotonic() + limit
            while self.connection.poll(until - time.monotonic()):
                received = self.connection.recv()
                if isinstance(received, str):
                    return answer._replace(note=received)
                answer = received
            note = f"stopped after {limit:g} s"
        except (EOFError, OSError):
            note = "crashes"
        self.kill()
        return answer._replace(note=note)

    def kill(self) -> None:
        """Kill the process and its children."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
