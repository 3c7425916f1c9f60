"""Count updates and downdates for simulated waveforms with other properties.

    python benchmarks/waveform_counts.py --output FILE

The waveforms of table 7.1 of the NNLS paper are not published with it. `experiments.py`
simulates some; here one property at a time is changed, to see which of them decides the
counts. Nothing is timed. Results are Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from harness import choose, count, head, parser, publish, row, table_head
from numpy.typing import NDArray

import gpusolve
from gpusolve.studies.experiments import (
    CUT,
    PAPER_COUNTS,
    Waveform,
    convolution_matrix,
    waveforms,
)

Change = Callable[[Waveform], Waveform]
"""From a waveform to a changed waveform."""

NOISE = 0.01
"""The standard deviation of the noise, if it is not changed."""


# ---- properties ----------------------------------------------------------------------


def digitise(waveform: Waveform, levels: float) -> Waveform:
    """In whole counts, as LVIS stores waveforms; the maximum becomes `levels`."""
    unit = waveform.b.max() / levels
    return waveform._replace(b=np.rint(waveform.b / unit) * unit)


def apply_threshold(waveform: Waveform, deviations: float) -> Waveform:
    """Zero where the waveform is below some standard deviations of the noise."""
    return waveform._replace(b=np.where(waveform.b < deviations * NOISE, 0, waveform.b))


def roughen_pulse(waveform: Waveform, noise: float) -> Waveform:
    """The pulse of the deconvolution is recorded with noise."""
    rng = np.random.default_rng(0)
    seen = np.maximum(
        waveform.pulse + noise * rng.standard_normal(len(waveform.pulse)), 0
    )
    return waveform._replace(pulse=seen, A=convolution_matrix(seen, len(waveform.b)))


class Property(NamedTuple):
    """A property of waveforms: options of `waveforms`, and a change of each of them."""

    options: Mapping[str, float]
    change: Change


def unchanged(waveform: Waveform) -> Waveform:
    return waveform


def simulated(**options: float) -> Property:
    return Property(options, unchanged)


def changed(change: Callable[..., Waveform], how: float, **options: float) -> Property:
    return Property(options, lambda waveform: change(waveform, how))


PROPERTIES = {
    "as in `experiments.py`": simulated(),
    "pulse to 1 deviation": simulated(cut=1),
    "pulse to 2 deviations": simulated(cut=2),
    "pulse to 3 deviations": simulated(cut=3),
    "pulse to 3, recorded with noise of 3 %": changed(roughen_pulse, 0.03, cut=3),
    "noise of 0.3 %": simulated(noise=0.003),
    "noise of 3 %": simulated(noise=0.03),
    "whole counts, 255 for the maximum": changed(digitise, 255),
    "whole counts, 50 for the maximum": changed(digitise, 50),
    "zero below 3 deviations of the noise": changed(apply_threshold, 3),
    "no canopy": simulated(density=0),
    "canopy of 5 % of the samples": simulated(density=0.05),
    "canopy of 30 % of the samples": simulated(density=0.3),
}
"""What is changed, from top to bottom: the pulse, the noise, the record, the forest."""


# ---- the report ----------------------------------------------------------------------

ABOUT = f"""\
Means over {{systems}} systems of {{size}} samples, with their standard errors. By
`fnnls`, which adds one variable at a time, as the paper's method does. The pulse is a
Gaussian of 15 to 25 samples that ends at {CUT:.2f} deviations, where it has fallen to
1/e; noise is relative to the return of the ground; 10 % of the canopy's samples return
something.

**The end of the pulse decides on downdates.** The smoother it is, the more similar are
neighbouring columns, and a return first enters a wrong column. Of the properties here,
only the end changes downdates by more than it changes updates. Noise in the recorded
pulse makes its end rough again. Noise and whole counts in the waveform hardly change
downdates. With fewer returns both counts fall, and updates are no longer the paper's.

The paper does not say where its pulses end. We chose 1/e because both counts then agree
with the paper. So their agreement proves nothing, and says nothing about LVIS.
"""


def counts(each: NDArray[np.int32]) -> str:
    """The mean and its standard error."""
    return f"{each.mean():.1f} ± {each.std() / np.sqrt(len(each)):.1f}"


def line(name: str, systems: int, size: int) -> str:
    options, change = PROPERTIES[name]
    made = waveforms(systems, size, **{"noise": NOISE, **options})
    seen = [change(wave) for wave in made]
    A, b = np.stack([wave.A for wave in seen]), np.stack([wave.b for wave in seen])
    found = gpusolve.nnls(A, b, method="fnnls")
    return row(name, counts(found.n_updates), counts(found.n_downdates))


def report(systems: int, size: int) -> Iterator[str]:
    """The report, line by line."""
    yield from head("Updates and downdates of waveforms", choose(cpu=True))
    yield ABOUT.format(systems=systems, size=size)
    yield from table_head("waveforms", "updates", "downdates")
    paper = PAPER_COUNTS["deconvolution"]
    yield row("the paper's", f"{paper.updates:.1f}", f"{paper.downdates:.1f}")
    for name in PROPERTIES:
        yield line(name, systems, size)


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--systems", type=count, default=24, help="of each kind")
    made.add_argument("--size", type=count, default=432, help="samples of a waveform")
    return made.parse_args()


def main() -> None:
    options = arguments()
    publish(report(options.systems, options.size), options.output)


if __name__ == "__main__":
    main()
