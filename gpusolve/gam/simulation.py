"""The simulation of the paper: 20 of 100 covariates have an effect, a sine each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

COVARIATES, ACTIVE = 100, 20

INTERCEPT, AMPLITUDE, VARIANCE = 7.0, 10.0, 1e-3


class Simulation(NamedTuple):
    """Simulated data and the indices of the active covariates.

    Attributes
    ----------
    X : (n, 100) array
        Uniform in [0, 1).
    y : (n,) array
        ``7 + sum_j 10 sin(2 pi x_j)`` over the active j, plus noise of variance 0.001.
    active : (20,) array
        The indices of the active covariates, ascending.

    See Also
    --------
    simulate

    Examples
    --------
    >>> from gpusolve.gam import simulate
    >>> data = simulate(1000)
    >>> data.X.shape, data.y.shape, data.active.shape
    ((1000, 100), (1000,), (20,))
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    active: NDArray[np.int64]


def simulate(n: int, seed: int | None = None) -> Simulation:
    """Draw n observations.

    Parameters
    ----------
    n : int
        Number of observations.
    seed : int, optional
        ``20230407 + n`` by default.

    See Also
    --------
    Simulation

    References
    ----------
    A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models with GPU
    Acceleration", 2023, section 4.1.

    Examples
    --------
    >>> X, y, active = simulate(1000)
    >>> X.shape, active[:4]
    ((1000, 100), array([0, 4, 6, 8]))
    """
    rng = np.random.default_rng(20230407 + n if seed is None else seed)
    X = rng.random((n, COVARIATES))
    active = np.sort(rng.choice(COVARIATES, ACTIVE, replace=False))
    mean = INTERCEPT + (AMPLITUDE * np.sin(2 * np.pi * X[:, active])).sum(axis=1)
    return Simulation(X, mean + np.sqrt(VARIANCE) * rng.standard_normal(n), active)
