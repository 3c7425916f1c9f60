"""Iterations that converge to the optimum of each system of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._numerics.arithmetic import Array
from ..._numerics.system import System
from .found import Found, clear_tiny, distance
from .normal_equations import NormalEquations

Step = Callable[..., tuple[Array, ...]]
"""``step(system, equations, w, x, *others)``: the next x and others, from the current
x and others and the negative gradient w at x."""


def iterate(
    step: Step, system: System, state: tuple[Array, ...], tol: float, maxiter: int
) -> Found:
    """Make steps until every system is optimal to `tol`, in the sense of `distance`.

    Each step starts with the gradient of the true residual, so rounding errors do not
    accumulate. Systems that are finished leave the batch.

    Parameters
    ----------
    step : Step
    system : System
    state : tuple of (N, ...) arrays
        The points at which to start, and whatever else the method keeps.
    """
    found = Found.at(state[0])
    equations, at = NormalEquations.of(system), np.arange(len(state[0]))
    for nit in range(maxiter + 1):
        x = state[0]
        w = system.gradient(system.residual(x))
        optimal = distance(system, x, w) <= tol
        ended = optimal | (nit == maxiter)
        if ended.any():
            found.x[at] = clear_tiny(system, x, w, tol)
            found.nit[at], found.limited[at] = nit, ~optimal
            go = np.flatnonzero(~ended)
            if not go.size:
                break
            at, w = at[go], w[go]
            system, equations = system.take(go), equations.take(go)
            state = tuple(array[go] for array in state)
        before = state[0] > 0
        state = step(system, equations, w, *state)
        after = state[0] > 0
        found.n_updates[at] += (after & ~before).sum(axis=1, dtype=np.int32)
    remaining = np.count_nonzero(found.x, axis=1).astype(np.int32)
    return found._replace(n_downdates=found.n_updates - remaining)
