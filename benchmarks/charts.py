"""Charts of results: time and memory against the sizes of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from nnls_cases import ONE, OWN
from records import Result, Run

STYLES = {
    "gpusolve": "C0o-",
    "SciPy": "C1s--",
    "joblib": "C2^--",
    "BoostedGAM": "C0o-",
    "boosted trees": "C1s--",
    "splines": "C2^--",
}
LABELS = {
    "SciPy": "SciPy, a loop",
    "joblib": "SciPy, a pool (joblib)",
    "boosted trees": "HistGradientBoosting",
    "splines": "splines, not boosted",
}


class Chart(NamedTuple):
    """What a chart shows, in words, and how it is drawn."""

    shows: str
    draw: Callable[[Figure, list[Result]], None]


def name_of(page: Path, chart: str) -> Path:
    return page.with_name(f"{page.stem}-{chart}.png")


def links(page: Path, charts: dict[str, Chart]) -> list[str]:
    """Lines of Markdown that show the charts next to a page."""
    return [
        f"![{chart.shows}]({name_of(page, name).name})\n"
        for name, chart in charts.items()
    ]


def add_legend(axis: Axes) -> None:
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize=8)


def plot_times(
    axis: Axes, results: Iterable[Result], x: Callable[[Result], int]
) -> None:
    """Draw the time of each solver against a number, with its spread."""
    points = sorted((one for one in results if one.solved), key=x)
    if not points:
        return
    for peer, style in STYLES.items():
        own = [one for one in points if one.peer == peer]
        if not own:
            continue
        axis.errorbar(
            [x(one) for one in own],
            [one.median for one in own],
            [one.spread / 2 for one in own],
            fmt=style,
            ms=4,
            label=LABELS.get(peer, peer),
        )
    axis.set(xscale="log", yscale="log")


def draw_systems(figure: Figure, results: list[Result]) -> None:
    shapes = ((30, 10), ONE), ((30, 10), OWN), ((200, 50), ONE), ((200, 50), OWN)
    axes = figure.subplots(1, 4, sharey=True)
    for axis, (shape, name) in zip(axes, shapes, strict=True):
        chosen = [one for one in results if (one.shape, one.name) == (shape, name)]
        plot_times(axis, chosen, lambda one: one.systems)
        axis.set_title("{} x {}, {}".format(*shape, name), fontsize=10)
        axis.set_xlabel("systems")
    axes[0].set_ylabel("seconds")
    add_legend(axes[0])


def draw_shape(figure: Figure, results: list[Result]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    own = [one for one in results if one.name == OWN and one.systems == 100]
    plot_times(left, (one for one in own if one.shape[0] == 4 * one.shape[1]), columns)
    left.set(xlabel="n, the columns; m = 4 n", ylabel="seconds for 100 systems")
    plot_times(right, (one for one in own if one.shape[1] == 16), rows)
    right.set(xlabel="m, the rows; n = 16")
    add_legend(left)


def columns(one: Result) -> int:
    return one.shape[1]


def rows(one: Result) -> int:
    return one.shape[0]


def draw_memory(figure: Figure, results: list[Result]) -> None:
    axis = figure.subplots()
    ours = [one for one in results if one.peer == "gpusolve" and one.bytes]
    for label in dict.fromkeys(one.label for one in ours if one.name in (ONE, OWN)):
        points = [one for one in ours if one.label == label]
        if len(points) > 1:
            sizes = [one.bytes / 2**20 for one in points]
            axis.plot([one.systems for one in points], sizes, "o-", ms=4, label=label)
    if axis.lines:
        axis.set(xscale="log", yscale="log", xlabel="systems", ylabel="MiB")
    add_legend(axis)


def draw_rows(figure: Figure, results: list[Result]) -> None:
    families = "gaussian", "poisson", "binomial"
    axes = figure.subplots(1, 4, sharey=True)
    single = [one for one in results if one.systems == 1]
    for axis, family in zip(axes, families, strict=False):
        most = max((columns(one) for one in single if one.name == family), default=0)
        own = [one for one in single if (one.name, columns(one)) == (family, most)]
        plot_times(axis, own, rows)
        axis.set(xlabel="rows", title=f"{family}, {most} covariates")
    least = [one for one in single if one.name == "gaussian" and rows(one) == 1000]
    plot_times(axes[-1], least, columns)
    axes[-1].set(xlabel="covariates", title="gaussian, 1,000 rows")
    for axis in axes:
        axis.title.set_fontsize(10)
    axes[0].set_ylabel("seconds for 100 steps")
    add_legend(axes[0])


NNLS = {
    "systems": Chart(
        "Time against systems: gpusolve, a loop over SciPy, a pool (joblib)",
        draw_systems,
    ),
    "shape": Chart(
        "Time of 100 systems against the columns n and the rows m of a matrix",
        draw_shape,
    ),
    "memory": Chart(
        "Memory beyond the arguments against the number of systems", draw_memory
    ),
}

GAM = {
    "rows": Chart(
        "Time of a boosted model against rows and covariates, next to boosted trees",
        draw_rows,
    )
}


def draw(run: Run, page: Path, charts: dict[str, Chart]) -> None:
    """Write the charts next to a page. The same results give the same bytes."""
    for name, chart in charts.items():
        figure = Figure(figsize=(9.9, 3.3), dpi=100, layout="constrained")
        chart.draw(figure, run.results)
        figure.savefig(name_of(page, name), metadata={"Software": None})
