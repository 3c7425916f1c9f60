"""CUDA kernels on the CPU: the same ``.cu`` files, compiled by a C++ compiler.

A kernel is launched with the arguments it would get on a GPU, NumPy arrays in place of
CuPy's. Its threads run one after another between barriers, in an order that can be
chosen, and what a GPU would let pass in silence is an error here: an access outside an
array, a barrier that not all threads reach, a shuffle from a lane that is not there.
Memory that nobody wrote reads as NaN, or -1.

`Kernel` compiles and launches; `schedule` chooses the order; `races` looks at what
threads do to each other in memory; ``runtime/`` has the language and the scheduler. To
step through a kernel, attach a debugger to Python: the object knows its lines of the
``.cu`` file, and its variables with ``CXXFLAGS=-g``.
"""

from ._compiler import cache_directory, compiler
from ._device import empty, multiprocessors, shared_memory_per_block, zeros
from ._errors import CompileError, KernelError
from ._kernel import Kernel
from ._races import races
from ._schedule import schedule

__all__ = [
    "CompileError",
    "Kernel",
    "KernelError",
    "cache_directory",
    "compiler",
    "empty",
    "multiprocessors",
    "races",
    "schedule",
    "shared_memory_per_block",
    "zeros",
]
