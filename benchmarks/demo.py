"""What the package does, in three parts of some seconds each.

Run ``make demo``, or ``python benchmarks/demo.py --help``. The parts run on the GPU if
CuPy finds a GPU, otherwise on the CPU. ``make pictures`` draws the same pictures into
the documentation.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import demo_gam
import demo_least_squares
from harness import choose, gpu_name

FOLDER = Path(__file__).resolve().parents[1] / "build" / "demo"

PARTS = {
    "Non-negative least squares": demo_least_squares.run,
    "A boosted model of 100 covariates": demo_gam.run_simulation,
    "A boosted model of counts, from a formula to a picture": demo_gam.run_counts,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the pictures")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    return parser.parse_args()


def main() -> None:
    """Run the parts, and say what to open."""
    options = arguments()
    machine = choose()
    where = f"the GPU, {gpu_name(machine.cupy)}" if machine.cupy else "the CPU"
    print(f"Running on {where}.", flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for number, (title, run) in enumerate(PARTS.items(), 1):
        print(f"\n{number}. {title}", flush=True)
        pictures.append(run(options.folder, options.quick, machine))
    print("\nOpen the pictures:", *pictures, sep="\n   ")


if __name__ == "__main__":
    main()
