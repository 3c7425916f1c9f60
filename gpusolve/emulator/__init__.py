"""The CUDA emulator: run, check and profile kernels on a CPU.

`RawKernel` and `RawModule` run CUDA kernels with NumPy arrays; their signatures are
CuPy's. `profile` counts what kernels cost, and predicts their time on a GPU, which a
`Device` describes. `races` detects data races, `memcheck` checks each memory access,
and `schedule` chooses the order of threads and blocks. All of them work for the kernels
of this package too, with ``GPUSOLVE_EMULATE=1``.

``python -m gpusolve.emulator program.cu`` runs a whole program, with its host code.
``%load_ext gpusolve.emulator`` adds the cell magic ``%%cuda`` to a notebook.
"""

from typing import Any

from .._emulator import (
    CompileError,
    Device,
    KernelError,
    RawKernel,
    RawModule,
    memcheck,
    profile,
    races,
    schedule,
)


def load_ipython_extension(shell: Any) -> None:
    """Add the cell magic ``%%cuda`` to IPython."""
    from .._emulator._magic import register  # here, because IPython may be missing

    register(shell)


__all__ = [
    "CompileError",
    "Device",
    "KernelError",
    "RawKernel",
    "RawModule",
    "memcheck",
    "profile",
    "races",
    "schedule",
]
