"""The picture of an L-curve. matplotlib is imported when it is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LABELLED = 5
"""The most points of the curve that show their lambda."""

SIZE = (4.6, 3.4)
"""The size of the figure in inches."""


def pyplot() -> Any:
    """matplotlib.pyplot; ImportError that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error
    return plt


def draw_path(
    lambdas: Floats, rnorm: Floats, seminorm: Floats, marks: dict[str, int]
) -> Any:
    """The figure of an L-curve; `marks` has the indices of named points."""
    figure, axis = pyplot().subplots(figsize=SIZE, layout="constrained")
    order = np.argsort(lambdas)
    axis.loglog(rnorm[order], seminorm[order], "o-", color="0.6", ms=3, lw=1)
    shown = np.linspace(0, len(order) - 1, min(LABELLED, len(order))).astype(int)
    for k in order[shown]:
        axis.annotate(
            f"{lambdas[k]:.2g}", (rnorm[k], seminorm[k]), (4, 4),
            textcoords="offset points", fontsize=7, color="0.4",
        )  # fmt: skip
    for number, (name, k) in enumerate(marks.items()):
        axis.plot(
            rnorm[k], seminorm[k], "o", mfc="none", color=f"C{number}",
            ms=7 + 4 * number, label=f"{name}: {lambdas[k]:.2g}",
        )  # fmt: skip
    axis.set_xlabel("rnorm")
    axis.set_ylabel("seminorm")
    axis.tick_params(which="both", labelsize=7)
    for ticks, values in ((axis.xaxis, rnorm), (axis.yaxis, seminorm)):
        if values.max() > 10 * values.min():  # the labels of decades suffice
            ticks.set_minor_formatter("")
    axis.spines[["top", "right"]].set_visible(False)
    if marks:
        axis.legend(title="lambda", frameon=False, fontsize=8)
    return figure
