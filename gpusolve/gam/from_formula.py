"""Models from formulas, as mboost's function of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast, overload

from ._families.classes import ClassFamily
from ._model.formula import (
    Formula,
    LearnerReader,
    LineReader,
    check_arguments,
    read_formula,
)
from ._model.specification import SPLINE, spline_options
from .classifier import BoostedGAMClassifier
from .estimator import BoostedGAM
from .families import ClassName, Family, OtherName, family_of

if TYPE_CHECKING:
    from patsy import EvalEnvironment

MBOOST: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_iter": 100,
    "outside": "linear",
    "step_rule": "mboost",
}
"""mboost's defaults that differ from the estimators'."""


class FromFormula(Protocol):
    """A function of a formula: the type of the result depends on the family."""

    @overload
    def __call__(
        self,
        formula: str,
        data: Any,
        *,
        family: ClassName | ClassFamily,
        **options: Any,
    ) -> BoostedGAMClassifier: ...
    @overload
    def __call__(
        self, formula: str, data: Any, *, family: OtherName = "gaussian", **options: Any
    ) -> BoostedGAM: ...
    @overload
    def __call__(
        self, formula: str, data: Any, *, family: Family, **options: Any
    ) -> BoostedGAM | BoostedGAMClassifier: ...


def typed_by_family(function: Any) -> FromFormula:
    """The function itself."""
    return cast("FromFormula", function)


@typed_by_family
def gamboost(
    formula: str,
    data: Any,
    *,
    family: str | Family = "gaussian",
    baselearner: str = "bbs",
    sample_weight: Any = None,
    eval_env: int | EvalEnvironment = 0,
    **parameters: Any,
) -> BoostedGAM | BoostedGAMClassifier:
    """Fit a boosted additive model that is given by a formula.

    Parameters
    ----------
    formula : str
        As ``"y ~ bbs(age) + bols(sex) + bspatial(lon, lat) + offset(log(t))"``: the
        response, and learners with the arguments of `bbs`, `bmono`, `bols`, `brandom`,
        `bspatial` and `buser`.
    data : data frame or mapping of columns
        A data frame of pandas, polars, pyarrow or another package with Arrow's
        protocol.
    family : str or Family, optional
        As for `BoostedGAM`.
    baselearner : {"bbs", "bols"}, optional
        What a numeric column without a learner becomes, as x in ``"y ~ x"``. Factors
        become `bols`.
    sample_weight : (n,) array_like, optional
        Not negative.
    eval_env : int or patsy.EvalEnvironment, optional
        Where names are found that are not columns: 0 is the caller of `gamboost`, 1 its
        caller, and so on.
    **parameters
        Other parameters of `BoostedGAM`, such as `max_iter`. Of these, `n_basis`,
        `degree`, `penalty`, `penalty_order` and `df` are for the splines of numeric
        columns without a learner; without such a column they are an error.

    Returns
    -------
    BoostedGAM or BoostedGAMClassifier
        A classifier if the family is of classes: "binomial", "multinomial" or
        "prop_odds". Its methods take data with the columns of the formula, and compute
        transformations and offsets from them.
        ``formula_`` is the formula. `fit` takes such data, too, and needs no y; so a
        clone can be fitted to them.

    Raises
    ------
    TypeError, ValueError
        If the formula is not valid, or the data or a parameter do not fit.

    See Also
    --------
    glmboost, BoostedGAM

    Notes
    -----
    Formulas are as patsy reads them [1]_. A sum of learners and columns may have
    thousands of summands:

    - ``a:b`` is the row-wise Kronecker product of two learners, ``a*b`` is
      ``a + b + a:b``. Inside ``I(...)`` the operators combine learners: ``I(a*b)`` is
      the product alone, ``I(a + b)`` one learner with the columns of both.
    - ``bbs(log(x))``: columns are Python expressions. They may use the caller's names,
      ``np``, the common functions of NumPy (log, exp, sqrt, ..), and patsy's functions.
      What ``center(x)`` or ``standardize(x)`` learned is kept for predictions. ``C(x)``
      is a factor, ``Q("a name")`` a column whose name is not a Python name. Columns
      named like a keyword of Python need no Q where they stand alone, as in
      ``bbs(class)``.
    - A column is one number per row: ``bs(x, df=9)`` is a matrix, and an error. A
      learner of its functions, and of the first function, which patsy leaves out, is
      ``bbs(x, knots=6, knots_at="quantiles", end_knots="repeated")``.
    - Other arguments of learners are values: the caller's, not columns.
    - ``.`` stands for all columns that the formula does not mention otherwise.
    - Several offsets are added. As in mboost, the iterations start at their sum,
      without a constant, and their steps are not scaled. ``step_rule="scaled"`` adds
      the best constant, and scales the steps; see `BoostedGAM`.

    References
    ----------
    .. [1] N. J. Smith et al., "patsy: Describing statistical models in Python using
           symbolic formulas", https://patsy.readthedocs.io.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import gamboost
    >>> rng = np.random.default_rng(0)
    >>> data = {"x": rng.random(500), "g": rng.choice(["a", "b"], 500)}
    >>> data["t"] = rng.uniform(1, 9, 500)
    >>> rate = np.exp(np.sin(6 * data["x"]) + (data["g"] == "b"))
    >>> data["y"] = rng.poisson(data["t"] * rate)
    >>> model = gamboost("y ~ bbs(x) + g + offset(log(t))", data, family="poisson")
    >>> model.names_
    ['bbs(x)', 'bols(g)']
    >>> model.predict({"x": [0.25, 0.25], "g": ["a", "b"], "t": [1, 2]}).round()
    array([ 3., 15.])
    """
    import patsy

    env = patsy.EvalEnvironment.capture(eval_env, reference=1)
    given = {name: parameters.pop(name) for name in SPLINE if name in parameters}
    options = spline_options(**given) if given else {}
    reader = {"baselearner": baselearner, "options": options}
    read = read_formula(formula, data, env, LearnerReader, **reader)
    return fit_formula(read, data, family, sample_weight, parameters)


@typed_by_family
def glmboost(
    formula: str,
    data: Any,
    *,
    family: str | Family = "gaussian",
    center: bool = True,
    sample_weight: Any = None,
    eval_env: int | EvalEnvironment = 0,
    **parameters: Any,
) -> BoostedGAM | BoostedGAMClassifier:
    """Fit a boosted linear model that is given by a formula.

    Each column of the model matrix is a learner of its own: ones, the numeric columns,
    and an indicator of each level of a factor but the first. An iteration changes one
    coefficient. This is mboost's function of the same name.

    Parameters
    ----------
    formula : str
        As ``"y ~ age + log(income) + sex + offset(log(t))"``: the response, and columns
        as for `gamboost`, but no learners. ``"y ~ ."`` has all columns.
    data : data frame or mapping of columns
    family : str or Family, optional
        As for `BoostedGAM`.
    center : bool, optional
        Whether the mean is subtracted from each column but the ones.
    sample_weight, eval_env, **parameters
        As for `gamboost`.

    Returns
    -------
    BoostedGAM or BoostedGAMClassifier
        As of `gamboost`.

    Raises
    ------
    TypeError, ValueError
        If the formula is not valid, or the data or a parameter do not fit.

    See Also
    --------
    gamboost, BoostedGAM

    Notes
    -----
    For squared errors, an iteration costs as many operations as there are columns: the
    products of the columns with the gradient are updated (``method="gram"``).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import glmboost
    >>> rng = np.random.default_rng(0)
    >>> data = {f"x{j}": rng.standard_normal(200) for j in range(50)}
    >>> data["y"] = 3 * data["x1"] - 2 * data["x7"]
    >>> model = glmboost("y ~ .", data, max_iter=500)
    >>> coef = model.coefficients_[:, 0]
    >>> [model.names_[j] for j in np.flatnonzero(abs(coef) > 0.1)]
    ['bols(center(x1), intercept=False)', 'bols(center(x7), intercept=False)']
    >>> coef[[2, 8]].round(6)
    array([ 3., -2.])
    """
    import patsy

    env = patsy.EvalEnvironment.capture(eval_env, reference=1)
    read = read_formula(formula, data, env, LineReader, center=center)
    return fit_formula(read, data, family, sample_weight, parameters)


def fit_formula(
    read: Formula,
    data: Any,
    family: str | Family,
    sample_weight: Any,
    parameters: dict[str, Any],
) -> BoostedGAM | BoostedGAMClassifier:
    """The model of a formula that was read with the data."""
    check_arguments(parameters)
    has_classes = isinstance(family_of(family), ClassFamily)
    kind = BoostedGAMClassifier if has_classes else BoostedGAM
    model = kind(read, family=family, **MBOOST | parameters)
    return model.fit(data, sample_weight=sample_weight)
