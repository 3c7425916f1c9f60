"""Runs a whole CUDA program: its host code, and its kernels on the emulator."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from . import _device
from ._allocation_names import name_at
from ._checks import MEMORY
from ._counts import costs_of_launch
from ._errors import KernelError, LaunchError
from ._memory import Memory, c_fields
from ._profile import active_report
from .machine import launch
from .module import LoadedKernel, Module, PtxError, demangled
from .nvcc import compiled_program, runtime_library
from .nvrtc import ARCHITECTURE

FAILURE = 1
"""The exit status after an error of a kernel, or of a copy."""

_P, _U, _S, _I = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int


class CFunction(ctypes.Structure):
    """``Function`` in ``cudart/host.h``."""

    _fields_ = [
        *c_fields("shared_bytes most_threads parameter_bytes parameters: uint64"),
        ("places", ctypes.POINTER(_U)),
    ]


_Shape = ctypes.POINTER(ctypes.c_uint)

CALLS = {
    "add_module": ctypes.CFUNCTYPE(None, _P, _S),
    "add_symbol": ctypes.CFUNCTYPE(None, _P, _P, _S),
    "find_variable": ctypes.CFUNCTYPE(_I, _P, ctypes.POINTER(_P), ctypes.POINTER(_U)),
    "describe": ctypes.CFUNCTYPE(_I, _P, ctypes.POINTER(CFunction)),
    "launch": ctypes.CFUNCTYPE(_I, _P, _Shape, _Shape, _U, _U, _P, _I),
    "resident": ctypes.CFUNCTYPE(_I, _P, _I, _U),
    "allocated": ctypes.CFUNCTYPE(_P, _P, _U, _P, _I),
    "freed": ctypes.CFUNCTYPE(None, _P),
    "count": ctypes.CFUNCTYPE(None, _S),
    "exit": ctypes.CFUNCTYPE(None),
    "fail": ctypes.CFUNCTYPE(None, _S),
}
"""What the library calls: methods of `HostProgram`."""


class CHost(ctypes.Structure):
    """``Host`` in ``cudart/host.h``."""

    _fields_ = [
        *CALLS.items(),
        *c_fields(
            "devices multiprocessors capability threads blocks: int, shared_bytes "
            "static_shared_bytes shared_bytes_of_multiprocessor: uint64"
        ),
    ]


class Symbol(NamedTuple):
    """A kernel or a variable, and a function that reads its module when needed."""

    module: Callable[[], Module]
    name: str


@functools.cache
def kernel_name(symbol: str) -> str:
    """The name of a kernel in C++, with template arguments, without types."""
    text, depth, start = demangled(symbol), 0, 0
    for k, letter in enumerate(text):
        if letter == "(" and depth == 0 and not text.startswith("(anon", k):
            return text[start:k]
        depth += (letter in "<(") - (letter in ">)")
        if letter == " " and depth == 0:
            start = k + 1
    return text


class HostProgram:
    """A compiled program.

    The first error of a kernel ends the process, as its host code cannot catch it.

    Parameters
    ----------
    source : Path
        The ``.cu`` file with ``main``.
    options : sequence of str, optional
        Of nvcc, such as ``-I`` and ``-D``.
    devices : int, optional
        How many devices the program finds.
    at_exit : function, optional
        Called when the program ends, which ends this process, too.

    Raises
    ------
    CompileError
        With the compiler's log.
    """

    def __init__(
        self,
        source: Path,
        options: Sequence[str] = (),
        devices: int = 1,
        at_exit: Callable[[], None] = lambda: None,
    ) -> None:
        self._source, self._at_exit = source, at_exit
        self._report, self._checks_memory = active_report(), MEMORY.value()
        self._library = ctypes.CDLL(str(runtime_library()), ctypes.RTLD_GLOBAL)
        self._path = compiled_program(source, options)
        self._modules: dict[int, Callable[[], Module]] = {}
        self._symbols: dict[int, Symbol] = {}
        self._functions: dict[LoadedKernel, CFunction] = {}
        self._memory = Memory()
        self._callers: dict[str, int] = {}
        self._context = contextvars.copy_context()
        self._one_launch = threading.Lock()
        calls = [kind(self._guarded(name)) for name, kind in CALLS.items()]
        self._host = CHost(
            *calls,
            devices,
            _device.multiprocessors,
            int(ARCHITECTURE),
            _device.threads_per_multiprocessor,
            _device.blocks_per_multiprocessor,
            _device.shared_memory_per_block(),
            _device.static_shared_memory,
            _device.SHARED_MEMORY.value(),
        )

    def run(self, arguments: Sequence[str] = ()) -> NoReturn:
        """Run `main` with these arguments, and end the process with its result."""
        values = [os.fsencode(text) for text in (str(self._source), *arguments)]
        texts = (ctypes.c_char_p * (len(values) + 1))(*values)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # also ends the host's code
        sys.stdout = _Output()
        self._library.emulator_start(ctypes.byref(self._host))
        try:
            program = ctypes.CDLL(str(self._path))
        except OSError as error:  # a function of another library
            end(f"{self._source.name} cannot be loaded: {error}")
        self._library.exit(program.main(len(values), texts))
        raise AssertionError("unreachable")

    def _guarded(self, name: str) -> Callable[..., Any]:
        """A method that ends the process if it fails."""
        method = getattr(self, f"_{name}")

        def call(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except PtxError as error:
                end(f"the emulator cannot run the PTX of {self._source.name}: {error}")
            except BaseException:
                end(traceback.format_exc())

        return call

    # ---- what a program registers ----

    def _add_module(self, handle: int, ptx: bytes) -> None:
        text = ptx.decode(errors="replace")
        self._modules[handle] = functools.cache(lambda: Module(text))

    def _add_symbol(self, handle: int, address: int, name: bytes) -> None:
        self._symbols[address] = Symbol(self._modules[handle], name.decode())

    def _find_variable(self, address: int, found: Any, size: Any) -> int:
        symbol = self._symbols.get(address)
        memory = symbol.module().variables.get(symbol.name) if symbol else None
        if memory is None:
            return 1
        found[0], size[0] = int(memory.ctypes.data), memory.size
        return 0

    # ---- kernels ----

    def _function(self, address: int) -> CFunction | None:
        """The shared memory and the parameters of a kernel; None if it is missing."""
        symbol = self._symbols.get(address)
        if symbol is None or symbol.name not in symbol.module().entries:
            return None
        kernel = symbol.module().kernel(symbol.name)
        if kernel not in self._functions:
            places = [n for pair in kernel.parameters for n in pair]
            self._functions[kernel] = CFunction(
                kernel.shared_bytes,
                kernel.most_threads,
                kernel.parameter_bytes,
                len(kernel.parameters),
                (_U * (len(places) + 1))(*places),
            )
        return self._functions[kernel]

    def _describe(self, address: int, found: Any) -> int:
        function = self._function(address)
        if function is not None:
            found[0] = function
        return int(function is None)

    def _resident(self, address: int, threads: int, shared_bytes: int) -> int:
        function = self._function(address)
        if function is None:
            return -1
        shared_bytes += function.shared_bytes
        blocks = _device.resident_blocks(threads, shared_bytes, function.most_threads)
        return blocks // _device.multiprocessors

    def _launch(self, address: int, grid: Any, block: Any, *more: Any) -> int:
        """Run a kernel with the checks of the program. An error of CUDA, or 0."""
        shape = tuple(grid[:3]), tuple(block[:3])
        with self._one_launch:
            return self._context.run(self._run, address, *shape, *more)

    def _run(
        self,
        address: int,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        shared_bytes: int,
        allowed: int,
        parameters: int,
        cooperative: int,
    ) -> int:
        symbol, function = self._symbols[address], self._function(address)
        assert function is not None  # the library has described it
        name = kernel_name(symbol.name)
        if shared_bytes > allowed:
            text = (
                f"{shared_bytes} bytes of dynamic shared memory, but {allowed} are "
                "allowed; call cudaFuncSetAttribute() with "
                "cudaFuncAttributeMaxDynamicSharedMemorySize before"
            )
            return _refused(name, LaunchError(text, _device.INVALID_VALUE))
        report = self._report
        try:
            counted = launch(
                symbol.module(),
                symbol.name,
                grid,
                block,
                ctypes.string_at(parameters, function.parameter_bytes),
                shared_bytes,
                memory=self._memory,
                cooperative=bool(cooperative),
                name=name,
                counts=report is not None,
            )
        except LaunchError as error:
            return _refused(name, error)
        except KernelError as error:
            end(self._with_names(str(error)))
        self._count(b"launches")
        if report is not None and counted is not None:
            report.add(costs_of_launch(counted, None))
        return 0

    # ---- memory ----

    def _allocated(self, address: int, size: int, caller: int, is_unset: int) -> int:
        """Add memory. Its name is a number, until a message or a profile needs it."""
        name = f"allocation-{len(self._callers)}"
        self._callers[name] = caller
        if self._report:
            name = self._with_names(name)
        is_set = not (is_unset and self._checks_memory)
        self._memory.add(address, size, name, written=is_set, is_variable=True)
        added = None if is_set else self._memory.item(address)
        if added is None or added.written is None:
            return 0
        return int(added.written.ctypes.data)

    def _freed(self, address: int) -> None:
        self._memory.remove(address)

    def _with_names(self, text: str) -> str:
        """Replace the numbers of allocations by names."""

        def name(allocation: re.Match[str]) -> str:
            return name_at(self._callers[allocation[0]]) or "memory of the program"

        found = re.sub(r"allocation-\d+", name, text)
        return found.replace("in no array of the launch", "not device memory")

    # ---- the process ----

    def _count(self, what: bytes) -> None:
        if self._report:
            host, name = self._report.host, what.decode()
            setattr(host, name, getattr(host, name) + 1)

    def _exit(self) -> None:
        self._at_exit()
        sys.stderr.flush()

    def _fail(self, message: bytes) -> None:
        end(message.decode())


def _refused(kernel: str, error: LaunchError) -> int:
    """Warn of a launch that CUDA refuses, as the program may not look at the error."""
    print(f"warning: {kernel} is not launched: {error}", file=sys.stderr)
    return error.number


class _Output:
    """Writes what kernels print to C's standard output, where the host prints, too."""

    def __init__(self) -> None:
        self._c = ctypes.CDLL(None)
        self._file = _P.in_dll(self._c, "stdout")

    def write(self, text: str) -> None:
        data = text.encode()
        self._c.fwrite(data, _U(1), _U(len(data)), self._file)

    def flush(self) -> None:
        self._c.fflush(self._file)


def end(message: str) -> NoReturn:
    """End the process with an error. What the program printed is written before."""
    ctypes.CDLL(None).fflush(None)
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(FAILURE)
