"""LVIS level-1B files: made here with known returns, and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from together import together

pytest.importorskip("h5py", reason="h5py reads and writes HDF5")

import gpusolve
from gpusolve.studies import lvis

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


@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_shots_are_read_as_written(tmp_path: Path, case: Any) -> None:
    made = contents()
    path = written(tmp_path, {case(name): values for name, values in made.items()})
    shots = lvis.read(path, 3)
    for name, found in zip(("TXWAVE", "RXWAVE", "SIGMEAN"), shots, strict=True):
        assert found.dtype == np.float64
        assert_array_equal(found, made[name][:3])


def test_pulse_is_centred_cut_and_of_height_one() -> None:
    sent = np.array([9, 9, 10, 9, 40, 109, 89, 59, 19, 10, 9, 9, 30, 9.0, 9, 9, 9])
    found = lvis.pulse(sent)
    assert_allclose(found, [0, 0, 0.31, 1, 0.8, 0.5, 0.1])
    assert_array_equal(lvis.pulse(np.array([0, 0, 0, 1, 2.0])), [0.5, 1, 0])


@pytest.mark.paper("Luo, 7.1")
def test_returns_are_found(tmp_path: Path) -> None:
    """Returns that were written to a file in the format of LVIS are found, to 0.03 of
    their strength.

    To the counts' rounding, which a narrow pulse hardly magnifies.
    """
    A, b = lvis.systems(lvis.read(written(tmp_path, contents()), 4))
    assert A.shape == (4, SIZE, SIZE)
    assert b.shape == (4, SIZE)
    result = gpusolve.nnls(A, b)
    assert (result.status == 0).all()
    for x in result.x:
        for at, strength in RETURNS:
            around = x[at - 2 : at + 3].sum() / HEIGHT
            assert around == pytest.approx(strength, abs=0.03)
        assert x.sum() / HEIGHT == pytest.approx(1.75, abs=0.1)


@together(
    ("changed", "count", "message"),
    [
        ({"TXWAVE": None, "SIGMEAN": None}, 2, "SIGMEAN, got LFID, RXWAVE, SHOTNUMBER"),
        ({"RXWAVE": np.ones(4)}, 2, r"RXWAVE must have 2 axes, got shape \(4,\)"),
        ({"SIGMEAN": np.ones((4, 2))}, 2, r"must have 1 axes, got shape \(4, 2\)"),
        ({"TXWAVE": np.ones((3, 80))}, 2, "datasets must have the same shots"),
        ({}, 5, "count must be at most 4 shots, got 5"),
        ({"TXWAVE": np.full((4, 80), 9.0)}, 2, "TXWAVE must have a pulse"),
    ],
)
def test_wrong_files(
    tmp_path: Path, changed: dict[str, Any], count: int, message: str
) -> None:
    made = contents() | changed
    path = written(tmp_path, {k: v for k, v in made.items() if v is not None})
    with pytest.raises(ValueError, match=message):
        lvis.systems(lvis.read(path, count))
