"""The certificate accepts every correct solution and no incorrect solution."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from degenerate_systems import FAMILIES
from numpy.testing import assert_array_equal
from oracles import residual_norm
from own_kernels import own_kernel

import gpusolve

# Points that no solver returns are certified: the certificate itself is called.
from gpusolve._numerics.certificate import (
    CERTIFIED,
    CONVINCING,
    certify,
    hidden_by_rounding,
    is_certified,
)
from gpusolve._numerics.system import scale
from gpusolve.studies._compared.solve import best_witness

TOL = 4 * float(np.finfo(np.float64).eps)

System = tuple[np.ndarray, np.ndarray]


KINDS = [
    *("full rank", "rank 2", "sums", "opposite pairs", "opposite integers"),
    *("full rank, heavy row", "free columns"),
]
"""Families of ``degenerate_systems``."""


def made(kind: str, m: int = 9, n: int = 6) -> list[System]:
    A, b = FAMILIES[kind](np.random.default_rng(3), 20, m, n)
    return list(zip(A, b, strict=True))


@pytest.fixture(params=KINDS)
def systems(request: pytest.FixtureRequest) -> list[System]:
    return made(request.param)


def accepted(A: np.ndarray, b: np.ndarray, x: np.ndarray, y: Any = None) -> bool:
    """Whether x is certified by y, or by the best witness for its support."""
    system = scale(A, b)
    at = system.rescale(x)
    y = best_witness(system, at) if y is None else y
    return bool(is_certified(system, at, certify(system, at, y), TOL))


def support(x: np.ndarray) -> np.ndarray:
    return np.flatnonzero(x > 1e-9 * x.max(initial=0))


def fit_error(A: np.ndarray, b: np.ndarray, x: np.ndarray, best: np.ndarray) -> float:
    """``|A x - A best| / |b|``."""
    error = A.astype(np.longdouble) @ (x.astype(np.longdouble) - best)
    return float(np.sqrt(error @ error) / np.linalg.norm(b))


def perturbed(x: np.ndarray) -> list[np.ndarray]:
    """Non-negative points near an optimal x; most of them are not optimal."""
    rng, used = np.random.default_rng(4), support(x)
    points = []
    for j in used:
        dropped = x.copy()
        dropped[j] = 0
        points.append(dropped)
    for i, j in itertools.pairwise(used):
        exchanged = x.copy()
        exchanged[[i, j]] = x[[j, i]]
        points.append(exchanged)
    points.append(x * (1 + 1e-6))
    points.append(np.abs(x + 1e-6 * np.abs(x).max() * rng.standard_normal(len(x))))
    points.append(np.where(x > 0, x * (1 + 1e-6 * rng.standard_normal(len(x))), 0))
    return [point for point in points if (point >= 0).all()]


@pytest.mark.paper("Luo, (1.2), (1.3)")
def test_an_incorrect_solution_is_refused(systems: list[System]) -> None:
    """More than 20 points next to solutions get no certificate."""
    refused = 0
    for A, b in systems:
        x = gpusolve.nnls(A, b).x
        assert accepted(A, b, x)
        for point in perturbed(x):
            if fit_error(A, b, point, x) > 1e-9:
                assert not accepted(A, b, point)
                refused += 1
    assert refused > 20


def test_solutions_made_of_rounding_noise_are_refused() -> None:
    """A square matrix of rank 2: a solution on all columns is noise of size 1e15."""
    rng = np.random.default_rng(6)
    for _ in range(100):
        A = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 5))
        b = rng.standard_normal(5)
        left, values, right = np.linalg.svd(A)
        noise = right.T @ (left.T @ b / np.maximum(values, 1e-17))
        A, noise = A * np.sign(noise), np.abs(noise)
        assert noise.max() > 1e12
        result = gpusolve.nnls(A, b)
        assert result.status == 0
        assert result.x.max() < 1e6
        system = scale(A, b)
        at = system.rescale(noise)
        assert hidden_by_rounding(system, at)
        orthogonal = (
            system.b
            - system.A[:, :2]
            @ np.linalg.lstsq(system.A[:, :2], system.b, rcond=None)[0]
        )
        for y in (best_witness(system, at), system.residual(at), orthogonal):
            assert not accepted(A, b, noise, y)


def test_columns_that_cancel_hide_no_distance() -> None:
    """Both columns are nearly orthogonal to the residual, but x is 0.5 % too small."""
    A = np.array([[1, -1], [0, 1e-8], [0, 0]])
    b, x = np.array([0, 1.005, 1]), np.array([1e8, 1e8])
    system = scale(A, b)
    at = system.rescale(x)
    found = certify(system, at, system.residual(at))
    assert found.angle < 1e-10
    assert found.kkt > 1e-3
    assert not accepted(A, b, x, system.residual(at))


@pytest.mark.paper("Luo, (1.2), (1.3)")
def test_kkt_bounds_the_distance_to_the_minimum(systems: list[System]) -> None:
    """`kkt` bounds how far the residual of any x is from its minimum, whether x is
    optimal or not.

    The bound holds for any x with any witness, not only for an optimal x.
    """
    rng = np.random.default_rng(7)
    for A, b in systems:
        system = scale(A, b)
        norms, length = np.linalg.norm(A, axis=0), np.linalg.norm(b)
        best = gpusolve.nnls(A, b).x
        for point in (best, 0 * best, best * (1 + 1e-3), rng.random(A.shape[1])):
            at = system.rescale(point)
            kkt = certify(system, at, best_witness(system, at)).kkt
            allowed = kkt * (length + norms @ best)
            excess = residual_norm(A, b, point) - residual_norm(A, b, best)
            assert excess <= allowed * (1 + 4 * kkt) + 1e-13 * length


@pytest.mark.parametrize(("l1", "l2"), [(0.3, 0.0), (0.0, 0.7), (0.2, 0.1)])
def test_certificates_with_penalties(l1: float, l2: float) -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        A, b = rng.standard_normal((8, 6)), rng.standard_normal(8)
        system = scale(A, b, l1, l2)
        x = system.rescale(gpusolve.nnls(A, b, l1=l1, l2=l2).x)
        if not x.any():
            continue
        for point in (x, x * (1 + 1e-6)):
            found = certify(system, point, best_witness(system, point))
            assert is_certified(system, point, found, TOL) == (point is x)


def test_a_residual_hidden_by_rounding_has_status_3(backend: Any) -> None:
    """The difference of two columns, 1e-12 of their size, fits b. So x is 1e12."""
    A = np.array([[1.0, -1.0], [0.0, 1e-12]])
    b = np.array([0.0, 1.0])
    result = backend.nnls(A, b)
    assert result.status == 3
    assert result.x.min() > 1e11
    assert result.rnorm < 1e-3
    small = backend.nnls(A * [[1.0], [1e8]], b)
    assert small.status == 0
    assert small.rnorm < 1e-11


def test_mirrored_columns_are_solved_by_gram_alone() -> None:
    rng = np.random.default_rng(9)
    band = np.linspace(-1, 1, 120)
    free = np.stack([np.ones(120), band, band**2], axis=1)
    spectra = rng.random((120, 10))
    for weight in (1.0, 1e3):
        A = np.hstack([spectra, free, -free])
        A = np.vstack([A, weight * (np.arange(16) < 10)])
        b = rng.dirichlet(np.full(10, 0.5), 300) @ spectra.T
        b += 0.01 * rng.standard_normal(b.shape)
        b = np.hstack([b, np.full((300, 1), weight)])
        result = gpusolve.nnls(A, b)
        assert (result.status == 0).all()
        assert not result.repaired.any()


# ---- on a device ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_limits_of_kernels_are_those_of_numpy(dtype: str) -> None:
    """Both parts of `kkt` are next to both limits."""
    judge = own_kernel("kernels/certificate.cu", "judge", dtype)
    limits = np.array([CERTIFIED[np.dtype(dtype)], CONVINCING * np.finfo(dtype).eps])
    near = np.outer(limits, [0.99, 1.01]).ravel()
    by_x, angle = (part.ravel() for part in np.meshgrid(near, near))
    found = np.empty((2, by_x.size), np.int32)
    judge((1,), (32,), (by_x, angle, np.int32(by_x.size), *found))
    expected = (np.maximum(by_x, angle) <= limit for limit in limits)
    assert_array_equal(found, [*expected])
