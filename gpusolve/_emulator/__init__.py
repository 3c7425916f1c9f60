"""Runs CUDA kernels on the CPU: the same ``.cu`` files, compiled by a C++ compiler.

A kernel is launched with the arguments that it takes on a GPU, with NumPy arrays
instead of CuPy arrays. Between barriers its threads run in sequence, in an order
that can be chosen. Mistakes that a GPU does not report are errors here: an access
outside an array, a barrier that not all threads reach, a shuffle from an inactive lane.
Uninitialised memory reads as NaN, or -1 in signed integers.

`Kernel` compiles and launches a kernel. `schedule` chooses the order of the threads.
`races` and `memcheck` turn checks on. ``runtime/`` has the CUDA functions and the
scheduler. To step through a kernel, attach a debugger to Python: the compiled object
has line numbers of the ``.cu`` file, and variables with ``CXXFLAGS=-g``. With
``CXXFLAGS=-DEMULATOR_FLUSHES_DENORMALS`` denormal numbers become zero in kernels.
"""

from ._allocate import empty, zeros
from ._checks import memcheck, races
from ._compiler import cache_directory, compiler
from ._device import multiprocessors, shared_memory_per_block
from ._engine import Kernel
from ._errors import CompileError, KernelError
from ._gpu import Device
from ._profile import count_copy_to_device, count_copy_to_host, profile
from ._raw import RawKernel, RawModule
from ._schedule import schedule

__all__ = [
    "CompileError",
    "Device",
    "Kernel",
    "KernelError",
    "RawKernel",
    "RawModule",
    "cache_directory",
    "compiler",
    "count_copy_to_device",
    "count_copy_to_host",
    "empty",
    "memcheck",
    "multiprocessors",
    "profile",
    "races",
    "schedule",
    "shared_memory_per_block",
    "zeros",
]
