"""Generalised additive models, fitted by componentwise boosting.

`BoostedGAM` is the estimator. The parts that it is made of can be used by themselves:
`BSplines` make the bases, `make_learners` the penalised fits, `boost` the path.
"""

from .basis import BSplines, CompactBasis
from .boosting import Path, boost
from .estimator import BoostedGAM
from .learners import Learners, make_learners
from .penalty import penalty_matrix
from .simulation import Simulation, simulate

__all__ = [
    "BSplines",
    "BoostedGAM",
    "CompactBasis",
    "Learners",
    "Path",
    "Simulation",
    "boost",
    "make_learners",
    "penalty_matrix",
    "simulate",
]
