"""The derivatives of solutions, for frameworks with automatic differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import Array, as_array
from .._device.kernels import current, device_of
from .gradients import collected, pull_back
from .inputs import validate

DUALS = "dual_ub", "dual_eq"
"""The multipliers of linear constraints, which gradients need next to x."""


def gradients_at(
    given: dict[str, Any], found: dict[str, Any], x_bar: Any
) -> dict[str, Array]:
    """The gradients of ``x_bar . x`` at solutions, without solving again.

    `found` has x, and the multipliers of linear constraints. There is a gradient for
    each argument that has one, of the shape of the argument.
    """
    A = as_array(given["A"], "A")
    with current(device_of(A)):
        problem = validate(**{**given, "A": A})
        points = as_array(found["x"], "x"), as_array(x_bar, "x_bar")
        duals = [
            None if found.get(name) is None else as_array(found[name], name)
            for name in DUALS
        ]
        bars = pull_back(problem._asdict(), *points, (duals[0], duals[1]))._asdict()
    return {
        name: collected(bar, np.shape(given[name]))
        for name, bar in bars.items()
        if bar is not None
    }
