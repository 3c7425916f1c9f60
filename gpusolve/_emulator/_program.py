"""A kernel's compiled object, loaded: what it tells of itself, and its launch."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from pathlib import Path

from ._report import Report
from ._stacks import stacks

_one_launch = threading.Lock()
"""The device runs one kernel at a time; signal handlers are the whole process's."""


class ParameterType(ctypes.Structure):
    """``Parameter`` in ``runtime/kernel_entry.h``."""

    _fields_ = [
        ("is_pointer", ctypes.c_int),
        ("is_const", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("bytes", ctypes.c_int),
    ]


class Span(ctypes.Structure):
    """``MemorySpan`` in ``runtime/shadow.h``."""

    _fields_ = [("start", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class Request(ctypes.Structure):
    """``Request`` in ``runtime/launch.cpp``."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("order", ctypes.c_int),
        ("workers", ctypes.c_int),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("stacks", ctypes.c_void_p),
        ("stack_stride", ctypes.c_uint64),
        ("watched", ctypes.POINTER(Span)),
        ("watched_count", ctypes.c_uint64),
    ]


class Program:
    """One object of the cache.

    Parameters
    ----------
    path : Path
        Where it lies.
    watched : bool
        Whether it was compiled for launches that look out for races.
    """

    def __init__(self, path: Path, *, watched: bool) -> None:
        self.path = path
        self.watched = watched
        self._object = ctypes.CDLL(str(path))
        self._object.emulator_static_shared_bytes.restype = ctypes.c_uint64

    def static_shared_bytes(self) -> int:
        """Bytes of shared memory that the kernel's own variables take."""
        return int(self._object.emulator_static_shared_bytes())

    def parameter_types(self) -> list[ParameterType]:
        count = ctypes.c_int.in_dll(self._object, "emulator_parameter_count").value
        described = ctypes.POINTER(ParameterType).in_dll(
            self._object, "emulator_parameters"
        )
        return described[:count]

    def launch(self, request: Request, spans: Sequence[tuple[int, int]]) -> Report:
        """Run in a thread of its own, so that Ctrl-C can end an endless kernel.

        Parameters
        ----------
        request : Request
            All but its stacks, and what is watched.
        spans : sequence of tuple of int
            Addresses and bytes of the arrays that the kernel may write.
        """
        report = Report()
        if self.watched:
            # One more than there are: a null pointer would say that nobody looks.
            watched = (Span * (len(spans) + 1))(*(Span(*span) for span in spans))
            request.watched = watched
            request.watched_count = len(spans)
        # Not Thread.join: interrupted, it takes a thread that still runs for one that
        # has ended.
        ended = threading.Event()

        def launch() -> None:
            self._object.emulator_launch(ctypes.byref(request), ctypes.byref(report))
            ended.set()

        with _one_launch:
            request.stacks = stacks.ready(request.workers * math.prod(request.block))
            threading.Thread(target=launch).start()
            try:
                ended.wait()
            finally:
                while not ended.wait(timeout=0.01):
                    self._object.emulator_interrupt()
        return report
