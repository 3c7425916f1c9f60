"""Learners of splines with the same knots, and their paths, without an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusolve._device.arrays import namespace
from gpusolve._device.kernels import current_device
from gpusolve.gam import BSplines, CompactBasis, Path
from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.path import join_paths
from gpusolve.gam._boosting.problem import (
    PreparedLearners,
    designs_of_basis,
    prepare,
)
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._families.numerics import weighted_mean
from gpusolve.gam._terms.spline import Spline, penalty_options
from gpusolve.gam.families import Gaussian


@dataclass(frozen=True)
class SplineLearners:
    """K splines of k functions, prepared for a fit."""

    basis: CompactBasis
    problem: PreparedLearners

    @property
    def gram(self) -> Any:
        return np.concatenate(self.problem.gram)

    @property
    def inverse(self) -> Any:
        return np.concatenate(self.problem.inverse)

    @property
    def lambda_(self) -> Any:
        return self.problem.lambda_[0]

    @property
    def weights(self) -> Any:
        return None if self.problem.weights is None else self.problem.weights[0]

    def dense(self) -> Any:
        """The design matrices, (K, n, k) of float64."""
        return self.basis.dense(self.problem.functions).astype(np.float64)


def prepared(
    basis: CompactBasis,
    n_basis: int,
    *,
    penalty: str | None = "difference",
    penalty_order: int = 2,
    df: float = 4.0,
    df_definition: str = "2S-SS",
    lambda_: Any = None,
    weights: Any = None,
) -> SplineLearners:
    """The learners of given bases, which a device computes from."""
    degree = basis.values.shape[-1] - 1
    term = Spline(
        covariates=(0,),
        degree=degree,
        ends=((0.0, 1.0),),
        interior=(n_basis - degree - 1,),
        **penalty_options(penalty, penalty_order, df),
    )
    with current_device(basis.values):
        designs = designs_of_basis([term] * len(basis.first), basis)
        options = {"lambda_": lambda_, "df_definition": df_definition}
        return SplineLearners(basis, prepare(designs, weights, **options))


def learners_of(
    X: Any, n_basis: int = 10, dtype: Any = np.float64, **options: Any
) -> SplineLearners:
    """`prepared` for the splines that span the columns of X."""
    basis = BSplines.spanning(X, n_basis).evaluate(X, dtype=dtype)
    return prepared(basis, n_basis, **options)


def boost(
    learners: SplineLearners,
    y: Any,
    *,
    learning_rate: float = 0.1,
    steps: int = 100,
    method: str = "auto",
    start: Path | None = None,
) -> Path:
    """The steps of a fit to squared errors, which starts at the mean of y."""
    with current_device(y):
        offset = start.offset if start else float(weighted_mean(y, learners.weights))
        fits = Fits(
            learners.problem,
            Gaussian(),
            y,
            start=namespace(y).full((1, 1), offset),
            learning_rate=learning_rate,
            offset=offset,
        )
        before = None if start is None else join_paths([start])
        return boost_family(fits, steps, before=before, method=method).each()[0]
