"""Other additive models and boosted trees, as estimators of a family.

A package is imported when its estimator is made. Everything not given has the package's
default.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def predicted(model: Any, X: Any) -> Any:
    """The predicted means: of a classifier, the probabilities of 1."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)[:, 1]
    return model.predict(X)


def trees(family: str, **options: Any) -> Any:
    """The boosted trees of scikit-learn."""
    from sklearn import ensemble

    if family == "binomial":
        return ensemble.HistGradientBoostingClassifier(**options)
    loss = {"gaussian": "squared_error"}.get(family, family)
    return ensemble.HistGradientBoostingRegressor(loss=loss, **options)


def splines_and_ridge(family: str) -> Any:
    """20 cubic splines for each number, indicators of levels, and a ridge by folds."""
    from sklearn import linear_model
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, SplineTransformer

    factors = make_column_selector(dtype_include="category")
    numbers = make_column_selector(dtype_exclude="category")
    columns = make_column_transformer(
        (SplineTransformer(n_knots=20), numbers),
        (OneHotEncoder(handle_unknown="ignore"), factors),
        sparse_threshold=0,
    )
    grid = np.logspace(-5, 3, 17)
    if family == "gaussian":
        return make_pipeline(columns, linear_model.RidgeCV(grid))
    if family == "binomial":
        logistic = linear_model.LogisticRegressionCV(
            Cs=1 / grid[::2], scoring="neg_log_loss", max_iter=1000
        )
        return make_pipeline(columns, logistic)
    name = f"{family}regressor"
    kind = {
        "poisson": linear_model.PoissonRegressor,
        "gamma": linear_model.GammaRegressor,
    }[family]
    glm = make_pipeline(columns, kind(max_iter=1000, solver="newton-cholesky"))
    scoring = f"neg_mean_{family}_deviance"
    return GridSearchCV(glm, {f"{name}__alpha": grid[:-3:2]}, scoring=scoring)


def ebm(family: str, **options: Any) -> Any:
    """An explainable boosting machine, with fewer outer bags, as it is slow."""
    from interpret import glassbox

    options = {"outer_bags": 4, "n_jobs": 1, "random_state": 0, **options}
    if family == "binomial":
        return glassbox.ExplainableBoostingClassifier(**options)
    objective = {"gaussian": "rmse"}.get(family, f"{family}_deviance")
    return glassbox.ExplainableBoostingRegressor(objective=objective, **options)


class PyGAM:
    """A model of pyGAM with a term for each column, `f` for factors."""

    def __init__(self, family: str, search: bool = False) -> None:
        self.family, self.search = family, search

    def fit(self, X: Any, y: Any) -> PyGAM:
        import pygam

        kinds = {
            "gaussian": pygam.LinearGAM,
            "poisson": pygam.PoissonGAM,
            "gamma": pygam.GammaGAM,
            "binomial": pygam.LogisticGAM,
        }
        terms = pygam.terms.TermList()
        for k, (_, column) in enumerate(X.items()):
            terms += pygam.f(k) if is_factor(column) else pygam.s(k)
        self.model = kinds[self.family](terms)
        if self.search:
            self.model.gridsearch(codes(X), y, progress=False)
        else:
            self.model.fit(codes(X), y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict_mu(codes(X))


def codes(X: Any) -> Any:
    """A matrix of numbers, with the codes of categories."""
    columns = [c.cat.codes if is_factor(c) else c for _, c in X.items()]
    return np.column_stack(columns).astype(float)


def is_factor(column: Any) -> bool:
    return str(column.dtype) == "category"
