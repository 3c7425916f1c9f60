"""Every public function by each of its paths, on the second of two devices.

The devices are those of `cupy_stand_in`. The first one is current, and the arrays lie
on the second: what is computed on the wrong device, or leaves the current device
another than it was, is an error. Results are compared with those of NumPy's path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
import scipy.sparse
from device_views import on_device

import gpusolve
from gpusolve import gam, sparse


class SecondDevice:
    """Calls functions with arrays on the second device, and looks where results lie."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.device = cupy.cuda.Device(1)

    def array(self, value: Any) -> Any:
        """NumPy's and SciPy's arrays there, with their strides; the rest as it is."""
        with self.device:
            if isinstance(value, np.ndarray):
                return on_device(self.cupy, value)
            if scipy.sparse.issparse(value):
                kind = getattr(self.cupy.sparse, type(value).__name__)
                return kind(value)
        return value

    def host(self, value: Any) -> Any:
        """A result on the host; it must lie on the second device."""
        if isinstance(value, tuple):
            return tuple(self.host(one) for one in value)
        data = value.data if self.cupy.sparse.issparse(value) else value
        assert data.device == self.device
        return value.get()

    def __call__(
        self, function: Callable[..., Any], *given: Any, **options: Any
    ) -> Any:
        there = [self.array(value) for value in given]
        named = {name: self.array(value) for name, value in options.items()}
        return self.host(function(*there, **named))


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Iterator[SecondDevice]:
    monkeypatch.delenv("GPUSOLVE_EMULATE", raising=False)
    with cupy_stand_in.installed() as cupy:
        yield SecondDevice(cupy)


def check(second: SecondDevice, function: Any, *given: Any, **options: Any) -> None:
    """The same result there as by NumPy's path."""
    right = function(*given, **options)
    found = second(function, *given, **options)
    for one, other in zip(np.atleast_1d(found), np.atleast_1d(right), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def strided(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers, every other one of a longer row, from the back."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::-2] = array
    return wide[..., ::-2]


def misaligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers, contiguous from an odd address on."""
    room = np.zeros(array.nbytes + 1, np.uint8)
    found = np.ndarray(array.shape, array.dtype, room.data, 1)
    found[...] = array
    return found


LAYOUTS = [np.ascontiguousarray, strided, misaligned]
layouts = pytest.mark.parametrize("layout", LAYOUTS)

numbers = np.arange(1.0, 701.0).reshape(2, 350) % 7
square = gpusolve.Map("square", "x * x", np.square)
positive = gpusolve.Map("positive", "x > 0", lambda x: x > 0, dtype=bool)
flags = (np.arange(350) % 9 == 0).astype(np.int32)


# ---- reduce --------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("variant", ["tree", "group", "chunked", "atomic"])
def test_reduce(second: SecondDevice, variant: str, layout: Any) -> None:
    check(second, gpusolve.reduce, layout(numbers), variant=variant)


def test_reduce_of_axes_maps_and_nothing(second: SecondDevice) -> None:
    check(second, gpusolve.reduce, numbers, "max", axis=0)
    for variant in ("chunked", "tree"):
        check(second, gpusolve.reduce, numbers, map=square, axis=1, variant=variant)
    check(second, gpusolve.reduce, numbers[:, :0], "mul", axis=1)
    check(second, gpusolve.any, numbers, positive)
    check(second, gpusolve.all, numbers, axis=0)
    check(second, gpusolve.maximum_segment_sum, numbers - 3)


# ---- scan ----------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("variant", ["look_back", "hierarchical", "sweep", "warp"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_scan(second: SecondDevice, variant: str, exclusive: bool, layout: Any) -> None:
    x = layout(numbers)
    check(second, gpusolve.scan, x, variant=variant, exclusive=exclusive)


def test_scan_of_other_axes_and_lengths(second: SecondDevice) -> None:
    check(second, gpusolve.scan, numbers, "max", axis=0)
    many = np.ones(40_000, np.int16)  # of several chunks
    check(second, gpusolve.scan, many, variant="hierarchical")
    check(second, gpusolve.scan, many[:0])


@layouts
def test_scan_into_out(second: SecondDevice, layout: Any) -> None:
    right = np.cumsum(numbers, axis=1)
    out = second.array(layout(np.zeros_like(numbers)))
    assert gpusolve.scan(second.array(numbers), out=out) is out
    np.testing.assert_array_equal(out.get(), right)
    same = second.array(layout(numbers))
    gpusolve.scan(same, out=same)
    np.testing.assert_array_equal(same.get(), right)
    along = second.array(layout(np.zeros_like(numbers)))
    gpusolve.scan(second.array(numbers), axis=0, out=along)
    np.testing.assert_array_equal(along.get(), np.cumsum(numbers, axis=0))


def test_out_on_another_device_is_refused(second: SecondDevice) -> None:
    x, out = second.array(numbers), second.cupy.zeros(numbers.shape)
    for call in (
        lambda: gpusolve.scan(x, out=out),
        lambda: gpusolve.segmented_scan(x, second.array(flags), out=out),
        lambda: gpusolve.gemv(second.array(np.eye(350)), x, out=out),
    ):
        with pytest.raises(TypeError, match=r"out lies on GPU 0, [xA] on GPU 1"):
            call()


# ---- segments ------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("exclusive", [False, True])
def test_segmented_scan(second: SecondDevice, exclusive: bool, layout: Any) -> None:
    given = layout(numbers), layout(flags)
    check(second, gpusolve.segmented_scan, *given, exclusive=exclusive)


def test_segmented_scan_of_packed_flags(second: SecondDevice) -> None:
    bits = np.packbits(flags != 0, bitorder="little")
    for x in (numbers, numbers[0]):  # the first unpacks them
        check(second, gpusolve.segmented_scan, x, bits, packed=True)


def test_lists_beside_an_array(second: SecondDevice) -> None:
    x = second.array(np.arange(5.0))
    found = second.host(gpusolve.segmented_scan(x, [1, 0, 0, 1, 0]))
    assert found.tolist() == [0, 1, 3, 3, 7]
    assert second.host(gpusolve.segmented_reduce(x, [2, 3])).tolist() == [1, 9]
    count, kept = gpusolve.stable_partition(x, [False, True, True, False, True])
    assert int(count) == 3
    assert second.host(kept).tolist() == [1, 2, 4, 0, 3]
    A = second.array(np.eye(5))
    assert second.host(gpusolve.gemv(A, [1, 2, 3, 4, 5])).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_segmented_reduce(second: SecondDevice, dtype: Any) -> None:
    lengths = np.array([0, 3, 1, 0, 345, 1], dtype)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
    x = numbers[0]
    check(second, gpusolve.segmented_reduce, x, lengths)
    check(second, gpusolve.segmented_reduce, x, op="max", offsets=offsets)
    check(second, gpusolve.segmented_reduce, x[:0], lengths[:1])
    check(second, gpusolve.segment_flags, lengths)
    check(second, gpusolve.segment_flags, lengths, total=350)


def test_lengths_that_do_not_fit(second: SecondDevice) -> None:
    x = second.array(numbers[0])
    for lengths, message in (([1, 2], "sum to 3"), ([351, -1], "length -1")):
        with pytest.raises(ValueError, match=message):
            gpusolve.segmented_reduce(x, second.array(np.array(lengths)))
    with pytest.raises(ValueError, match="offsets goes from 1"):
        gpusolve.segmented_reduce(x, offsets=second.array(np.array([1, 350])))
    with pytest.raises(ValueError, match="lengths has -1"):
        gpusolve.segment_flags(second.array(np.array([2, -1])))


# ---- partition -----------------------------------------------------------------------


@layouts
def test_stable_partition(second: SecondDevice, layout: Any) -> None:
    x = layout(numbers[0])
    for mask in (layout(numbers[0] > 3), positive):
        count, y = gpusolve.stable_partition(x, mask)
        found_count, found = second(gpusolve.stable_partition, x, mask)
        assert found_count == count
        np.testing.assert_array_equal(found, y)


@layouts
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64])
def test_scatter(second: SecondDevice, dtype: Any, layout: Any) -> None:
    given = layout(np.arange(20.0).reshape(10, 2)), layout(np.array([3, 1, 99], dtype))
    values = layout(np.array([[7.0], [8.0], [9.0]]))
    if layout is strided:
        given = given[0].copy(), given[1]  # a target is contiguous
    right = gpusolve.scatter(given[0].copy(), given[1], values)
    target, places = map(second.array, given)
    assert gpusolve.scatter(target, places, second.array(values)) is target
    np.testing.assert_array_equal(target.get(), right)


def test_scatter_of_the_target_itself(second: SecondDevice) -> None:
    target = second.array(np.arange(6.0))
    places = second.array(np.array([1, 2, 3, 4, 5]))
    gpusolve.scatter(target, places, target[:5])
    assert target.get().tolist() == [0, 0, 1, 2, 3, 4]
    gpusolve.scatter(target, [0, -1], [9, 9])
    assert target.get().tolist() == [9, 0, 1, 2, 3, 4]


def test_replicate(second: SecondDevice) -> None:
    like = second.array(numbers)
    found = second.host(gpusolve.replicate(3, [1.0, 2.0], like=like))
    assert found.tolist() == [[1, 2]] * 3
    element = second.array(np.array([1.0, 2.0]))
    assert second.host(gpusolve.replicate(2, element)).tolist() == [[1, 2]] * 2


# ---- gemv ----------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(
    "variant", ["auto", "naive", "threads_per_dot", "threads_per_row"]
)
def test_gemv(second: SecondDevice, variant: str, transpose: bool, layout: Any) -> None:
    A = layout(np.arange(120.0).reshape(3, 8, 5))
    x = layout(np.arange(40.0).reshape(5, 8) if transpose else np.ones((3, 5)))
    if transpose:
        x = x[:3]
    check(second, gpusolve.gemv, A, x, variant=variant, transpose=transpose)


@layouts
def test_gemv_into_out(second: SecondDevice, layout: Any) -> None:
    A, x = np.arange(20.0).reshape(4, 5), np.arange(5.0)
    out = second.array(layout(np.zeros(4)))
    assert gpusolve.gemv(second.array(A), second.array(x), out=out) is out
    np.testing.assert_array_equal(out.get(), A @ x)
    over = second.array(layout(x))
    gpusolve.gemv(second.array(np.diag(x)), over, out=over)
    np.testing.assert_array_equal(over.get(), x**2)


def test_gemv_of_other_numbers_and_none(second: SecondDevice) -> None:
    A = np.arange(20).reshape(4, 5)
    check(second, gpusolve.gemv, A, np.arange(5, dtype=np.int32))
    check(second, gpusolve.gemv, A.astype(np.float16), np.ones(5, np.float16))
    check(second, gpusolve.gemv, A[:, :0], np.ones(0))
    check(second, gpusolve.gemv, A[:0], np.ones(5))
    check(second, gpusolve.gemv, np.ones((1, 3000)), np.ones(3000))
    check(second, gpusolve.gemv, np.ones((3, 3000)).T, np.ones(3))
    check(second, gpusolve.gemv, np.ones((3000, 3)).T, np.ones(3000))


# ---- sparse --------------------------------------------------------------------------

A = sparse.random_coo((40, 30), 0.2, rng=1)
B = sparse.random_coo((40, 30), 0.3, rng=2)
doubled = scipy.sparse.coo_array(
    (np.ones(4), (np.int64([3, 1, 1, 0]), np.int64([2, 5, 5, 9]))), shape=(40, 30)
)


@pytest.mark.parametrize("method", ["linear", "binary", "merge", "gallop"])
def test_multiply(second: SecondDevice, method: str) -> None:
    right = (A * B).toarray()
    found = second(sparse.multiply, A, B, method=method)
    np.testing.assert_array_equal(found.toarray(), right)


@pytest.mark.parametrize("format", ["coo", "csr", "csc"])
def test_multiply_of_all_formats(second: SecondDevice, format: str) -> None:
    C = scipy.sparse.coo_matrix(doubled).asformat(format)
    found = second(sparse.multiply, C, B)
    np.testing.assert_array_equal(found.toarray(), (doubled * B).toarray())
    assert scipy.sparse.isspmatrix(found)
    infinite = B.copy()
    infinite.data[0] = np.inf
    with np.errstate(invalid="ignore"):
        right = doubled.toarray() * infinite.toarray()
    np.testing.assert_array_equal(
        second(sparse.multiply, doubled, infinite).toarray(), right
    )
    nothing = scipy.sparse.coo_array((40, 30))
    assert second(sparse.multiply, nothing, B).nnz == 0
    assert second(sparse.spmv, nothing, np.ones(30)).tolist() == [0] * 40
    longer_first = second(sparse.multiply, B, doubled, method="gallop")
    np.testing.assert_array_equal(longer_first.toarray(), (B * doubled).toarray())
    tiny = 1e-200 * B
    assert second(sparse.multiply, tiny, tiny).nnz == 0  # zeros are left out


@layouts
@pytest.mark.parametrize("method", ["fused", "segmented_scan"])
@pytest.mark.parametrize("format", ["coo", "csr", "csc"])
def test_spmv(second: SecondDevice, format: str, method: str, layout: Any) -> None:
    x = layout(np.arange(60.0).reshape(2, 30))
    matrix = A.asformat(format)
    check(second, sparse.spmv, matrix, x, method=method)
    check(second, sparse.spmv, matrix, x[0], method=method, add="min", multiply="add")


def test_spmv_in_the_order_of_the_columns(second: SecondDevice) -> None:
    first = gpusolve.Monoid(
        "first", 0, "a != 0 ? a : b", lambda a, b: np.where(a, a, b), False
    )
    for matrix in (doubled, doubled.tocsr(), doubled.tocsc()):
        check(second, sparse.spmv, matrix, np.arange(30.0), add=first)
    huge = scipy.sparse.coo_array(
        (np.ones(2), (np.int64([0, 1]), np.int64([5, 2]))), shape=(3, 2**62)
    )
    with pytest.raises(ValueError, match="x has shape"):
        second(sparse.spmv, huge, np.ones(3), add=first)


@pytest.mark.parametrize("method", ["fused", "segmented_scan"])
def test_spmv_of_several_tiles(second: SecondDevice, method: str) -> None:
    matrix = sparse.random_coo((300, 200), 0.1, rng=3).tocsr()
    check(second, sparse.spmv, matrix, np.ones((2, 200)), method=method)
    empty = scipy.sparse.csr_array((5, 3))
    check(second, sparse.spmv, empty, np.ones(3), method=method)


def test_plan(second: SecondDevice) -> None:
    plan = sparse.SpMVPlan(second.array(A.tocsr()))
    x, X = np.arange(30.0), np.arange(60.0).reshape(30, 2)
    np.testing.assert_allclose(second.host(plan @ second.array(x)), A @ x)
    np.testing.assert_allclose(second.host(plan @ second.array(X)), A @ X)
    assert second.host(plan([1] * 30)).shape == (40,)
    with pytest.raises(ValueError, match="all arrays must be on one device"):
        plan(second.cupy.ones(30))


def test_sparse_operands_on_two_devices(second: SecondDevice) -> None:
    here = second.cupy.sparse.coo_array(B)
    with pytest.raises(ValueError, match="A on GPU 1, B on GPU 0"):
        sparse.multiply(second.array(A), here)
    with pytest.raises(TypeError, match="B on the CPU"):
        sparse.multiply(second.array(A), B)


# ---- nnls ----------------------------------------------------------------------------

rng = np.random.default_rng(0)
systems, sides = rng.random((3, 8, 4)), rng.standard_normal((2, 3, 8))


def solved(*given: Any, **options: Any) -> Any:
    """What of the result does not depend on rounding."""
    result = gpusolve.nnls(*given, **options)
    return result.x, result.rnorm, result.dual, result.status, result.nit


@layouts
@pytest.mark.parametrize("method", ["auto", "qr"])
def test_nnls(second: SecondDevice, method: str, layout: Any) -> None:
    given = layout(systems), layout(sides)
    right = solved(*given, method="qr")
    found = second(solved, *given, method=method)
    for one, other in zip(found, right, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_nnls_with_everything(second: SecondDevice) -> None:
    start = np.broadcast_to(np.float32([1, 0, 0, 2]), (3, 4))
    options = {"l1": 0.1, "l2": 0.2, "warm_start": strided(start)}
    given = np.float32(systems).swapaxes(1, 2).copy().swapaxes(1, 2), np.float32(sides)
    right = solved(*given, **options)
    found = second(solved, *given, **options)
    assert found[0].dtype == np.float32
    np.testing.assert_allclose(found[0], right[0], atol=1e-4)
    assert second(solved, systems[:0], sides[0, :0])[0].shape == (0, 4)
    with pytest.raises(ValueError, match="CPU only"):
        second(solved, *given, method="gram")


def test_nnls_of_large_integers(second: SecondDevice) -> None:
    """Which are looked at on their own device."""
    A, b = np.array([[3, 2], [1, 1]]), np.array([3, 2])
    np.testing.assert_allclose(second(solved, A, b)[0], [0, 1.6])
    with pytest.raises(ValueError, match="float64 cannot hold"):
        second(solved, A * 2**60, b)


def test_nnls_refuses_two_devices(second: SecondDevice) -> None:
    A, b = second.array(systems), second.cupy.asarray(sides)
    with pytest.raises(ValueError, match="A on GPU 1, b on GPU 0"):
        gpusolve.nnls(A, b)
    with pytest.raises(TypeError, match="A on a GPU, b on the CPU"):
        gpusolve.nnls(A, sides)


# ---- gam -----------------------------------------------------------------------------

X = rng.random((90, 3))
y = np.sin(6 * X[:, 1]) + X[:, 0]
w = rng.random(90) * (np.arange(90) % 7 > 0)


@pytest.mark.parametrize("method", ["auto", "direct", "stacked", "gram"])
@pytest.mark.parametrize("weights", [None, w], ids=["plain", "weighted"])
def test_boosted_gam(second: SecondDevice, method: str, weights: Any) -> None:
    def model() -> Any:
        return gam.BoostedGAM(n_basis=6, max_iter=8, method=method)

    right = model().fit(X, y, weights)
    there = [second.array(one) for one in (np.asfortranarray(X), y, weights)]
    found = model().fit(*there)
    np.testing.assert_array_equal(found.selected_, right.selected_)
    np.testing.assert_allclose(found.coef_, right.coef_, rtol=1e-9, atol=1e-12)
    wide = second.array(strided(1.2 * X - 0.1))
    at = 1.2 * X - 0.1
    np.testing.assert_allclose(second.host(found.predict(wide)), right.predict(at))
    for one, other in zip(
        found.staged_predict(wide), right.staged_predict(at), strict=True
    ):
        np.testing.assert_allclose(second.host(one), other)
    effect = found.partial_effect(1, second.array(at[:, 1]))
    np.testing.assert_allclose(second.host(effect), right.partial_effect(1, at[:, 1]))
    assert found.score(*there) == pytest.approx(right.score(X, y, weights))
    assert found.predict(X).shape == (90,)  # on the host, too


def test_boosted_gam_goes_on(second: SecondDevice) -> None:
    model = gam.BoostedGAM(n_basis=6, max_iter=4, warm_start=True, method="stacked")
    given = second.array(X), second.array(y)
    model.fit(*given).set_params(max_iter=8).fit(*given)
    right = gam.BoostedGAM(n_basis=6, max_iter=8, method="stacked").fit(X, y)
    np.testing.assert_allclose(model.coef_, right.coef_, rtol=1e-9, atol=1e-12)


def test_boosted_gam_moves_data(second: SecondDevice) -> None:
    right = gam.BoostedGAM(n_basis=6, max_iter=4, device="cpu").fit(X, y)
    for device, given in (
        ("cuda", (X, y)),
        ("cpu", (second.array(X), second.array(y))),
        ("auto", (second.array(X), y)),
        ("auto", (X, second.array(y))),
        ("auto", (second.array(X), second.cupy.asarray(y))),
    ):
        model = gam.BoostedGAM(n_basis=6, max_iter=4, device=device).fit(*given)
        np.testing.assert_allclose(model.coef_, right.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("outside", ["linear", "clamp", "error"])
def test_bases(second: SecondDevice, outside: str) -> None:
    def dense(X: Any) -> Any:
        basis = gam.BSplines.spanning(X, 6)
        return basis.evaluate(X, outside=outside).dense(6)

    check(second, dense, X)
