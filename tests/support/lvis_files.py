"""LVIS level-1B files with known returns, for the tests that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SIZE, BASELINE, HEIGHT = 120, 12, 180
RETURNS = ((30, 0.5), (50, 0.25), (90, 1.0))
"""Samples and strengths of the returns."""


def transmitted(shots: int) -> Any:
    """Asymmetric pulses, each at another place of its record; in counts of 8 bits."""
    time = np.arange(80) - (30 + np.arange(shots))[:, None]
    width = np.where(time < 0, 2.0, 3.0)
    return np.rint(BASELINE + HEIGHT * np.exp(-0.5 * (time / width) ** 2))


def contents(shots: int = 4) -> dict[str, Any]:
    """What a file of the data structure 1.05 contains, as far as it is used."""
    time = np.arange(SIZE)
    sent = transmitted(1)[0] - BASELINE
    returned = sum(
        strength * np.interp(time - at, np.arange(80) - 30, sent, 0, 0)
        for at, strength in RETURNS
    )
    return {
        "LFID": np.full(shots, 7, ">u4"),
        "SHOTNUMBER": np.arange(shots, dtype=">u4"),
        "SIGMEAN": np.full(shots, 15.5, ">f4"),
        "TXWAVE": transmitted(shots).astype("u1"),
        "RXWAVE": np.tile(np.rint(returned + 15.5), (shots, 1)).astype(">u2"),
    }


def written(path: Path, datasets: dict[str, Any]) -> Path:
    import h5py

    with h5py.File(path / "LVIS1B.h5", "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return path / "LVIS1B.h5"
