"""In which order threads run between two barriers, and blocks between two meetings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, get_args

Order = Literal["forward", "reverse", "random"]
ORDERS: tuple[Order, ...] = get_args(Order)
"""In the sequence of ``enum class Order`` in ``runtime/schedule.h``."""

VARIABLE = "GPUSOLVE_EMULATE_SCHEDULE"


@dataclass(frozen=True)
class Schedule:
    """An order of threads, warps and blocks; `seed` is for the random one."""

    order: Order = "forward"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(
                f"the schedule is {self.order!r}; one of {ORDERS} is wanted"
            )


_chosen: ContextVar[Schedule | None] = ContextVar("schedule", default=None)


@contextlib.contextmanager
def schedule(order: Order, seed: int = 0) -> Iterator[None]:
    """Run kernels inside the block of this `with` statement in another order.

    Parameters
    ----------
    order : {"forward", "reverse", "random"}
        Random order draws anew in every step, and lets one block run at a time, until
        it calls an atomic or a fence, sleeps or ends: one seed replays a launch. In the
        other orders blocks run at the same time.
    seed : int, optional

    Notes
    -----
    A block that waits in a plain loop on a volatile variable is not seen to wait, but
    under `races`. In random order others then run beside it after half a second, as
    beside one that works for so long on its own, and the launch does not replay.

    Where no such statement is in force, the environment's ``GPUSOLVE_EMULATE_SCHEDULE``
    says the order, as ``reverse`` or ``random:7``; else it is forward.
    """
    token = _chosen.set(Schedule(order, seed))
    try:
        yield
    finally:
        _chosen.reset(token)


def current() -> Schedule:
    """The schedule in force."""
    return _chosen.get() or _from_environment()


def _from_environment() -> Schedule:
    text = os.environ.get(VARIABLE) or "forward"
    order, _, seed = text.partition(":")
    try:
        return Schedule(order, int(seed or 0))  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(
            f"{VARIABLE} is {text!r}; forward, reverse, random or random:SEED is wanted"
        ) from error
