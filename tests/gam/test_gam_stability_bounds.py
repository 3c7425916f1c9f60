"""The bounds of stability selection, and cutoff, q and PFER from one another."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from together import together

from gpusolve.gam._model.stability_bounds import (
    checked_assumption,
    complete,
    cutoff_of,
    largest_tail,
    pfer_of,
    q_of,
    steps_of,
)

FIGURES = json.loads(
    (Path(__file__).parents[1] / "mboost/mixed_stabsel.json").read_text()
)
B = FIGURES["B"]
CUTOFFS = FIGURES["cutoff_table"]["rows"]
QS = FIGURES["q_table"]["rows"]


@together(("p", "q", "pfer", "assumption", "cutoff", "bound"), CUTOFFS)
def test_cutoffs_and_bounds_of_mboost(
    p: int, q: int, pfer: float, assumption: str, cutoff: float | None, bound: float
) -> None:
    found = cutoff_of(q, pfer, p, B, assumption)
    if cutoff is None:  # mboost stops with an error
        assert math.isinf(pfer_of(found, q, p, B, assumption))
    else:
        assert found == pytest.approx(cutoff, rel=1e-14)
        assert f"{pfer_of(found, q, p, B, assumption):.3g}" == f"{bound:.3g}"


@together(("p", "cutoff", "pfer", "assumption", "q"), QS)
def test_numbers_of_learners_of_mboost(
    p: int, cutoff: float, pfer: float, assumption: str, q: int
) -> None:
    assert q_of(cutoff, pfer, p, B, assumption) == q


def unimodal_tail(mean: float, least: int, steps: int) -> float:
    """The largest tail of a unimodal X, by brute force over its extreme points.

    A unimodal distribution is a mixture of uniform distributions around its mode. So
    the largest tail is the tail of a mixture of two uniform distributions.
    """
    best = 0.0
    for mode in range(steps + 1):
        ends = [(a, b) for a in range(mode + 1) for b in range(mode, steps + 1)]
        means = np.array([(a + b) / 2 for a, b in ends])
        tail = np.array([max(0, b - max(a, least) + 1) / (b - a + 1) for a, b in ends])
        low, high = means <= mean, means > mean
        share = (mean - means[low][:, None]) / (means[high] - means[low][:, None])
        mixed = tail[low][:, None] * (1 - share) + tail[high] * share
        best = max(best, float(tail[low].max(initial=0)), float(mixed.max(initial=0)))
    return best


@pytest.mark.parametrize("q", [1, 3, 6])
def test_unimodal_bound_is_valid_and_sharp(q: int) -> None:
    # The simultaneous proportion of a pair of subsamples has mean at most theta^2, and
    # exceeds 2 t - 1 where the proportion exceeds t.
    p, pairs = 20, 10
    for count in range(pairs + 2, 2 * pairs + 1):
        bound = pfer_of(count / (2 * pairs), q, p, pairs, "unimodal")
        tail = p * unimodal_tail(pairs * (q / p) ** 2, count - pairs, pairs)
        assert tail <= bound * (1 + 1e-12)
        assert tail > 0.5 * bound


def random_tail(
    rng: np.random.Generator, mean: float, least: int, steps: int, r: float
) -> float:
    """P(X >= least) of random r-concave X in 0, 1, .. with at most this mean."""
    i = np.arange(rng.integers(least, steps + 1) + 1)
    slopes = rng.normal(size=3) * 10 ** rng.uniform(-2, 2, 3)
    convex = (slopes[:, None] * (i - rng.uniform(0, steps, (3, 1)))).max(axis=0)
    shift = np.geomspace(1e-3, 1e3, 100)[:, None]
    probability = (convex - convex.min() + shift) ** (1 / r)
    probability /= probability.sum(axis=1, keepdims=True)
    tail = probability[:, least:].sum(axis=1)
    return float(tail[probability @ i <= mean].max(initial=0))


@pytest.mark.parametrize("r", [-1 / 2, -1 / 4])
def test_no_random_r_concave_distribution_exceeds_the_largest_tail(r: float) -> None:
    rng = np.random.default_rng(1)
    reached = []
    for mean, least, steps in [(1.0, 4, 12), (2.3, 8, 20), (0.4, 3, 9), (3.0, 7, 30)]:
        bound = largest_tail(mean, least, steps, r)
        tails = [random_tail(rng, mean, least, steps, r) for _ in range(500)]
        assert max(tails) <= bound * (1 + 1e-12)
        reached.append(max(tails) / bound)
    assert min(reached) > 0.7


def test_no_tail_is_claimed_within_the_range_of_a_uniform_distribution() -> None:
    assert largest_tail(2.0, 4, 12, -1 / 2) == 1.0
    assert largest_tail(2.0, 5, 12, -1 / 2) < 0.5


@pytest.mark.parametrize("assumption", ["unimodal", "r-concave", "none"])
def test_a_bound_grows_with_q_and_falls_with_the_cutoff(assumption: str) -> None:
    cutoffs = np.arange(50, 101, 5) / 100
    bounds = np.array(
        [[pfer_of(t, q, 40, 50, assumption) for t in cutoffs] for q in range(1, 15)]
    )
    with np.errstate(invalid="ignore"):
        assert not (np.diff(bounds, axis=0) < 0).any()
        assert not (np.diff(bounds, axis=1) > 1e-12).any()


def test_a_cutoff_is_reached_by_the_least_count_up_to_rounding() -> None:
    for count in range(50, 101):
        assert steps_of(count / 100, 50) == count
        assert steps_of(0.5 + (count - 50) * 0.01, 50) == count
    assert steps_of(0.551, 50) == 56


@pytest.mark.parametrize("assumption", ["unimodal", "r-concave", "none"])
def test_two_numbers_give_the_third(assumption: str) -> None:
    for q in (2, 4, 7):
        setting = complete(40, 50, assumption, q=q, pfer=1.5)
        assert setting.pfer <= 1.5 * (1 + 1e-12)
        assert setting == complete(40, 50, assumption, q=q, cutoff=setting.cutoff)
        largest = complete(40, 50, assumption, cutoff=setting.cutoff, pfer=1.5)
        assert largest.q >= q
        assert largest.pfer <= 1.5 * (1 + 1e-12)


@together(
    ("numbers", "message"),
    [
        ({"q": 3}, "two of q, pfer and cutoff must be given"),
        ({"q": 3, "pfer": 1.0, "cutoff": 0.7}, "two of q, pfer and cutoff must"),
        ({"q": 14, "pfer": 1.0}, "q must be an integer from 1 to 13"),
        ({"q": 2.5, "pfer": 1.0}, "q must be an integer"),
        ({"q": 3, "pfer": 0.0}, "pfer must be positive"),
        ({"q": 3, "cutoff": 0.4}, "cutoff must be from 0.5 to 1"),
        ({"q": 3, "cutoff": 0.5}, "cutoff must be larger"),
        ({"q": 8, "pfer": 0.1}, "q must be at most 5 for 13 learners"),
        ({"q": 8, "cutoff": 0.6}, "q must be at most 4 for 13 learners"),
        ({"pfer": 0.1, "cutoff": 0.51}, "cutoff must be larger"),
    ],
)
def test_numbers_without_a_bound_are_errors(
    numbers: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        complete(13, 50, "unimodal", **numbers)


def test_assumptions_of_a_sampling() -> None:
    assert checked_assumption("SS", None) == "unimodal"
    assert checked_assumption("MB", None) == "none"
    with pytest.raises(ValueError, match="sampling must be one of"):
        checked_assumption("ss", None)
    with pytest.raises(ValueError, match=r"one of \('none',\) for sampling 'MB'"):
        checked_assumption("MB", "unimodal")
