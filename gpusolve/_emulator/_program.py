"""Loads the compiled object of a kernel: its parameters, and its launch."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from . import _device
from ._checks import RACES
from ._compiler import Variant, warnings_of
from ._instructions import basic_blocks
from ._profile import BasicBlock, ProfileSummary
from ._report import FaultReport, check_static_shared_memory, global_variables
from ._stacks import stacks

_one_launch = threading.Lock()
"""One kernel runs at a time, because signal handlers belong to the whole process."""


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
        ("arrays", ctypes.POINTER(Span)),
        ("array_count", ctypes.c_uint64),
        ("constants", ctypes.POINTER(Span)),
        ("constant_count", ctypes.c_uint64),
        ("checks_races", ctypes.c_int),
        ("checks_bounds", ctypes.c_int),
        ("is_program", ctypes.c_int),
        ("profile", ctypes.c_void_p),
        ("sampled", ctypes.c_uint64),
        ("limit", ctypes.c_double),
    ]


class Program:
    """A compiled object, loaded.

    Parameters
    ----------
    path : Path
    variant : {"plain", "races", "memory", "profile"}
        How it is compiled.
    """

    def __init__(self, path: Path, variant: Variant) -> None:
        self.path = path
        self.variant = variant
        for warning in warnings_of(path):
            warnings.warn(warning, RuntimeWarning, stacklevel=2)
        self._object = ctypes.CDLL(str(path))
        self._object.emulator_static_shared_bytes.restype = ctypes.c_uint64
        self._object.emulator_new_profile.restype = ctypes.c_void_p
        self._object.emulator_summarise_profile.restype = ctypes.POINTER(ProfileSummary)
        self.is_program = hasattr(self._object, "emulator_run_program")
        if self._shared_bytes() > _device.static_shared_memory:
            check_static_shared_memory(path, _device.static_shared_memory)

    def static_shared_bytes(self) -> int:
        """Bytes of the kernel's `__shared__` variables.

        0 for a program, whose object has the variables of all its kernels.
        """
        return 0 if self.is_program else self._shared_bytes()

    def _shared_bytes(self) -> int:
        return int(self._object.emulator_static_shared_bytes())

    def parameter_types(self) -> list[ParameterType]:
        count = ctypes.c_int.in_dll(self._object, "emulator_parameter_count").value
        types = ctypes.POINTER(ParameterType).in_dll(
            self._object, "emulator_parameters"
        )
        return types[:count]

    def variables(self, names: Sequence[str]) -> dict[str, npt.NDArray[np.uint8]]:
        """The memory of global variables, without variables that were not compiled."""
        symbols = global_variables(self.path)
        known = "emulator_parameter_count"
        base = ctypes.addressof(ctypes.c_int.in_dll(self._object, known))
        base -= symbols[known][0]
        return {
            name: np.ctypeslib.as_array(
                (ctypes.c_uint8 * symbols[name][1]).from_address(
                    base + symbols[name][0]
                )
            )
            for name in names
            if name in symbols
        }

    def run_host(self, functions: ctypes.Structure, count: int, values: object) -> int:
        """Run the `main` of a whole program, with the functions that it calls."""
        return int(
            self._object.emulator_run_program(ctypes.byref(functions), count, values)
        )

    @functools.cached_property
    def _code(self) -> ctypes.Array[BasicBlock]:
        rows = [BasicBlock(*row) for row in basic_blocks(self.path)]
        return (BasicBlock * len(rows))(*rows)

    @contextlib.contextmanager
    def profile(self, spans: Sequence[tuple[int, int]]) -> Iterator[ctypes.c_void_p]:
        """A profile that counts accesses to the memory at these addresses and sizes."""
        arrays = _as_spans(spans)
        code = self._code
        profile = self._object.emulator_new_profile(
            arrays, ctypes.c_uint64(len(spans)), code, ctypes.c_uint64(len(code))
        )
        pointer = ctypes.c_void_p(profile)
        try:
            yield pointer
        finally:
            self._object.emulator_delete_profile(pointer)

    def summary(self, profile: ctypes.c_void_p) -> ProfileSummary:
        """The counts of a launch; valid as long as the profile is."""
        summary: ProfileSummary = self._object.emulator_summarise_profile(
            profile
        ).contents
        return summary

    def launch(
        self,
        request: Request,
        arrays: Sequence[tuple[int, int]],
        constants: Sequence[tuple[int, int]],
    ) -> FaultReport:
        """Run the kernel in a new thread, so that Ctrl-C can end an endless kernel.

        Parameters
        ----------
        request : Request
            Without the stacks and the checked memory, which are set here.
        arrays, constants : sequence of tuple of int
            Addresses and sizes of the arrays that the kernel may write, and of others.
        """
        report = FaultReport()
        request.arrays, request.array_count = _as_spans(arrays), len(arrays)
        request.constants = _as_spans(constants)
        request.constant_count = len(constants)
        request.checks_races = RACES.is_on() and self.variant in ("races", "memory")
        request.checks_bounds = self.variant == "memory"
        request.is_program = self.is_program
        # An event, because Thread.join, when interrupted, marks a running thread as
        # ended.
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


def _as_spans(pairs: Sequence[tuple[int, int]]) -> ctypes.Array[Span]:
    """The spans, and another, because the address of an empty array is null."""
    return (Span * (len(pairs) + 1))(*(Span(*pair) for pair in pairs))
