"""Boosted models: the paper's simulation, and counts from a formula.

In the simulation, 20 of 100 covariates have an effect on the outcome, each a sine wave.
How often patients visit a doctor depends on their age, sex, clinic and place. They are
observed for different times. These data are simulated, too.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
from harness import Machine
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from records import three_digits

from gpusolve.gam import (
    BoostedGAM,
    Simulation,
    bootstrap_effects,
    cv_stop,
    gamboost,
    simulate,
)

METHODS = ("gram", "stacked")
SHOWN = 4
"""Number of effects in the picture."""


def fit(machine: Machine, data: Simulation, steps: int, method: str) -> BoostedGAM:
    """Fit one step, which compiles, and then the model; print what it took."""
    X, y = machine.xp.asarray(data.X), machine.xp.asarray(data.y)
    BoostedGAM(max_iter=1, method=method).fit(X, y)
    model = BoostedGAM(max_iter=steps, learning_rate=0.1, method=method)
    seconds, _ = machine.stopwatch(partial(model.fit, X, y))
    found, active = set(model.selected_.tolist()), set(data.active.tolist())
    print(
        f"      {method}: {three_digits(seconds)} s, "
        f"R2 {model.score(data.X, data.y):.3f}; "
        f"{len(found & active)} of {len(active)} covariates with an effect were "
        f"selected, and {len(found - active)} others",
        flush=True,
    )
    return model


def draw_effect(axis: Axes, model: BoostedGAM, feature: int, steps: list[int]) -> None:
    """Plot an effect after each number of steps, and the curve that made the data."""
    x = np.linspace(0, 1, 200)
    axis.plot(x, 10 * np.sin(2 * np.pi * x), color="0.8", lw=5, label="truth")
    for iteration in steps:
        effect = model.partial_effect(feature, x, iteration=iteration)
        axis.plot(x, effect - effect.mean(), lw=1.3, label=f"{iteration} steps")
    axis.set_title(f"effect of x{feature}", fontsize=10)


def draw(model: BoostedGAM, data: Simulation, path: Path) -> Path:
    """Write the picture as a PNG; return its path."""
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
    figure.savefig(path)
    return path


def run_simulation(folder: Path, quick: bool, machine: Machine) -> Path:
    """Simulate, fit, print, draw; the path of the picture."""
    rows, steps = (1000, 200) if quick else (10_000, 1000)
    data = simulate(rows)
    print(
        f"   Fit {rows:,} rows of {data.X.shape[1]} covariates in {steps:,} steps, "
        f"by {len(METHODS)} methods",
        flush=True,
    )
    models = [fit(machine, data, steps, method) for method in METHODS]
    same = np.array_equal(*(model.selected_ for model in models))
    print(f"      the same steps by both methods: {same}")
    return draw(models[0], data, folder / "boosting.png")


# ---- counts --------------------------------------------------------------------------

FORMULA = (
    "visits ~ bbs(age) + bols(sex) + bspatial(lon, lat, knots=8) + brandom(clinic)"
    " + offset(log(years))"
)


def simulate_visits(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of n patients, and how often each visited a doctor in some years."""
    rng = np.random.default_rng(seed)
    data = {
        "age": rng.uniform(20, 80, n),
        "sex": rng.choice(["f", "m"], n),
        "lon": rng.random(n),
        "lat": rng.random(n),
        "clinic": rng.choice(list("ABCDEFGH"), n),
        "years": rng.uniform(0.2, 3, n),
    }
    log_rate = (
        0.5 * np.sin(data["age"] / 10)
        + 0.4 * (data["sex"] == "m")
        + np.cos(6 * data["lon"]) * data["lat"]
        - 0.3 * (data["clinic"] == "C")
    )
    return data | {"visits": rng.poisson(data["years"] * np.exp(log_rate))}


def run_counts(folder: Path, quick: bool, machine: Machine) -> Path:
    """Simulate, fit, stop, print, draw; the path of the picture.

    The machine is not used: a formula with data in NumPy is fitted on the CPU.
    """
    rows, steps, count = (2000, 60, 10) if quick else (2000, 700, 50)
    data = simulate_visits(rows)
    print(f"   Fit {FORMULA}\n   to {rows:,} patients in {steps} steps", flush=True)
    model = gamboost(FORMULA, data, family="poisson", max_iter=steps)
    print("   Choose the number of steps by cross-validation", flush=True)
    cv = cv_stop(model, "kfold", random_state=0)
    model.stop_at(cv.best_iteration)
    print(f"      {cv}\n   Fit {count} bootstrap samples", flush=True)
    samples = bootstrap_effects(model, count, random_state=0)
    print("\n".join(f"      {line}" for line in str(model.summary()).splitlines()))
    mpl.use("Agg")
    path = folder / "gam-effects.png"
    model.plot(cv=cv, samples=samples).savefig(path)
    return path
