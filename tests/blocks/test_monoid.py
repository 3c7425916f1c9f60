"""Monoids and maps: their laws, dtypes and errors."""

from __future__ import annotations

import ctypes.util
import doctest
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from monoids import EVERY_DTYPE, REPRESENTATIVE, USER_DEFINED, Case
from numpy.random import Generator
from numpy.testing import assert_array_equal
from together import together

import gpusolve

# No argument of a public function takes NVRTC away.
from gpusolve._device import kernels
from gpusolve._emulator import nvrtc
from gpusolve.monoid import as_monoid, segment_sums_of_one

ALL_CASES = sorted(
    {str(case): case for case in (*EVERY_DTYPE, *REPRESENTATIVE)}.items()
)
every_case = together("case", [case for _, case in ALL_CASES], ids=str)


def three_samples(case: Case, rng: Generator) -> tuple[Any, Any, Any]:
    """Three samples of 64 elements, in the dtype of the results."""
    x = case.sample(rng, 3 * 64).astype(case.dtype)
    return x[::3], x[1::3], x[2::3]


@every_case
def test_combine_agrees_with_brute_force(case: Case, rng: Generator) -> None:
    a, b, _ = three_samples(case, rng)
    combined = as_monoid(case.op).combine(a, b)
    for k in range(len(a)):
        expected = case.fold(np.stack([a[k], b[k]]))
        assert_array_equal(combined[k], expected, strict=True)


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


# ---- check() -------------------------------------------------------------------------

SUBTRACT = gpusolve.Monoid("subtract", 0, "a - b", np.subtract, False, kinds="if")


@every_case
def test_check_accepts_every_monoid_in_numpy(case: Case, rng: Generator) -> None:
    elements = case.sample(rng, 200)
    as_monoid(case.op).check(elements=elements, cuda=False)
    if case.name != "mssp":
        as_monoid(case.op).check(case.given, rng=rng, cuda=False)


@pytest.mark.slow
@pytest.mark.parametrize("case", REPRESENTATIVE, ids=str)
def test_check_accepts_every_monoid_on_a_device(
    case: Case, rng: Generator, device_backend: Any
) -> None:
    elements = device_backend.array(case.sample(rng, 200))
    as_monoid(case.op).check(elements=elements, cuda=True)


def test_check_allows_rounding_errors() -> None:
    add, mul = as_monoid("add"), as_monoid("mul")
    for monoid in (add, mul):
        monoid.check(["float16", "float32", "complex64"], n=10_000, cuda=False)
    a, b, c = np.float64([0.1, 0.2, 0.3])
    assert add.combine(add.combine(a, b), c) != add.combine(a, add.combine(b, c))
    add.check(elements=np.array([1e16, -1e16, 1.0]), cuda=False)


def test_check_draws_from_the_elements() -> None:
    mssp = as_monoid("mssp")
    mssp.check(elements=segment_sums_of_one.apply(np.arange(-5.0, 5.0)))
    with pytest.raises(ValueError, match=r"identity of mssp must be neutral"):
        mssp.check("float64", cuda=False)


def refused(monoid: gpusolve.Monoid, *args: Any, **options: Any) -> str:
    """The message of the error that check() raises."""
    with pytest.raises(ValueError, match=monoid.name) as error:
        monoid.check(*args, **options)
    return str(error.value)


def numbers_in(message: str) -> list[float]:
    """The numbers after "got"."""
    found = message.partition("got")[2].rpartition(" of ")[0]
    return [
        float(number) for number in re.findall(r"(?<![\w.])-?\d+\.?\d*(?![\w])", found)
    ]


@together("dtype", ["int8", "int64", "float32", "float64"])
def test_check_refuses_an_operator_that_is_not_associative(dtype: str) -> None:
    message = refused(SUBTRACT, dtype, cuda=False)
    assert message.startswith(
        "numpy of subtract must be associative, got (a op b) op c ="
    )
    assert message.endswith(f"of {dtype}")
    left, right, a, b, c = numbers_in(message)
    assert (left, right) == (a - b - c, a - (b - c))
    assert left != right


def nearly_larger(a: Any, b: Any) -> Any:
    return np.where(a * (1 + 1e-15) >= b, a, b)


def added(**changes: Any) -> gpusolve.Monoid:
    return replace(as_monoid("add"), name="sum", **changes)


def one_sided(numpy: Any) -> gpusolve.Monoid:
    return gpusolve.Monoid("one-sided", 0, "a", numpy, False)


AFFINE = USER_DEFINED["affine"]
CLOSE = {"elements": 1 + np.finfo(float).eps * np.arange(20)}
"""Numbers that a selection must not confuse."""

REFUSED = [
    (one_sided(lambda a, b: a), {}, "identity of one-sided .* got identity op a ="),
    (one_sided(lambda a, b: b), {}, "identity of one-sided .* got a op identity ="),
    (added(identity=1), {"dtypes": "int16"}, "identity of sum must be neutral"),
    (
        *(replace(AFFINE, name="compose", commutative=True), {"dtypes": "int32"}),
        r"commutative of compose must be False, got a op b = \[",
    ),
    (
        *(replace(as_monoid("max"), name="nearly", numpy=nearly_larger), CLOSE),
        "nearly must be",
    ),
    (
        *(added(numpy=lambda a, b: (a + b).astype("f4")), {"dtypes": "float64"}),
        "numpy of sum must return dtype float64 .* got float32",
    ),
    (
        *(added(numpy=lambda a, b: (a + b)[..., None]), {"n": 9}),
        r"numpy of sum must return shape \(9,\) .* got \(9, 1\)",
    ),
    (*(added(numpy=lambda a, b: (a + b).sum()), {"n": 9}), r"shape \(9,\) .* got \(\)"),
    (
        *(replace(AFFINE, name="swapped", cuda=AFFINE.cuda[::-1]), {"cuda": True}),
        "cuda of swapped must return",
    ),
    (
        *(added(cuda="a + misspelt_name"), {"dtypes": "float32", "cuda": True}),
        "(?s)cuda of sum must compile for float32, got.*misspelt_name",
    ),
    (SUBTRACT, {"n": 0}, "n must be at least 1, got 0"),
    (SUBTRACT, {"elements": np.zeros(0)}, r"not be empty, got \(0,\)"),
    (AFFINE, {"elements": np.zeros((5, 3))}, r"\(\.\.\., 2\) .* got \(5, 3\)"),
    (SUBTRACT, {"dtypes": "complex64"}, "dtype of subtract .*'if'.*complex64"),
    (SUBTRACT, {"dtypes": ["int8", "longdouble"]}, "dtype .* got .*128"),
]


@together(("monoid", "options", "message"), REFUSED)
def test_check_refuses_wrong_claims(
    monoid: gpusolve.Monoid, options: Any, message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        monoid.check(**{"cuda": False, **options})


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_check_refuses_cuda_that_differs_from_numpy(
    dtype: str, device_backend: Any
) -> None:
    monoid = replace(as_monoid("min"), name="smaller", cuda="a > b ? a : b")
    monoid.check(dtype, cuda=False)
    elements = device_backend.array(np.arange(-5, 5).astype(dtype))
    message = refused(monoid, elements=elements)
    assert message.startswith("cuda of smaller must return what numpy returns, got")
    found, wanted, a, b = numbers_in(message)
    assert (found, wanted) == (max(a, b), min(a, b))


def test_check_skips_cuda_without_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    """No argument of a public function takes NVRTC away."""
    monkeypatch.setattr(nvrtc, "package_folders", lambda: iter(()))
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)
    nvrtc.library.cache_clear()
    kernels._emulated_kernel.cache_clear()
    monoid = replace(as_monoid("add"), name="wrong", cuda="a - b + T(17)")
    try:
        monoid.check("float64")
        with pytest.raises(RuntimeError, match=r"pip install .*\[emulator\]"):
            monoid.check("float64", cuda=True)
    finally:
        nvrtc.library.cache_clear()
    with pytest.raises(ValueError, match="numpy of subtract"):
        SUBTRACT.check()


def test_check_is_reproducible() -> None:
    messages = [refused(SUBTRACT, cuda=False, rng=seed) for seed in (0, 0, 1)]
    assert messages[0] == messages[1]
    generator = np.random.default_rng(0)
    assert refused(SUBTRACT, cuda=False, rng=generator) == messages[0]


def test_examples_of_check_run() -> None:
    # pytest finds the examples of the class in `gpusolve`, but not of its methods.
    (examples,) = doctest.DocTestFinder(recurse=False).find(
        gpusolve.Monoid.check, globs={}
    )
    assert len(examples.examples) == 4
    assert doctest.DocTestRunner().run(examples).failed == 0
