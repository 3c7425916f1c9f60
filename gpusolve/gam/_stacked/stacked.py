"""Componentwise boosting for any family, of learners of any kind, in several fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from ..._device.kernels import Device
from ..families import Family
from . import stacked_cpu, stacked_kernel
from .problem import PreparedLearners


@dataclass(frozen=True)
class Paths:
    """The steps of F fits, as arrays on the host.

    Attributes
    ----------
    selected : (F, steps) int32 array
        The learner that each step selected.
    updates : (F, steps, k) float64 array
        The change of the coefficients of that learner's functions, padded with zeros.
    risk : (F, steps + 1) float64 array
        The weighted sum of losses before the first step and after each.
    out_of_bag : (F, steps + 1) float64 array or None
        The same for the out-of-bag weights.
    nuisance : (F, steps + 1) float64 array
        The adaptive parameter of the family; 0 if it has none.
    """

    selected: NDArray[np.int32]
    updates: NDArray[np.float64]
    risk: NDArray[np.float64]
    out_of_bag: NDArray[np.float64] | None
    nuisance: NDArray[np.float64]

    def until(self, step: int) -> Paths:
        """The first steps."""
        second = self.out_of_bag
        return Paths(
            self.selected[:, :step],
            self.updates[:, :step],
            self.risk[:, : step + 1],
            None if second is None else second[:, : step + 1],
            self.nuisance[:, : step + 1],
        )

    def followed_by(self, later: Paths) -> Paths:
        """The steps with those of `later` appended, which continue them."""
        second = self.out_of_bag
        if second is not None and later.out_of_bag is not None:
            second = np.concatenate([second, later.out_of_bag[:, 1:]], axis=1)
        return Paths(
            np.concatenate([self.selected, later.selected], axis=1),
            np.concatenate([self.updates, later.updates], axis=1),
            np.concatenate([self.risk, later.risk[:, 1:]], axis=1),
            second,
            np.concatenate([self.nuisance, later.nuisance[:, 1:]], axis=1),
        )


def summed_updates(paths: Paths, learners: int) -> NDArray[np.float64]:
    """The coefficients of the functions at the end of each fit, (F, learners, k)."""
    fits, _, k = paths.updates.shape
    coef = np.zeros((fits, learners, k))
    np.add.at(coef, (np.arange(fits)[:, None], paths.selected), paths.updates)
    return coef


def advanced(
    problem: PreparedLearners,
    start: Array,
    selected: NDArray[np.int32],
    updates: NDArray[np.float64],
) -> Array:
    """The models after some steps, (F, n), from those before the first one.

    Parameters
    ----------
    start : (F, 1) or (F, n) array
    selected : (F, steps) array
    updates : (F, steps, k) array
    """
    xp = namespace(start)
    f = xp.zeros((problem.fits, len(problem.rows[0]))) + start
    for fit in range(problem.fits):
        for learner in np.unique(selected[fit]).tolist():
            coef = updates[fit][selected[fit] == learner].sum(axis=0)
            design = problem.rows[learner]
            f[fit] += design.multiply(xp.asarray(coef[: design.functions]))
    return f


def check_fits(problem: PreparedLearners, device: Device) -> None:
    """ValueError if a learner has too many functions for the device."""
    found = stacked_kernel.first_too_large(problem, device)
    if found is not None:
        raise ValueError(
            f"{problem.terms[found].label} must have fewer functions or inequalities "
            f"on this device, got {problem.rows[found].functions} functions"
        )


def boost_family(
    problem: PreparedLearners,
    family: Family,
    y: Array,
    start: Array,
    *,
    learning_rate: float = 0.1,
    steps: int = 100,
    out_of_bag: Array | None = None,
    device: Device | None = None,
) -> Paths:
    """Boost: in each step, fit all learners to the gradient and follow the best.

    Parameters
    ----------
    problem : PreparedLearners
        K learners, prepared for F fits with n rows.
    family : Family
    y : (n,) or (F, n) float64 array
        The response.
    start : (F, 1) or (F, n) float64 array
        The model before the first step.
    learning_rate : float
    steps : int
    out_of_bag : (F, n) array, optional
        Weights of the rows for a second risk.
    device : Device, optional
        The current device, where the arrays are; None for the host.

    Returns
    -------
    Paths

    Raises
    ------
    ValueError
        If a learner has too many functions for the device, or a risk becomes infinite.

    Notes
    -----
    With the nuisance parameter s of the family at the model f, a step fits all learners
    to ``family.gradient(y, f, s)``, and selects the first one with the least
    unpenalised sum of squares. The risk is ``sum w family.loss(y, f, s)``, with s at
    the same f. All sums are in float64.
    """
    given = problem, family, y, start, learning_rate, steps, out_of_bag
    if device is None:
        made = stacked_cpu.boost(*given)
    else:
        check_fits(problem, device)
        made = stacked_kernel.boost(*given, device=device)
    selected, updates, risk, second, nuisance = made
    family.check_risk(risk)
    return Paths(
        on_host(selected),
        on_host(updates),
        on_host(risk),
        None if second is None else on_host(second),
        on_host(nuisance),
    )
