"""Turns the checks of kernels on: for data races, and for memory."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ._setting import switch

RACES = switch("GPUSOLVE_EMULATE_RACES")
MEMORY = switch("GPUSOLVE_EMULATE_MEMCHECK")


def races() -> AbstractContextManager[object]:
    """Detect data races in kernels that are launched in this `with` statement.

    A launch raises KernelError if two threads access the same element of global or
    shared memory, at least one writes, and nothing orders the two accesses. Two
    accesses are ordered

    - within a block, by a barrier between them, or within a warp by a ``__syncwarp()``
      whose mask contains both lanes;
    - between blocks, by a flag: the first thread calls ``__threadfence()``, then writes
      the flag; the second thread reads the flag, then calls ``__threadfence()``. Both
      access the flag by a volatile or atomic operation. Within a block
      ``__threadfence_block()`` is sufficient.

    A launch also raises KernelError if a thread reads a value as a whole that another
    thread writes in parts. It reports the first race of the run.

    See Also
    --------
    memcheck, schedule

    Notes
    -----
    Shuffles and votes do not order memory accesses, as CUDA's programming guide says.
    Volatile and atomic accesses do not race with each other, except volatile accesses
    of a warp's lanes to the same shared memory: before Volta the lanes ran in lockstep,
    since then they need a ``__syncwarp()``; and atomic operations of a block's scope,
    such as ``atomicAdd_block()``, with accesses of another block.

    The message names the remedy, and cases of their own: updates that need an atomic
    operation, stores of the same value, a flag that is read without a fence after it,
    and code that relies on lockstep.

    Kernels run much more slowly. ``GPUSOLVE_EMULATE_RACES=1`` in the environment turns
    the detection on for the whole program.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve import emulator
    >>> count = emulator.RawKernel("__global__ void count(int* x) { ++x[0]; }", "count")
    >>> try:
    ...     with emulator.races():
    ...         count((1,), (32,), (np.zeros(1, np.int32),))
    ... except emulator.KernelError as error:
    ...     print("data race" in str(error))
    True
    """
    return RACES.to(True)


def memcheck() -> AbstractContextManager[object]:
    """Check the memory accesses of kernels launched in this `with` statement.

    Every launch raises KernelError for an access outside of the arrays and variables in
    global memory, of shared memory or of a thread's local memory, and for an address
    that is not a multiple of what its type needs, such as 16 bytes for ``float4``. Here
    a launch also raises KernelError for

    - an access past a `__shared__` variable, or past the dynamic shared memory of the
      launch, that does not reach another variable;
    - a read of shared memory to which no thread of the block has written, and of memory
      from ``cudaMalloc()`` to which neither the program nor a kernel has written;
    - a barrier of the block after some threads have returned.

    A kernel that may read a local variable before it has a value causes a
    RuntimeWarning with the line.

    See Also
    --------
    races, schedule

    Notes
    -----
    Not found: an index outside a row of an array, or outside an array in a structure or
    in local memory, that reaches another element: PTX has addresses, not types. Arrays
    of NumPy count as written. Uninitialised memory has NaN, or -1 in signed integers.

    Kernels run more slowly. Within `races` both checks are made.
    ``GPUSOLVE_EMULATE_MEMCHECK=1`` in the environment turns the check on for the whole
    program.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve import emulator
    >>> kernel = emulator.RawKernel(
    ...     '''
    ...     __global__ void shift(float* x, const float* y) {
    ...         __shared__ float tile[32];
    ...         tile[threadIdx.x] = y[threadIdx.x];
    ...         __syncthreads();
    ...         x[threadIdx.x] = tile[threadIdx.x + 1];
    ...     }
    ...     ''',
    ...     "shift",
    ... )
    >>> x, y = np.ones((2, 32), np.float32)
    >>> with emulator.memcheck():  # doctest: +NORMALIZE_WHITESPACE
    ...     kernel((1,), (32,), (x, y))
    Traceback (most recent call last):
    ...
    gpusolve._emulator._errors.KernelError: shift, thread (31, 0, 0), block (0, 0, 0),
    kernel.cu:6: reads past the end of shared memory: element 32 of tile, which has 32
    elements; check the index
    """
    return MEMORY.to(True)
