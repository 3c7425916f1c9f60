"""The methods of boosting, and the choice among them."""

from __future__ import annotations

import math
from typing import Literal, get_args

from ..._device.kernels import Device
from ..families import Gaussian
from .batch import Fits
from .gram_kernel import DOUBLE, gram_fits
from .problem import PreparedLearners

Method = Literal["auto", "direct", "stacked", "gram"]

METHODS = get_args(Method)

BLOCK_BYTES = 2**31
"""Memory limit for the blocks of ``B'B``, in bytes, for "auto" to choose "gram"."""

ENTRY_COST = 25
"""Cost of computing an entry of a block on a host, in nonzeros that a pass reads.
Measured: see `passes_of_a_block`."""


def resolve_method(method: str, fits: Fits, steps: int, device: Device | None) -> str:
    """The method that makes the steps; for "auto", the chosen method.

    Raises
    ------
    ValueError
        If the method is for other fits, or does not fit in shared memory.
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
    if method == "gram" and not gram_fits(len(problem), problem.functions, device):
        raise ValueError(
            f"method must be 'stacked' for {problem.functions} basis functions of "
            f"{len(problem)} learners, which do not fit in shared memory, got 'gram'"
        )
    return choose_method(problem, steps, device) if method == "auto" else method


def choose_method(problem: PreparedLearners, steps: int, device: Device | None) -> str:
    """The method that "auto" stands for.

    "gram" is chosen if its blocks of ``B'B`` fit in `BLOCK_BYTES`, and are expected to
    cost less than the passes over the rows that "stacked" makes in the steps. The
    number of learners that will be selected is unknown; it is estimated as twice the
    square root of the number of steps.

    A host computes a block when its learner is first selected. The estimated number of
    blocks must fit; a fit that selects more learners takes more memory. A device
    allocates all blocks that can become necessary, and these must fit. On a device the
    sums of a block must also fit in shared memory.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BSplines, make_learners
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> basis = BSplines.spanning(X, n_basis=8).evaluate(X)
    >>> learners = make_learners(basis, 8)
    >>> [choose_method(learners.problem, steps, None) for steps in (5, 100)]
    ['stacked', 'gram']
    """
    possible = min(len(problem), steps)
    expected = min(possible, math.ceil(2 * math.sqrt(steps)))
    allocated = expected if device is None else possible
    if allocated * DOUBLE * len(problem) * problem.functions**2 > BLOCK_BYTES:
        return "stacked"
    if not gram_fits(len(problem), problem.functions, device):
        return "stacked"
    return "gram" if expected * passes_of_a_block(problem) < steps else "stacked"


def passes_of_a_block(problem: PreparedLearners) -> float:
    """The cost of a block of ``B'B``, in passes over the rows of all learners.

    A block multiplies each of the ``degree + 1`` nonzeros of a row by each nonzero of
    the selected learner. It also writes k x k numbers for each learner, even for few
    rows. With four cores, k = 32 and degree 3, the measured cost of a block was 3.5
    passes of 1e5 rows, and 10 passes of 1e3 rows.
    """
    rows, width = len(problem.rows[0]), problem.rows[0].width
    return float(width + ENTRY_COST * problem.functions**2 / (rows * width))
