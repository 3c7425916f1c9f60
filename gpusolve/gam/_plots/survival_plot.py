"""Survival curves of some rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._device.arrays import Array, as_array, on_host
from .panels import add_legend, new_panels, set_labels


def plot_curves(
    times: Any, curves: Array, labels: Sequence[str] | None, has_steps: bool
) -> Any:
    """The figure of curves, (n, T), at the times, (T,)."""
    names = list(map(str, range(len(curves)))) if labels is None else list(labels)
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
