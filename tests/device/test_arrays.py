"""Input arrays of nnls: errors, DLPack, and the offsets of the systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import aslinearoperator
from together import together

import gpusolve

A, b = np.ones((4, 3)), np.ones(4)


@together(
    ("arguments", "error", "message"),
    [
        ((A * 1j, b), TypeError, "A must .*got complex128"),
        ((A, b.astype(object)), TypeError, "b must .*got object"),
        ((A.astype(np.longdouble), b), TypeError, "A must have .*dtype"),
        (([["a"]], ["b"]), TypeError, "A must have .*dtype"),
        ((A, [2**70] * 4), TypeError, "b must .*got object"),
        ((A, [2**53 + 1] * 4), ValueError, "magnitude .*got 9007199254740993"),
        ((A, [-(2**63)] * 4), ValueError, "magnitude .*got 9223372036854775808"),
        ((A, np.array([2**64 - 1] * 4, np.uint64)), ValueError, "magnitude"),
        ((A, csr_array(A)), TypeError, "b must be a dense array, got a sparse matrix"),
        ((A, aslinearoperator(A)), TypeError, "b must be an array, got a linear op"),
        (([A, csr_array(A)], b), TypeError, "A must have sparse .*one library only"),
        (([csr_array(A), csr_array(A.T)], b), ValueError, r"\(4, 3\) of A.* of A\[1\]"),
        ((coo_array(b), b), ValueError, r"A must .*two axes, got shape \(4,\)"),
        ((csr_array(A * 1j), b), TypeError, "A must .*got complex128"),
        (
            ([csr_array(A), csr_array(A * 1j)], b),
            TypeError,
            r"A\[1\] must .*complex128",
        ),
        ((csr_array([[2**60]]), [1]), ValueError, "A must have integers .*at most 2"),
    ],
)
def test_invalid_arrays_are_rejected(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        gpusolve.nnls(*arguments)


class DLPackArray:
    """A CPU array that supports the DLPack protocol only."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_dlpack_arrays_are_accepted() -> None:
    result = gpusolve.nnls(DLPackArray(A), DLPackArray(b))
    assert isinstance(result.x, np.ndarray)
    np.testing.assert_array_equal(result.x, gpusolve.nnls(A, b).x)


class ArrayOnUnknownDevice:
    """An array on a DLPack device that gpusolve does not support."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 7, 0


def test_unknown_device_is_rejected() -> None:
    with pytest.raises(TypeError, match="DLPack device of type 7"):
        gpusolve.nnls(ArrayOnUnknownDevice(), b)


@pytest.mark.usefixtures("emulated")
def test_systems_of_a_kernel_have_any_strides(rng: np.random.Generator) -> None:
    base, b = rng.random((5, 3, 2, 8, 6)), rng.random((1, 3, 2, 8))
    for array in (base, base[::-2, :, :, ::2], base[:, :1], base[1, :, :1]):
        given = b[..., : array.shape[-2]]
        batch = np.broadcast_shapes(array.shape[:-2], (1, 3, 2))
        systems = np.broadcast_to(array, (*batch, *array.shape[-2:])).copy()
        found, expected = gpusolve.nnls(array, given), gpusolve.nnls(systems, given)
        np.testing.assert_array_equal(found.x, expected.x)
