"""Componentwise boosting for any family, of learners of any kind, in several fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._device.arrays import Array, namespace, on_host
from ..._device.kernels import Device
from ..._device.threads import one_blas_thread
from ..families import Family
from . import boosting_kernel, stacked_cpu, stacked_kernel
from .methods import resolved
from .path import Path, Steps
from .problem import PreparedLearners

RISK_TOLERANCE = 1e-6
"""Relative difference between two risks up to which they are considered equal."""


def advanced(
    problem: PreparedLearners,
    start: Array,
    path: Path,
) -> Array:
    """The models after some steps, (F, n), from those before the first one.

    Parameters
    ----------
    start : (F, 1) or (F, n) array
    path : Path
        The steps of all fits.
    """
    xp = namespace(start)
    f = xp.zeros((problem.fits, len(problem.rows[0]))) + start
    for fit, selected in enumerate(path.selected):
        for learner in np.unique(selected).tolist():
            coef = path.updates[fit][selected == learner].sum(axis=0)
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
    method: str = "stacked",
    gemv_variant: str = "auto",
) -> Path:
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
    method : {"stacked", "gram", "direct", "auto"}
        How the steps are made; see `resolved`.
    gemv_variant : str
        For "direct".

    Returns
    -------
    Path
        Of all fits, with the offset 0.

    Raises
    ------
    ValueError
        If a learner has too many functions for the device, if the method is for other
        problems, or if a risk becomes infinite.

    Notes
    -----
    With the nuisance parameter s of the family at the model f, a step fits all learners
    to ``family.gradient(y, f, s)``, and selects the first one with the least
    unpenalised sum of squares. The risk is ``sum w family.loss(y, f, s)``, with s at
    the same f. All sums are in float64.
    """
    method = resolved(
        method, problem, family, steps, device, has_second=out_of_bag is not None
    )
    if method == "direct":
        made = direct_steps(problem, y - start[0], learning_rate, steps, gemv_variant)
    elif device is None:
        made = stacked_cpu.boost(
            problem, family, y, start, learning_rate, steps, out_of_bag, method
        )
    elif method == "gram":
        u = y - start[0]
        made = boosting_kernel.boost(problem, u, learning_rate, steps, device)
    else:
        check_fits(problem, device)
        made = stacked_kernel.boost(
            problem, family, y, start, learning_rate, steps, out_of_bag, device=device
        )
    found: dict[str, Any] = made._asdict()
    for name, array in found.items():
        found[name] = None if array is None else on_host(array)
    family.check_risk(found["risk"])
    return Path(0.0, method=method, **found)


def direct_steps(
    problem: PreparedLearners,
    residual: Array,
    learning_rate: float,
    steps: int,
    gemv_variant: str,
) -> Steps:
    """The steps of one fit to a residual, (n,), by products of dense matrices."""
    from ...studies import _boosting_direct as direct

    assert problem.basis is not None
    xp = namespace(residual)
    X = problem.basis.dense(problem.functions).astype(np.float64, copy=False)
    inverse = xp.concatenate(problem.inverse)
    w = None if problem.weights is None else problem.weights[0]
    with one_blas_thread():
        made = direct.boost(X, inverse, w, residual, learning_rate, steps, gemv_variant)
    return Steps(*(one[None] for one in made))


def check_continued(before: Path, later: Path) -> None:
    """ValueError unless the steps begin with the risk at the end of the last ones."""
    last, risk = before.risk[..., -1], later.risk[..., 0]
    if (np.abs(risk - last) > RISK_TOLERANCE * np.abs(before.risk).max(axis=-1)).any():
        raise ValueError(
            "a warm start needs the data of its path: the risk must be "
            f"{last}, as at the end of the path, got {risk}"
        )
