"""The methods of the literature that ``nnls`` offers for comparison, by name.

They are in ``gpusolve/studies``, and are imported at their first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

ComparedName = Literal[
    "lsqnonneg", "fnnls", "fcnnls", "block_pivoting", "pqn", "cd", "interior_point",
    "newton_like", "l1_ls", "mgs",
]  # fmt: skip


class Method(NamedTuple):
    """A compared method.

    Attributes
    ----------
    number : int
        Its number in ``NNLSResult.method``.
    limit : callable
        The default limit on `nit` for n variables.
    starts : bool
        Whether it takes a warm start.
    on_devices : bool
        Whether it has a kernel. Others run on the CPU, even if ``GPUSOLVE_EMULATE`` is
        set.
    """

    number: int
    limit: Callable[[int], int]
    starts: bool = True
    on_devices: bool = False


def passive_sets(n: int) -> int:
    """The default limit of methods that solve once per passive set."""
    return 10 * n


COMPARED = {
    "lsqnonneg": Method(2, passive_sets),
    "fnnls": Method(3, passive_sets),
    "fcnnls": Method(4, passive_sets),
    "block_pivoting": Method(5, lambda n: 100 + n),
    "pqn": Method(6, lambda n: 100 + 10 * n),
    "cd": Method(7, lambda n: 1000 + 10 * n),
    "interior_point": Method(8, lambda n: 100, starts=False),
    "newton_like": Method(9, lambda n: 200, starts=False),
    "mgs": Method(10, passive_sets, on_devices=True),
    "l1_ls": Method(11, lambda n: 400, starts=False),
}
