"""Generalised additive models, fitted by componentwise boosting.

`BoostedGAM`, `BoostedGAMClassifier` and `BoostedDistribution` are the estimators,
`bbs`, `bols`, `brandom`, `bspatial`, `bmono`, `bmrf`, `brad`, `bkernel`, `btree` and
`buser` their learners; `families` and `distributions` have their losses. `BSplines`
evaluates bases, and `penalty_matrix` has their penalties.
"""

from . import distributions, families
from ._boosting.path import Path
from ._model.insight import Explanation
from ._model.store import load, save
from ._terms.basis import BSplines, CompactBasis, penalty_matrix
from .aic import Criterion, aic_stop
from .classifier import BoostedGAMClassifier
from .cv import CrossValidation, EffectBootstrap, bootstrap_effects, cv_stop
from .diagnostics import (
    plot_calibration,
    plot_path,
    plot_residuals,
    quantile_residuals,
)
from .distribution import BoostedDistribution
from .estimator import BoostedGAM
from .families import concordance, survival_times
from .from_formula import gamboost, glmboost
from .simulation import Simulation, simulate
from .stability import StabilitySelection, stability_selection
from .terms import (
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
)  # fmt: skip

__all__ = [
    "BSplines",
    "BoostedDistribution",
    "BoostedGAM",
    "BoostedGAMClassifier",
    "CompactBasis",
    "Criterion",
    "CrossValidation",
    "EffectBootstrap",
    "Explanation",
    "Path",
    "Simulation",
    "StabilitySelection",
    "aic_stop",
    "bbs",
    "bkernel",
    "bmono",
    "bmrf",
    "bols",
    "bootstrap_effects",
    "brad",
    "brandom",
    "bspatial",
    "btree",
    "buser",
    "concordance",
    "cv_stop",
    "distributions",
    "families",
    "gamboost",
    "glmboost",
    "load",
    "penalty_matrix",
    "plot_calibration",
    "plot_path",
    "plot_residuals",
    "quantile_residuals",
    "save",
    "simulate",
    "stability_selection",
    "survival_times",
]

# A pickle stores the module of a class by name. With the public name, a fitted model
# can still be loaded after a class has moved to another file.
for _public in (
    BSplines, BoostedDistribution, BoostedGAM, BoostedGAMClassifier, CompactBasis,
    Criterion, CrossValidation, EffectBootstrap, Explanation, Path, Simulation,
    StabilitySelection,
):  # fmt: skip
    _public.__module__ = __name__
