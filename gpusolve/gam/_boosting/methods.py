"""The methods of boosting, and the choice among them."""

from __future__ import annotations

import math
from typing import Literal, get_args

from ..._device.kernels import Device
from ..families import Gaussian
from .batch import Fits
from .gram_kernel import DOUBLE
from .problem import PreparedLearners
from .screened_fits import past_steps

Method = Literal["auto", "stacked", "gram"]

METHODS = get_args(Method)

BLOCK_BYTES = 2**31
"""Memory limit for the blocks of ``B'B``, in bytes, for "auto" to choose "gram"."""

ENTRY_COST = 25
"""Cost of computing an entry of a block on a host, in nonzeros that a pass reads.
Measured: see `passes_of_a_block`."""

SCREENED_COST = 0.4
"""Cost of a step that fits only learners that may be the best, in passes over the rows
of all learners. Measured: 1e5 rows of 100 learners, 100 steps."""


def resolve_method(method: str, fits: Fits, steps: int, device: Device | None) -> str:
    """The method that makes the steps; for "auto", the chosen method.

    A device has "stacked" only.

    Raises
    ------
    ValueError
        If the method is for other fits.
    """
    if method == "stacked":
        return method
    problem, has_one_risk = fits.problem, fits.out_of_bag is None
    is_possible = isinstance(fits.family, Gaussian) and problem.is_uniform
    if not (is_possible and has_one_risk):
        if method == "auto":
            return "stacked"
        raise ValueError(
            "method must be 'auto' or 'stacked' unless all learners are equal splines "
            "without missing values, the family is Gaussian and early_stopping is "
            f"False, got {method!r}"
        )
    if device is not None:
        return "stacked"
    return choose_method(problem, steps) if method == "auto" else method


def choose_method(problem: PreparedLearners, steps: int) -> str:
    """The method that "auto" stands for on a host.

    "gram" is chosen if its blocks of ``B'B`` fit in `BLOCK_BYTES`, and are expected to
    cost less than the passes over the rows that "stacked" makes in the steps. A block
    is computed when its learner is first selected. The number of learners that will be
    selected is unknown; it is estimated as twice the square root of the number of
    steps. A fit that selects more learners takes more memory.
    """
    expected = min(len(problem), steps, math.ceil(2 * math.sqrt(steps)))
    if expected * DOUBLE * len(problem) * problem.functions**2 > BLOCK_BYTES:
        return "stacked"
    passes = steps * (SCREENED_COST if past_steps(problem) else 1)
    return "gram" if expected * passes_of_a_block(problem) < passes else "stacked"


def passes_of_a_block(problem: PreparedLearners) -> float:
    """The cost of a block of ``B'B``, in passes over the rows of all learners.

    A block multiplies each of the ``degree + 1`` nonzeros of a row by each nonzero of
    the selected learner. It also writes k x k numbers for each learner, even for few
    rows. With four cores, k = 32 and degree 3, the measured cost of a block was 3.5
    passes of 1e5 rows, and 10 passes of 1e3 rows.
    """
    rows, width = len(problem.rows[0]), problem.rows[0].width
    return float(width + ENTRY_COST * problem.functions**2 / (rows * width))
