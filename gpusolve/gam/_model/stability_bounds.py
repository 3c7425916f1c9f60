"""Upper bounds on the expected number of false selections in stability selection.

A learner is selected if it is among the first q in at least a fraction `cutoff` of the
subsamples. The per-family error rate (PFER) is the expected number of selected learners
whose chance of being among the first q is at most q / p, the chance under random
guessing of p learners. The bounds differ in what they assume about the distribution of
the selection proportions of these learners. `stability_selection` names the papers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._data.conventions import check_choice

ASSUMPTIONS = {"SS": ("unimodal", "r-concave", "none"), "MB": ("none",)}
"""The assumptions that have a bound, by sampling; the first is the default."""

SHARE_ERROR = 1e-12
"""Relative rounding error up to which a bound equals a PFER: a few thousand eps."""

LEAST_SHIFT, LARGEST_SHIFT = 1e-4, 1e6
"""The range of shifts in which the largest tail is searched: at the largest shift the
probabilities are equal."""

SHIFTS, ZOOMS = 400, 6
"""Number of shifts that are compared at once, and of searches around the best shift."""


class Setting(NamedTuple):
    """The numbers of a stability selection, as in `StabilitySelection`."""

    q: int
    cutoff: float
    pfer: float


# ---- tails ---------------------------------------------------------------------------


def tails(
    shift: NDArray[np.float64], mean: float, least: int, steps: int, power: float
) -> NDArray[np.float64]:
    """P(X >= least) for the probabilities ``(shift + i)**power`` of 0, 1, .. `steps`.

    The last number with a probability, and this probability, make the mean of X equal
    `mean`.
    """
    i = np.arange(steps + 1)
    weight = (shift[:, None] / (shift[:, None] + i)) ** -power
    total = weight.cumsum(axis=1)
    moment = (i * weight).cumsum(axis=1)
    last = (moment <= mean * total).sum(axis=1)[:, None] - 1
    total_to_last = np.take_along_axis(total, last, axis=1)
    moment_to_last = np.take_along_axis(moment, last, axis=1)
    rest = (mean * total_to_last - moment_to_last) / (last + 1 - mean)
    rest[last == steps] = 0
    tail = np.where((least <= i) & (i <= last), weight, 0).sum(axis=1)
    tail += np.where(least <= last + 1, rest, 0)[:, 0]
    return np.asarray(tail / (total_to_last + rest)[:, 0])


def largest_tail(mean: float, least: int, steps: int, r: float) -> float:
    """The largest P(X >= least) of an r-concave X in 0, 1, .. `steps` with this mean.

    r is negative: the r-th power of the probabilities is convex. The largest tail
    belongs to probabilities whose r-th power is linear up to the last but one (Shah and
    Samworth, appendix A.4); its slope is searched. The tail is 1 if `least` is within
    the range of a uniform X with this mean.
    """
    if least <= math.ceil(2 * mean):
        return 1.0
    low, high = math.log(LEAST_SHIFT), math.log(LARGEST_SHIFT)
    best = 0.0
    for _ in range(ZOOMS):
        shift = np.linspace(low, high, SHIFTS)
        tail = tails(np.exp(shift), mean, least, steps, 1 / r)
        at = int(tail.argmax())
        best = max(best, float(tail[at]))
        low, high = shift[max(at - 1, 0)], shift[min(at + 1, SHIFTS - 1)]
    return best


# ---- bounds --------------------------------------------------------------------------


def steps_of(cutoff: float, B: int) -> int:
    """The least number of 2 B subsamples whose proportion is at least `cutoff`."""
    return math.ceil(2 * B * cutoff * (1 - SHARE_ERROR))


def unimodal_bound(cutoff: float, q: int, p: int, B: int) -> float:
    """Shah and Samworth's bound for unimodal proportions of the pairs.

    Infinite for cutoffs that are too small for it.
    """
    theta = q / p
    least = min(0.5 + theta**2, 0.5 + 1 / (2 * B) + 0.75 * theta**2)
    if cutoff <= least or steps_of(cutoff, B) < B + 2:
        return math.inf
    if cutoff <= 0.75:
        return q**2 / p / (2 * (2 * cutoff - 1 - 1 / (2 * B)))
    return q**2 / p * 4 * (1 - cutoff + 1 / (2 * B)) / (1 + 1 / B)


def r_concave_bound(cutoff: float, q: int, p: int, B: int) -> float:
    """Shah and Samworth's bound for r-concave proportions, the smallest bound.

    The proportions of single subsamples are -1/4-concave, the proportions of pairs
    -1/2-concave. Infinite unless q is less than about p / 2.
    """
    theta, least = q / p, steps_of(cutoff, B)
    if math.ceil(4 * B * theta) >= 2 * B:
        return math.inf
    pairs = largest_tail(B * theta**2, least - B, B, -1 / 2)
    return p * min(pairs, largest_tail(2 * B * theta, least, 2 * B, -1 / 4))


BOUNDS: dict[str, Callable[[float, int, int, int], float]] = {
    "unimodal": unimodal_bound,
    "r-concave": r_concave_bound,
    "none": lambda cutoff, q, p, B: (  # of Meinshausen and Buehlmann
        q**2 / p / (2 * cutoff - 1) if cutoff > 0.5 else math.inf
    ),
}


def pfer_of(cutoff: float, q: int, p: int, B: int, assumption: str) -> float:
    """An upper bound on the expected number of false selections.

    Examples
    --------
    >>> pfer_of(0.75, 5, 100, 50, "none")
    0.5
    >>> round(pfer_of(0.75, 5, 100, 50, "unimodal"), 4)
    0.2551
    """
    return BOUNDS[assumption](cutoff, q, p, B)


def cutoff_of(q: int, pfer: float, p: int, B: int, assumption: str) -> float:
    """The least cutoff whose bound is less than `pfer`, or 1.

    With an assumption it is a multiple of ``1 / (2 B)``, at least 1/2. Without
    assumption the bound equals `pfer`.

    Examples
    --------
    >>> cutoff_of(5, 1.0, 100, 50, "none")
    0.625
    >>> cutoff_of(5, 1.0, 100, 50, "unimodal")
    0.57
    """
    if assumption == "none":
        return min(1.0, (q**2 / (pfer * p) + 1) / 2)
    cutoffs = (count / (2 * B) for count in range(B, 2 * B))
    bounded = (t for t in cutoffs if pfer_of(t, q, p, B, assumption) < pfer)
    return next(bounded, 1.0)


def q_of(cutoff: float, pfer: float, p: int, B: int, assumption: str) -> int:
    """The largest q with a finite bound of at most `pfer`, up to rounding; or 0.

    Examples
    --------
    >>> q_of(0.75, 1.0, 100, 50, "none"), q_of(0.75, 1.0, 100, 50, "unimodal")
    (7, 9)
    """

    def is_too_large(q: int) -> bool:
        bound = pfer_of(cutoff, q, p, B, assumption)
        return math.isinf(bound) or bound * (1 - SHARE_ERROR) > pfer

    return bisect_left(range(1, p + 1), True, key=is_too_large)


# ---- from two of the numbers to all --------------------------------------------------


def checked_assumption(sampling: str, assumption: str | None) -> str:
    """The assumption, by default the first; ValueError if it has no bound."""
    check_choice("sampling", sampling, tuple(ASSUMPTIONS))
    possible = ASSUMPTIONS[sampling]
    if assumption is None:
        return possible[0]
    if assumption not in possible:
        raise ValueError(
            f"assumption must be one of {possible} for sampling {sampling!r}, got "
            f"{assumption!r}"
        )
    return assumption


def check_numbers(
    p: int, q: int | None, pfer: float | None, cutoff: float | None
) -> None:
    """ValueError unless two numbers are given, and each is in its range."""
    if [q, pfer, cutoff].count(None) != 1:
        raise ValueError(
            "two of q, pfer and cutoff must be given, and not all, got "
            f"q={q}, pfer={pfer}, cutoff={cutoff}"
        )
    if q is not None and not (1 <= q <= p and q == int(q)):
        raise ValueError(
            f"q must be an integer from 1 to {p}, the number of learners, got {q}"
        )
    if pfer is not None and not pfer > 0:
        raise ValueError(f"pfer must be positive, got {pfer}")
    if cutoff is not None and not 0.5 <= cutoff <= 1:
        raise ValueError(f"cutoff must be from 0.5 to 1, got {cutoff}")


def complete(
    p: int,
    B: int,
    assumption: str,
    *,
    q: int | None = None,
    pfer: float | None = None,
    cutoff: float | None = None,
) -> Setting:
    """The third number from two, for p learners and B subsamples (or pairs of them).

    Raises
    ------
    ValueError
        If not exactly two numbers are given, if a number is out of its range, or if
        no third number keeps the bound.

    Examples
    --------
    >>> complete(100, 50, "unimodal", q=5, pfer=1.0).cutoff
    0.57
    >>> complete(100, 50, "none", pfer=1.0, cutoff=0.75).q
    7
    """
    check_numbers(p, q, pfer, cutoff)
    limit = math.inf if pfer is None else pfer
    if cutoff is None:
        assert q is not None
        cutoff = cutoff_of(q, limit, p, B, assumption)
    largest = q_of(cutoff, limit, p, B, assumption)
    q = max(1, largest) if q is None else int(q)
    bound = pfer_of(cutoff, q, p, B, assumption)
    if q > largest:
        demand = f"q must be at most {largest}" if largest else "cutoff must be larger"
        raise ValueError(
            f"{demand} for {p} learners, pfer = {pfer} and assumption {assumption!r}, "
            f"got q = {q} and cutoff = {cutoff:.3g}, whose pfer is {bound:.3g}"
        )
    return Setting(q, cutoff, bound)
