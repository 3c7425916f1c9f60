"""Invalid calls of sparse products: the error, and what its message says."""

from __future__ import annotations

from typing import Any

import cupy_stand_in
import numpy as np
import pytest
import scipy.sparse
from backends import without_gpu
from monoids import exclusive_or
from together import together

from gpusolve import sparse

EYE, ROWS, ROW = (scipy.sparse.csr_array(np.eye(rows, 3)) for rows in (3, 2, 1))
ONE = np.ones(3)
LONG = np.longdouble
huge = scipy.sparse.coo_array((2**32, 2**31 + 1))

INVALID = [
    ("multiply", (np.eye(3), EYE), {}, TypeError, "A must be a sparse .*got ndarray"),
    ("multiply", (EYE, 2.0), {}, TypeError, "B must be a sparse .*got float"),
    ("multiply", (EYE, ROWS), {}, ValueError, r"got \(3, 3\) and \(2, 3\)"),
    ("multiply", (scipy.sparse.coo_array([1, 2]), EYE), {}, ValueError, r"got .*\(2,"),
    ("multiply", (huge, huge), {}, ValueError, r"at most 2\*\*63 places"),
    ("multiply", (EYE, EYE), {"method": "hash"}, ValueError, "'linear'.*got 'hash'"),
    *(
        ("multiply", (EYE, EYE), {"method": method, **given}, ValueError, message)
        for method, given, message in (
            ("linear", {"blocks": 0}, "blocks must be positive.*got 0"),
            ("merge", {"blocks": 4}, "blocks must be positive.*got 4"),
            ("linear", {"threads": 0}, "threads must be 1 or a multiple of 32.*got 0"),
            ("even", {"threads": 33}, "threads must be 1 or .*got 33 for 'even'"),
            ("merge", {"threads": 1}, "threads must be 1 or .*got 1 for 'merge'"),
        )
    ),
    ("spmv", (np.eye(3), ONE), {}, TypeError, "A must be a sparse .*got ndarray"),
    ("spmv", (scipy.sparse.coo_array([1.0, 2]), ONE), {}, ValueError, r"shape \(2,\)"),
    ("spmv", (EYE, np.ones(4)), {}, ValueError, r"\(\.\.\., 3\).*got \(4,\)"),
    ("spmv", (EYE, 1.0), {}, ValueError, r"x must .*got .*\(\)"),
    ("spmv", (EYE, EYE), {}, TypeError, "x"),
    ("spmv", (EYE, np.array(["a"] * 3)), {}, TypeError, "x must .*got <U1"),
    ("spmv", (EYE.astype(LONG), ONE), {}, TypeError, "A must have .*dtype"),
    ("spmv", (EYE, ONE), {"method": "magic"}, ValueError, "method must .*got 'magic'"),
    ("spmv", (EYE, ONE), {"add": "sum"}, ValueError, "'sum'"),
    ("spmv", (EYE, ONE), {"add": "mssp"}, ValueError, "add must .*got mssp"),
    ("spmv", (EYE, ONE), {"multiply": "mssp"}, ValueError, "multiply must .*got mssp"),
    ("spmv", (EYE, ONE * 1j), {"multiply": "max"}, TypeError, "max does not accept"),
    ("spmv", (EYE, ONE), {"add": exclusive_or}, TypeError, "not accept dtype float64"),
    ("random_coo", ((3, 3), -0.1), {}, ValueError, "density must .*got -0.1"),
    ("random_coo", ((3, 3), np.nan), {}, ValueError, "density must .*got nan"),
    ("random_coo", ((3, 3), "1"), {}, TypeError, "density must .*got '1'"),
    ("random_coo", ((3,), 0.5), {}, ValueError, r"shape must .*got \(3,\)"),
    ("random_coo", ((3, 3.0), 0.5), {}, TypeError, r"shape must .*got \(3, 3.0\)"),
    ("random_coo", ((2**32, 2**32), 0.5), {}, ValueError, r"at most 2\*\*63 places"),
    ("random_coo", ((1, 2**63), 0.5), {}, ValueError, r"sizes less than 2\*\*63"),
    *(
        ("random_coo", ((3, 3), 0.5), {"dtype": dtype}, TypeError, f"got {name}")
        for dtype, name in (
            (np.float16, "float16"),
            (object, "object"),
            ("datetime64[s]", "datetime64"),
        )
    ),
]
"""A function, its arguments, and the error."""


@without_gpu
@together(("name", "arguments", "options", "error", "message"), INVALID)
def test_invalid_calls_are_rejected(
    backend: Any, name: str, arguments: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        getattr(sparse, name)(*arguments, **options)


@pytest.mark.parametrize("function", [sparse.multiply, sparse.spmv])
def test_operands_on_several_devices_are_rejected(function: Any) -> None:
    other = EYE.tocoo() if function is sparse.multiply else ONE
    with cupy_stand_in.installed() as cupy:

        def there(value: Any) -> Any:
            is_dense = isinstance(value, np.ndarray)
            return cupy.asarray(value) if is_dense else cupy.sparse.coo_matrix(value)

        first = there(EYE)
        with cupy.cuda.Device(1):
            second = there(other)
        with pytest.raises(TypeError, match=r"A on GPU 0, \w on the CPU"):
            function(first, other)
        with pytest.raises(TypeError, match=r"A on the CPU, \w on GPU 1"):
            function(EYE, second)
        with pytest.raises(ValueError, match=r"A on GPU 0, \w on GPU 1"):
            function(first, second)
