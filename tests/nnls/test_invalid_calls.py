"""Invalid calls of the least-squares functions: one table of arguments and messages."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from numpy.testing import assert_array_equal
from together import together

import gpusolve

A, B, C = np.ones((5, 3)), np.ones((2, 5)), np.ones((1, 3))
GRAM, LINEAR = np.eye(3), np.ones(3)
SPARSE = scipy.sparse.csr_array(A)
INF, NAN = np.inf, np.nan
LONG = np.broadcast_to(1.0, 2**31 - 1)

Row = tuple[dict[str, Any], str]

BOTH: list[Row] = [
    ({"A": np.ones(3)}, "A must have shape (..., m, n), got (3,)"),
    ({"A": LONG[:, None], "b": LONG}, "A must have m + n < 2**31, got shape"),
    ({"b": np.ones(4)}, "b must have shape (..., 5) for A of shape (5, 3), got (4,)"),
    ({"b": 1.0}, "b must have shape (..., m), got a scalar"),
    ({"b": np.ma.ones(4), "A": np.ma.ones((5, 3))}, "got shapes (5,) and (4,)"),
    ({"A": SPARSE, "method": "qr"}, "for a sparse A, got 'qr'"),
    ({"A": SPARSE, "devices": "cpu"}, "devices must be None for a sparse A"),
    ({"A": SPARSE, "lam": 1.0}, "L must be given with lam"),
    ({"method": "svd"}, "method must be one of ('auto', 'qr', 'gram'"),
    ({"weights": 1.0}, "weights must have shape (..., 5)"),
    ({"sum_to": NAN}, "sum_to must be finite, got nan"),
    ({"l1": -1.0}, "l1 must be finite and non-negative, got -1.0"),
    ({"l2": INF}, "l2 must be finite and non-negative, got inf"),
    ({"l1": np.ones(2)}, "l1 must be a number or have shape (..., 3)"),
    ({"warm_start": np.ones(4)}, "warm_start must have shape (..., 3)"),
    ({"tol": -1.0}, "tol must be finite and non-negative, got -1.0"),
    ({"maxiter": -1}, "maxiter must be in [0, 2**31), got -1"),
    ({"L": "third"}, "L must be a matrix or one of ('identity', 'first', 'second')"),
    ({"L": np.eye(2)}, "L must have shape (..., p, 3) for A of shape (5, 3), got"),
    ({"L": "first", "lam": -1}, "lam must be finite and non-negative, got -1"),
    ({"L": "first", "prior": np.ones(2)}, "prior must be a number or have shape"),
    ({"L": "first", "prior": NAN}, "prior must be finite, got nan"),
    ({"lam": 0.5}, "L must be given with lam, got L=None"),
    ({"prior": LINEAR}, "L must be given with prior, got L=None"),
    ({"out": {"y": B}}, "got ['y']"),
    ({"out": {"x": np.ones(2)}}, "out['x'] must have shape (2, 3), got (2,)"),
    ({"out": {"x": np.broadcast_to(0.0, (2, 3))}}, "must be writeable"),
]
"""Arguments of `nnls` and `lsq_linear`."""

BOUNDED: list[Row] = [
    ({"bounds": 3}, "bounds must be a pair (lower, upper), got 3"),
    ({"bounds": (2, 1)}, "bounds must have lower <= upper"),
    ({"bounds": (-INF, -INF)}, "bounds must have lower <= upper"),
    ({"bounds": (NAN, 1)}, "bounds must have lower <= upper"),
    ({"bounds": (np.zeros(4), 1)}, "lower must be a number or have shape"),
    ({"bounds": (0, np.zeros((3, 2)))}, "upper must be a number or have shape"),
    ({"A_ub": C}, "b_ub must be given with A_ub, got None"),
    ({"b_eq": [1]}, "A_eq must be given with b_eq, got None"),
    ({"A_ub": np.eye(2), "b_ub": [1, 2]}, "A_ub must have shape (..., rows, 3)"),
    ({"A_eq": C, "b_eq": [1, 2]}, "b_eq must have shape (..., 1) for A_eq"),
]
"""Arguments of `lsq_linear` and `bounded_qp`."""

ONE: list[tuple[str, dict[str, Any], str]] = [
    ("nnls", {"method": "cd", "sum_to": 1}, "with sum_to, got 'cd'"),
    ("lsq_linear", {"bounds": (np.ones((4, 3)), 1)}, "lower (4, 3)"),
    ("lsq_linear", {"A_ub": np.ones((4, 1, 3)), "b_ub": [1]}, "A_ub (4, 1, 3)"),
    ("lsq_linear", {"A": SPARSE, "A_ub": C, "b_ub": [1]}, "A_ub must be None for a sp"),
    ("lsq_linear", {"A": SPARSE, "A_eq": C, "b_eq": [1]}, "A_eq must be None for a sp"),
    ("bounded_qp", {"G": np.ones((2, 3))}, "G must have shape (..., n, n), got (2, 3)"),
    ("bounded_qp", {"G": np.triu(A[:3])}, "G must be symmetric, got a matrix whose"),
    ("bounded_qp", {"c": np.ones(2)}, "c must have shape (..., 3) for G of shape"),
    ("bounded_qp", {"G": np.ones((2, 3, 3)), "c": np.ones((4, 3))}, "G (2, 3, 3), c"),
    ("bounded_qp", {"A_eq": np.eye(2), "b_eq": [1, 2]}, "rows, 3) for G of shape"),
    ("regularization_path", {"L": None}, "L must be a matrix or one of"),
    ("regularization_path", {"method": "pqn"}, "method must be one of"),
    ("regularization_path", {"A": SPARSE, "method": "qr"}, "for a sparse A"),
    ("regularization_path", {"lambdas": [1.0, -1.0]}, "non-negative, got -1.0"),
    ("regularization_path", {"lambdas": 1.0}, "lambdas must have shape (lambdas,)"),
]
"""Arguments of one function."""

TYPES: list[tuple[str, dict[str, Any], str]] = [
    ("nnls", {"wieghts": LINEAR}, "keyword argument 'wieghts'; the options are "),
    ("bounded_qp", {"L": "first"}, "unexpected keyword argument 'L'"),
    ("regularization_path", {"warm_start": 1}, "keyword argument 'warm_start'"),
    ("nnls", {"A": scipy.sparse.linalg.aslinearoperator(A)}, "got a linear operator"),
    ("nnls", {"L": 1j * GRAM}, "L must have a real dtype"),
    ("nnls", {"out": {"x": np.ones((2, 3), "f")}}, "of dtype float64, got float32"),
    ("nnls", {"out": {"x": [0.0]}}, "must be a NumPy array of dtype float64, got list"),
    ("lsq_linear", {"bounds": (np.zeros(3, complex), 1)}, "lower must have a real"),
    ("lsq_linear", {"weights": np.ones(5, complex)}, "weights must have a real dtype"),
    ("lsq_linear", {"l1": np.ones(3, object)}, "l1 must have a real dtype"),
    ("lsq_linear", {"maxiter": 1.5}, "maxiter must be an integer, got 1.5"),
    ("bounded_qp", {"G": scipy.sparse.csr_array(GRAM)}, "G must be a dense array"),
    ("bounded_qp", {"G": np.ma.ones((3, 3))}, "G must be a plain array, got a masked"),
    ("regularization_path", {"L": SPARSE}, "only A may be sparse, got scipy.sparse"),
]
"""Arguments that are refused by their types."""

VALID: dict[str, dict[str, Any]] = {
    "nnls": {"A": A, "b": B},
    "lsq_linear": {"A": A, "b": B},
    "bounded_qp": {"G": GRAM, "c": LINEAR},
    "regularization_path": {"A": A, "b": B, "L": "first", "lambdas": [1.0, 2.0]},
}
VALUES = [(name, *row) for name in ("nnls", "lsq_linear") for row in BOTH]
VALUES += [(name, *row) for name in ("lsq_linear", "bounded_qp") for row in BOUNDED]
VALUES = [row for row in VALUES if not (row[0] == "bounded_qp" and " for A" in row[2])]


@together(("name", "given", "message"), [*VALUES, *ONE], ids=str)
def test_wrong_values(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(gpusolve, name)(**{**VALID[name], **given})


@together(("name", "given", "message"), TYPES, ids=str)
def test_wrong_types(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        getattr(gpusolve, name)(**{**VALID[name], **given})


def test_errors_come_before_the_first_block() -> None:
    """Shapes, dtypes and numbers; the values of arrays are read block by block."""
    status = np.full(2, 7, np.int32)
    for given, message in BOTH:
        if given.get("A") is not SPARSE and not {"devices", "out"} & given.keys():
            options = {**VALID["nnls"], **given, "out": {"status": status}}
            with pytest.raises(ValueError, match=re.escape(message)):
                gpusolve.nnls(**options, devices="cpu")
    assert_array_equal(status, 7)


@together(
    ("criterion", "given", "message"),
    [
        ("aic", {}, "criterion must be one of ('gcv'"),
        ("discrepancy", {}, "either target or sigma, got target=None and sigma=None"),
        ("discrepancy", {"target": 1, "sigma": 1}, "either target or sigma"),
        ("gcv", {"target": 1.0}, "target must be None with 'gcv', got 1.0"),
        ("chi2", {"sigma": 1.0}, "sigma must be None with 'chi2', got 1.0"),
        ("chi2", {}, "needs target or a path with weights, got target=None"),
        ("l_curve", {}, "l_curve needs at least 3 different lambdas, got 2"),
    ],
)
def test_wrong_criteria(criterion: Any, given: dict[str, Any], message: str) -> None:
    path = gpusolve.regularization_path(**VALID["regularization_path"])
    with pytest.raises(ValueError, match=re.escape(message)):
        path.choose(criterion, **given)


def test_what_a_result_does_not_have() -> None:
    result = gpusolve.nnls(A, np.ones(5))
    with pytest.raises(ValueError, match="seminorm needs a result with L"):
        _ = result.seminorm
    with pytest.raises(ValueError, match=r"x_bar must broadcast to shape \(3,\)"):
        result.vjp(np.ones(2))
