"""The axes of one system: the axes of each argument and result after the batch axes."""

from __future__ import annotations

from typing import Literal

Axis = Literal["row", "variable", "penalty", "inequality", "equality"]

ROW: Axis = "row"
VARIABLE: Axis = "variable"
PENALTY: Axis = "penalty"
INEQUALITY: Axis = "inequality"
EQUALITY: Axis = "equality"

OWN: tuple[Axis, ...] = (PENALTY, INEQUALITY, EQUALITY)
"""Axes that keep these names, whatever names the arguments have."""

AXES: dict[str, tuple[Axis, ...]] = {
    "A": (ROW, VARIABLE),
    "b": (ROW,),
    "weights": (ROW,),
    "lower": (VARIABLE,),
    "upper": (VARIABLE,),
    "l1": (VARIABLE,),
    "l2": (VARIABLE,),
    "warm_start": (VARIABLE,),
    "sum_to": (),
    "L": (PENALTY, VARIABLE),
    "lam": (),
    "prior": (VARIABLE,),
    "A_ub": (INEQUALITY, VARIABLE),
    "b_ub": (INEQUALITY,),
    "A_eq": (EQUALITY, VARIABLE),
    "b_eq": (EQUALITY,),
    "x": (VARIABLE,),
    "rnorm": (),
    "seminorm": (),
    "degrees_of_freedom": (),
    "gcv": (),
    "curvature": (),
    "dual": (VARIABLE,),
    "kkt": (),
    "nit": (),
    "status": (),
    "n_updates": (),
    "n_downdates": (),
    "repaired": (),
    "method": (),
    "dual_ub": (INEQUALITY,),
    "dual_eq": (EQUALITY,),
    "residual": (ROW,),
    "covariance": (VARIABLE, VARIABLE),
}


def batch_axes(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the axes of one system.

    Examples
    --------
    >>> batch_axes("A", (5, 1, 30, 10))
    (5, 1)
    >>> batch_axes("l2", ())
    ()
    """
    return shape[: max(0, len(shape) - len(AXES[name]))]
