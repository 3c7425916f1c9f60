"""Replaces ``cupy`` in tests on a machine without a GPU.

It has only what gpusolve uses of CuPy. Arrays are in host memory, but each array has a
device, which must be current for every operation on the array. Kernels run on
the emulator. Mistakes that CuPy refuses, or that fail on a GPU, are errors here:
NumPy's functions on an array, implicit conversion to NumPy, arrays of two devices in
one operation, a pointer to another device's memory or to a misaligned address, and more
memory or shared memory than the device has.

The GPUs cannot access each other's memory. This is the stricter case: with peer access
CuPy only warns.
"""

# ruff: noqa: F401
from numpy import bool_, float32, float64, int32, int64, uint8, uint64

from . import cuda, devices, functions, linalg, sparse
from .array import ndarray
from .functions import *  # noqa: F403
from .install import installed
from .kernels import RawKernel, RawModule
from .memory import get_default_memory_pool

__version__ = "14.2.0"
