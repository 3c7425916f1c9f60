"""Fits with different weights as tasks of a Dask client, a task for each fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.kernels import current
from ..._device.threads import part_of_batch
from .batch import Settings, Training

Fit = Callable[[Training, Settings, Any, int], NDArray[Any]]
"""Fits some weights for a number of steps; the result has a row for each fit."""


def fit_tasks(
    client: Any,
    fit: Fit,
    data: Training,
    settings: Settings,
    parts: Iterable[Any],
    steps: int,
) -> NDArray[Any]:
    """The results for all parts of the weights; the data are sent to a worker once.

    Parameters
    ----------
    client : distributed.Client
    parts : iterable
        The weights of each task, as `fit` takes them.
    """
    (shared,) = client.scatter([(fit, data, settings, steps)], broadcast=True)
    futures = client.map(fit_task, list(parts), shared=shared, pure=False)
    return np.concatenate(client.gather(futures))


def fit_task(part: Any, shared: tuple[Fit, Training, Settings, int]) -> NDArray[Any]:
    """Fit on a single core, or on the worker's own GPU."""
    fit, data, settings, steps = shared
    with part_of_batch(cores=1), current(data.device):
        return fit(data, settings, part, steps)
