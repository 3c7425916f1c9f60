"""NNLS as Luo & Duraiswami publish it, on a device: ``cuda_src/nnls_mgs.cu``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.kernels import CUDA_TYPES, Device
from .._nnls.launch_arguments import LaunchArguments
from .._nnls.nnls_qr_kernel import (
    allocate_workspace,
    is_general,
    launch,
    region_bytes,
    regions_that_fit,
    shape_of,
)

THREADS = 512
"""Of a block: a thread for each row, up to 512 rows."""

STATIC_SHARED_MEMORY = 12 * 1024
"""Upper bound on the bytes of the kernel's static shared memory."""


def nnls_mgs(systems: LaunchArguments, device: Device) -> None:
    """Solve the systems on the current stream.

    A MemoryError comes before the launch.
    """
    problem = systems.problem
    rows, n, dtype = problem.rows, problem.shape[1], problem.dtype
    regions = region_bytes(rows, n, dtype.itemsize, n)
    limit = device.shared_memory_per_block - STATIC_SHARED_MEMORY
    of_block = shape_of(THREADS, regions, min(1, regions_that_fit(regions, limit)))
    (kernel,) = device.kernels("nnls_mgs", (instance(dtype, is_general(problem)),))
    resident = kernel.resident_blocks(THREADS, of_block.shared_bytes)
    blocks = min(systems.total, resident)
    memory = allocate_workspace(device, blocks, of_block.workspace_bytes)
    argument = systems.argument(float(problem.tolerance))
    launch(kernel, of_block, argument, memory)


def instance(dtype: np.dtype[Any], general: bool) -> str:
    """The kernel for problems of a dtype; a simpler kernel unless they are general."""
    return f"nnls_mgs<{CUDA_TYPES[dtype]}, {str(general).lower()}>"
