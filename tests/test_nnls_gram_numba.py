"""The Gram method that Numba compiles, compared with its specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpusolve
from gpusolve import reference
from gpusolve._nnls import cpu

pytestmark = pytest.mark.covering

nnls_gram_numba = pytest.importorskip("gpusolve._nnls.nnls_gram_numba")

Array = NDArray[Any]
EPS = float(np.finfo(np.float64).eps)

SYSTEMS = 12


def options_of(rng: np.random.Generator, n: int, m: int) -> dict[str, dict[str, Any]]:
    """Options by name; arrays are for each system."""
    low, high = -0.3 * rng.random((SYSTEMS, n)), 0.3 * rng.random((SYSTEMS, n))
    free = -np.inf, np.inf
    start = rng.standard_normal((SYSTEMS, n))
    return {
        "none": {},
        "penalties": {"l1": 0.1, "l2": 0.2},
        "own penalties": {"l1": rng.random((SYSTEMS, n)), "l2": rng.random(n)},
        "box": {"bounds": (low, high)},
        "box without 0": {"bounds": (low + 0.2, high + 0.2)},
        "one-sided": {"bounds": (-np.inf, high)},
        "weights": {"weights": rng.random((SYSTEMS, m)), "bounds": (low, high + 0.5)},
        "sum": {"sum_to": 1.0},
        "sums in a box": {"sum_to": rng.random(SYSTEMS), "bounds": (-0.2, 0.6)},
        "free with a sum": {"sum_to": 1.0, "bounds": free, "l2": 0.1},
        "start": {"warm_start": start},
        "start in a box": {"warm_start": start, "bounds": (low, high)},
        "start with a sum": {"warm_start": abs(start), "sum_to": 1.0},
    }


NAMES = list(options_of(np.random.default_rng(0), 1, 1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(5, 3), (12, 8), (6, 15), (70, 52)])
@pytest.mark.parametrize("shared", [False, True])
def test_the_steps_are_those_of_the_specification(
    shape: tuple[int, int], name: str, shared: bool, rng: np.random.Generator
) -> None:
    A, b = (
        rng.standard_normal((SYSTEMS, *shape)),
        rng.standard_normal((SYSTEMS, shape[0])),
    )
    A = A[0] if shared else A
    options = options_of(rng, shape[1], shape[0])[name]
    given = {"bounds": (0.0, np.inf), "method": "gram", **options}
    found = gpusolve.lsq_linear(A, b, **given)
    expected = reference.nnls_gram(A, b, **options)
    for count in ("nit", "n_updates", "n_downdates", "status"):
        np.testing.assert_array_equal(getattr(found, count), getattr(expected, count))
    # Rounding errors of a few columns, magnified by their condition number.
    scale = 1e4 * EPS * max(1, abs(expected.x).max())
    np.testing.assert_allclose(found.x, expected.x, atol=scale)
    np.testing.assert_allclose(found.rnorm, expected.rnorm, atol=1e3 * EPS)
    np.testing.assert_allclose(found.dual, expected.dual, atol=1e5 * EPS)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_less_precise_dtypes(dtype: Any, rng: np.random.Generator) -> None:
    A, b = rng.random((SYSTEMS, 20, 9)), rng.random((SYSTEMS, 20))
    A, b = A.astype(dtype).astype(np.float32), b.astype(dtype).astype(np.float32)
    found = gpusolve.nnls(A.astype(dtype), b.astype(dtype))
    expected = reference.nnls_gram(A, b)
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.nit, expected.nit)


@pytest.mark.parametrize("shape", [(30, 10), (80, 60), (12, 200)])
@pytest.mark.parametrize("options", [{}, {"l2": 0.1}, {"sum_to": 1.0}])
def test_bits_do_not_depend_on_the_batch(
    shape: tuple[int, int], options: dict[str, float], rng: np.random.Generator
) -> None:
    """Nor on whether a matrix with few columns is shared; see `COLUMNS_PER_SYSTEM`."""
    A, b = rng.random(shape), rng.random((SYSTEMS, shape[0]))
    batch = gpusolve.nnls(A, b, **options)
    part = gpusolve.nnls(A, b[::-1], **options)
    own = gpusolve.nnls(np.stack([A] * SYSTEMS), b, **options)
    few = shape[1] <= nnls_gram_numba.COLUMNS_PER_SYSTEM
    for k in range(SYSTEMS):
        alone = gpusolve.nnls(A, b[k], **options)
        for name in ("x", "rnorm", "dual", "kkt", "nit"):
            bits, shared = getattr(own, name)[k], getattr(batch, name)[k]
            np.testing.assert_array_equal(bits, getattr(alone, name))
            np.testing.assert_array_equal(shared, getattr(part, name)[-1 - k])
            if few:
                np.testing.assert_array_equal(bits, shared)


@pytest.mark.parametrize("shape", [(80, 60), (12, 200), (9, 5)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns_per_system", [0, np.inf])
def test_gradients_from_the_matrix_and_from_its_gram_matrix(
    shape: tuple[int, int],
    name: str,
    columns_per_system: float,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ways take the steps of the specification, for any number of columns."""
    A, b = rng.standard_normal(shape), rng.standard_normal((SYSTEMS, shape[0]))
    options = options_of(rng, shape[1], shape[0])[name]
    given = {"bounds": (0.0, np.inf), "method": "gram", **options}
    monkeypatch.setattr(nnls_gram_numba, "COLUMNS_PER_SYSTEM", columns_per_system)
    found = gpusolve.lsq_linear(A, b, **given)
    expected = reference.nnls_gram(A, b, **options)
    for count in ("nit", "n_updates", "n_downdates", "status"):
        np.testing.assert_array_equal(getattr(found, count), getattr(expected, count))
    scale = 1e4 * EPS * max(1, abs(expected.x).max())
    np.testing.assert_allclose(found.x, expected.x, atol=scale)


def test_arrays_that_cannot_be_written(rng: np.random.Generator) -> None:
    A, b = rng.random((4, 9, 5)), rng.random((4, 9))
    expected = gpusolve.nnls(A, b)
    A.flags.writeable = b.flags.writeable = False
    np.testing.assert_array_equal(gpusolve.nnls(A, b).x, expected.x)
    assert len(nnls_gram_numba.solve_all.signatures) == 1


def test_numba_is_used() -> None:
    assert cpu.gram_method() is nnls_gram_numba.nnls_gram
