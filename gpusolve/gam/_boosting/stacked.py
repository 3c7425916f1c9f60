"""Componentwise boosting for any family, of learners of any kind, in several fits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._device.arrays import on_host
from ..._device.kernels import Device, device_of
from . import stacked_cpu, stacked_kernel
from .batch import Fits
from .methods import resolve_method
from .path import Path
from .problem import PreparedLearners
from .watch import UNWATCHED, Watch

PIECE = 50
"""The fewest steps between two looks at the path, for which the host waits."""

RISK_TOLERANCE = 1e-6
"""Relative difference between two risks up to which they are considered equal. A warm
start on another device, or with another method, has other rounding errors."""


def boost_family(
    fits: Fits,
    steps: int = 100,
    *,
    before: Path | None = None,
    method: str = "stacked",
    watch: Watch = UNWATCHED,
) -> Path:
    """Boost: in each step, fit all learners to the gradient and follow the best.

    Parameters
    ----------
    fits : Fits
        On the current device.
    steps : int
        The number of new steps.
    before : Path, optional
        The steps that the fits have made; the new steps are appended.
    method : {"stacked", "gram", "auto"}
        How the steps are made; see `resolve_method`.
    watch : Watch, optional
        A callback, for "stacked", a progress bar, and whether an interrupt is an error.

    Returns
    -------
    Path
        Of all fits; shorter if the callback or an interrupt ended the steps.

    Raises
    ------
    ValueError
        If a learner has too many functions for the device, if the method is for other
        problems, if a risk becomes infinite, or if the risk is not the risk at the end
        of `before`.

    Notes
    -----
    With the nuisance parameter s of the family at the model f, a step fits all learners
    to ``family.gradient(y, f, s)``, and selects the first learner with the least
    unpenalised sum of squares. The risk is ``sum w family.loss(y, f, s)``, with s at
    the same f. All sums are in float64.
    """
    device = device_of(fits.y)
    if before is not None:
        fits, watch = fits.after(before), watch._replace(first=len(before))
    method = resolve_method(method, fits, steps, device)
    if device is None:
        made = stacked_cpu.boost(fits, steps, method, watch)
    else:
        check_size(fits.problem, device)
        made = stacked_kernel.boost(fits, steps, device, watch)
    made = made._mapped(lambda _, array: on_host(array))
    fits.family.check_risk(made.risk)
    if before is None:
        return made
    check_continued(before, made)
    return before.followed_by(made)


def boost_in_pieces(fits: Fits, steps: int, method: str = "stacked") -> Iterator[Path]:
    """The path of `boost_family` as it grows: the host looks at it between pieces.

    A piece has `PIECE` steps, or a quarter of the steps before it if these are more.
    """
    found = boost_family(fits, min(steps, PIECE), method=method)
    rest = fits.after(found)
    yield found
    while len(found) < steps:
        more = min(steps - len(found), max(PIECE, len(found) // 4))
        later = boost_family(rest, more, method=method)
        rest, found = rest.after(later), found.followed_by(later)
        yield found


def check_size(problem: PreparedLearners, device: Device) -> None:
    """ValueError if a learner has too many functions for the device."""
    found = stacked_kernel.first_too_large(problem, device)
    if found is not None:
        raise ValueError(
            f"{problem.terms[found].label} must have fewer functions or inequalities "
            f"on this device, got {problem.rows[found].functions} functions"
        )


def check_continued(before: Path, later: Path) -> None:
    """ValueError unless the later steps begin with the last risk of the path."""
    last, risk = before.risk[..., -1], later.risk[..., 0]
    if (np.abs(risk - last) > RISK_TOLERANCE * np.abs(before.risk).max(axis=-1)).any():
        raise ValueError(
            "a warm start needs the data of its path: the risk must be "
            f"{last}, as at the end of the path, got {risk}"
        )
