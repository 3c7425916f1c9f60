"""A boosted model of counts, from a formula to a picture of its effects.

How often patients visit a doctor depends on their age, sex, clinic and place. They are
observed for different times. The data are simulated.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from harness import Machine

from gpusolve.gam import bootstrap_effects, cv_stop, gamboost

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


def run(folder: Path, quick: bool, machine: Machine) -> Path:
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
