"""The specification of a model: its parameters, and its learners before the data."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from .._boosting.batch import STEP_RULES
from .._boosting.patience import ALIKE, OTHER, RICHER, SLOWER, Kind, Verdict
from .._boosting.smoothing import check_df
from .._boosting.stacked import METHODS
from .._data import inputs
from .._data.conventions import (
    check_between,
    check_choice,
    check_integer,
    check_least,
    check_number,
)
from .._terms.basis import OUTSIDE, PENALTIES, check_degree
from .._terms.frame import Frame, Name
from .._terms.rows import MISSING_VALUES, UNKNOWN_LEVELS
from .._terms.single import Single
from .._terms.spline import ROBUST, middle_rows, penalty_options, robust_range
from .._terms.term import Term
from ..terms import bbs, bols, brandom, btree, names_of
from .formula import Formula

ALLOWED: dict[str, tuple[Any, ...]] = {
    "outside": OUTSIDE,
    "device": inputs.DEVICES,
    "method": METHODS,
    "penalty": PENALTIES,
    "penalty_order": (1, 2, 3),
    "missing": MISSING_VALUES,
    "step_rule": STEP_RULES,
    "unknown": UNKNOWN_LEVELS,
}
"""The values of parameters that have a few."""

SPLINE = ("n_basis", "degree", "penalty", "penalty_order", "df")
"""The parameters of the default splines."""

FIRST_DF = 6
"""The degrees of freedom of a default spline that df="auto" begins with."""

MOST_DF = 48
"""The most degrees of freedom that df="auto" tries."""

FUNCTIONS_PER_DF = 4
"""The functions of a default spline for each degree of freedom."""

FEWEST_FUNCTIONS = 24
"""The fewest functions of a default spline whose number is not given."""

SKEWED = 3
"""A feature is skewed if the middle rows extend this many times as far from the median
to one side as to the other."""

SOME_ROWS = 100
"""The fewest rows for which the range and scores are tried: both are of the tails."""

MANY_ROWS = 1_000
"""The fewest rows for which stumps are tried, and for which a range or scores need only
be better: folds of fewer rows are repeated, and the standard errors of their losses are
too small."""

ROWS_PER_DF = 4
"""The fewest rows for each degree of freedom that df="auto" tries after the first."""

LEAST = {"max_iter": 0, "n_iter_no_change": 1, "interactions": 0}
"""The least values of numbers that count something."""

INTEGERS = ("n_basis", "degree", "penalty_order", *LEAST)
NUMBERS = ("df", "learning_rate", "validation_fraction")


def check_parameters(model: Any) -> None:
    """TypeError or ValueError for parameters of the wrong type or out of range."""
    integers = {name: getattr(model, name) for name in INTEGERS}
    numbers = {name: getattr(model, name) for name in NUMBERS}
    if isinstance(model.max_iter, str):
        check_choice("max_iter", integers.pop("max_iter"), ("auto",))
    if isinstance(model.interactions, str):
        check_choice("interactions", integers.pop("interactions"), ("auto",))
    if model.df == "auto":
        del numbers["df"]
    if model.n_basis is None:
        del integers["n_basis"]
    for name, value in integers.items():
        check_integer(name, value)
    for name, value in numbers.items():
        check_number(name, value)
    for name, allowed in ALLOWED.items():
        check_choice(name, getattr(model, name), allowed)
    for name, least in LEAST.items():
        check_least(name, integers.get(name, least), least)
    df = numbers.get("df", FIRST_DF)
    check_df(df, model.df_definition)
    check_degree(model.degree, functions_of(model, df))
    check_between("learning_rate", model.learning_rate, 0, math.inf)
    check_between("validation_fraction", model.validation_fraction, 0, 1)
    defaults = inspect.signature(type(model).__init__).parameters
    for name in () if model.learners is None else SPLINE:
        if getattr(model, name) != defaults[name].default:
            raise ValueError(
                f"{name} must be left out if learners are given, such as "
                f"bbs('x', df=3), got {getattr(model, name)!r}"
            )
    by_blocks = model.method not in ("auto", "stacked")
    if not (model.callback is None or callable(model.callback)):
        raise TypeError(f"callback must be a function, got {model.callback!r}")
    if model.callback is not None and (model.early_stopping or by_blocks):
        raise ValueError(
            "callback must be None with early_stopping and with method 'gram', got "
            f"{model.callback!r}"
        )
    if model.interactions and by_blocks:
        raise ValueError(
            f"interactions must be 0 with method 'gram', got {model.interactions}"
        )
    if model.interactions == "auto" and (
        model.max_iter != "auto" or model.early_stopping
    ):
        raise ValueError(
            "interactions must be a number unless max_iter='auto', whose folds choose "
            f"the number of pairs, got {model.interactions!r}"
        )
    if model.warm_start and (model.early_stopping or model.max_iter == "auto"):
        raise ValueError(
            "warm_start must be False with early_stopping or max_iter='auto', which "
            "find the last iteration themselves"
        )


def spline_options(
    *,
    n_basis: int | None = None,
    degree: int = 3,
    penalty: str | None = "difference",
    penalty_order: int = 2,
    df: float = 4,
) -> dict[str, Any]:
    """The arguments of `bbs` for parameters of `BoostedGAM`."""
    check_choice("penalty", penalty, PENALTIES)
    options = penalty_options(penalty, penalty_order, df)
    if n_basis is not None:
        check_degree(degree, n_basis)
        options["knots"] = n_basis - 1 - (0 if options["cyclic"] else degree)
    return options | {"degree": degree}


def functions_of(model: Any, df: float) -> int:
    """The number of functions of a default spline."""
    if model.n_basis is not None:
        return int(model.n_basis)
    return max(FEWEST_FUNCTIONS, math.ceil(FUNCTIONS_PER_DF * df))


class Plan(NamedTuple):
    """What the default learners of numeric features are.

    Attributes
    ----------
    df : float
        The degrees of freedom of a spline.
    full_range : bool
        Whether the knots are on the full range of the data instead of a robust range.
    scores : bool
        Whether the splines of skewed features are of normal scores.
    stumps : bool
        Whether each feature has a stump.
    splines : bool
        Whether each feature has a spline.
    """

    df: float
    full_range: bool = False
    scores: bool = False
    stumps: bool = False
    splines: bool = True


Plans: TypeAlias = Generator[tuple[Plan, Kind], Verdict | None, Plan]
"""Plans that are tried, and how each differs from the best before."""


def plans(model: Any, rows: float) -> Plans:
    """The plans that df="auto" tries, in turn; each gets a verdict. Returns the best.

    First the range and the scores of skewed features, then more degrees of freedom,
    then stumps next to splines of few and of the best degrees of freedom. Where the
    most degrees of freedom are the best, effects may have many jumps: stumps alone are
    then tried, too.
    """
    best = Plan(FIRST_DF if model.df == "auto" else model.df)
    yield best, ALIKE
    if model.learners is not None or model.df != "auto" or model.penalty is None:
        return best
    kind = ALIKE if rows >= MANY_ROWS else RICHER
    if model.outside == "clamp" and model.penalty != "cyclic" and rows >= SOME_ROWS:
        for change in ({"full_range": True}, {"scores": True}):
            if (yield best._replace(**change), kind) is Verdict.BETTER:
                best = best._replace(**change)
    simple = best._replace(stumps=True)
    best = yield from doubled(best, model, rows)
    if rows < MANY_ROWS:
        return best
    if 2 * best.df > MOST_DF:
        for other in (simple._replace(splines=False), simple):
            if (yield other, SLOWER) is Verdict.BETTER:
                best = other
        if best.stumps:
            return best
    elif (yield simple, OTHER) is Verdict.BETTER:
        return (yield from doubled(simple, model, rows))
    if (yield best._replace(stumps=True), OTHER) is Verdict.BETTER:
        return best._replace(stumps=True)
    return best


def doubled(best: Plan, model: Any, rows: float) -> Plans:
    """Twice the degrees of freedom, until losses are higher or twice not lower."""
    in_doubt, df = False, 2 * best.df
    while df <= min(MOST_DF, rows / ROWS_PER_DF) and 2 * df <= functions_of(model, df):
        other, df = best._replace(df=df), 2 * df
        verdict = yield other, RICHER
        if verdict is Verdict.BETTER:
            best, in_doubt = other, False
        elif in_doubt or verdict is Verdict.WORSE:
            break
        else:
            in_doubt = True
    return best


def default_terms(model: Any, frame: Frame, plan: Plan) -> list[Term]:
    """A spline, a stump or both of each numeric column, and the levels of each factor.

    More levels than the degrees of freedom of a spline are penalised to these: boosting
    would else prefer factors of many levels.
    """
    df = plan.df
    given = {name: getattr(model, name) for name in SPLINE}
    given |= {"df": df, "n_basis": functions_of(model, df)}
    options = spline_options(**given)
    is_robust = model.outside == "clamp" and not options["cyclic"]

    def spline_of(name: Name) -> Single:
        """The host reads the values of a column only if the plan needs them."""
        if plan.scores:
            begin, median, end = middle_rows(frame.values(name))
            near, far = sorted((median - begin, end - median))
            if far > SKEWED * near:
                return bbs(name, normal_scores=True, **options)
        if is_robust:
            values = frame.values(name) if plan.full_range else None
            if values is None or robust_range(values) == (values.lower, values.upper):
                return bbs(name, boundary=ROBUST, **options)
        return bbs(name, **options)

    def learners_of(name: Name) -> Iterator[Single]:
        if not frame.is_factor(name):
            if plan.splines:
                yield spline_of(name)
            if plan.stumps:
                yield btree(name)
        elif options["df"] is None or len(frame.factor(name).levels) <= options["df"]:
            yield bols(name)
        else:
            yield brandom(name, df=options["df"])

    terms = (term for name in frame.names for term in learners_of(name))
    return [replace(term, is_default=True) for term in terms]


def bind_learners(learners: Any) -> list[Term]:
    """The learners as a list of terms that know their covariates.

    Raises
    ------
    TypeError
        If they are not terms.
    ValueError
        For an empty list, a term without covariates or with others than its key, or two
        terms of the same name.
    """
    if isinstance(learners, Term):
        return [learners]
    if isinstance(learners, Formula):
        return list(learners.terms)
    if isinstance(learners, str) or not isinstance(learners, Iterable):
        raise TypeError(
            "learners must be a dict, a sequence or a term such as bbs('x'), got "
            f"{learners!r}"
        )
    if isinstance(learners, Mapping):
        terms = [
            check_term(term, key).with_covariates(
                names_of("a learner", key if isinstance(key, tuple) else (key,))
            )
            for key, term in learners.items()
        ]
    else:
        terms = [check_term(term, j) for j, term in enumerate(learners)]
    if not terms:
        raise ValueError("learners must have at least one learner, got none")
    for term in terms:
        if not term.covariates:
            raise ValueError(f"{term.label} must be given a column")
    for label, times in Counter(term.label for term in terms).items():
        if times > 1:
            raise ValueError(f"learners must be different, got {label} twice")
    return terms


def check_term(term: Any, key: Any) -> Term:
    """The term itself; TypeError for another object."""
    if not isinstance(term, Term):
        raise TypeError(
            f"learners must be terms such as bbs(), got {term!r} for {key!r}"
        )
    return term
