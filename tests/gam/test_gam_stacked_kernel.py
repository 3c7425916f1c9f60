"""The boosting loop of mixed learners and any family, as one kernel.

The oracle is a loop over dense matrices, written here. Gradients, losses and adaptive
parameters come from the families in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from together import together

from gpusolve import _emulator
from gpusolve._device.kernels import EmulatedDevice
from gpusolve._device.launch import LAUNCH_SECONDS
from gpusolve.emulator import profile
from gpusolve.gam._boosting import stacked_cpu, stacked_kernel
from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.path import AXES, Path
from gpusolve.gam._boosting.problem import (
    Cone,
    Designs,
    PreparedLearners,
    designs_of,
    prepare,
)
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam._terms.rows import (
    DesignPart,
    Rows,
    dense_rows,
    kronecker,
    side_by_side,
)
from gpusolve.gam.families import (
    Binomial,
    Expectile,
    Family,
    Gamma,
    Gaussian,
    Huber,
    Hurdle,
    Laplace,
    NegativeBinomial,
    Poisson,
    PropOdds,
    Quantile,
    Tweedie,
)
from gpusolve.gam.terms import bbs

Floats = NDArray[np.float64]

RATE = 0.3


# ---- learners, and the oracle --------------------------------------------------------


def local_rows(rng: np.random.Generator, n: int, functions: int, width: int) -> Rows:
    """A design with `width` neighbouring values in each row."""
    first = rng.integers(0, functions - width + 1, n, dtype=np.int32)
    offsets = np.arange(width, dtype=np.int32)
    return Rows(functions, (DesignPart(first, offsets, rng.random((n, width))),))


def mixed_rows(rng: np.random.Generator, n: int) -> tuple[Rows, ...]:
    """Designs of 1, 2, 3, 4, 6 and 40 values in each row, in some parts."""
    spline, factor = local_rows(rng, n, 9, 4), local_rows(rng, n, 5, 1)
    surface = kronecker(local_rows(rng, n, 7, 4), local_rows(rng, n, 12, 10))
    line = dense_rows(np.stack([np.ones(n), rng.standard_normal(n)], axis=1))
    return (
        spline,
        factor,
        line,
        side_by_side(line, local_rows(rng, n, 6, 3)),
        surface,
        local_rows(rng, n, 7, 6),
    )


def problem_of(designs: tuple[Rows, ...], weights: Floats | None) -> PreparedLearners:
    """Ridge learners: the more functions, the stronger the penalty."""
    gram, inverse = [], []
    for design in designs:
        X = design.dense()
        each = np.ones((1, len(X))) if weights is None else weights
        G = np.einsum("ri,fr,rj->fij", X, each, X)
        penalty = 0.02 * np.trace(G, axis1=1, axis2=2)
        gram.append(G)
        inverse.append(np.linalg.inv(G + penalty[:, None, None] * np.eye(len(G[0]))))
    fits = len(gram[0])
    return PreparedLearners(
        designs=Designs((), designs),
        gram=tuple(gram),
        inverse=tuple(inverse),
        lambda_=np.zeros((fits, len(designs))),
        weights=weights,
        cones=(None,) * len(designs),
    )


def plain_loop(
    problem: PreparedLearners,
    family: Family,
    y: Floats,
    start: Floats,
    steps: int,
    out_of_bag: Floats | None,
    units: Floats | None = None,
) -> Path:
    """The algorithm with dense matrices, one fit after the other."""
    F, most = problem.fits, problem.functions
    dense = [design.dense() for design in problem.rows]
    n = len(dense[0])
    selected = np.zeros((F, steps), np.int32)
    updates = np.zeros((F, steps, most))
    risk, second = np.zeros((2, F, steps + 1))
    nuisance = np.zeros((F, steps + 1, family.nuisances))
    for fit in range(F):
        own_y = np.broadcast_to(y, (F, n))[fit]
        w = np.ones(n) if problem.weights is None else problem.weights[fit]
        v = np.zeros(n) if out_of_bag is None else out_of_bag[fit]
        f = np.broadcast_to(start, (F, n))[fit].copy()
        for step in range(steps + 1):
            if step > 0:
                u = family.gradient(own_y, f, nuisance[fit, step - 1])
                losses, coefs = [], []
                for X, H in zip(dense, problem.inverse, strict=True):
                    b = H[fit] @ (X.T @ (w * u))
                    losses.append(w @ (u - X @ b) ** 2)
                    coefs.append(b)
                j = int(np.argmin(losses))
                selected[fit, step - 1] = j
                d, size = dense[j] @ coefs[j], RATE
                if units is not None:
                    h = family.curvature(own_y, f, nuisance[fit, step - 1])
                    curved = 1 if h is None else w @ (h * d**2) / (w @ d**2)
                    size *= units[fit] / curved
                updates[fit, step - 1, : len(coefs[j])] = size * coefs[j]
                f += size * d
            nuisance[fit, step] = family.nuisance(own_y, f, w)
            loss = family.loss(own_y, f, nuisance[fit, step])
            risk[fit, step], second[fit, step] = w @ loss, v @ loss
    second = None if out_of_bag is None else second
    return Path(0.0, selected, updates, risk, "dense", nuisance, second)


def on_device(
    problem: PreparedLearners,
    family: Family,
    y: Floats,
    start: Floats,
    steps: int,
    out_of_bag: Floats | None = None,
    units: Floats | None = None,
) -> Path:
    fits = Fits(problem, family, y, start, RATE, out_of_bag, units=units)
    return stacked_kernel.boost(fits, steps, EmulatedDevice())


def assert_same(found: Path, expected: Path, tolerance: float = 1e-9) -> None:
    np.testing.assert_array_equal(found.selected, expected.selected)
    for name in ("updates", "risk", "out_of_bag", "nuisance"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None)
        if one is not None:
            scale = np.abs(other).max(initial=0)
            np.testing.assert_allclose(
                one, other, rtol=tolerance, atol=tolerance * scale, err_msg=name
            )


def assert_same_bits(found: Path, expected: Path) -> None:
    for name in AXES:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


# ---- families ------------------------------------------------------------------------


SLOW = pytest.mark.slow
"""A kernel is compiled for each family: some are variants of a tested family."""

FAMILIES = {
    "gaussian": Gaussian(),
    "laplace": Laplace(),
    "quantile": Quantile(0.3),
    "expectile": Expectile(0.7),
    "huber": Huber(),
    "huber fixed": Huber(0.4),
    "half logit": Binomial(),
    "logit": Binomial("logit"),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "gamma fixed": Gamma(1.5),
    "negative binomial": NegativeBinomial(),
    "negative binomial fixed": NegativeBinomial(2.0),
    "hurdle": Hurdle(),
    "hurdle fixed": Hurdle(2.0),
    "tweedie": Tweedie(1.4),
    "prop odds": PropOdds(11),
}

VARIANTS = (
    "laplace",
    "expectile",
    "huber fixed",
    "logit",
    "gamma fixed",
    "negative binomial fixed",
    "hurdle fixed",
    "tweedie",
)


def response(family: Family, rng: np.random.Generator, f: Floats) -> Floats:
    """Observations at the predictor f, for which the family is defined."""
    name = type(family).__name__
    if name == "Binomial":
        return (rng.random(f.shape) < 1 / (1 + np.exp(-f))).astype(float)
    if name == "Gamma":
        return np.exp(f) * rng.gamma(2.0, 0.5, f.shape)
    if name == "PropOdds":
        latent = 4 * f + rng.logistic(size=f.shape)
        return np.digitize(latent, np.linspace(-4, 12, 10)) * 1.0
    if name == "Hurdle":
        return 1.0 + rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, f.shape))
    if name == "Tweedie":
        return np.exp(f) * rng.gamma(2.0, 0.5, f.shape) * rng.poisson(1.0, f.shape)
    if name in ("Poisson", "NegativeBinomial"):
        return rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, f.shape)).astype(float)
    return f + rng.standard_normal(f.shape)


class Case(NamedTuple):
    """The arguments of a fit."""

    problem: PreparedLearners
    y: Floats
    start: Floats
    out_of_bag: Floats | None


def three_fits(
    family: Family, rng: np.random.Generator, n: int = 333, dtype: Any = np.float64
) -> Case:
    """Three folds: each has rows with the weight 0, which are out of bag there."""
    designs = mixed_rows(rng, n)
    if dtype != np.float64:
        designs = tuple(
            Rows(
                d.functions, tuple(p._replace(values=dtype(p.values)) for p in d.parts)
            )
            for d in designs
        )
    weights = rng.integers(0, 3, (3, n)) * (0.5 + rng.random((3, n)))
    f = 1 + np.sin(np.arange(n)) + designs[1].dense() @ np.linspace(-1, 1, 5)
    start = 0.3 + 0.1 * rng.standard_normal((3, n))
    held_out = (weights == 0) * rng.random((3, n))
    return Case(problem_of(designs, weights), response(family, rng, f), start, held_out)


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[SLOW] * (one in VARIANTS)) for one in FAMILIES],
)
def test_every_family_is_that_of_a_loop_over_dense_matrices(
    name: str, rng: np.random.Generator
) -> None:
    family = FAMILIES[name]
    problem, y, start, held_out = three_fits(family, rng)
    found = on_device(problem, family, y, start, 6, held_out)
    expected = plain_loop(problem, family, y, start, 6, held_out)
    assert len(np.unique(expected.selected)) > 1
    assert_same(found, expected)
    units = np.array([1.0, 3.0, 0.5])
    found = on_device(problem, family, y, start, 6, held_out, units)
    assert_same(found, plain_loop(problem, family, y, start, 6, held_out, units))
    fits = Fits(problem, family, y, start, RATE, held_out, units=units)
    assert_same(stacked_cpu.boost(fits, 6), found)


def test_one_fit_without_weights_and_a_constant_start(
    rng: np.random.Generator,
) -> None:
    family = Poisson()
    problem = problem_of(mixed_rows(rng, 100), None)
    y, start = response(family, rng, np.sin(np.arange(100.0))), np.full((1, 1), 0.2)
    found = on_device(problem, family, y, start, 5)
    assert found.out_of_bag is None
    assert_same(found, plain_loop(problem, family, y, start, 5, None))


def test_each_fit_has_its_own_response(rng: np.random.Generator) -> None:
    """Classes one against the rest: the same weights, and one response for each."""
    family = Binomial()
    problem, y, start, _ = three_fits(family, rng)
    y = np.stack([y, 1 - y, (np.arange(len(y)) % 3 == 0).astype(float)])
    found = on_device(problem, family, y, start, 5)
    assert_same(found, plain_loop(problem, family, y, start, 5, None))


@together("n", [1, 31, 33, 2100, 4500])
def test_numbers_of_rows_around_batches_and_chunks(
    n: int, rng: np.random.Generator
) -> None:
    problem, y, start, held_out = three_fits(Gaussian(), rng, n)
    found = on_device(problem, Gaussian(), y, start, 3, held_out)
    expected = plain_loop(problem, Gaussian(), y, start, 3, held_out)
    if n > 1:  # one row is fitted perfectly by several learners
        assert_same(found, expected)
    np.testing.assert_allclose(found.risk[:, 0], expected.risk[:, 0], rtol=1e-13)


def test_values_may_be_float32(rng: np.random.Generator) -> None:
    case = three_fits(Huber(), rng, dtype=np.float32)
    problem, y, start, held_out = case
    found = on_device(problem, Huber(), y, start, 5, held_out)
    assert problem.rows[0].parts[0].values.dtype == np.float32
    assert_same(found, plain_loop(problem, Huber(), y, start, 5, held_out))


def test_no_step_gives_the_risk_of_the_start(rng: np.random.Generator) -> None:
    problem, y, start, held_out = three_fits(Huber(), rng)
    found = on_device(problem, Huber(), y, start, 0, held_out)
    assert found.selected.shape == (3, 0)
    assert_same(found, plain_loop(problem, Huber(), y, start, 0, held_out))


def test_equal_learners_tie_to_the_first(rng: np.random.Generator) -> None:
    n = 80
    design = local_rows(rng, n, 9, 4)
    problem = problem_of((local_rows(rng, n, 5, 1), design, design, design), None)
    y = design.dense() @ np.arange(9.0)
    found = on_device(problem, Gaussian(), y, np.zeros((1, 1)), 4)
    assert set(found.selected[0].tolist()) == {1}


def test_a_design_of_several_learners_is_stored_once(rng: np.random.Generator) -> None:
    factor, spline = local_rows(rng, 80, 5, 1), local_rows(rng, 80, 9, 4)
    designs = stacked_kernel.designs_of((factor, spline, factor), None)
    np.testing.assert_array_equal(designs.parts[:, :2], [[0, 0], [80, 80], [0, 0]])
    np.testing.assert_array_equal(
        designs.values, np.append(factor.parts[0].values, spline.parts[0].values)
    )
    np.testing.assert_array_equal(
        designs.first, np.append(factor.parts[0].first, spline.parts[0].first)
    )


# ---- medians -------------------------------------------------------------------------


MEDIANS = {
    "odd": [3.0, 1.0, 2.0],
    "even": [4.0, 1.0, 2.0, 3.0],
    "ties": [2.0, 2.0, 2.0, 5.0],
    "between": [1.0, 1.0, 2.0, 2.0],
    "zeros": [0.0, 0.0, 0.0, 7.0],
    "single": [5.0],
    "scales": [1e-300, 1e-10, 1.0, 1e300],
    "neighbours": [1.0, float(np.nextafter(1, 2)), float(np.nextafter(1, 0)), 1.0],
}


def median_on_device(y: Floats) -> float:
    problem = problem_of((dense_rows(np.ones((len(y), 1))),), None)
    found = on_device(problem, Huber(), y, np.zeros((1, 1)), 0)
    return float(found.nuisance[0, 0, 0])


@pytest.mark.parametrize("name", MEDIANS)
def test_medians_are_exact(name: str) -> None:
    y = np.array(MEDIANS[name])
    assert median_on_device(y) == np.median(y)


def test_a_median_may_be_denormal() -> None:
    assert median_on_device(np.array([0.0, 5e-324, 5e-324, 1.0])) == 5e-324


def test_weights_of_medians_are_repeated_rows(rng: np.random.Generator) -> None:
    y = rng.random(257)
    weights = rng.integers(0, 4, (5, 257)).astype(float)
    weights[0] = 0
    weights[0, :2] = 3
    problem = problem_of((dense_rows(np.ones((257, 1))),), weights)
    found = on_device(problem, Huber(), y, np.zeros((5, 1)), 0)
    expected = [np.median(np.repeat(y, w.astype(int))) for w in weights]
    np.testing.assert_array_equal(found.nuisance[:, 0, 0], expected)


# ---- learners with many functions ----------------------------------------------------


def test_many_functions_are_summed_in_windows(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, y, start, held_out = three_fits(Gaussian(), rng)
    expected = on_device(problem, Gaussian(), y, start, 4, held_out)
    monkeypatch.setattr(stacked_kernel, "WINDOW_BYTES", 4096)
    sums = [stacked_kernel.sums_of(84, width, 2**20) for width in (32, 8)]
    assert [one.window for one in sums] == [64, 64]
    found = on_device(problem, Gaussian(), y, start, 4, held_out)
    assert_same(found, expected, 1e-12)


def test_a_surface_of_576_functions(rng: np.random.Generator) -> None:
    n = 400
    surface = kronecker(local_rows(rng, n, 24, 4), local_rows(rng, n, 24, 4))
    problem = problem_of((surface, local_rows(rng, n, 24, 4)), None)
    y = surface.dense() @ rng.standard_normal(576)
    found = on_device(problem, Gaussian(), y, np.zeros((1, 1)), 3)
    assert_same(found, plain_loop(problem, Gaussian(), y, np.zeros((1, 1)), 3, None))


def test_too_many_functions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatedDevice, "shared_memory_per_block", 5000)
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    frame = Frame.of({"a": np.linspace(0, 1, 50), "b": np.linspace(0, 1, 50) ** 2})
    terms = [bbs("a", knots=9).learn(frame), bbs("b", knots=40).learn(frame)]
    with pytest.raises(ValueError, match=r"bbs\(b, .*fewer.*got 44 functions"):
        boost_family(
            Fits(
                prepare(designs_of(terms, frame)),
                Gaussian(),
                np.zeros(50),
                np.zeros((1, 1)),
            )
        )


# ---- launches, schedules, races ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "huber"])
def test_a_watchdog_changes_only_the_number_of_launches(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = FAMILIES[name]
    problem, y, start, held_out = three_fits(family, rng, n=60)
    expected = on_device(problem, family, y, start, 4, held_out)
    monkeypatch.setattr(stacked_kernel, "steps_of_launch", lambda *_: 2)
    with profile() as report:
        found = on_device(problem, family, y, start, 4, held_out)
    assert [one.launches for one in report.kernels] == [3]
    assert_same_bits(found, expected)


def test_a_watchdog_counts_the_bytes_of_all_fits(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start and 3 steps fit in a launch."""
    problem, y, start, _ = three_fits(Gaussian(), rng, n=60)
    parts = [part for design in problem.rows for part in design.parts]
    bytes_of_step = 3 * sum(one.first.nbytes + one.values.nbytes for one in parts)
    monkeypatch.setattr(EmulatedDevice, "has_watchdog", True)
    speed = 4.5 * bytes_of_step / LAUNCH_SECONDS
    monkeypatch.setattr(stacked_kernel, "READ_SPEED", speed)
    launches = []
    for steps in (3, 4):
        with profile() as report:
            on_device(problem, Gaussian(), y, start, steps)
        launches.append(report.kernels[-1].launches)
    assert launches == [1, 2]


@pytest.fixture
def detect_races() -> Iterator[None]:
    with _emulator.races():
        yield


@pytest.mark.usefixtures("detect_races")
@pytest.mark.parametrize("name", ["poisson", "huber", "gamma", "negative binomial"])
def test_no_race_and_same_bits_in_any_interleaving(
    name: str, rng: np.random.Generator
) -> None:
    family = FAMILIES[name]
    problem, y, start, held_out = three_fits(family, rng, n=60)
    made = []
    for seed in (1, 2):
        with _emulator.schedule("random", seed):
            made.append(on_device(problem, family, y, start, 2, held_out))
    assert_same_bits(*made)


@pytest.mark.slow
@pytest.mark.usefixtures("detect_races")
@pytest.mark.parametrize("removed", [".release.", ".acquire."])
def test_a_relaxed_access_of_the_barrier_is_reported(
    removed: str, rng: np.random.Generator, copied_sources: Any
) -> None:
    header = copied_sources / "grid.cuh"
    text = header.read_text()
    assert removed in text
    header.write_text(text.replace(removed, ".relaxed."))
    problem, y, start, held_out = three_fits(Huber(), rng, n=60)
    with (
        _emulator.schedule("random", 1),
        pytest.raises(_emulator.KernelError, match="orders the two"),
    ):
        on_device(problem, Huber(), y, start, 2, held_out)


# ---- inequalities --------------------------------------------------------------------


def cone_of(C: Floats, inverse: Floats, T: Floats | None = None) -> Cone:
    values, vectors = np.linalg.eigh(inverse)
    return Cone(C, vectors * np.sqrt(np.maximum(values, 0))[:, None, :], T)


def constrained(
    problem: PreparedLearners, kinds: dict[int, Floats]
) -> PreparedLearners:
    """The problem with ``C b >= 0`` for some learners."""
    cones = list(problem.cones)
    for j, C in kinds.items():
        cones[j] = cone_of(C, problem.inverse[j])
    return replace(problem, cones=tuple(cones))


def test_constrained_learners_are_those_of_nnls(rng: np.random.Generator) -> None:
    """Increasing, convex, positive: the loop on the CPU solves them by SciPy's nnls."""
    problem, y, start, held_out = three_fits(Poisson(), rng)
    kinds = {
        0: np.diff(np.eye(9), axis=0),
        1: np.eye(5),
        5: np.diff(np.eye(7), 2, axis=0),
    }
    problem = constrained(problem, kinds)
    found = on_device(problem, Poisson(), y, start, 8, held_out)
    fits = Fits(problem, Poisson(), y, start, RATE, held_out)
    expected = stacked_cpu.boost(fits, 8)
    assert set(kinds) & set(np.unique(found.selected).tolist())
    assert_same(found, expected, 1e-10)


@pytest.mark.parametrize("order", [1, 2])
def test_a_constraint_holds_and_is_active(order: int, rng: np.random.Generator) -> None:
    """A falling response: the fit increases nowhere, or is concave, up to rounding."""
    design = local_rows(rng, 400, 24, 4)
    C = -np.diff(np.eye(24), order, axis=0)
    problem = constrained(problem_of((design,), None), {0: C})
    y = design.dense() @ np.cumsum(rng.standard_normal(24))
    found = on_device(problem, Gaussian(), y, np.zeros((1, 1)), 3)
    fits = Fits(problem, Gaussian(), y, np.zeros((1, 1)), RATE)
    expected = stacked_cpu.boost(fits, 3)
    assert_same(found, expected, 1e-10)
    slack = found.updates[0] @ C.T
    rounding = 1e-13 * np.abs(found.updates).max()
    assert slack.min() > -rounding
    assert 2 <= (np.abs(slack) < rounding).sum(axis=1).min() < len(C)


def test_a_constraint_of_the_columns_of_a_transform(rng: np.random.Generator) -> None:
    """Dependent inequalities, and columns that are sums of functions."""
    design = local_rows(rng, 200, 8, 3)
    problem = problem_of((design,), None)
    T = np.kron(np.eye(4), np.ones((2, 1)))
    gram = T.T @ problem.gram[0][0] @ T
    H = np.linalg.inv(gram + 0.1 * np.trace(gram) * np.eye(4))[None]
    C = np.concatenate([np.diff(np.eye(4), axis=0), np.diff(np.eye(4), axis=0)])
    problem = replace(problem, inverse=(T @ H @ T.T,), cones=(cone_of(C, H, T),))
    y = design.dense() @ np.array([3.0, 1, 4, 1, 5, 9, 2, 6])
    found = on_device(problem, Gaussian(), y, np.zeros((1, 1)), 4)
    once = replace(problem, cones=(cone_of(C[:3], H, T),))
    fits = Fits(once, Gaussian(), y, np.zeros((1, 1)), RATE)
    expected = stacked_cpu.boost(fits, 4)
    assert_same(found, expected, 1e-10)
