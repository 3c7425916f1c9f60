"""The types that mypy infers for calls. `make lint` checks this file; nothing runs it.

An ignored error that is not found is an error, too: see `warn_unused_ignores`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import gpusolve
from gpusolve import Map, NNLSResult
from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, gamboost

if TYPE_CHECKING:
    import cupy

Array = NDArray[Any]
ArrayOrNumber = NDArray[Any] | Any


def numpy_calls(x: NDArray[np.float32], flags: list[bool], square: Map) -> None:
    assert_type(gpusolve.map(square, x), ArrayOrNumber)
    assert_type(gpusolve.reduce([[1, 2], [3, 4]], "max", axis=0), ArrayOrNumber)
    assert_type(gpusolve.any(x), ArrayOrNumber)
    assert_type(gpusolve.maximum_segment_sum(x), ArrayOrNumber)
    assert_type(gpusolve.scan(x), Array)
    assert_type(gpusolve.segmented_scan(x, flags), Array)
    assert_type(gpusolve.segmented_reduce(x, [1, 2]), Array)
    assert_type(gpusolve.segment_flags([1, 2]), NDArray[np.bool_])
    assert_type(gpusolve.scatter(x, [0], [1.0]), NDArray[np.float32])
    assert_type(gpusolve.replicate(2, 7.0), Array)
    assert_type(gpusolve.stable_partition(x, flags), tuple[np.int64, Array])
    assert_type(gpusolve.gemv([[1.0, 2.0]], x), Array)
    assert_type(gpusolve.sparse.spmv(scipy.sparse.eye_array(3), x), Array)


def solution_calls(A: NDArray[np.float64], b: list[float]) -> None:
    result = gpusolve.nnls(A, b, l1=np.float32(1))
    assert_type(result, NNLSResult[Array])
    assert_type(result.x, Array)
    assert_type(result.covariance(), Array)
    assert_type(result.vjp(1.0).A, Array)
    assert_type(gpusolve.lsq_linear(A, b, ([-np.inf, 0], np.inf)).dual, Array)
    assert_type(gpusolve.bounded_qp(A, b).x, Array)


def cupy_calls(x: NDArray[np.float64]) -> None:
    """CuPy declares no types."""
    on_device = cupy.asarray(x)
    assert_type(gpusolve.scan(on_device), Any)
    assert_type(gpusolve.replicate(2, 7.0, like=on_device), Any)
    assert_type(gpusolve.reduce([on_device, on_device]), Any)
    assert_type(gpusolve.nnls(on_device, on_device).x, Any)
    assert_type(BoostedGAM().predict(on_device), Any)


def model_calls(X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    model = BoostedGAM().fit(X, y)
    assert_type(model, BoostedGAM)
    assert_type(model.predict(X), NDArray[np.float64])
    assert_type(model.coefficients_, NDArray[np.float64])
    data = {"x": X, "y": y}
    assert_type(gamboost("y ~ x", data, family="poisson"), BoostedGAM)
    classifier = gamboost("y ~ x", data, family="binomial")
    assert_type(classifier, BoostedGAMClassifier)
    assert_type(classifier.predict_proba(X), NDArray[np.float64])


def refused(A: NDArray[np.float64], b: NDArray[np.float64]) -> None:
    gpusolve.nnls(A, b, method="nonsense")  # type: ignore[call-overload]
    gpusolve.lsq_linear(A, b, method="fnnls")  # type: ignore[call-overload]
    gpusolve.nnls(A, b, devices="nonsense")  # type: ignore[arg-type]
    gpusolve.nnls(A, b).x.nonsense()  # type: ignore[attr-defined]
    gpusolve.reduce(b, "maxx")  # type: ignore[call-overload]
    gpusolve.scan(b, variant="tree")  # type: ignore[call-overload]
    gpusolve.gemv(A, b, variant="nonsense")  # type: ignore[call-overload]
    BoostedGAM(missing="nonsense")  # type: ignore[arg-type]
    BoostedGAM().predict(A, kind="nonsense")  # type: ignore[call-overload]
    gamboost("y ~ x", {}, family="nonsense")  # type: ignore[call-overload]
    gpusolve.sparse.multiply(A, A, method="nonsense")  # type: ignore[arg-type]
