"""A stand-in that plays ``cupy`` where there is no GPU, for the tests.

It has what gpusolve uses of CuPy, and no more. Arrays lie in host memory, but each has
a device; an operation on an array, or a new array, needs that device to be the current
one. Kernels run on the emulator. What a real GPU refuses, or answers with an illegal
access, is an error here: NumPy's functions on an array, an implicit conversion to
NumPy, arrays of two devices together, a pointer to another device's memory or to a
misaligned address, more memory or more shared memory than there is.

Two GPUs without access to each other's memory are assumed, which is the stricter case:
with peer access CuPy would warn and go on.
"""

from numpy import bool_, float32, float64, int32, int64, uint8, uint64

from . import cuda, devices, functions, sparse
from .array import ndarray
from .functions import *  # noqa: F403
from .install import installed
from .kernels import RawKernel, RawModule

__version__ = "14.2.0"

__all__ = [
    "RawKernel",
    "RawModule",
    "bool_",
    "cuda",
    "devices",
    "float32",
    "float64",
    "functions",
    "installed",
    "int32",
    "int64",
    "ndarray",
    "sparse",
    "uint8",
    "uint64",
]
