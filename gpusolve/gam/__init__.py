"""Generalised additive models, fitted by componentwise boosting.

`BoostedGAM` is the estimator. Its parts can be used separately: `BSplines` evaluates
the bases, `make_learners` prepares the penalised fits, `boost` makes the steps.
"""

from .basis import BSplines, CompactBasis
from .boosting import Path, boost
from .estimator import BoostedGAM
from .learners import Learners, make_learners
from .penalty import penalty_matrix
from .simulation import Simulation, simulate
from .store import load, save

__all__ = [
    "BSplines",
    "BoostedGAM",
    "CompactBasis",
    "Learners",
    "Path",
    "Simulation",
    "boost",
    "load",
    "make_learners",
    "penalty_matrix",
    "save",
    "simulate",
]

# A pickle stores the module of a class by name. With the public name, a fitted model
# can still be loaded after a class has moved to another file.
for _public in (BSplines, BoostedGAM, CompactBasis, Learners, Path, Simulation):
    _public.__module__ = __name__
