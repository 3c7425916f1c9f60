"""Boosting of families with several predictors, in NumPy and as a kernel.

The oracle of the path is a loop over dense matrices, written here from the published
algorithms; its densities and gradients are written here, too. The oracles of the limit
are maximum-likelihood estimates by SciPy. The emulator's path is compared with NumPy's.

References
----------
Mayr, Fenske, Hofner, Kneib & Schmid (2012), Algorithm 1 (cyclic updates); Thomas, Mayr,
Bischl, Schmid, Smith & Hofner (2018), Algorithm 2 (noncyclic updates).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special, stats

from gpusolve import _emulator
from gpusolve._device.kernels import EmulatedDevice
from gpusolve.gam import distributions
from gpusolve.gam._boosting import stacked, stacked_kernel
from gpusolve.gam._boosting.batch import Fits, Settings, Training, make_fits
from gpusolve.gam._boosting.path import UNWATCHED, Path
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._families.family import CoupledFamily
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.distributions import DISTRIBUTIONS
from gpusolve.gam.families import Multinomial
from gpusolve.gam.terms import Term, bbs, bmono, bols

Floats = NDArray[np.float64]

RATE = 0.2

TERMS = (bbs("a", knots=6), bbs("b", knots=4), bols("c"))


class Sample(NamedTuple):
    frame: Frame
    y: Floats


def sample(family: CoupledFamily, n: int = 120, seed: int = 0) -> Sample:
    """Three covariates, and a response of the family, which depends on two of them."""
    rng = np.random.default_rng(seed)
    x = {name: rng.random(n) for name in "abc"}
    f, g = np.sin(6 * x["a"]), x["b"] - 0.5
    made: Any = {
        "gaussian": lambda: f + np.exp(g) * rng.standard_normal(n),
        "student_t": lambda: f + np.exp(g) * rng.standard_t(4, n),
        "gamma": lambda: np.exp(f) * rng.gamma(3, 1 / 3, n),
        "beta": lambda: rng.beta(2 * np.exp(g), 4),
        "multinomial": lambda: rng.integers(0, 3, n) * (x["a"] > 0.4) + 0.0,
    }
    counts = lambda: rng.negative_binomial(2, 0.3, n) * (rng.random(n) < 0.8) + 0.0  # noqa: E731
    return Sample(Frame.of(x), made.get(family.name, counts)())


def fits_of(
    family: CoupledFamily,
    given: Sample,
    weights: Floats | None = None,
    terms: tuple[Term, ...] = TERMS,
    rate: float = RATE,
    **settings: Any,
) -> Fits:
    rule = settings.pop("step_rule", "mboost")
    learned = tuple(term.learn(given.frame) for term in terms)
    made = Settings(learned, family, rate, "2S-SS", "error", rule, **settings)
    left_out = None if weights is None else (weights == 0) + 0.0
    return make_fits(
        made, Training(given.frame, given.y, None, None), weights, left_out
    )


def folds(n: int) -> Floats:
    rng = np.random.default_rng(5)
    return np.stack([np.ones(n), rng.integers(0, 3, n) + 0.0])


# ---- the path, by the published algorithms -------------------------------------------


def gaussian(y: Floats, f: Floats) -> tuple[Floats, list[Floats]]:
    """The loss and the gradients by mu and log sigma."""
    sigma = np.exp(f[1])
    slopes = [(y - f[0]) / sigma**2, ((y - f[0]) / sigma) ** 2 - 1]
    return -stats.norm.logpdf(y, f[0], sigma), slopes


def negative_binomial(y: Floats, f: Floats) -> tuple[Floats, list[Floats]]:
    """The loss and the gradients by log mu and log theta."""
    mu, theta = np.exp(f)
    psi = special.digamma(y + theta) - special.digamma(theta)
    slope = theta * (
        psi + np.log(theta / (mu + theta)) + 1 - (theta + y) / (mu + theta)
    )
    loss = -stats.nbinom.logpmf(y, theta, theta / (theta + mu))
    return loss, [y - mu * (y + theta) / (mu + theta), slope]


def multinomial(y: Floats, f: Floats) -> tuple[Floats, list[Floats]]:
    """The loss and the gradients by each class."""
    p = np.exp(f) / np.exp(f).sum(axis=0)
    own = y == np.arange(len(f))[:, None]
    return -np.log((p * own).sum(axis=0)), [*(own - p)]


Density = Callable[[Floats, Floats], tuple[Floats, list[Floats]]]


class Steps(NamedTuple):
    selected: NDArray[np.int64]
    risk: Floats
    f: Floats


def plain_loop(fits: Fits, density: Density, update: str, steps: int) -> Steps:
    """The algorithms with dense matrices, for the first model."""
    dense = [design.dense() for design in fits.problem.rows]
    solve = [inverse[0] for inverse in fits.problem.inverse]
    y, w = fits.y, np.ones(len(fits.y))
    count = fits.family.predictors
    f = np.tile(fits.start[:count], len(y))
    selected, risk = np.full((count, steps), -1), [float(w @ density(y, f)[0])]
    for step in range(steps):
        gradients = density(y, f)[1]
        made = [[X @ H @ (X.T @ (w * u)) for X, H in zip(dense, solve, strict=True)]
                for u in gradients]  # fmt: skip
        squares = np.array(
            [[w @ (u - fit) ** 2 for fit in own]
             for u, own in zip(gradients, made, strict=True)]
        )  # fmt: skip
        best = squares.argmin(axis=1)

        if update == "joint":
            j = int(squares.sum(axis=0).argmin())
            f = f + RATE * np.stack([own[j] for own in made])
            selected[:, step] = j
        else:
            after = [
                np.stack(
                    [g + RATE * (q == p) * made[q][best[q]] for q, g in enumerate(f)]
                )
                for p in range(count)
            ]
            risks = [float(w @ density(y, g)[0]) for g in after]
            p = step % count if update == "cyclic" else int(np.argmin(risks))
            f, selected[p, step] = after[p], best[p]
        risk.append(float(w @ density(y, f)[0]))
    return Steps(selected, np.array(risk), f)


PATHS = {
    "gaussian": (distributions.Gaussian(), gaussian),
    "gaussian cyclic": (distributions.Gaussian("cyclic"), gaussian),
    "counts": (distributions.NegativeBinomial(), negative_binomial),
    "counts cyclic": (distributions.NegativeBinomial("cyclic"), negative_binomial),
    "multinomial": (Multinomial(3), multinomial),
}


@pytest.mark.parametrize("path", list(PATHS))
def test_the_path_of_the_published_algorithms(path: str) -> None:
    family, density = PATHS[path]
    fits = fits_of(family, sample(family))
    expected = plain_loop(fits, density, family.update, 40)
    found = boost_family(fits, 40)
    np.testing.assert_array_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.risk[0], expected.risk, rtol=1e-9)
    assert not found.risk[1:].any()
    np.testing.assert_allclose(
        fits.after(found).start, expected.f, rtol=1e-8, atol=1e-9
    )


def test_all_predictors_are_updated_at_some_time() -> None:
    for update in ("cyclic", "noncyclic"):
        family = distributions.Gaussian(update)
        found = boost_family(fits_of(family, sample(family)), 40).selected
        assert ((found >= 0).sum(axis=0) == 1).all()
        assert ((found >= 0).sum(axis=1) > 5).all()


# ---- the limit -----------------------------------------------------------------------


def slow_except(short: tuple[str, ...]) -> list[Any]:
    """The distributions, of which few are tested by `make test`."""
    marks = {name: () if name in short else pytest.mark.slow for name in DISTRIBUTIONS}
    return [pytest.param(name, marks=mark) for name, mark in marks.items()]


@pytest.mark.parametrize("name", slow_except(("gaussian", "beta")))
@pytest.mark.parametrize("update", ["noncyclic", "cyclic"])
def test_lines_converge_to_the_largest_likelihood(name: str, update: Any) -> None:
    family = DISTRIBUTIONS[name](update)
    given = sample(family, n=300)
    fits = fits_of(family, given, terms=(bols("b"),), rate=0.5, step_rule="scaled")
    found = boost_family(fits, 3000 if "zero" in name else 600)
    X = np.stack([np.ones(300), given.frame.numeric("b")])

    def loss(coef: Floats) -> float:
        f = coef.reshape(-1, 2) @ X
        frozen = family.frozen(family.parameters(f))
        if name in ("gaussian", "student_t", "gamma", "beta"):
            return float(-frozen.logpdf(given.y).sum())
        return float(-np.log(frozen.cdf(given.y) - frozen.cdf(given.y - 1)).sum())

    start = np.column_stack([fits.start[:, 0], np.zeros(family.predictors)])
    best = optimize.minimize(loss, start.ravel(), method="BFGS", options={"gtol": 1e-3})
    assert found.risk[0, -1] == pytest.approx(best.fun, abs=1e-3)
    f = fits.after(found).start
    np.testing.assert_allclose(f, best.x.reshape(-1, 2) @ X, atol=0.06)


def test_classes_converge_to_the_logistic_regression() -> None:
    family = Multinomial(3)
    given = sample(family, n=300)
    fits = fits_of(family, given, terms=(bols("a"),), rate=0.5, step_rule="scaled")
    f = fits.after(boost_family(fits, 300)).start
    X = np.stack([np.ones(300), given.frame.numeric("a")])

    def with_reference(coef: Floats) -> Floats:
        return np.vstack([np.zeros(300), coef.reshape(2, 2) @ X])

    def loss(coef: Floats) -> float:
        g = with_reference(coef)
        own = g[given.y.astype(int), np.arange(300)]
        return float((special.logsumexp(g, axis=0) - own).sum())

    best = optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-4})
    expected = special.softmax(with_reference(best.x), axis=0)
    np.testing.assert_allclose(family.response(f), expected, atol=1e-4)
    np.testing.assert_allclose(f.sum(axis=0), 0, atol=1e-10)


# ---- the kernel ----------------------------------------------------------------------


def on_device(fits: Fits, steps: int) -> Path:
    return stacked_kernel.boost(fits, steps, EmulatedDevice(), UNWATCHED)


def assert_same(found: Path, expected: Path) -> None:
    np.testing.assert_array_equal(found.selected, expected.selected)
    for name in ("updates", "risk", "out_of_bag"):
        one, other = getattr(found, name), getattr(expected, name)
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12 * scale)


ALLOWED = {2: [[1, 1, 1], [0, 1, 1]], 3: [[1, 1, 1], [0, 1, 1], [0, 0, 1]]}


@pytest.mark.parametrize("step_rule", ["mboost", "scaled"])
@pytest.mark.parametrize("update", ["noncyclic", "cyclic"])
@pytest.mark.parametrize("name", slow_except(("gaussian",)))
def test_the_kernel_makes_the_steps_of_numpy(
    name: str, update: Any, step_rule: str
) -> None:
    family = DISTRIBUTIONS[name](update)
    given = sample(family)
    allowed = np.array(ALLOWED[family.predictors], bool)
    weights = folds(len(given.y))
    fits = fits_of(family, given, weights, step_rule=step_rule, allowed=allowed)
    expected = stacked.boost_on_host(fits, 12)
    assert_same(on_device(fits, 12), expected)
    selected = expected.selected.reshape(2, family.predictors, 12)
    assert not (selected[:, 1:] == 0).any()


@pytest.mark.parametrize("step_rule", ["mboost", "scaled"])
def test_the_kernel_makes_the_joint_steps_of_numpy(step_rule: str) -> None:
    family = Multinomial(3)
    given = sample(family)
    monotone = bmono("b", knots=4)
    for terms in (TERMS, (monotone, TERMS[2])):
        fits = fits_of(family, given, folds(120), terms, step_rule=step_rule)
        assert_same(on_device(fits, 10), stacked.boost_on_host(fits, 10))


@pytest.mark.parametrize("update", ["noncyclic", "cyclic"])
def test_several_launches_make_the_same_steps(update: Any) -> None:
    family = distributions.Gaussian(update)
    fits = fits_of(family, sample(family), step_rule="scaled")
    first = on_device(fits, 5)
    later = on_device(fits.after(first), 6)
    whole = on_device(fits, 11)
    np.testing.assert_array_equal(
        np.concatenate([first.selected, later.selected], axis=1), whole.selected
    )
    np.testing.assert_allclose(later.risk[:, -1], whole.risk[:, -1], rtol=1e-10)


@pytest.mark.parametrize("family", [distributions.Gaussian(), Multinomial(3)])
def test_no_race_and_same_bits_in_any_interleaving(family: CoupledFamily) -> None:
    fits = fits_of(family, sample(family), step_rule="scaled")
    found = []
    for seed in (1, 2):
        with _emulator.races(), _emulator.schedule("random", seed):
            found.append(on_device(fits, 4))
    for name in ("selected", "updates", "risk"):
        one, other = (getattr(path, name) for path in found)
        np.testing.assert_array_equal(one, other)


def test_rows_without_weight_do_not_count() -> None:
    family = distributions.Gaussian()
    given = sample(family)
    w = np.ones(120)
    w[:40] = 0
    with_zeros = fits_of(family, given, w[None])
    y = np.where(w > 0, given.y, 1e200)  # the loss is infinite
    spoiled = with_zeros._replace(y=y, out_of_bag=None)
    for run in (on_device, stacked.boost_on_host):
        with np.errstate(over="ignore", invalid="ignore"):
            found = run(spoiled, 8)
        np.testing.assert_array_equal(found.risk, run(with_zeros, 8).risk)
