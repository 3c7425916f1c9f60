"""The CUDA emulator: run, check and profile kernels on a CPU.

`Kernel` runs a CUDA kernel with NumPy arrays. `profile` counts what kernels cost, and
predicts their time on a GPU, which a `Device` describes. `races` detects data races,
`memcheck` checks each memory access, and `schedule` chooses the order of threads and
blocks. All of them work for the kernels of this package too, with
``GPUSOLVE_EMULATE=1``.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from .. import _emulator
from .._emulator import (
    CompileError,
    Device,
    KernelError,
    cache_directory,
    memcheck,
    profile,
    races,
    schedule,
)

__all__ = [
    "CompileError",
    "Device",
    "Kernel",
    "KernelError",
    "memcheck",
    "profile",
    "races",
    "schedule",
]


class Kernel(_emulator.Kernel):
    """A CUDA kernel of your own, compiled for the CPU.

    The first compilation takes some seconds; the result is cached.

    Parameters
    ----------
    source : str or Path
        CUDA C++ text, or a ``.cu`` file. Headers are searched next to the file.
    name : str
        The kernel, with its template arguments: ``"scale<float>"``.

    Raises
    ------
    CompileError
        If the kernel does not compile; or without Linux and a C++ compiler.

    Notes
    -----
    Launch it as ``kernel(grid, block, args, shared_mem=0)``, like a CuPy RawKernel,
    with NumPy arrays and scalars of the types of the parameters. It raises KernelError
    for an access outside an array, a barrier that not all threads reach, or another
    error that a GPU does not report.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> kernel = gpusolve.emulator.Kernel(
    ...     '''
    ...     __global__ void scale(float* x, int n, float factor) {
    ...         const int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...         if (i < n) x[i] *= factor;
    ...     }
    ...     ''',
    ...     "scale",
    ... )
    >>> x = np.arange(4, dtype=np.float32)
    >>> with gpusolve.emulator.profile() as report:
    ...     kernel((1,), (32,), (x, np.int32(4), np.float32(10)))
    >>> x
    array([ 0., 10., 20., 30.], dtype=float32)
    >>> report.kernels[0].arrays["x"].bytes
    32
    """

    def __init__(self, source: str | Path, name: str) -> None:
        path = source if isinstance(source, Path) else _stored(source)
        super().__init__(path, name, path.parent)


def _stored(text: str) -> Path:
    """A file in the cache with this text; the emulator compiles files."""
    directory = cache_directory() / "sources"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = directory / name / "kernel.cu"
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)  # other processes never read an incomplete file
    return path
