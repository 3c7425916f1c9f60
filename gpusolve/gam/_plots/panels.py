"""Figures that consist of panels, in one style. matplotlib is imported when needed."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.launch import ceil_div

LETTERS = 0.45
"""The share of the height of a panel that names above each other may have."""

WIDTH, HEIGHT = 2.7, 2.3
"""The size of a panel in inches."""

POINTS = 72
"""The points of an inch."""

TITLE, SMALL = 10, 8
"""The sizes of the letters of titles, and of everything else."""

LONGEST, LINE_LENGTH = 30, 20
"""The most letters of a name, and of a line of it."""

FEW = 8
"""The most names above each other that may have several lines."""

LINE = "C0"
ACCENT = "C3"
MUTED = "0.75"

Floats = NDArray[np.float64]


def pyplot() -> Any:
    """matplotlib.pyplot; ImportError that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error
    return plt


def new_panels(count: int, title: str = "", scale: float = 1) -> tuple[Any, list[Any]]:
    """A figure, and its panels in rows that leave few cells empty.

    Every panel has a cell of its own, so that the names in one panel do not take room
    from the panels above and below it.
    """
    columns = columns_for(count)
    rows = ceil_div(count, columns)
    figure = pyplot().figure(
        figsize=(scale * WIDTH * columns, scale * HEIGHT * rows), layout="constrained"
    )
    cells = figure.subfigures(rows, columns, squeeze=False).ravel()[:count]
    panels = [cell.subplots() for cell in cells]
    for axis in panels:
        axis.tick_params(labelsize=SMALL)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=TITLE)
    return figure, panels


def columns_for(panels: int) -> int:
    """The number of columns: at most 4, with the fewest empty cells.

    Examples
    --------
    >>> [columns_for(panels) for panels in range(1, 10)]
    [1, 2, 3, 2, 3, 3, 4, 4, 3]
    """
    if panels <= 4:
        return panels if panels < 4 else 2
    return min((4, 3), key=lambda columns: -panels % columns)


def set_labels(axis: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Set the title of a panel and the labels of its axes."""
    axis.set_title(title, fontsize=TITLE)
    axis.set_xlabel(x, fontsize=SMALL)
    axis.set_ylabel(y, fontsize=SMALL)


def add_legend(axis: Any) -> None:
    """Add a legend to the right of a panel, where it hides nothing."""
    axis.legend(
        fontsize=SMALL - 1, frameon=False, handlelength=1, labelspacing=0.2,
        loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0,
    )  # fmt: skip


def draw_bars(axis: Any, names: Sequence[str], lengths: Floats, colors: Any) -> None:
    """Draw named bars from top to bottom."""
    positions = np.arange(len(names))
    axis.barh(positions, lengths, color=colors)
    name_bars(axis, names)


def name_bars(axis: Any, names: Sequence[str], below: float = 0) -> None:
    """Name the bars that lie above each other, the first at the top.

    `below` is the share of the height that the names below the panel need.
    """
    few = len(names) <= FEW
    labels = [fill(name, LINE_LENGTH) if few else name for name in names]
    axis.set_yticks(np.arange(len(names)), labels)
    lines = len(names) * max((label.count("\n") + 1 for label in labels), default=1)
    room = (1 - below) * LETTERS * POINTS * axis.figure.bbox.height / axis.figure.dpi
    axis.tick_params(axis="y", labelsize=min(SMALL, room / max(1, lines)))
    axis.set_ylim(len(names) - 0.5, -0.5)


def shortened(name: str, longest: int = LONGEST) -> str:
    """The name; its beginning and three points if it is long.

    Examples
    --------
    >>> shortened("a name that is longer than all of the others")
    'a name that is longer than...'
    """
    return name if len(name) <= longest else f"{name[: longest - 3].rstrip()}..."
