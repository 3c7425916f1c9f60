"""Monoids and maps: their laws, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from monoids import EVERY_DTYPE, REPRESENTATIVE, THEIR_OWN, Case

import gpusolve
from gpusolve.monoid import BUILT_IN, as_monoid

EVERY = sorted({str(case): case for case in (*EVERY_DTYPE, *REPRESENTATIVE)}.items())
every_case = pytest.mark.parametrize("case", [case for _, case in EVERY], ids=str)


def three(case: Case, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Elements to try a law on, in the dtype of the results."""
    x = case.sample(rng, 3 * 64).astype(case.dtype)
    return x[::3], x[1::3], x[2::3]


@every_case
def test_combine_is_what_brute_force_combines(
    case: Case, rng: np.random.Generator
) -> None:
    a, b, _ = three(case, rng)
    combined = as_monoid(case.op).combine(a, b)
    for k in range(len(a)):
        expected = case.fold(np.stack([a[k], b[k]]))
        np.testing.assert_array_equal(combined[k], expected, strict=True)


@every_case
def test_associative(case: Case, rng: np.random.Generator) -> None:
    combine = as_monoid(case.op).combine
    a, b, c = three(case, rng)
    left, right = combine(combine(a, b), c), combine(a, combine(b, c))
    np.testing.assert_array_equal(left, right, strict=True)


@every_case
def test_identity(case: Case, rng: np.random.Generator) -> None:
    op = as_monoid(case.op)
    a, _, _ = three(case, rng)
    identity = op.identity_of(case.dtype)
    assert identity.dtype == case.dtype
    assert identity.shape == op.element_shape == case.element_shape
    everywhere = np.broadcast_to(identity, a.shape)
    np.testing.assert_array_equal(op.combine(everywhere, a), a, strict=True)
    np.testing.assert_array_equal(op.combine(a, everywhere), a, strict=True)


@every_case
def test_commutes_as_it_says(case: Case, rng: np.random.Generator) -> None:
    op = as_monoid(case.op)
    a, b, _ = three(case, rng)
    if case.name == "first nonzero":
        a, b = a | 1, b | 2
    assert np.array_equal(op.combine(a, b), op.combine(b, a)) == op.commutative


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "complex128"])
def test_results_keep_the_dtype(dtype: str) -> None:
    assert as_monoid("add").dtype_of(dtype) == dtype
    assert as_monoid("logical_and").dtype_of(dtype) == np.dtype(bool)


def test_names() -> None:
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
    for monoid in THEIR_OWN.values():
        assert as_monoid(monoid) is monoid


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        ("sum", ValueError, "op must be one of .*'add'.*got 'sum'"),
        (np.add, TypeError, "op must be a Monoid or the name .*got <ufunc 'add'>"),
        (None, TypeError, "op must .*got None"),
    ],
)
def test_no_monoid(op: Any, error: Any, message: str) -> None:
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
def test_expressions_that_do_not_fit(
    identity: Any, cuda: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.Monoid("pair", identity, cuda, np.add, commutative=True)


def test_map() -> None:
    halve = gpusolve.Map("halve", "x / T(2)", lambda x: x / 2)
    assert halve.dtype_of(np.int16) == np.int16
    np.testing.assert_array_equal(
        halve.apply(np.array([4, 5], np.int16)), np.array([2, 2], np.int16), strict=True
    )
    positive = gpusolve.Map("positive", "x > 0", lambda x: x > 0, dtype=bool)
    np.testing.assert_array_equal(
        positive.apply(np.array([-1.0, 2.0])), [False, True], strict=True
    )
    with pytest.raises(TypeError, match=r"cuda of nothing must .*got 3"):
        gpusolve.Map("nothing", 3, np.abs)  # type: ignore[arg-type]


def test_an_identity_of_some_kinds_only() -> None:
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
