"""Outputs, refusals and synchronisations on the second of two devices.

`cupy_stand_in` has two devices. The first device is current, and the arrays are on the
second device. A computation on the wrong device is an error, and so is a call that
changes the current device. ``tests/benchmarks/test_gpu_report.py`` makes the calls of
all paths in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
import scipy.sparse
from backends import copy_to_device
from kernel_calls import strided
from together import together

import gpusolve
from gpusolve import gam, sparse


class SecondDevice:
    """Calls functions with arrays on the second device, and checks the results' device.

    Results are copied to the host.
    """

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.device = cupy.cuda.Device(1)

    def array(self, value: Any) -> Any:
        """Copy NumPy's and SciPy's arrays, with strides. Other values are unchanged."""
        with self.device:
            if isinstance(value, np.ndarray):
                return copy_to_device(self.cupy, value)
            if scipy.sparse.issparse(value):
                kind = getattr(self.cupy.sparse, type(value).__name__)
                return kind(value)
        return value

    def host(self, value: Any) -> Any:
        """Copy a result to the host. It must be on the second device."""
        if isinstance(value, tuple):
            return tuple(self.host(item) for item in value)
        data = value.data if self.cupy.sparse.issparse(value) else value
        assert data.device == self.device
        return value.get()

    def __call__(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        arrays = [self.array(value) for value in args]
        named = {name: self.array(value) for name, value in options.items()}
        return self.host(function(*arrays, **named))


@pytest.fixture
def second() -> Iterator[SecondDevice]:
    with cupy_stand_in.installed() as cupy:
        yield SecondDevice(cupy)


def misaligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers, contiguous, at an odd address."""
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    found = np.ndarray(array.shape, array.dtype, buffer.data, 1)
    found[...] = array
    return found


LAYOUTS = [np.ascontiguousarray, strided, misaligned]
layouts = together("layout", LAYOUTS)

numbers = np.arange(1.0, 701.0).reshape(2, 350) % 7
flags = (np.arange(350) % 9 == 0).astype(np.int32)


Call = Callable[..., Any]

A, row = np.arange(20.0).reshape(4, 5), np.arange(5.0)
INTO: dict[str, tuple[Call, tuple[Any, ...], Any]] = {
    "scan": (gpusolve.scan, (numbers,), np.cumsum(numbers, axis=1)),
    "first axis": (
        partial(gpusolve.scan, axis=0), (numbers,), np.cumsum(numbers, axis=0)
    ),
    "gemv": (gpusolve.gemv, (A, row), A @ row),
}  # fmt: skip
"""Functions with `out`, arguments and results."""


@layouts
@together("name", INTO)
def test_results_are_written_into_out(
    second: SecondDevice, name: str, layout: Any
) -> None:
    function, arguments, expected = INTO[name]
    given = [second.array(array) for array in arguments]
    out = second.array(layout(np.zeros_like(expected)))
    assert function(*given, out=out) is out
    np.testing.assert_array_equal(out.get(), expected)


@layouts
def test_results_in_place_of_an_argument(second: SecondDevice, layout: Any) -> None:
    x = second.array(layout(numbers))
    gpusolve.scan(x, out=x)
    np.testing.assert_array_equal(x.get(), np.cumsum(numbers, axis=1))
    y = second.array(layout(row))
    gpusolve.gemv(second.array(np.diag(row)), y, out=y)
    np.testing.assert_array_equal(y.get(), row**2)
    indices = second.array(layout(np.array([3, 1, 99])))
    target = second.array(np.zeros((10, 2)))
    values = second.array(layout(np.array([[7.0], [8.0], [9.0]])))
    assert gpusolve.scatter(target, indices, values) is target
    np.testing.assert_array_equal(target.get()[:4, 0], [0, 8, 0, 7])


# ---- lists and refusals --------------------------------------------------------------

rng = np.random.default_rng(0)
entries = sparse.random_coo((40, 30), 0.2, rng=1)


def test_lists_are_copied_to_the_device_of_the_array(second: SecondDevice) -> None:
    x, host = second.array(np.arange(5.0)), second.host
    assert host(gpusolve.segmented_scan(x, [1, 0, 0, 1, 0])).tolist() == [0, 1, 3, 3, 7]
    assert host(gpusolve.segmented_reduce(x, [2, 3])).tolist() == [1, 9]
    count, kept = gpusolve.stable_partition(x, [False, True, True, False, True])
    assert (int(count), host(kept).tolist()) == (3, [1, 2, 4, 0, 3])
    A = second.array(np.eye(5))
    assert host(gpusolve.gemv(A, [1, 2, 3, 4, 5])).tolist() == [1, 2, 3, 4, 5]
    target = second.array(np.arange(6.0))
    gpusolve.scatter(target, second.array(np.arange(1, 6)), target[:5])
    gpusolve.scatter(target, [0, -1], [9, 9])
    assert target.get().tolist() == [9, 0, 1, 2, 3, 4]
    plan = sparse.SpMVPlan(second.array(entries.tocsr()))
    np.testing.assert_allclose(host(plan([1] * 30)), entries @ np.ones(30))


REFUSED: list[tuple[Call, Call, type[Exception], str]] = [
    (gpusolve.scan, lambda other: {"out": other}, TypeError, "out must be on GPU 1"),
    (gpusolve.nnls, lambda other: {"b": other[:, 0]}, ValueError, "b on GPU 0"),
    (gpusolve.nnls, lambda _: {"b": numbers[:, 0]}, TypeError, "b on the CPU"),
    *(
        (gpusolve.segmented_reduce, lambda _, given=given: given, ValueError, message)
        for given, message in (
            ({"lengths": [1, 2]}, "sum to .*got 3"),
            ({"lengths": [701, -1]}, "length, got -1"),
            ({"offsets": [1, 350]}, "offsets must go from 0.*got 1"),
        )
    ),
]


@pytest.mark.parametrize(("function", "options", "error", "message"), REFUSED)
def test_invalid_calls_on_a_device(
    second: SecondDevice, function: Any, options: Any, error: Any, message: str
) -> None:
    """Arrays on two devices, and numbers that are read from the device."""
    is_row = function is gpusolve.segmented_reduce
    x = second.array(numbers.ravel() if is_row else numbers)
    given = options(second.cupy.zeros(numbers.shape)).items()
    arrays = {k: second.array(np.array(v)) if is_row else v for k, v in given}
    with pytest.raises(error, match=message):
        function(x, **arrays)


# ---- gam -----------------------------------------------------------------------------

X = rng.random((90, 3))
y = np.sin(6 * X[:, 1]) + X[:, 0]
w = rng.random(90) * (np.arange(90) % 7 > 0)


@together("method", ["auto", "stacked", "gram"])
@together("weights", [None, w], ids=["plain", "weighted"])
def test_boosted_gam(second: SecondDevice, method: str, weights: Any) -> None:
    def model() -> Any:
        return gam.BoostedGAM(n_basis=6, max_iter=8, method=method)

    expected = model().fit(X, y, weights)
    data = [second.array(array) for array in (np.asfortranarray(X), y, weights)]
    found = model().fit(*data)
    np.testing.assert_array_equal(found.selected_, expected.selected_)
    np.testing.assert_allclose(
        found.coefficients_, expected.coefficients_, rtol=1e-9, atol=1e-12
    )
    new = 1.2 * X - 0.1
    new_data = second.array(strided(new))
    found_values = second.host(found.predict(new_data))
    np.testing.assert_allclose(found_values, expected.predict(new))
    for array, right in zip(
        found.staged_predict(new_data), expected.staged_predict(new), strict=True
    ):
        np.testing.assert_allclose(second.host(array), right)
    effect = second.host(found.partial_effect(1, second.array(new[:, 1])))
    np.testing.assert_allclose(effect, expected.partial_effect(1, new[:, 1]))
    assert found.score(*data) == pytest.approx(expected.score(X, y, weights))
    assert found.predict(X).shape == (90,)  # arrays on the host also work


def test_boosted_gam_moves_data(second: SecondDevice) -> None:
    expected = gam.BoostedGAM(n_basis=6, max_iter=4, device="cpu").fit(X, y)
    for device, data in (
        ("cuda", (X, y)),
        ("cpu", (second.array(X), second.array(y))),
        ("auto", (second.array(X), y)),
        ("auto", (X, second.array(y))),
        ("auto", (second.array(X), second.cupy.asarray(y))),
    ):
        model = gam.BoostedGAM(n_basis=6, max_iter=4, device=device).fit(*data)
        np.testing.assert_allclose(
            model.coefficients_, expected.coefficients_, rtol=1e-9, atol=1e-12
        )


# ---- synchronisations ----------------------------------------------------------------


def host_costs(second: SecondDevice, function: Any, *args: Any) -> Any:
    """What the host does in one call; kernels do run."""
    arrays = [second.array(value) for value in args]
    with gpusolve.emulator.profile() as report:
        function(*arrays)
    assert report.host.launches == sum(kernel.launches for kernel in report.kernels)
    return report.host


def test_calls_read_few_numbers_from_the_device(second: SecondDevice) -> None:
    """Most none; a check of lengths one, and a sparse product one array."""
    x, A = numbers[0], scipy.sparse.coo_matrix(numbers)
    for function, args, reads in (
        (gpusolve.reduce, (x,), 0),
        (gpusolve.scan, (x,), 0),
        (gpusolve.segmented_scan, (x, flags), 0),
        (gpusolve.stable_partition, (x, x > 3), 0),
        (gpusolve.gemv, (numbers, x), 0),
        (gpusolve.nnls, (np.eye(4), numbers[:, :4]), 0),
        (gpusolve.segmented_reduce, (x, np.array([100, 0, 250])), 1),
        (sparse.multiply, (A, A), 1),
    ):
        host = host_costs(second, function, *args)
        assert (host.synchronizations, host.copies) == (reads, reads), function


@pytest.mark.paper(
    "Sieminski, 5",
    "2 steps cost the host what 9 steps cost: 3 launches, of the basis, the Gram "
    "matrices and all steps, the same copies, and at most 12 reads",
)
def test_boosting_steps_stay_on_the_device(second: SecondDevice) -> None:
    rng = np.random.default_rng(2)
    X, y = second.array(rng.random((60, 3))), second.array(rng.random(60))
    costs = []
    for steps in (2, 9):
        model = gam.BoostedGAM(n_basis=8, max_iter=steps, method="stacked")
        with gpusolve.emulator.profile() as report:
            model.fit(X, y)
        costs.append(replace(report.host, seconds=0.0))
    assert costs[0] == costs[1]
    assert costs[0].launches == 3
    assert costs[0].synchronizations <= 12


@pytest.mark.usefixtures("emulated")
def test_a_dry_run_launches_nothing() -> None:
    with gpusolve.emulator.profile(run_kernels=False) as report:
        gpusolve.scan(numbers)
    assert report.kernels == []
    assert report.host.launches == 1
    assert report.host.allocations == 2
    assert report.host.memsets == 1
    assert report.host.seconds > 0
