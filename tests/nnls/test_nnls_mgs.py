"""``method="mgs"``: the published solver on every backend, and where it fails.

``test_nnls.py`` and ``test_nnls_compared.py`` test it among other methods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import by_object, on_emulator
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from oracles import scipy_rnorm, violation
from scipy.linalg import hilbert

import gpusolve
from gpusolve import emulator
from gpusolve.studies.experiments import shifted_gaussians

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 1e-10
"""The largest certificate of status 0."""

COUNTS = ("status", "nit", "n_updates", "n_downdates")


# ---- Algorithm 1 ---------------------------------------------------------------------


@pytest.mark.paper("Luo, Algorithm 1")
def test_line_10(backend: Any) -> None:
    """As published, but for the sign and the restriction of the step, x goes from (1,
    2, 3) to (5/3, 0, 11/3) if y is (2, -1, 4), and then to (2, 0, 4).
    """
    given = {"method": "mgs", "warm_start": np.array([1.0, 2, 3])}
    A, b = np.eye(3), np.array([2.0, -1, 4])
    first = backend.nnls(A, b, **given, maxiter=1)
    assert_allclose(first.x, [5 / 3, 0, 11 / 3], rtol=4 * EPS)
    assert (first.status, first.n_updates, first.n_downdates) == (1, 3, 1)
    assert first.x[1] == 0
    result = backend.nnls(A, b, **given)
    assert_allclose(result.x, [2, 0, 4], rtol=4 * EPS)
    assert (result.status, result.nit) == (0, 2)


# ---- specification and kernel --------------------------------------------------------


@on_emulator
@pytest.mark.parametrize(
    ("order", "shape", "options"),
    [
        ("forward", (2, 1, 9, 6), {}),
        ("reverse", (9, 6), {}),
        ("random", (2, 1, 9, 6), {"l1": 0.1, "l2": 0.2, "weights": "random"}),
        ("random", (5, 8), dict.fromkeys(("l1", "l2", "warm_start"), "random")),
        ("forward", (9, 6), {"warm_start": "random", "tol": 1e-3}),
        ("forward", (2, 1, 5, 0), {}),
        ("forward", (2, 1, 0, 5), {"l2": 1.0}),
        ("random", (1, 1, 7, 10), {"warm_start": np.ones(10)}),  # with twins
    ],
)
def test_kernel_agrees_with_the_specification(
    backend: Any, order: Any, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    """Options that systems have of their own; systems with NaN and of zeros."""
    rng, (*_, m, n) = np.random.default_rng(20261121), shape
    A, b = rng.random(shape) - 0.2, rng.random((4, m)) - 0.1
    twins = isinstance(options.get("warm_start"), np.ndarray)
    if twins:
        A[..., 5:] = A[..., :5]
    b[1:2, 1:2], b[2] = np.nan, 0
    lengths = {"weights": m, "l1": n, "l2": n, "warm_start": n}
    given = {
        name: rng.random((4, lengths[name])) if str(value) == "random" else value
        for name, value in options.items()
    }
    with emulator.schedule(order, 1):
        found = gpusolve.nnls(A, b, method="mgs", **given)
    expected = by_object(gpusolve.nnls, A, b, method="mgs", **given)
    for name in COUNTS:
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert_allclose(found.rnorm, expected.rnorm, rtol=1e-12)
    if not twins:  # rounding decides which of two leaves
        assert_array_equal(found.x > 0, expected.x > 0)
        assert_allclose(found.x, expected.x, rtol=1e-10, atol=1e-13)
        assert_allclose(found.dual, expected.dual, atol=1e-12)
    assert (found.method == 10).all()
    assert not found.repaired.any()
    assert found.n_downdates.max() >= (10 if twins else "warm_start" in options)


@pytest.mark.paper("Luo, 5.1")
@pytest.mark.usefixtures("emulated")
def test_a_block_of_512_threads_solves_a_system(rng: Generator) -> None:
    """As published, a block of 512 threads solves a system, in one launch and without
    the host.
    """
    with emulator.profile() as report:
        gpusolve.nnls(rng.random((3, 6, 4)), rng.random((3, 6)), method="mgs")
    (launch,) = report.launched
    assert (launch.blocks, launch.threads) == (3, 3 * 512)
    assert report.host.synchronizations == report.host.copies == 0


@pytest.mark.paper("Luo, 3.1, Algorithm 2")
@pytest.mark.usefixtures("emulated")
def test_the_kernel_takes_r_as_printed() -> None:
    """As published, a solve has 10 barriers more for each passive column, 5 for each of
    2 scalar products, and one for the triangle.

    k columns enter, and each waits for the columns before it.
    """
    barriers = []
    for k in range(1, 5):
        b = np.where(np.arange(6) < k, 1.0, -1.0)
        with emulator.profile() as report:
            assert gpusolve.nnls(np.eye(6), b, method="mgs").n_updates == k
        barriers.append(sum(kernel.barriers for kernel in report.kernels))
    assert np.diff(barriers, 2).tolist() == 2 * [10 + 1] == 2 * [2 * 5 + 1]


# ---- where modified Gram-Schmidt fails ------------------------------------


def ill_conditioned() -> dict[str, tuple[Any, Any]]:
    """Systems whose columns are nearly dependent; condition numbers are 4e5 to 2e18."""
    rng = np.random.default_rng(20261123)
    A, noise = rng.random((6, 20, 8)), rng.standard_normal((6, 20))
    for k in range(6):
        other = A[k, :, 1] if k % 2 else A[k, :, :2].sum(axis=1)
        A[k, :, 2] = other + 10.0 ** (-5 - k) * noise[k]
    b = (A @ rng.random((6, 8, 1)))[..., 0]
    wide = shifted_gaussians(1, size=24, sigma=12.0)[0]
    decays = np.exp(-np.linspace(0, 1, 20)[:, None] * np.arange(1, 11))
    return {
        "nearly dependent": (A, b + 1e-3 * noise),
        "nearly dependent, exact": (A, b),
        "Hilbert": (hilbert(10), hilbert(10) @ (np.arange(10) % 2.0)),
        "Gaussians": (wide, wide @ rng.random(24)),
        "decays": (decays, decays @ rng.random(10) + 1e-6 * noise[0]),
    }


ILL_CONDITIONED = ill_conditioned()
FAILING = {"nearly dependent, exact", "Hilbert", "Gaussians"}


@pytest.mark.paper("Luo, 3.1, Algorithm 2")
@pytest.mark.parametrize("family", ILL_CONDITIONED)
def test_status_0_is_never_wrong(backend: Any, family: str) -> None:
    """Where columns are nearly dependent, such as in a Hilbert matrix, status 3 says
    that modified Gram-Schmidt does not suffice; status 0 is never wrong.
    """
    A, b = ILL_CONDITIONED[family]
    result = backend.nnls(A, b, method="mgs")
    assert (backend.nnls(A, b, method="qr").status == 0).all()
    assert (result.status == 3).any() == (family in FAILING)
    for k in np.ndindex(b.shape[:-1]):
        x, size = result.x[k], np.linalg.norm(b[k])
        size += np.linalg.norm(A[k], axis=0) @ x
        assert np.isfinite(x).all()
        assert (x >= 0).all()
        if result.status[k] == 0:
            assert violation(A[k], b[k], x) <= CERTIFIED
            assert result.rnorm[k] <= scipy_rnorm(A[k], b[k]) + 2 * CERTIFIED * size
        else:
            assert result.status[k] == 3
            assert result.kkt[k] > CERTIFIED
