"""Warm starts: fits that continue the last one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import on_host
from .._stacked.batch import FittedBatch, Ready, Settings, Training
from .._stacked.stacked import Paths, advanced, boost_family
from ..boosting import RISK_TOLERANCE, Path


def continued(
    ready: Ready, settings: Settings, data: Training, before: list[Path], steps: int
) -> FittedBatch:
    """The fits with more steps, made from the end of their paths.

    Raises
    ------
    ValueError
        If the risk is not that at the end of the paths.
    """
    paths = join_paths(before)
    later = boost_family(
        ready.problem,
        settings.family,
        data.y,
        advanced(ready.problem, ready.start, paths.selected, paths.updates),
        learning_rate=settings.learning_rate,
        steps=steps,
        device=data.device,
    )
    check_continued(paths.risk, later.risk[:, 0])
    lambda_ = on_host(ready.problem.lambda_)
    return FittedBatch(ready.intercepts, lambda_, paths.followed_by(later))


def join_paths(paths: list[Path]) -> Paths:
    """The steps of several fits as arrays."""
    return Paths(
        np.stack([path.selected for path in paths]),
        np.stack([path.updates for path in paths]),
        np.stack([path.risk for path in paths]),
        None,
        np.stack([nuisance_of(path) for path in paths]),
    )


def nuisance_of(path: Path) -> NDArray[np.float64]:
    """The adaptive parameters of a path; zeros if it has none."""
    return np.zeros(len(path) + 1) if path.nuisance is None else path.nuisance


def check_continued(before: NDArray[np.float64], risk: NDArray[np.float64]) -> None:
    """ValueError unless the steps begin with the risk at the end of the last ones."""
    last = before[:, -1]
    scale = np.abs(before).max(axis=1)
    if (np.abs(risk - last) > RISK_TOLERANCE * scale).any():
        raise ValueError(
            "a warm start needs the data of its path: the risk must be "
            f"{last}, as at the end of the path, got {risk}"
        )
