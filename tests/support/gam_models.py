"""A model of every family and of every learner, for properties that all must have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bkernel,
    bmono,
    bmrf,
    bols,
    brad,
    brandom,
    bspatial,
    btree,
    buser,
    survival_times,
)
from gpusolve.gam.distributions import DISTRIBUTIONS, Beta
from gpusolve.gam.families import (
    FAMILIES,
    Binomial,
    Expectile,
    Family,
    Gamma,
    Huber,
    Hurdle,
    Multinomial,
    NegativeBinomial,
    PropOdds,
    Quantile,
    SurvivalFamily,
    Tweedie,
    Weibull,
)
from gpusolve.gam.terms import Term

Columns = dict[str, NDArray[Any]]

RING = {"a": "bd", "b": "ac", "c": "bd", "d": "ac"}

LEARNERS: list[Term] = [
    bbs("x", df=3),
    bbs("x", knots=[0.2, 0.5], end_knots="repeated"),
    bbs("x", knots_at="quantiles", center=True),
    bbs("x", center="spectral", df=2),
    bbs("x", by="z"),
    bbs("x", by="g", df=9),
    bbs("x", cyclic=True, boundary=(0, 1)),
    bbs("x", boundary="robust"),
    bmono("x", constraint="increasing", knots=5),
    bmono("x", constraint="concave", knots=5),
    bols("x"),
    bols("x", "z", intercept=False, df=1),
    bols("g"),
    bols("g", contrasts="sum", df=2),
    bols("g", contrasts="helmert", df=2),
    brandom("g"),
    brandom("g", by="x", df=2),
    bspatial("x", "z", knots=4),
    bspatial("x", "z", knots=4, center=True, df=3),
    bmrf("g", neighbours=RING, df=2),
    bmrf("g", neighbours=RING, df=2, center=True),
    brad("x", "z", knots=12),
    bkernel("x", scale=1, knots=9),
    btree("x"),
    btree("x", bins=9, min_rows=6),
    buser("x", "z", K=np.eye(2), df=1),
    bols("z") + bbs("x", knots=6),
    bmono("x", knots=5) + bols("g", intercept=False, df=1),
    bols("g", df=2, contrasts="dummy") * bbs("x", knots=6, df=2),
    (bols("x") + bols("z")) * bols("g"),
]
"""Learners of every kind, of the columns of `columns`."""

PARAMETERS: list[Family] = [
    Quantile(0.8),
    Expectile(0.3),
    Huber(0.5),
    Binomial("logit"),
    NegativeBinomial(2.0),
    Hurdle(1.7),
    Gamma(2.5),
    Tweedie(1.2),
    Weibull(1.7),
]
"""Families with other parameters than the defaults."""

SINGLE: list[Family] = [
    *(
        family(4) if family is PropOdds else family()
        for family in FAMILIES.values()
        if family is not Multinomial
    ),
    *PARAMETERS,
]
"""The families with one predictor, with the default parameters and with others."""

COUPLED: list[Any] = [
    Multinomial(3),
    *(
        kind(update)
        for kind in DISTRIBUTIONS.values()
        for update in ("noncyclic", "cyclic")
    ),
]
"""The families with several predictors."""

CLASSES = "binomial", "multinomial", "prop_odds"


def columns(n: int = 60, seed: int = 0) -> Columns:
    """Numbers, places, and factors of four letters and of two numbers."""
    rng = np.random.default_rng(seed)
    letters = np.array([*"abcd", *rng.choice([*"abcd"], n - 4)])
    found = {"x": rng.random(n), "z": rng.random(n), "g": letters}
    found |= {"lon": rng.uniform(5, 10, n), "lat": rng.uniform(45, 50, n)}
    return found | {"h": rng.choice([1, 2], n)}


def response(family: str, data: Columns, seed: int = 1) -> NDArray[Any]:
    """A response of a family or a distribution of this name: a sine and a line."""
    f = np.sin(6 * data["x"]) + data["z"] - 0.5
    if family in CLASSES:
        noise = np.random.default_rng(seed).logistic(size=len(f))
        return np.digitize(f + noise, [-0.7, 1.0])
    known: type[Any] = {**DISTRIBUTIONS, **FAMILIES}[family]
    return draw(known(), f, seed)


def draw(family: Any, f: NDArray[np.float64], seed: int = 1) -> NDArray[Any]:
    """A response of a family that depends on the predictor f, (n,)."""
    rng, n = np.random.default_rng(seed), len(f)
    if isinstance(family, SurvivalFamily):
        time = np.ceil(20 * rng.exponential(np.exp(f))) / 20
        return survival_times(time, rng.random(n) < 0.8)
    if isinstance(family, (Multinomial, PropOdds)):
        cuts = np.linspace(-1, 2, family.classes - 1)
        return np.digitize(f + rng.logistic(size=n), cuts) * 1.0
    if isinstance(family, Binomial):
        return (rng.random(n) < expit(2 * f)) * 1.0
    if isinstance(family, Beta):
        return np.clip(rng.beta(4 * expit(f), 4 * expit(-f)), 0.01, 0.99)
    positive = np.exp(f) * rng.gamma(3, 1 / 3, n)
    counts = rng.poisson(positive) * 1.0
    kinds = (
        f + 0.3 * rng.standard_t(4, n),
        positive * (rng.random(n) < 0.7),
        positive,
        counts,
        counts + 1,
    )
    return next(y for y in kinds if accepts(family, y))


def sample(family: Any, n: int = 200) -> tuple[NDArray[Any], NDArray[Any]]:
    """Three covariates, of which the last is noise, and a response of a family."""
    X = np.random.default_rng(0).random((n, 3))
    return X, draw(family, 0.7 * np.sin(6 * X[:, 0]) + X[:, 1] - 0.3)


def accepts(family: Any, y: NDArray[Any]) -> bool:
    """Whether y is a response of the family."""
    try:
        family.check(y)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Case:
    """An estimator before its fit, with a response of its family."""

    kind: type[Any]
    family: str
    learners: list[Term]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind.__name__} {self.family} {self.learners} {[*self.options]}"

    def model(self, steps: int = 8, **options: Any) -> Any:
        """The estimator."""
        given = {"family": self.family, "max_iter": steps} | self.options | options
        return self.kind(self.learners, **given)

    def fitted(self, data: Columns, steps: int = 8, **options: Any) -> Any:
        """The estimator, fitted to all rows."""
        return self.model(steps, **options).fit(data, response(self.family, data))


MAIN: list[Term] = [bbs("x"), bols("g"), bbs("z", df=3)]


def every_family() -> Iterator[Case]:
    """Each family of each estimator, with three learners."""
    for name in FAMILIES:
        yield Case(BoostedGAMClassifier if name in CLASSES else BoostedGAM, name, MAIN)
    for name, update in zip(
        DISTRIBUTIONS, cycle(["noncyclic", "cyclic"]), strict=False
    ):
        given = {"family": DISTRIBUTIONS[name](update)}  # type: ignore[arg-type]
        yield Case(BoostedDistribution, name, MAIN, given)


EVERY_FAMILY_CASE = list(every_family())
EVERY_LEARNER_CASE = [
    Case(BoostedGAM, family, [learner, bols("z", intercept=False)])
    for learner, family in zip(LEARNERS, cycle(["gaussian", "poisson"]), strict=False)
]
PAIRS = Case(BoostedGAM, "gaussian", MAIN, {"interactions": 2})
EVERY_CASE = [*EVERY_FAMILY_CASE, *EVERY_LEARNER_CASE, PAIRS]
"""All families with some learners, all learners with one of two families, and pairs."""
