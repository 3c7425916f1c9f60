"""Waveforms of NASA's Land, Vegetation and Ice Sensor (LVIS), as systems for NNLS.

The paper's real data, section 7.1 of Luo & Duraiswami, are level-1B files of LVIS. NASA
ships them as HDF5 (LVIS data structures 1.04 and later; 1.05 for flights before 2010).
A file has one dataset for each quantity, and one row for each shot:

============ ================= ========================================================
TXWAVE       (shots, 80...128) the transmitted pulse, in counts
RXWAVE       (shots, 432...)   the waveform that returned, in counts
SIGMEAN      (shots,)          the mean of the noise of the waveform, in counts
============ ================= ========================================================

Until 2009 a waveform has 432 samples, as in the paper. Names may also be lower-case.
The structures: https://lvis.gsfc.nasa.gov/Data/DataStructure.html. Needs h5py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from gpusolve.studies.experiments import Systems, convolution_matrix

Floats = NDArray[np.float64]

AXES = {"TXWAVE": 2, "RXWAVE": 2, "SIGMEAN": 1}
"""The datasets that are read, and their numbers of axes."""

FOOT = 0.05
"""Where the pulse ends, relative to its height: below may be noise of the digitiser."""


class Shots(NamedTuple):
    """The first shots of a file, in counts.

    Attributes
    ----------
    sent : (shots, samples of a pulse) array
    returned : (shots, samples) array
    noise : (shots,) array
        The mean of the noise in `returned`.
    """

    sent: Floats
    returned: Floats
    noise: Floats


def read(path: Path, count: int) -> Shots:
    """Read the first `count` shots of a level-1B file.

    Raises
    ------
    ValueError
        If datasets are missing, their shapes do not match, or there are fewer shots.
    """
    with h5py.File(path) as file:
        datasets = {name.upper(): dataset for name, dataset in file.items()}
        check(datasets, count)
        return Shots(*(datasets[name][:count].astype(np.float64) for name in AXES))


def check(datasets: Mapping[str, Any], count: int) -> None:
    """Raise ValueError unless the datasets have at least `count` shots."""
    if not datasets.keys() >= AXES.keys():
        found = ", ".join(sorted(datasets)) or "none"
        raise ValueError(f"datasets must include {', '.join(AXES)}, got {found}")
    shapes = {name: datasets[name].shape for name in AXES}
    for name, axes in AXES.items():
        if len(shapes[name]) != axes:
            raise ValueError(f"{name} must have {axes} axes, got shape {shapes[name]}")
    shots = {shape[0] for shape in shapes.values()}
    if len(shots) > 1:
        raise ValueError(f"datasets must have the same shots, got shapes {shapes}")
    if count > min(shots):
        raise ValueError(f"count must be at most {min(shots)} shots, got {count}")


def pulse(sent: Floats) -> Floats:
    """The pulse in a transmitted waveform: of height 1, its peak in the middle.

    The baseline is the median, since the pulse is a small part of the samples. The
    pulse is what exceeds `FOOT` without a gap around the peak. Its shorter side is
    filled with zeros.

    Parameters
    ----------
    sent : (samples,) array

    Returns
    -------
    (odd width,) array
    """
    above = sent - np.median(sent)
    peak = int(np.argmax(above))
    if not above[peak] > 0:
        raise ValueError("TXWAVE must have a pulse in each shot, got a constant")
    low = np.flatnonzero(above <= FOOT * above[peak])
    first = low[low < peak].max(initial=-1) + 1
    last = low[low > peak].min(initial=len(above)) - 1
    reach = max(peak - first, last - peak)
    centred = np.zeros(2 * reach + 1)
    centred[reach + first - peak : reach + last - peak + 1] = above[first : last + 1]
    return np.asarray(centred / above[peak])


def systems(shots: Shots) -> Systems:
    """Deconvolution with the pulse of each shot, of the waveform without mean noise.

    Returns
    -------
    A : (shots, samples, samples) array
    b : (shots, samples) array
    """
    size = shots.returned.shape[1]
    A = np.stack([convolution_matrix(pulse(sent), size) for sent in shots.sent])
    return A, shots.returned - shots.noise[:, None]
