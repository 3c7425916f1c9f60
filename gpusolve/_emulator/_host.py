"""Runs a whole CUDA program: its host code, and its kernels on the emulator."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ._compiler import build_program
from ._errors import KernelError
from ._heap import Heap
from ._launch import Launch, variant_of_launch
from ._profile import active_report
from ._program import Program
from ._registers import KernelSource

FAILURE = 1
"""The exit status after an error of a kernel, or of a copy."""

_LAUNCH = ctypes.CFUNCTYPE(
    None,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_uint64,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_int,
)
_ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64
)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_COUNT = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_EXIT = ctypes.CFUNCTYPE(None)
_FAIL = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


class HostFunctions(ctypes.Structure):
    """``Host`` in ``runtime/host_api.h``."""

    _fields_ = [
        ("launch", _LAUNCH),
        ("allocate", _ALLOCATE),
        ("release", _RELEASE),
        ("count", _COUNT),
        ("exit", _EXIT),
        ("fail", _FAIL),
    ]


class HostProgram:
    """A program, compiled for the check or the profile that is on.

    The first error ends the process, as its host code cannot catch it.

    Parameters
    ----------
    source : Path
        The ``.cu`` file with ``main``.
    options : sequence of str, optional
        Of the preprocessor: ``-I`` and ``-D``.
    at_exit : function, optional
        Called if the program calls ``exit()``, which ends this process, too.

    Raises
    ------
    CompileError
        With the compiler's log.
    """

    def __init__(
        self,
        source: Path,
        options: Sequence[str] = (),
        at_exit: Callable[[], None] = lambda: None,
    ) -> None:
        variant = variant_of_launch()
        self._source = source
        self._program = Program(build_program(source, options, variant), variant)
        self._heap = Heap()
        self._functions = HostFunctions(
            _LAUNCH(self._launch),
            _ALLOCATE(self._allocate),
            _RELEASE(self._heap.release),
            _COUNT(self._count),
            _EXIT(at_exit),
            _FAIL(lambda message: end(message.decode())),
        )

    def run(self, arguments: Sequence[str] = ()) -> int:
        """Run `main` with these arguments. Returns its result."""
        values = [str(self._source), *arguments]
        texts = (ctypes.c_char_p * (len(values) + 1))(*map(os.fsencode, values))
        try:
            return self._program.run_host(self._functions, len(values), texts)
        finally:
            flush()

    def _launch(
        self,
        name: bytes,
        grid: ctypes.Array[ctypes.c_uint],
        block: ctypes.Array[ctypes.c_uint],
        shared_bytes: int,
        arguments: ctypes.Array[ctypes.c_void_p],
        cooperative: int,
    ) -> None:
        instance = name.decode()
        source = KernelSource(self._source, instance, self._source.parent, "")
        launch = Launch(
            tuple(grid[:3]),
            tuple(block[:3]),
            arguments,
            shared_bytes,
            bool(cooperative),
        )
        report = active_report()
        try:
            launch.run(self._program, source, self._heap, report)
        except KernelError as error:
            end(str(error))
        except ValueError as error:
            end(f"{instance}: {error}")
        except KeyboardInterrupt:
            end("interrupted")
        self._count(b"launches")

    def _count(self, what: bytes) -> None:
        """Count a call of the host for the profile, if there is one."""
        if report := active_report():
            name = what.decode()
            setattr(report.host, name, getattr(report.host, name) + 1)

    def _allocate(self, name: bytes, size: int, element_bytes: int) -> int:
        self._count(b"allocations")
        try:
            return self._heap.allocate(name.decode(), size, element_bytes)
        except MemoryError:
            return 0


def flush() -> None:
    """Write what the program printed."""
    ctypes.CDLL(None).fflush(None)


def end(message: str) -> None:
    """End the process with an error. What the program printed is written before."""
    flush()
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(FAILURE)
