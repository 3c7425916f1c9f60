"""Runs CUDA kernels on the CPU: the PTX that NVIDIA's compiler makes of them.

A kernel is launched with the arguments that it takes on a GPU, with NumPy arrays
instead of CuPy arrays. NVRTC compiles it, without a GPU, and a machine in C++ executes
the PTX, a warp at a time, in an order that can be chosen. Mistakes that a GPU does not
report are errors here, with the line of the source: an access outside an array, a
barrier that not all threads reach, a shuffle from an inactive lane. Memory of
`empty` reads as NaN, or -1 in signed integers.

`Kernel` compiles and launches a kernel. `schedule` chooses the order of the threads.
`races` and `memcheck` turn checks on.
"""

from ._checks import memcheck, races
from ._device import multiprocessors, shared_memory_per_block
from ._errors import CompileError, KernelError
from ._gpu import Device
from ._kernel import Kernel
from ._memory import empty, zeros
from ._profile import count_copy_to_device, count_copy_to_host, profile
from ._raw import RawKernel, RawModule
from ._schedule import schedule
from .module import why_missing
from .nvrtc import cache_directory

__all__ = [
    "CompileError",
    "Device",
    "Kernel",
    "KernelError",
    "RawKernel",
    "RawModule",
    "cache_directory",
    "count_copy_to_device",
    "count_copy_to_host",
    "empty",
    "memcheck",
    "multiprocessors",
    "profile",
    "races",
    "schedule",
    "shared_memory_per_block",
    "why_missing",
    "zeros",
]
