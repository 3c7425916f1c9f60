"""Survival curves of some rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._device.arrays import Array, as_array, on_host


def plot_curves(
    times: Any, curves: Array, labels: Sequence[str] | None, has_steps: bool
) -> Any:
    """The figure of curves, (n, T), at the times, (T,)."""
    from matplotlib.figure import Figure

    names = list(map(str, range(len(curves)))) if labels is None else list(labels)
    if len(names) != len(curves):
        raise ValueError(f"labels must have {len(curves)} names, got {len(names)}")
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    style = "steps-post" if has_steps else "default"
    for name, curve in zip(names, on_host(curves), strict=True):
        axes.plot(on_host(as_array(times, "times")), curve, drawstyle=style, label=name)
    axes.set(xlabel="time", ylabel="share that survives", ylim=(0, 1.02))
    axes.legend(frameon=False, title=None if labels else "row")
    return figure
