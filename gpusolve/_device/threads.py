"""Threads of the CPU: cores, BLAS, and workers for code that releases the GIL."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from threadpoolctl import ThreadpoolController

Work = Callable[[slice], None]

CHUNK_ROWS = 2**17
"""Rows, of all learners of a chunk together, that are worth a thread's while."""


@functools.cache
def blas() -> ThreadpoolController:
    """The controller of BLAS threads; finding the libraries takes a while."""
    return ThreadpoolController()


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chunked(learners: int, rows: int, limit: int) -> list[slice]:
    """Slices that together are all learners, of one learner or of `limit` rows."""
    size = max(1, limit // max(1, rows))
    return [slice(k, min(k + size, learners)) for k in range(0, learners, size)]


def one_blas_thread() -> AbstractContextManager[object]:
    """BLAS on one thread: small matrices want no more, and sums come out the same."""
    limited: AbstractContextManager[object] = blas().limit(limits=1, user_api="blas")
    return limited


@contextmanager
def workers(learners: int, rows: int) -> Iterator[Callable[[Work], None]]:
    """A function that calls some work for all learners, a chunk of them at a time.

    The chunks run on as many threads as there are cores. BLAS keeps to one thread
    meanwhile, so that its sums do not depend on how many there are.
    """
    chunks = chunked(learners, rows, CHUNK_ROWS)
    threads = max(1, min(cores(), len(chunks)))
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        spread = map if threads == 1 else pool.map

        def run(work: Work) -> None:
            for _ in spread(work, chunks):
                pass

        yield run
