"""Exceptions of the emulator."""


class CompileError(RuntimeError):
    """A kernel does not compile. The message has its name and the compiler's log."""


class KernelError(RuntimeError):
    """A kernel failed. The message names the kernel, block, thread, line and error.

    The arrays of the launch keep their values from before it.
    """
