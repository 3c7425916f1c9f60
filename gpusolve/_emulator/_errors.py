"""What the emulator raises."""


class CompileError(RuntimeError):
    """A kernel did not compile; the message has its name and the compiler's log."""


class KernelError(RuntimeError):
    """A kernel did something wrong; the message says which thread did what, and where.

    The arrays of the launch keep what they held before it, as on a GPU nothing can be
    relied on after such an error.
    """
