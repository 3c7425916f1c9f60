"""The axes of one system: the axes of each argument and result after the batch axes."""

from __future__ import annotations

from typing import Literal

Axis = Literal["row", "variable"]

ROW: Axis = "row"
VARIABLE: Axis = "variable"

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
    "x": (VARIABLE,),
    "rnorm": (),
    "dual": (VARIABLE,),
    "kkt": (),
    "nit": (),
    "status": (),
    "n_updates": (),
    "n_downdates": (),
    "repaired": (),
    "method": (),
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
