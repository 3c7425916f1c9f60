"""Charts of results: time and memory against the sizes of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from nnls_cases import ONE, OWN
from records import OURS, Result, Run

STYLES = {
    OURS: "C0o-",
    "SciPy": "C1s--",
    "joblib": "C2^--",
    "boosted trees": "C1s--",
    "splines": "C2^--",
}

Number = Callable[[Result], float]


def systems(one: Result) -> int:
    return one.systems


def rows(one: Result) -> int:
    return one.shape[0]


def columns(one: Result) -> int:
    return one.shape[1]


def plot(
    axis: Axes, results: Iterable[Result], x: Number, xlabel: str, title: str
) -> None:
    """Draw the time of each solver against a number, with its spread."""
    points = sorted((one for one in results if one.solved), key=x)
    for peer, style in STYLES.items():
        own = [one for one in points if one.peer == peer]
        if own:
            seconds, spread = zip(
                *((one.median, one.spread) for one in own), strict=True
            )
            halves = [one / 2 for one in spread]
            axis.errorbar(
                [x(one) for one in own], seconds, halves, fmt=style, ms=4, label=peer
            )
    if axis.containers:
        axis.set(xscale="log", yscale="log")
        axis.legend(frameon=False, fontsize=8)
    axis.set(xlabel=xlabel, title=title)
    axis.title.set_fontsize(10)


def draw_systems(axes: list[Axes], results: list[Result]) -> None:
    shapes = ((30, 10), ONE), ((30, 10), OWN), ((200, 50), ONE), ((200, 50), OWN)
    for axis, (shape, name) in zip(axes, shapes, strict=True):
        chosen = [one for one in results if (one.shape, one.name) == (shape, name)]
        plot(axis, chosen, systems, "systems", "{} x {}, {}".format(*shape, name))


def draw_shape(axes: list[Axes], results: list[Result]) -> None:
    own = [one for one in results if one.name == OWN and one.systems == 100]
    square = [one for one in own if rows(one) == 4 * columns(one)]
    plot(axes[0], square, columns, "n, the columns; m = 4 n", "100 systems")
    tall = [one for one in own if columns(one) == 16]
    plot(axes[1], tall, rows, "m, the rows; n = 16", "100 systems")


def draw_memory(axes: list[Axes], results: list[Result]) -> None:
    ours = [one for one in results if one.peer == OURS and one.bytes]
    for label in dict.fromkeys(one.label for one in ours if one.name in (ONE, OWN)):
        points = [one for one in ours if one.label == label]
        sizes = [one.bytes / 2**20 for one in points]
        axes[0].loglog([*map(systems, points)], sizes, "o-", ms=4, label=label)
        axes[0].legend(frameon=False, fontsize=8)
    axes[0].set(xlabel="systems", ylabel="MiB")


def draw_rows(axes: list[Axes], results: list[Result]) -> None:
    single = [one for one in results if one.part == "families"]
    for axis, family in zip(axes, ("gaussian", "poisson", "binomial"), strict=False):
        most = max((columns(one) for one in single if one.name == family), default=0)
        own = [one for one in single if (one.name, columns(one)) == (family, most)]
        plot(axis, own, rows, "rows", f"{family}, {most} covariates")
    least = [one for one in single if one.name == "gaussian" and rows(one) == 1000]
    plot(axes[-1], least, columns, "covariates", "gaussian, 1,000 rows")


Chart = tuple[str, str, int, Callable[[list[Axes], list[Result]], None]]
"""A name, what the chart shows, the number of axes, and how they are drawn."""

NNLS: list[Chart] = [
    ("systems", "Time against the number of systems", 4, draw_systems),
    ("shape", "Time against the columns and the rows of a matrix", 2, draw_shape),
    ("memory", "Memory beyond the arguments against the systems", 1, draw_memory),
]
GAM: list[Chart] = [
    ("rows", "Time of a boosted model against rows and covariates", 4, draw_rows)
]


def draw(charts: list[Chart], run: Run, page: Path) -> list[str]:
    """Write the charts next to a page; lines of Markdown that show them.

    The same results give the same bytes.
    """
    shown = []
    for name, shows, count, draw_chart in charts:
        figure = Figure(figsize=(9.9, 3.3), dpi=100, layout="constrained")
        axes = list(figure.subplots(1, count, sharey=True, squeeze=False).flat)
        draw_chart(axes, run.results)
        axes[0].set_ylabel(axes[0].get_ylabel() or "seconds")
        path = page.with_name(f"{page.stem}-{name}.png")
        figure.savefig(path, metadata={"Software": None})
        shown.append(f"![{shows}]({path.name})\n")
    return shown
