"""Invalid calls: each is an error that names what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    aic_stop,
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
    concordance,
    distributions,
    gamboost,
    glmboost,
    plot_calibration,
    quantile_residuals,
    save,
    stability_selection,
)
from gpusolve.gam._model.store import from_plain, to_plain
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.distributions import distribution_of
from gpusolve.gam.families import (
    Binomial,
    Custom,
    Expectile,
    Gamma,
    Huber,
    Hurdle,
    Multinomial,
    NegativeBinomial,
    Poisson,
    PropOdds,
    Quantile,
    Tweedie,
    family_of,
)

Call = Callable[[], Any]
Rows = list[tuple[Call, type[Exception], str]]

N = 60
X = np.random.default_rng(0).random((N, 3))
Y = np.sin(6 * X[:, 0])
TIMES = np.c_[1 + X[:, 0], np.ones(N)]
THREE = np.arange(N) % 3
HOLES, INFINITE = X.copy(), X.copy()
HOLES[3, 2], INFINITE[3, 2] = np.nan, np.inf
TERMS = [bbs(0, knots=5), bbs(1, knots=5), bols(2)]


def fit(learners: Any = None, y: Any = Y, given: Any = X, **options: Any) -> Any:
    return BoostedGAM(learners, **{"max_iter": 5, **options}).fit(given, y)


def classify(y: Any, **options: Any) -> Any:
    return BoostedGAMClassifier(max_iter=3, **options).fit(X, y)


def distribute(y: Any = Y, offset: Any = None, **options: Any) -> Any:
    return BoostedDistribution(max_iter=3, **options).fit(X, y, offset=offset)


@cache
def plain() -> Any:
    return fit(TERMS)


@cache
def survival() -> Any:
    return fit(y=TIMES, family="weibull")


@cache
def spread() -> Any:
    return distribute()


def rows_of(error: type[Exception], calls: dict[str, Call]) -> Rows:
    """Rows with the same error, from calls by their message."""
    return [(call, error, message) for message, call in calls.items()]


def check(family: Any, *y: float) -> Call:
    return lambda: family.check(np.array(y, float))


def options(kind: Callable[..., Any], **given: Any) -> Call:
    return partial(kind, **given)


PARAMETERS = rows_of(
    ValueError,
    {
        "n_basis must be at least degree": options(fit, n_basis=3),
        "degree must be 0 to 5": options(fit, degree=6),
        "penalty must be one of": options(fit, penalty="lasso"),
        "penalty_order must be one of": options(fit, penalty_order=4),
        "df must be at least 2": options(fit, df=1),
        "df must be positive": options(fit, df=0),
        "df_definition must be one of": options(fit, df_definition="S"),
        "learning_rate must be positive": options(fit, learning_rate=0),
        "learning_rate must be positive and finite": options(
            fit, learning_rate=math.nan
        ),
        "max_iter must be 0 or more, got -1": options(fit, max_iter=-1),
        "method must be one of": options(fit, method="fast"),
        "device must be one of": options(fit, device="tpu"),
        "outside must be one of": options(fit, outside="mirror"),
        "interactions must be 0 or more, got -1": options(fit, interactions=-1),
        "interactions must be 0 with": options(fit, interactions=1, method="gram"),
        "interactions must be 0 for BoostedDistr": options(distribute, interactions=1),
        "family must be one of": options(fit, family="poison"),
        "learning_rate must be smaller": options(
            fit, y=THREE, family="poisson", learning_rate=1e4, max_iter=50
        ),
        "learning_rate must be smaller for the gaussian": options(
            fit, learning_rate=1e4, max_iter=200
        ),
    },
) + rows_of(
    TypeError,
    {
        "n_basis must be an": options(fit, n_basis=24.0),
        "degree must be an": options(fit, degree=2.5),
        "penalty_order must be an": options(fit, penalty_order="2"),
        "max_iter must be an integer, got None": options(fit, max_iter=None),
        "max_iter must be an integer, got True": options(fit, max_iter=True),
        "df must be a number": options(fit, df="4"),
        "learning_rate must be a number": options(fit, learning_rate=None),
        "interactions must be an int": options(fit, interactions=1.5),
        "family must be a name": options(fit, family=3),
        r"learner must be an integer, got 1\.7": lambda: plain().partial_effect(1.7, Y),
        r"iteration must be an integer, got 2\.5": lambda: plain().predict(
            X, iteration=2.5
        ),
    },
)

LEARNERS: Rows = [
    (options(fit, learners=learners), error, message)
    for learners, error, message in [
        ("bbs", TypeError, "learners must be a dict, a sequence or a term"),
        (3, TypeError, "learners must be a dict, a sequence or a term"),
        ({0: "bbs"}, TypeError, "learners must be terms such as bbs"),
        ([bbs(0), bols], TypeError, "learners must be terms such as bbs"),
        ({1.5: bbs()}, TypeError, "a learner must be given names or positions"),
        ([bbs(0), bbs(0)], ValueError, r"must be different, got bbs\(0\) twice"),
        ([], ValueError, "at least one learner"),
        ({}, ValueError, "at least one learner"),
        ({1: bbs(0)}, ValueError, "key of bbs"),
        ([bbs()], ValueError, "must be given a column"),
        ([bbs("age")], KeyError, "X must have the column 'age'"),
    ]
]

TERMS_ALONE = rows_of(
    ValueError,
    {
        "one or two columns, got 3": lambda: bbs("x", "y", "z"),
        "knots must be at least 0": lambda: bbs("x", knots=-1),
        "bspatial must be given two columns": lambda: bspatial("x"),
        "degree must be 0 to 5, got 6": lambda: bbs("x", degree=6),
        "differences must be 0 to 3": lambda: bbs("x", differences=4),
        "df must be positive": lambda: bbs("x", df=0),
        "lambda_ must be finite": lambda: bbs("x", lambda_=-1),
        "center must be one of": lambda: bbs("x", center="yes"),
        "knots_at must be one of": lambda: bbs("x", knots_at="end"),
        "end_knots must be one of": lambda: bbs("x", end_knots="no"),
        "a cyclic term must have end_knots='continued'": lambda: bbs(
            "x", end_knots="repeated", cyclic=True
        ),
        "constraint must be one of": lambda: bmono("x", constraint="up"),  # type: ignore[arg-type]
        "neither cyclic nor centred": lambda: bmono("x", cyclic=True),
        "must be neither cyclic nor centred": lambda: bmono("x", center=True),
        "two columns": lambda: bbs("x", "y", cyclic=True),
        "boundary must be finite": lambda: bbs("x", boundary=(1, 0)),
        "for each column": lambda: bspatial("x", "y", boundary=(0, 1)),  # type: ignore[arg-type]
        "contrasts must be one of": lambda: bols("x", contrasts="poly"),
        "levels must be different": lambda: bols("x", levels="aa"),
        "brandom must be given one column": lambda: brandom("x", "y"),
        "symmetric": lambda: buser("x", K=[[0, 1], [2, 0]]),
        "semidefinite": lambda: buser("x", K=[[-1]]),
        "no term with a constraint": lambda: bmono("x") * bols("g"),
        "must be a learner of its own": lambda: bols("z") + btree("x"),
        r"btree\(x\) must be a learner of its own, got": lambda: bols("z") * btree("x"),
        "btree must be given one column, got 2": lambda: btree("x", "z"),
        "bins must be 2 to 255, got 256": lambda: btree("x", bins=256),
        "min_rows must be at least 1, got 0": lambda: btree("x", min_rows=0),
        "kernel must be one of": lambda: bkernel("x", kernel="sinc"),
        "scale must be positive and finite, got 0": lambda: bkernel("x", scale=0.0),
        "knots must be at least 1, got 0": lambda: bkernel("x", knots=0),
        "knots must be an integer or a matrix": lambda: bkernel("x", knots=[[[1.0]]]),
        r"knots of brad must have shape \(m, 2\)": lambda: fit(
            [brad(0, 1, knots=[1.0, 2.0])]
        ),
        "kernel of .* must return shape": lambda: fit(
            [bkernel(0, kernel=lambda a, b: a[:, 0])]
        ),
        "must be symmetric": lambda: fit([bkernel(0, kernel=lambda a, b: a + 0 * b.T)]),
        "must be positive semidefinite": lambda: fit(
            [bkernel(0, kernel=lambda a, b: -(a @ b.T))]
        ),
        "bmrf must be given one column": lambda: bmrf("g", "h", neighbours=["ab"]),
        r"g must have regions .* got \('c'\)": lambda: bmrf(
            "g", neighbours=["ab"]
        ).learn(Frame.of({"g": ["a", "c"]})),
        "must be mutual, got 'b' for 'a'": lambda: bmrf(
            "g", neighbours={"a": ["b"], "b": []}
        ),
        "must be mutual, got 'b' for 'a' only": lambda: bmrf(
            "g", neighbours={"a": ["b"]}
        ),
        "must be other regions": lambda: bmrf("g", neighbours={"a": ["a"]}),
        r"square matrix, got shape \(2, 3\)": lambda: bmrf(
            "g", neighbours=np.ones((2, 3))
        ),
        "a symmetric matrix": lambda: bmrf("g", neighbours=np.triu(np.ones((2, 2)), 1)),
        "must be pairs of regions": lambda: bmrf("g", neighbours=[("a", "b", "c")]),
    },
) + rows_of(
    TypeError,
    {
        "names or positions of columns": lambda: bbs(np.ones(3)),  # type: ignore[arg-type]
        "knots must be an integer": lambda: bbs("x", knots=True),
        "knots must be an integer .*got 2.5": lambda: bbs("x", knots=2.5),  # type: ignore[arg-type]
        "boundary must be a lower .*got 1": lambda: bbs("x", boundary=1),  # type: ignore[arg-type]
        "df must be a number": lambda: bbs("x", df="4"),  # type: ignore[arg-type]
        "unsupported operand": lambda: bbs("x") + 1,  # type: ignore[operator]
        "must be a mapping, a matrix or pairs": lambda: bmrf("g", neighbours=3),
    },
)

FAMILIES = rows_of(
    ValueError,
    {
        "tau must be between 0 and 1, got 0.0": lambda: Quantile(0.0),
        "tau must be between 0 and 1, got 1.0": lambda: Expectile(1.0),
        "tau must be between": lambda: Quantile(math.nan),
        "delta must be positive and finite, got 0.0": lambda: Huber(0.0),
        "shape must be positive and finite, got inf": lambda: Gamma(math.inf),
        "theta must be positive": lambda: NegativeBinomial(-1.0),
        "power must be between 1 and 2, got 2.0": lambda: Tweedie(2.0),
        "link must be one of": lambda: Binomial("probit"),
        "family must be one of": lambda: family_of("normal"),  # type: ignore[arg-type]
        "classes must be 2 or more, got 1": lambda: Multinomial(1),
        "classes must be 2 or more, got 0": lambda: PropOdds(0),
        "must be 0 or 1": check(Binomial(), 0, 1, 2),
        "must have both classes, got only 1.0": check(Binomial(), 1, 1, 1),
        "must be counts .*, got 2.5": check(Poisson(), 0, 1, 2.5),
        "must be counts": check(Poisson(), 0, -1, 2),
        "must not be all 0": check(NegativeBinomial(), 0, 0, 0),
        "must be positive, got 0.0": check(Gamma(), 1, 0, 2),
        "counts 1, 2, .., got 0: leave out": check(Hurdle(), 1, 0, 2),
        "must not be all 1": check(Hurdle(), 1, 1, 1),
        "must not be negative, .* got -2.0 to 1.0": check(Tweedie(), 1, 0, -2),
        "not all 0": check(Tweedie(), 0, 0),
        r"must be 0 to 2, got 3\.0": check(Multinomial(3), 0, 3),
        "must be 0 to 2, got 3.0": check(PropOdds(3), 0, 1, 3),
        "got 0.5": check(PropOdds(3), 0, 0.5, 1),
        "at least 2 classes, got only 1.0": check(PropOdds(3), 1, 1, 1),
        "family must be one of .*, got 'poisson'": lambda: distribution_of("poisson"),
        "update must be one of": lambda: distributions.Gaussian("joint"),  # type: ignore[arg-type]
        "between 0 and 1, without them, got 1.0": check(
            distribution_of("beta"), 0.5, 1
        ),
        "y of the gamma family must be positive, got 0.0": check(
            distribution_of("gamma"), 1, 0
        ),
        "must be counts 0, 1, 2, .., got 0.5": check(
            distribution_of("negative_binomial"), 1, 0.5
        ),
        "poisson family must not be all 0": check(
            distribution_of("zero_inflated_poisson"), 0, 0
        ),
        "y of the poisson family must be": options(fit, family="poisson"),
        "y of the gamma family must be": options(fit, y=THREE, family="gamma"),
        "y of the binomial family must be": options(fit, family="binomial"),
    },
) + rows_of(TypeError, {"name or a Distribution, got 3": lambda: distribution_of(3)})

DATA = rows_of(
    ValueError,
    {
        "2 must not have missing values, got 1": options(
            fit, learners=[bbs(1), bbs(2)], given=HOLES
        ),
        "2 must not have missing values": lambda: fit([bbs(2)]).predict(HOLES),
        "must be finite, got NaN or infinity in column 2": options(fit, given=HOLES),
        "must be finite, got infinity": options(fit, given=INFINITE, missing="zero"),
        "2 must be finite, got infinity": options(
            fit, learners=TERMS, given=INFINITE, missing="zero"
        ),
        "y must be finite": options(fit, y=np.where(Y[4] == Y, np.nan, Y)),
        "y must be finite, got NaN or infinity": options(
            fit, y=np.where(Y[4] == Y, -np.inf, Y)
        ),
        "sample_weight must be finite": lambda: BoostedGAM().fit(X, Y, HOLES[:, 2]),
        "NaN or infinity in column size": options(
            fit, given=pd.DataFrame({"age": Y, "size": HOLES[:, 2]})
        ),
        "columns of X must have different names": options(
            fit, given=pd.DataFrame(X, columns=["a", "b", "a"])
        ),
        "a must not have missing values, got 1": options(fit, given={"a": HOLES[:, 2]}),
        "or y if it is huge: the risk is": options(fit, y=1e200 * Y),
        "not fitted": lambda: BoostedGAM().staged_predict(X),
        "4 features": lambda: fit().staged_predict(np.c_[X, Y]),
        "within the range": lambda: fit(outside="error").staged_predict(X + 1),
        "offset must be finite": lambda: fit(TERMS).fit(X, Y, offset=np.inf),
        "offset must have": lambda: fit(TERMS).fit(X, Y, offset=[1.0, 2.0]),
        "could not convert": lambda: fit(TERMS).fit(X, Y, offset="much"),
    },
)

GRAM: Rows = [
    (options(fit, method="gram", **given), ValueError, "method must be 'auto' or 'sta")
    for given in [
        {"y": THREE, "family": "poisson"},
        {"early_stopping": True},
        {"learners": [bbs(0), bols(1)]},
        {"learners": [bbs(0), bbs(1, knots=9)]},
        {"learners": [bmono(0)]},
    ]
]

CLASSES: Rows = [
    (options(classify, y=y), error, message)
    for y, error, message in [
        (["a"] * N, ValueError, "at least 2 classes"),
        ([0.5, 1.5] * (N // 2), ValueError, "Unknown label type"),
        ([1, 2], ValueError, rf"y must have shape \({N},\)"),
        ([0.0, np.nan] * (N // 2), ValueError, "y must be finite"),
        ([None, "a"] * (N // 2), ValueError, "y must not have missing values"),
        (np.array([1, "a"] * 30, object), TypeError, "all strings or all numbers"),
        ([1j, 2] * (N // 2), ValueError, "Complex"),
        (None, ValueError, "requires y"),
    ]
] + rows_of(
    ValueError,
    {
        "binomial, multinomial or prop_odds, got 'poisson'": options(
            classify, y=THREE, family="poisson"
        ),
        "method must be 'auto' or 'stacked'": options(classify, y=THREE, method="gram"),
        "offset must be None": lambda: BoostedGAMClassifier(family="multinomial").fit(
            X, THREE, offset=1.0
        ),
    },
)

DISTRIBUTIONS = rows_of(
    ValueError,
    {
        r"offset must be one of \['mu', 'sigma'\]": options(
            distribute, offset={"scale": 1.0}
        ),
        "offset must have shape": options(distribute, offset={"sigma": np.ones(3)}),
        "q must be between 0 and 1, got 1": lambda: spread().predict_quantile(X, 1),
        "coverage must be between 0 and 1": lambda: spread().predict_interval(X, 90),
        "fit must be one of": lambda: spread().effects(X, fit="tau"),
        "BoostedDistribution": options(fit, family=distributions.Gaussian()),
        "y of the gamma family must be positive": options(distribute, family="gamma"),
        "one response, or two classes, got 2": lambda: aic_stop(spread()),
    },
) + [
    (lambda: spread().effects(X, fit=2), IndexError, "fit must be 0 to 1, got 2"),
    (
        options(distribute, family=Multinomial(3)),
        TypeError,
        "name or a Distribution",
    ),
]

SURVIVAL: Rows = [
    (options(fit, y=y, family="coxph"), ValueError, message)
    for y, message in [
        (TIMES[:, 0], "must have a time and an event for each row"),
        (TIMES * [1, 2], "event must be 0 or 1"),
        (TIMES * [0, 1], "time must be positive, got 0.0"),
        (TIMES * [np.inf, 1], "time must be finite"),
        (TIMES * [1, 0], "must have an event, got none"),
        ({"a": Y, "b": Y}, "must have the columns time and event, or one"),
        ({"time": Y}, "must have the columns time and event, got"),
        (TIMES[:5], rf"time must have shape \({N},\)"),
    ]
] + rows_of(
    ValueError,
    {
        r"same shape .* \(2,\) and \(3,\)": lambda: concordance(
            [1, 2], [1, 0], [1] * 3
        ),
        "times must not be negative, got -1": lambda: survival().survival_function(
            X, [1.0, -1.0]
        ),
        r"have shape .* got \(\)": lambda: survival().survival_function(X, 1.0),
        r"have shape .* got \(1, 1\)": lambda: survival().survival_function(X, [[1.0]]),
    },
)


def curves(formula: Any, **given: Any) -> Any:
    return gamboost(formula, {"a": Y + 2, "b": X[:, 0] + 1, "c": X[:, 1]}, **given)


def lines(formula: Any, **given: Any) -> Any:
    return glmboost(formula, {"a": Y + 2, "b": X[:, 0] + 1, "c": X[:, 1]}, **given)


def own(**given: Any) -> Custom:
    return Custom("x", gradient=np.subtract, loss=np.hypot, **given)


def select(**given: Any) -> Any:
    return stability_selection(plain(), **{"q": 2, "pfer": 1, **given})


def stop(criterion: str | None = None, **given: Any) -> Any:
    return aic_stop(fit(**{"learners": TERMS, **given}), criterion)


QUESTIONS = rows_of(
    ValueError,
    {
        "two of q, pfer and cutoff must be given": options(select, pfer=None),
        "sampling must be one of": options(select, sampling="XY"),
        "assumption must be one of": options(select, assumption="normal"),
        "q must be an integer from 1 to 3": options(select, q=9),
        # mboost takes the cutoff 1, and warns that its bound is larger
        "q must be at most 1 for 3 learners, pfer = 1 .* whose pfer is": options(
            select, q=3, sampling="MB"
        ),
        "B must be at least 1, got 0": options(select, B=0),
        r"have shape \(60, B\)": options(select, subsamples=np.ones((7, 3))),
        r"have shape \(60, 4\)": options(select, B=4, subsamples=np.ones((N, 3))),
        "must be 0 or 1": options(select, subsamples=np.full((N, 3), 2)),
        "must have rows in and": options(select, subsamples=np.ones((N, 3))),
        "got 3 models": lambda: stability_selection(classify(THREE), q=2, pfer=1.0),
        "criterion must be one of": options(stop, criterion="aic"),
        "the family must be one of .* got 'laplace'": options(stop, family="laplace"),
        "early_stopping must be False": options(stop, early_stopping=True),
        "at least one iteration": options(stop, max_iter=0),
        "must have no constraint": options(stop, learners=[bmono(1), bols(2)]),
        r"no cuts for a criterion, got btree\(0\)": options(stop, learners=[btree(0)]),
        "one response, or two classes": lambda: aic_stop(classify(THREE)),
    },
)

FORMULAS = rows_of(
    ValueError,
    {
        r"R's mstop= .* written max_iter=": partial(lines, "a ~ b", mstop=1),
        "R's nu= .* written learning_rate=": partial(curves, "a ~ b", nu=1),
        "must be a column, such as x": partial(lines, "a ~ bbs(b)"),
        "must be a column, such as x.*": partial(lines, "a ~ b:c"),
        r"bs\(b, df=9\) must have shape": partial(curves, "a ~ bols(bs(b, df=9))"),
        r"log\(b\) cannot .*the columns are c": lambda: curves("a ~ log(b)").predict(
            {"c": X[:, 0]}
        ),
        "baselearner must be one of .*'btree'": partial(
            curves, "a ~ b", baselearner="btree"
        ),
    },
) + rows_of(
    TypeError,
    {
        "formula must be a string, got 3": partial(curves, 3),
        "data must be a data frame or a mapping": lambda: gamboost("a ~ b", X),
        "a mapping of columns, got ndarray": lambda: curves("a ~ b").predict(X),
    },
)

OWN: Rows = (
    [
        (call, TypeError, message)
        for message, call in {
            "gradient of x must be a function, got None": lambda: Custom(
                "x",
                gradient=None,  # type: ignore[arg-type]
                loss=abs,
            ),
            "response of x must be a function, got 3": partial(own, response=3),
            "curvature of x must be a function": partial(own, curvature=1),
            "family": lambda: to_plain(own(), "family"),
            "callback must be a function": options(fit, callback=3),
        }.items()
    ]
    + rows_of(
        ValueError,
        {
            "cuda of x must have the expressions": partial(own, cuda={"gradient": "y"}),
            "x must have the argument cuda": lambda: own().cuda,
            "callback must be None with": options(fit, callback=print, method="gram"),
            "callback must be None with e": options(
                fit, callback=print, early_stopping=True
            ),
            "at least 2 rows": lambda: BoostedGAM(early_stopping=True).fit(
                X[:1], Y[:1]
            ),
            "warm_start must be False": options(
                fit, early_stopping=True, warm_start=True
            ),
            "warm_start must be False with": options(
                fit, warm_start=True, max_iter="auto"
            ),
            "max_iter must be one of": options(fit, max_iter="best"),
            "every fold must have rows in and out": options(fit, max_iter="auto", cv=1),
            "folds must be one of": options(fit, max_iter="auto", cv="folds"),
            "at least one learner": lambda: BoostedDistribution(
                {"mu": [bbs(0)], "sigma": []}
            ).fit(X, Y),
            "must have a finite sum, got weights up to": lambda: BoostedGAM().fit(
                X, Y, np.full(N, 1e308)
            ),
            "sample_weight": lambda: BoostedGAM().fit(X, Y, np.zeros(N)),
            "sample_weight.*": lambda: BoostedGAM().fit(X, Y, -np.ones(N)),
            "sample_weight .*": lambda: BoostedGAM().fit(X, Y, np.ones(7)),
            "not all of it zero": lambda: plain().score(X, Y, np.zeros(N)),
            r"x must have shape \(n,\)": lambda: plain().partial_effect(0, X),
            r"x must have shape \(n, 2\), got \(60,\)": lambda: fit(
                [bspatial(0, 1)]
            ).partial_effect(0, Y),
            r"design of buser\(0.* finite numbers": options(
                fit, learners=[buser(0, design=lambda x: np.c_[x, np.inf * x])]
            ),
            "must be within the range 0.0 to 1": options(
                fit, learners=[bbs(0, boundary=(0, 1))], given=9 * X
            ),
            "day must be within the range": lambda: fit(
                [bbs("day", cyclic=True)], given={"day": Y}
            ).predict({"day": [9.0]}),
        },
    )
    + [
        (
            lambda: plain().partial_effect(5, Y),
            IndexError,
            "learner must be -3 to 2",
        )
    ]
)

PICTURES = rows_of(
    ValueError,
    {
        "family must be one of .* got laplace": lambda: quantile_residuals(
            fit(family="laplace"), X, Y
        ),
        "model must have two classes, got ": lambda: quantile_residuals(
            classify(THREE), X, THREE
        ),
        r"y must have the classes \[0, 1, 2\], got": lambda: plot_calibration(
            classify(THREE), X, np.arange(N) % 4
        ),
        "y of the poisson family must be counts": lambda: quantile_residuals(
            fit(y=THREE, family="poisson"), X, Y
        ),
        "bins must be 1 or more, got 0": lambda: plot_calibration(
            plain(), X, Y, bins=0
        ),
        "level must be between 0 and 1, got 1": lambda: plot_calibration(
            plain(), X, Y, level=1
        ),
    },
)

FILES: Rows = (
    [
        (partial(to_plain, value, "x.y"), TypeError, r"x\.y must be plain data")
        for value in [
            np.array([1j]),
            np.array(["2020-01-01"], "M8[D]"),
            {1, 2},
            BoostedGAM,
        ]
    ]
    + [
        (
            partial(from_plain, {"class": name}),
            ValueError,
            f"class must be .*, got '{name}'",
        )
        for name in ("Nothing", "store.json", "nowhere.Path", "boost")
    ]
    + rows_of(TypeError, {"model must be an estimator": lambda: save({}, "x")})
)  # type: ignore[arg-type]

TABLES = {
    "parameters": PARAMETERS,
    "learners": LEARNERS,
    "terms": TERMS_ALONE,
    "families": FAMILIES,
    "data": DATA,
    "gram": GRAM,
    "classes": CLASSES,
    "distributions": DISTRIBUTIONS,
    "survival": SURVIVAL,
    "questions": QUESTIONS,
    "formulas": FORMULAS,
    "own": OWN,
    "pictures": PICTURES,
    "files": FILES,
}


def attempt(call: Call, message: str) -> None:
    """The call, whose success names its row."""
    call()
    pytest.fail(f"no error: {message}")


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.filterwarnings("ignore")
def test_invalid_calls_name_what_is_wrong(table: str) -> None:
    for call, error, message in TABLES[table]:
        with pytest.raises(error, match=message):
            attempt(call, message)
