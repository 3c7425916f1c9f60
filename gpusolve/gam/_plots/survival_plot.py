"""Survival curves of some rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._device.arrays import Array, as_array, on_host
from .._terms.frame import Frame
from .draw import named_value
from .panels import add_legend, new_panels, set_labels

MAX_FEATURES = 3
"""The most features whose values name a row."""


def names_of_rows(frame: Frame) -> list[str]:
    """The values in which rows differ, as ``age = 63, sex = f``; or their numbers."""
    differ = {
        name: values.tolist()
        for name, values in frame.on_host().items()
        if (values != values[0]).any()
    }
    if not 0 < len(differ) <= MAX_FEATURES:
        return [f"row {row}" for row in range(frame.rows)]
    return [
        ", ".join(map(named_value, differ, row))
        for row in zip(*differ.values(), strict=True)
    ]


def plot_curves(
    times: Any, curves: Array, names: Sequence[str], has_steps: bool
) -> Any:
    """The figure of curves, (n, T), at the times, (T,)."""
    if len(names) != len(curves):
        raise ValueError(f"labels must have {len(curves)} names, got {len(names)}")
    figure, (axes,) = new_panels(1, scale=1.8)
    style = "steps-post" if has_steps else "default"
    for name, curve in zip(names, on_host(curves), strict=True):
        axes.plot(on_host(as_array(times, "times")), curve, drawstyle=style, label=name)
    set_labels(axes, "", "time", "share that survives")
    axes.set_ylim(0, 1.02)
    add_legend(axes)
    return figure
