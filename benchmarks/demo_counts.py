"""A boosted model of counts, from a formula to a picture of its effects.

Run ``make demo``, or ``python benchmarks/demo_counts.py --help``. How often patients
visit a doctor depends on their age, sex, clinic and place. They are observed for
different times. The data are simulated.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from gpusolve.gam import bootstrap_effects, cv_stop, gamboost

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "gam-effects.png"
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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="60 steps, 10 samples")
    parser.add_argument("--output", type=Path, default=PICTURE)
    options = parser.parse_args()
    if options.quick:
        options.steps, options.samples = 60, 10
    return options


def main() -> None:
    """Simulate, fit, stop, print, draw."""
    options = arguments()
    mpl.use("Agg")
    data = simulate_visits(options.rows)
    model = gamboost(FORMULA, data, family="poisson", max_iter=options.steps)
    cv = cv_stop(model, "kfold", random_state=0)
    print(f"{cv}\n")
    model.stop_at(cv.best_iteration)
    samples = bootstrap_effects(model, options.samples, random_state=0)
    print(model.summary())
    options.output.parent.mkdir(parents=True, exist_ok=True)
    model.plot(cv=cv, samples=samples).savefig(options.output)
    print(f"\nPicture: {options.output}")


if __name__ == "__main__":
    main()
