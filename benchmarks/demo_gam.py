"""The boosted additive model on the paper's simulation: a table and a picture.

Run ``make demo``, or ``python benchmarks/demo_gam.py --help``. 20 of 100 covariates
have an effect on the outcome, each a sine wave. The model is fitted on the GPU if CuPy
finds a GPU, otherwise on the CPU.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness import Machine, aligned, choose
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpusolve.gam import BoostedGAM, Simulation, simulate

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("gram", "stacked")
SHOWN = 4
"""Number of effects in the picture."""


class Row(NamedTuple):
    """A fit's row of the table; the fields are the columns."""

    method: str
    rows: int
    features: int
    steps: int
    seconds: float
    R2: float
    active_found: int
    others_selected: int


def fit(
    machine: Machine, data: Simulation, steps: int, method: str
) -> tuple[BoostedGAM, Row]:
    """Fit one step, which compiles, and then the model."""
    X, y = machine.xp.asarray(data.X), machine.xp.asarray(data.y)
    BoostedGAM(max_iter=1, method=method).fit(X, y)
    model = BoostedGAM(max_iter=steps, learning_rate=0.1, method=method)
    seconds, _ = machine.stopwatch(partial(model.fit, X, y))
    found = set(model.selected_.tolist())
    active = set(data.active.tolist())
    return model, Row(
        method,
        *data.X.shape,
        steps,
        seconds,
        model.score(data.X, data.y),
        len(found & active),
        len(found - active),
    )


def cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def draw_effect(axis: Axes, model: BoostedGAM, feature: int, steps: list[int]) -> None:
    """Plot an effect after each number of steps, and the curve that made the data."""
    x = np.linspace(0, 1, 200)
    axis.plot(x, 10 * np.sin(2 * np.pi * x), color="0.8", lw=5, label="truth")
    for iteration in steps:
        effect = model.partial_effect(feature, x, iteration=iteration)
        axis.plot(x, effect - effect.mean(), lw=1.3, label=f"{iteration} steps")
    axis.set_title(f"effect of x{feature}", fontsize=10)


def draw(model: BoostedGAM, data: Simulation, path: Path) -> None:
    """Write the picture as a PNG."""
    figure = Figure(figsize=(9.9, 5), dpi=100, layout="constrained")
    upper, lower = figure.subfigures(2, 1)
    axes = upper.subplots(1, SHOWN, sharey=True)
    steps = [model.n_iter_ // 20, model.n_iter_ // 5, model.n_iter_]
    for axis, feature in zip(axes, data.active[:SHOWN], strict=True):
        draw_effect(axis, model, int(feature), steps)
    axes[0].legend(fontsize=7, loc="lower left")
    risk, selections = lower.subplots(1, 2)
    risk.semilogy(model.risk_, color="C3")
    risk.set_title("sum of squared residuals", fontsize=10)
    risk.set_xlabel("step")
    times = np.bincount(model.selected_, minlength=data.X.shape[1])
    is_active = np.isin(np.arange(len(times)), data.active)
    colours = np.where(is_active, "C0", "C3")
    selections.bar(np.arange(len(times)), times, color=colours)
    selections.set_title("times selected (red: no effect in the data)", fontsize=10)
    selections.set_xlabel("covariate")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="1,000 rows, 200 steps")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "boosting.png")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.steps = 1000, 200
    return options


def main() -> None:
    """Simulate, fit, print, draw."""
    options = arguments()
    data = simulate(options.rows)
    machine = choose()
    fits = [fit(machine, data, options.steps, method) for method in METHODS]
    print(f"Fitting on {'a GPU' if machine.cupy else 'the CPU'}.\n")
    rows = [[cell(value) for value in row] for _, row in fits]
    print("\n".join(aligned([Row._fields, *rows])))
    paths = [model.selected_ for model, _ in fits]
    print(f"\nThe same path by both methods: {np.array_equal(*paths)}.")
    draw(fits[0][0], data, options.output)
    print(f"Picture: {options.output}")


if __name__ == "__main__":
    main()
