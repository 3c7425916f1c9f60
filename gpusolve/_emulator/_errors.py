"""Exceptions of the emulator."""


class CompileError(RuntimeError):
    """A kernel does not compile. The message has its name and the compiler's log.

    See Also
    --------
    RawKernel, RawModule

    Examples
    --------
    >>> from gpusolve import emulator
    >>> try:
    ...     emulator.RawKernel("__global__ void f(int* x) { x[0] = y; }", "f")
    ... except emulator.CompileError as error:
    ...     print("y" in str(error))
    True
    """


class KernelError(RuntimeError):
    """A kernel failed. The message names the kernel, block, thread, line and error.

    The arrays of the launch keep their values from before it.

    See Also
    --------
    races, memcheck

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve import emulator
    >>> kernel = emulator.RawKernel(
    ...     '''
    ...     extern "C" __global__ void scale(float* x, int n, float factor) {
    ...         const int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...         if (i < n) x[i] *= factor;
    ...     }
    ...     ''',
    ...     "scale",
    ... )
    >>> try:
    ...     kernel((1,), (32,), (np.ones(4, np.float32), np.int32(5), np.float32(2)))
    ... except emulator.KernelError as error:
    ...     print("element 4 of x" in str(error))
    True
    """
