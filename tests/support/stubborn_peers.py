"""Libraries for NNLS that fail in all ways, for the tests of `nnls_peer_process.py`.

Each function has the form of a function in `nnls_peers.py`. They solve the first batch,
with one system, except the peer that cannot even be imported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
Call = Callable[[], Array]

SECONDS = 0.01
"""Time that `slow` takes for each system."""


def zeros(A: Array, b: Array) -> Array:
    return np.zeros((len(b), A.shape[-1]))


def slow(A: Array, b: Array) -> Call:
    def solve_all() -> Array:
        time.sleep(SECONDS * len(b))
        return zeros(A, b)

    return solve_all


def hangs(A: Array, b: Array) -> Call:
    """This peer solves five systems at most."""

    def solve_all() -> Array:
        while len(b) > 5:
            time.sleep(1)
        return zeros(A, b)

    return solve_all


def raises(A: Array, b: Array) -> Call:
    def solve_all() -> Array:
        if len(b) > 1:
            raise ValueError("no solution")
        return zeros(A, b)

    return solve_all


def dies(A: Array, b: Array) -> Call:
    return lambda: zeros(A, b) if len(b) == 1 else os._exit(3)


def missing(A: Array, b: Array) -> Call:
    from library_that_is_not_installed import nnls

    return lambda: nnls(A, b)
