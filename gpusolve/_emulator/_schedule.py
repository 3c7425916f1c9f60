"""The order in which threads and blocks run."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, get_args

from ._setting import Setting

Order = Literal["forward", "reverse", "random"]
ORDERS: tuple[Order, ...] = get_args(Order)
"""In the order of ``Request::order`` in ``machine/machine.h``."""

VARIABLE = "GPUSOLVE_EMULATE_SCHEDULE"


@dataclass(frozen=True)
class Schedule:
    """An order of threads, warps and blocks; `seed` is for the random order."""

    order: Order = "forward"
    seed: int = 0
    limit: float = 60.0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {ORDERS}, got {self.order!r}")
        if not self.limit > 0:
            raise ValueError(f"limit must be positive, in seconds, got {self.limit}")


def schedule(
    order: Order = "forward", seed: int = 0, *, limit: float = 60.0
) -> AbstractContextManager[object]:
    """Choose the order of threads for kernels launched in this `with` statement.

    Parameters
    ----------
    order : {"forward", "reverse", "random"}, optional
        In random order, the resident blocks, their warps and the lanes of a warp take
        turns of a few instructions, at random. The same seed repeats a launch exactly.
        In reverse and random order, each lane runs by itself. In forward order, blocks
        run on all cores.
    seed : int, optional
    limit : float, optional
        Seconds after which a launch raises KernelError if no thread has ended, and no
        barrier or warp operation was completed. The message has the line at which each
        thread waits. With ``math.inf`` a launch may run forever.

    See Also
    --------
    races, memcheck

    Notes
    -----
    Outside of these statements, ``GPUSOLVE_EMULATE_SCHEDULE`` in the environment sets
    the order, for example ``reverse`` or ``random:7``. The default is forward.

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
    >>> x = np.arange(4, dtype=np.float32)
    >>> with emulator.schedule("random", seed=7):
    ...     kernel((1,), (32,), (x, np.int32(4), np.float32(10)))
    >>> x
    array([ 0., 10., 20., 30.], dtype=float32)
    """
    return SCHEDULE.to(Schedule(order, seed, limit))


def parsed(text: str) -> Schedule:
    """The schedule of a text: an order, or ``random:SEED``. ValueError for others."""
    order, _, seed = text.partition(":")
    return Schedule(order, int(seed or 0))  # type: ignore[arg-type]


def _read_environment() -> Schedule:
    text = os.environ.get(VARIABLE) or "forward"
    try:
        return parsed(text)
    except ValueError as error:
        raise ValueError(
            f"{VARIABLE} must be forward, reverse, random or random:SEED, got {text!r}"
        ) from error


SCHEDULE = Setting(VARIABLE, _read_environment)
"""The order of launches."""
