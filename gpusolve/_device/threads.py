"""Threads on the CPU: cores, BLAS, and workers for code that releases the GIL."""

from __future__ import annotations

import functools
import os
import threading
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


class Share(threading.local):
    """What a thread may use while it solves a part of a larger batch.

    Attributes
    ----------
    cores : int or None
        The number of cores; None for all of them.
    is_part : bool
        Whether others report the progress.
    """

    cores: int | None = None
    is_part: bool = False


_share = Share()


def cores() -> int:
    """The number of cores that this thread may use; by default all of the process."""
    if _share.cores is not None:
        return _share.cores
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_part() -> bool:
    """Whether this thread solves a part of a larger batch, so that it shows no bar."""
    return _share.is_part


@contextmanager
def part_of_batch(cores: int | None = None) -> Iterator[None]:
    """Mark this thread as solving a part of a larger batch, perhaps on fewer cores."""
    before = _share.cores, _share.is_part
    _share.cores, _share.is_part = cores, True
    try:
        yield
    finally:
        _share.cores, _share.is_part = before


class OneBlasThread:
    """Limits BLAS to one thread while any thread of the process is inside.

    The limit holds for the whole process: the first thread that enters sets it, and the
    last thread that leaves removes it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = blas().limit(limits=1, user_api="blas")
                self._limit.__enter__()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limit is not None:
                self._limit.__exit__(None, None, None)


_one_blas_thread = OneBlasThread()


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread, so that sums do not depend on the number of cores."""
    return _one_blas_thread


def chunked(items: int, rows: int, limit: int) -> list[slice]:
    """Slices of all items, each of a single item or of at most `limit` rows."""
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
