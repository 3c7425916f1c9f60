"""Monoids and maps: their laws, dtypes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from monoids import EVERY_DTYPE, REPRESENTATIVE, USER_DEFINED, Case

import gpusolve
from gpusolve.monoid import BUILT_IN, as_monoid

ALL_CASES = sorted(
    {str(case): case for case in (*EVERY_DTYPE, *REPRESENTATIVE)}.items()
)
every_case = pytest.mark.parametrize("case", [case for _, case in ALL_CASES], ids=str)


def three_samples(case: Case, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Three samples of 64 elements, in the dtype of the results."""
    x = case.sample(rng, 3 * 64).astype(case.dtype)
    return x[::3], x[1::3], x[2::3]


@every_case
def test_combine_agrees_with_brute_force(case: Case, rng: np.random.Generator) -> None:
    a, b, _ = three_samples(case, rng)
    combined = as_monoid(case.op).combine(a, b)
    for k in range(len(a)):
        expected = case.fold(np.stack([a[k], b[k]]))
        np.testing.assert_array_equal(combined[k], expected, strict=True)


@every_case
def test_operator_is_associative(case: Case, rng: np.random.Generator) -> None:
    combine = as_monoid(case.op).combine
    a, b, c = three_samples(case, rng)
    left, right = combine(combine(a, b), c), combine(a, combine(b, c))
    np.testing.assert_array_equal(left, right, strict=True)


@every_case
def test_identity_is_neutral(case: Case, rng: np.random.Generator) -> None:
    op = as_monoid(case.op)
    a, _, _ = three_samples(case, rng)
    identity = op.identity_of(case.dtype)
    assert identity.dtype == case.dtype
    assert identity.shape == op.element_shape == case.element_shape
    identities = np.broadcast_to(identity, a.shape)
    np.testing.assert_array_equal(op.combine(identities, a), a, strict=True)
    np.testing.assert_array_equal(op.combine(a, identities), a, strict=True)


@every_case
def test_operator_commutes_if_and_only_if_declared(
    case: Case, rng: np.random.Generator
) -> None:
    op = as_monoid(case.op)
    a, b, _ = three_samples(case, rng)
    if case.name == "first nonzero":
        a, b = a | 1, b | 2
    assert np.array_equal(op.combine(a, b), op.combine(b, a)) == op.commutative


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "complex128"])
def test_results_have_the_input_dtype_or_bool(dtype: str) -> None:
    assert as_monoid("add").dtype_of(dtype) == dtype
    assert as_monoid("logical_and").dtype_of(dtype) == np.dtype(bool)


def test_built_in_monoids_are_known_by_name() -> None:
    assert set(BUILT_IN) == {
        "add",
        "mul",
        "min",
        "max",
        "logical_and",
        "logical_or",
        "mssp",
    }
    for name, monoid in BUILT_IN.items():
        assert as_monoid(name) is monoid
        assert monoid.name == name
    for monoid in USER_DEFINED.values():
        assert as_monoid(monoid) is monoid


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        ("sum", ValueError, "op must be one of .*'add'.*got 'sum'"),
        (np.add, TypeError, "op must be a Monoid or the name .*got <ufunc 'add'>"),
        (None, TypeError, "op must .*got None"),
    ],
)
def test_invalid_op_is_rejected(op: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        as_monoid(op)


@pytest.mark.parametrize(
    ("identity", "cuda", "error", "message"),
    [
        ((0, 0), "a + b", ValueError, r"of shape \(2,\); got one expr"),
        (
            (0, 0),
            ("a[0]",),
            ValueError,
            r"of shape \(2,\); got 1 expressions",
        ),
        ((0, 0), (1, 2), TypeError, r"cuda of pair must .*got \(1, 2\)"),
        ((0, 0), ["a", "b"], TypeError, r"cuda of pair must .*got \['a', 'b'\]"),
        (0, ("a", "b"), ValueError, r"of shape \(\); got 2 expressions"),
        (0, None, TypeError, "cuda of pair must .*got None"),
    ],
)
def test_expressions_must_match_the_identity(
    identity: Any, cuda: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.Monoid("pair", identity, cuda, np.add, commutative=True)


def test_map_applies_its_function() -> None:
    halve = gpusolve.Map("halve", "x / T(2)", lambda x: x / 2)
    assert halve.dtype_of(np.int16) == np.int16
    np.testing.assert_array_equal(
        halve.apply(np.array([4, 5], np.int16)), np.array([2, 2], np.int16), strict=True
    )
    positive = gpusolve.Map("positive", "x > 0", lambda x: x > 0, dtype=bool)
    np.testing.assert_array_equal(
        positive.apply(np.array([-1.0, 2.0])), [False, True], strict=True
    )


def test_map_rejects_an_expression_that_is_no_string() -> None:
    with pytest.raises(TypeError, match=r"cuda of invalid must .*got 3"):
        gpusolve.Map("invalid", 3, np.abs)  # type: ignore[arg-type]


def test_identity_may_exist_for_some_kinds_only() -> None:
    band = gpusolve.Monoid(
        "band",
        lambda dtype: np.iinfo(dtype).max,
        "a & b",
        np.bitwise_and,
        True,
        kinds="u",
    )
    assert band.element_shape == ()
    assert gpusolve.reduce(np.array([12, 10], np.uint8), band) == 8
