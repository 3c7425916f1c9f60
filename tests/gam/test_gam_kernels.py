"""What the boosting kernels cost, how they are launched, and shapes that they divide.

`test_gam_paths` compares their steps with dense matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import CUDA
from gam_figures import additive
from gam_models import LEARNERS, columns, response
from together import together

# A watchdog and small shared memory are properties of a device. The balance of chunks
# has no effect but time.
from gpusolve._device.kernels import EmulatedDevice
from gpusolve._device.launch import LAUNCH_SECONDS
from gpusolve.emulator import profile
from gpusolve.gam import (
    BoostedGAM,
    bbs,
    bmono,
    bols,
    brandom,
    bspatial,
    btree,
    cv_stop,
)  # fmt: skip
from gpusolve.gam._boosting import gram_kernel, stacked_kernel
from gpusolve.gam.terms import Term

SECTOR = 32
"""Bytes."""


def boosting_of(report: Any) -> Any:
    (kernel,) = [one for one in report.kernels if one.name.startswith("boost_")]
    return kernel


# ---- steps ---------------------------------------------------------------------------


def splines(functions: int, degree: int) -> list[Term]:
    """Three splines with equal knots."""
    given = {"knots": functions - degree - 1, "degree": degree, "differences": 1}
    return [bbs(name, **given) for name in "xzv"]


FEW = [bbs("x", knots=4), bols("z"), bbs("v", knots=5, degree=2)]

MODELS: dict[str, tuple[list[int], list[Term]]] = {
    "few": ([1, 31, 33, 255, 2100, 4500], FEW),
    "narrow": ([61, 2100], [
        bbs("x", degree=0, knots=9), bbs("x", degree=5), bols("g"), bols("z"),
    ]),
    "wide": ([61, 2100], [
        bspatial("x", "z", knots=3, degree=5), bbs("x") + bols("g", df=1),
    ]),
    "windows": ([150], [bspatial("x", "z", knots=25, lambda_=0.1), bbs("x", knots=5)]),
    "constrained": ([61, 2100], [
        bmono("x", knots=5), bmono("z", constraint="concave", knots=9),
        bmono("x", by="g", knots=3, df=7), bols("g", df=1) + bmono("z", knots=4),
    ]),
    "stumps": ([61, 2100], [
        btree("x"), btree("z", bins=9, min_rows=7), btree("v"), bbs("z"),
    ]),
    "levels": ([61, 9000], [
        brandom("many", df=20), bols("g"), brandom("skewed", df=9),
    ]),
    "all": ([61], [*LEARNERS]),
    "coxph": ([61, 3000], [bbs("z", knots=4), bols("z")]),
    **{f"{k} of degree {d}": ([400], splines(k, d))
       for k, d in ((11, 0), (11, 3), (64, 5), (300, 2))},
}  # fmt: skip
"""Rows around batches and chunks; learners that kernels treat in different ways.

Of "few", warps add one, some or all rows at once; the sums of "windows" do not fit in
their shared memory; the rows of "levels" and of "coxph" are in several chunks.
"""


@pytest.mark.parametrize(
    ("name", "rows"), [(name, rows) for name in MODELS for rows in MODELS[name][0]]
)
@pytest.mark.parametrize("backend", ["fallback", "emulator", CUDA], indirect=True)
def test_steps_are_those_of_the_compiled_object(
    backend: Any, name: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_gam_paths` compares these with dense matrices."""
    rng = np.random.default_rng(4)
    data = columns(9000) | {
        "v": rng.integers(0, 4, 9000) * 1.0,
        "many": rng.integers(0, 2000, 9000),
        "skewed": (2000 * rng.random(9000) ** 3).astype(int),
    }
    family = "coxph" if name == "coxph" else "gaussian"
    y = response("coxph" if name == "coxph" else "poisson", data)
    if name == "levels":
        y = y + 0.2 * (data["many"] % 3) + (data["skewed"] > 99)
    data = {column: values[:rows] for column, values in data.items()}
    w = 1 + np.arange(rows) % 3

    def fitted(device: str) -> BoostedGAM:
        options: Any = {"family": family, "learning_rate": 0.7, "device": device}
        model = BoostedGAM(MODELS[name][1], max_iter=3, **options)
        return model.fit(data, y[:rows], sample_weight=w)

    device = fitted("cuda" if backend.name == "cuda" else "auto")
    for variable in ("GPUSOLVE_EMULATE", "GPUSOLVE_OBJECT"):
        monkeypatch.delenv(variable, raising=False)
    host = fitted("auto")
    np.testing.assert_array_equal(device.selected_, host.selected_)
    np.testing.assert_allclose(
        device.coefficients_, host.coefficients_, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(device.risk_, host.risk_, rtol=1e-11)


@pytest.mark.usefixtures("emulated")
def test_too_many_functions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatedDevice, "shared_memory_per_block", 5000)
    x = np.linspace(0, 1, 50)
    terms = [bbs("a", knots=9), bbs("b", knots=40)]
    with pytest.raises(ValueError, match=r"bbs\(b, .*fewer.*got 44 functions"):
        BoostedGAM(terms, max_iter=1).fit({"a": x, "b": x**2}, x)


@together("blocks", [4, 132, 264])
@together("learners", [1, 3, 100, 131, 300, 10_000])
def test_chunks_keep_blocks_busy(learners: int, blocks: int) -> None:
    """If chunks may be small, blocks wait for at most a quarter of the time."""
    chunks = gram_kernel.balanced_chunks(learners, blocks, most=1000)
    units = learners * chunks
    assert units / (blocks * -(-units // blocks)) > 0.75
    assert chunks == 1 or units <= gram_kernel.ROUNDS * blocks
    assert gram_kernel.balanced_chunks(learners, blocks, most=1) == 1


# ---- launches ------------------------------------------------------------------------


@pytest.mark.usefixtures("emulated")
def test_a_watchdog_divides_the_launch_by_the_bytes_of_all_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row of each of 3 cubic learners has 4 doubles and an integer.

    The 4 passes that fit in a launch include the pass at the start.
    """
    X, y = additive(np.random.default_rng(0), 60)
    folds = (np.arange(60)[:, None] % 3 != np.arange(3)) * 1.0
    model = BoostedGAM(n_basis=8, df=4, max_iter=9).fit(X[:, :3], y)
    whole = cv_stop(model, folds, max_iter=7)
    monkeypatch.setattr(EmulatedDevice, "has_watchdog", True)
    for passes, launches in ((4, 1), (5, 2)):
        speed = 4.5 * 3 * 3 * 60 * (4 * 8 + 4) / LAUNCH_SECONDS
        monkeypatch.setattr(stacked_kernel, "READ_SPEED", speed)
        with profile() as report:
            found = cv_stop(model, folds, max_iter=passes - 1)
        assert boosting_of(report).launches == launches
        np.testing.assert_array_equal(found.risk, whole.risk[:, :passes])


@pytest.mark.usefixtures("emulated")
def test_a_callback_divides_the_launch() -> None:
    """It is asked after 49 and 99 steps."""
    X, y = additive(np.random.default_rng(0), 40)
    seen: list[int] = []
    model = BoostedGAM([bols(1)], max_iter=130, method="stacked")
    model.set_params(callback=lambda step, risk: seen.append(step) or step >= 99)
    model.fit(X, y)
    assert seen == [49, 99]
    assert model.n_iter_ == 99


# ---- costs ---------------------------------------------------------------------------


@pytest.mark.usefixtures("emulated")
def test_folds_are_one_launch_that_reads_each_value_once_for_all_fits() -> None:
    """Values and an index for the moments, and u for each fit.

    Each fit reads the selected learner again, a row of 32 bytes by two loads.
    """
    rows, learners, functions, count, steps = 1024, 8, 16, 3, 1
    rng = np.random.default_rng(0)
    X, y = rng.random((rows, learners)), rng.poisson(2.0, rows) * 1.0
    folds = rng.multinomial(rows, np.full(rows, 1 / rows), count).T * 1.0
    model = BoostedGAM(n_basis=functions, df=4, penalty="ridge", max_iter=1).fit(X, y)
    made = []
    for some in (1, 1 + steps):
        with profile() as report:
            cv_stop(model, folds, max_iter=some)
        made.append(boosting_of(report))
        assert made[-1].launches == 1
    entries = rows * learners * count * steps
    of_designs = {
        "values": 32 * (1 / count + 2 / learners),
        "first": 4 * (1 / count + 1 / learners),
    }
    for name, size in of_designs.items():
        few, many = (kernel.arrays[name].sectors for kernel in made)
        assert SECTOR * (many - few) == pytest.approx(size * entries)
    few, many = (
        SECTOR * sum(array.sectors for array in kernel.arrays.values())
        for kernel in made
    )
    # Of each row of a fit: f three times, y, two weights, u written; u for each
    # learner. The rest: coefficients of the selected learner, and where things are.
    of_rows = sum(of_designs.values()) + 8 + 7 * 8 / learners
    of_matrices = learners * count * steps * 2 * 8 * functions**2
    assert of_rows * entries + of_matrices <= many - few
    assert many - few <= 1.25 * (of_rows * entries + of_matrices)


@pytest.mark.usefixtures("emulated")
def test_folds_that_share_reads_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups of 5, 5 and 1; a learner in windows, and a factor of many levels."""
    monkeypatch.setattr(stacked_kernel, "WINDOW_BYTES", 512)
    rng = np.random.default_rng(0)
    data = {"x": rng.random(90), "z": rng.random(90), "g": np.arange(90) % 40}
    terms = [bbs("x", knots=9), bols("z"), brandom("g", df=3), bbs("z", knots=1)]
    y = np.sin(9 * data["x"]) + 2.0 * (data["g"] % 3)
    model = BoostedGAM(terms, max_iter=2).fit(data, y)
    folds = rng.multinomial(90, np.full(90, 1 / 90), 11).T * 1.0
    risks, reads = [], []
    for most in (1, 5):
        monkeypatch.setattr(stacked_kernel, "FITS_AT_ONCE", most)
        with profile() as report:
            risks.append(cv_stop(model, folds).risk)
        arrays = boosting_of(report).arrays
        reads.append([arrays[name].sectors for name in ("values", "first", "by_level")])
    np.testing.assert_array_equal(*risks)
    assert (1.3 * np.array(reads[1]) < reads[0]).all()


@pytest.mark.usefixtures("emulated")
def test_sums_over_rows_have_few_bank_conflicts() -> None:
    """Wavefronts for a row of a learner, and sectors.

    A warp adds 8 rows by a load and a store, of two wavefronts each: 0.5 for a row.
    Each block clears and sums its copies once: less than 800.

    Gram matrices read a row of 32 bytes by two loads, one after the other; so does the
    model, which reads one of two learners again.
    """
    X = np.random.default_rng(0).random((8000, 2))
    with profile() as report:
        BoostedGAM(n_basis=32, df=4, max_iter=1, outside="linear").fit(X, X[:, 0])
    (gram,) = [one for one in report.kernels if one.name.startswith("gram")]
    stacked = boosting_of(report)
    assert gram.shared_wavefronts <= 1.5 * X.size
    assert stacked.shared_wavefronts <= 0.5 * X.size + 800 * stacked.blocks
    for kernel, loads in ((gram, 2), (stacked, 4 / 3)):
        values = kernel.arrays["values"]
        assert values.sectors == pytest.approx(loads * values.fewest_sectors)
