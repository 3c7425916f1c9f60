"""Threads on the CPU: cores, BLAS, and workers for code that releases the GIL."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from threadpoolctl import ThreadpoolController

from .launch import pieces

Work = Callable[[slice], None]
"""A function of a slice of the items."""

CHUNK_ROWS = 2**17
"""Rows of all items of a chunk together: enough to outweigh the cost of a thread."""


@functools.cache
def blas() -> ThreadpoolController:
    """The controller of BLAS threads; finding the libraries takes a while."""
    return ThreadpoolController()


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread, so that sums do not depend on the number of cores."""
    limited: AbstractContextManager[object] = blas().limit(limits=1, user_api="blas")
    return limited


def chunked(items: int, rows: int, limit: int) -> list[slice]:
    """Slices of all items, each of one item or of at most `limit` rows."""
    return list(pieces(items, max(1, limit // max(1, rows))))


@contextmanager
def workers(items: int, rows: int) -> Iterator[Callable[[Work], None]]:
    """Yield a function that runs work on all items, one chunk per call.

    The chunks run on a pool of threads, one per core, with BLAS limited to one thread.

    Parameters
    ----------
    items : int
    rows : int
        Rows of each item.
    """
    chunks = chunked(items, rows, CHUNK_ROWS)
    threads = max(1, min(cores(), len(chunks)))
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        run_all = map if threads == 1 else pool.map

        def run(work: Work) -> None:
            for _ in run_all(work, chunks):
                pass

        yield run
