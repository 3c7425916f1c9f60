"""The speed-ups that section 7 of the NNLS paper states, by its own tables.

Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on Multi-Core
Architectures". The text says by which factors one implementation is faster than
another; Tables 7.1 to 7.3 have the seconds. ``nnls_paper.py`` prints both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from harness import row, table_head

from gpusolve.studies.experiments import PAPER_SYSTEMS, PAPER_TABLES

Seconds = Mapping[str, Mapping[str, Sequence[float]]]
"""By table and row, for each of `PAPER_SYSTEMS`."""

PAPERS: Seconds = {name: table.seconds for name, table in PAPER_TABLES.items()}

HERE = {"CPU lsqnonneg": "lsqnonneg", "CPU NNLS": "qr", "GPU NNLS": "qr, GPU"}
"""The same implementations in this package: `lsqnonneg` is written in Python here."""

ALL = tuple(PAPER_TABLES)
WAVEFORMS, GAUSSIANS, RANDOM = ALL


class Ratio(NamedTuple):
    """A factor that the text states.

    Attributes
    ----------
    slower, faster : str
        Rows of the tables.
    stated : str
        The factor in the text.
    low, high : float
        Between these the factor is as stated, to its last digit.
    tables : tuple of str
        The tables that the text speaks of.
    systems : tuple of int
        The numbers of systems that the text speaks of.
    """

    slower: str
    faster: str
    stated: str
    low: float
    high: float
    tables: tuple[str, ...] = ALL
    systems: tuple[int, ...] = PAPER_SYSTEMS

    def factors(self, seconds: Seconds) -> list[float]:
        """The factors in some tables, where both rows were timed."""
        pairs = [
            (rows[self.slower][k], rows[self.faster][k])
            for name, rows in seconds.items()
            for k in map(PAPER_SYSTEMS.index, self.systems)
            if name in self.tables and {self.slower, self.faster} <= rows.keys()
        ]
        return [slow / fast for slow, fast in pairs if math.isfinite(slow + fast)]

    @property
    def agrees(self) -> bool:
        """Whether all factors in the paper's tables are as stated."""
        return all(self.low <= factor < self.high for factor in self.factors(PAPERS))


MANY = PAPER_SYSTEMS[1:]
"""More than the 14 multiprocessors of the paper's GPU."""

MOST = PAPER_SYSTEMS[-1:]

RATIOS = {
    "C code for Matlab's lsqnonneg": Ratio(
        "Matlab lsqnonneg", "CPU lsqnonneg", "1.5-3", 1.45, 3.5
    ),
    "updating instead of a full QR": Ratio(
        "CPU lsqnonneg", "CPU NNLS", "1-3", 0.95, 3.5
    ),
    "CPU for GPU, one waveform": Ratio(
        "GPU NNLS", "CPU NNLS", "11", 10.5, 12, (WAVEFORMS,), PAPER_SYSTEMS[:1]
    ),
    "GPU for CPU, more systems than multiprocessors": Ratio(
        "CPU NNLS", "GPU NNLS", "1-3", 0.95, 3.5, ALL, MANY
    ),
    "GPU for CPU, waveforms, 192 systems": Ratio(
        "CPU NNLS", "GPU NNLS", "1-2", 0.95, 2.5, (WAVEFORMS,), MOST
    ),
    "GPU for CPU, Gaussians, 192 systems": Ratio(
        "CPU NNLS", "GPU NNLS", "3", 2.5, 3.5, (GAUSSIANS,), MOST
    ),
    "GPU for C lsqnonneg, Gaussians, 192 systems": Ratio(
        "CPU lsqnonneg", "GPU NNLS", "23", 22.5, 23.5, (GAUSSIANS,), MOST
    ),
    "updating instead of a full QR, random, 192 systems": Ratio(
        "CPU lsqnonneg", "CPU NNLS", "1.7", 1.65, 1.75, (RANDOM,), MOST
    ),
}
"""What the text of section 7 states, in its order."""

ABOUT = """\
## What section 7 says of its tables

The factors that the text states, and the same factors of the seconds in its tables.
Four of the eight factors are not in the tables. Updating is 3.3 to 7.3 times as fast as
a full QR, more than the text claims. With 24 systems, which are more than the 14
multiprocessors, the GPU is slower than the CPU in two of three tables. The factor 23 of
the Gaussians is 21. The 1.7 of random matrices is the gain of C code over Matlab's;
updating gains 4.

"Here" are the same factors of the times above, where these exist: `lsqnonneg`, in
Python, over `qr`.
"""


def ratio_table(measured: Seconds) -> Iterator[str]:
    """The factors that are stated, in the paper's tables, and measured here."""
    yield ABOUT
    yield from table_head("", "the text", "its tables", "", "here")
    for name, ratio in RATIOS.items():
        verdict = "agrees" if ratio.agrees else "differs"
        here = ratio._replace(
            slower=HERE.get(ratio.slower, ""), faster=HERE.get(ratio.faster, "")
        )
        found = span(ratio.factors(PAPERS)), verdict, span(here.factors(measured))
        yield row(name, ratio.stated, *found)


def span(factors: list[float]) -> str:
    """The least and the largest factor; empty without factors."""
    ends = (min(factors), max(factors)) if factors else ()
    return " to ".join(dict.fromkeys(f"{end:.2f}" for end in ends))
