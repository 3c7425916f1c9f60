"""``gpusolve.jax``: solutions and gradients under ``jit`` and ``vmap``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from every_option import differentiable
from together import together

import gpusolve

SYSTEMS, ROWS, VARIABLES = 3, 6, 3


@pytest.fixture(scope="module")
def jax() -> Any:
    """JAX takes seconds to import: only the process that needs it imports it."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax.test_util")
    return jax


@pytest.fixture
def solvers(jax: Any) -> Iterator[Any]:
    """The module ``gpusolve.jax``, in float64."""
    import gpusolve.jax

    with jax.enable_x64(True):
        yield gpusolve.jax


@pytest.fixture
def given(rng: np.random.Generator) -> dict[str, Any]:
    return differentiable(rng)


CONSTRAINED = "lower", "upper", "A_ub", "b_ub", "A_eq", "b_eq"


def within(solve: Any, lower: Any, upper: Any, **others: Any) -> Any:
    """``lsq_linear`` with its bounds by name."""
    return solve(bounds=(lower, upper), **others)


def function(solvers: Any, names: tuple[str, ...]) -> Any:
    """The function of these arguments, by position."""
    bounded = "upper" in names
    solve = partial(within, solvers.lsq_linear) if bounded else solvers.nnls
    return lambda *values: solve(**dict(zip(names, values, strict=True)))


@together(
    "names",
    [("weights", "l1", "l2"), ("sum_to",), ("lower", "upper"), CONSTRAINED],
)
def test_gradients_are_differences(
    names: tuple[str, ...], jax: Any, solvers: Any, given: dict[str, Any]
) -> None:
    names = ("A", "b", *names)
    solve = jax.jit(function(solvers, names))
    values = tuple(given[name] for name in names)
    jax.test_util.check_grads(solve, values, order=1, modes=["rev"])


def test_vmap_is_one_call(
    jax: Any, solvers: Any, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("A", "b", "weights")
    A, b, weights = (given[name] for name in names)
    matrices = np.stack([A, A + 0.1])
    calls: list[Any] = []
    original = solvers.least_squares

    def counted(*arguments: Any) -> Any:
        calls.append(arguments[-1]["A"].shape)
        return original(*arguments)

    monkeypatch.setattr(solvers, "least_squares", counted)
    over_systems = jax.vmap(function(solvers, names), (None, 0, 0))
    solve = jax.jit(jax.vmap(over_systems, (0, None, None)))
    x = solve(matrices, b, weights)
    assert calls == [(2, 1, ROWS, VARIABLES)]  # a matrix is not repeated for each b
    expected = gpusolve.nnls(matrices[:, None], b, weights=weights)
    np.testing.assert_array_equal(x, expected.x)
    x_bar = np.cos(np.arange(x.size)).reshape(x.shape)
    _, pull_back = jax.vjp(solve, matrices, b, weights)
    gradients = expected.vjp(x_bar)
    for found, name in zip(pull_back(x_bar), names, strict=True):
        wanted = getattr(gradients, name)
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=1e-14)


def test_vmap_of_constraints_is_a_batch(
    jax: Any, solvers: Any, given: dict[str, Any]
) -> None:
    """Only b and the inequalities are mapped; all else is shared."""
    rows = {"A_ub": given["A_ub"], "b_ub": given["b_ub"] + np.zeros((SYSTEMS, 1))}
    rows |= {"A_eq": given["A_eq"], "b_eq": given["b_eq"][0]}
    expected = gpusolve.lsq_linear(given["A"], given["b"], **rows)
    assert 0 < (expected.dual_ub > 0).sum() < expected.dual_ub.size
    solve = jax.jit(
        jax.vmap(
            lambda b, A_ub, b_ub: solvers.lsq_linear(
                given["A"], b, **{**rows, "A_ub": A_ub, "b_ub": b_ub}
            )
        )
    )
    values = given["b"], rows["A_ub"], rows["b_ub"]
    x, pull_back = jax.vjp(solve, *values)
    np.testing.assert_array_equal(x, expected.x)
    x_bar = np.cos(np.arange(x.size)).reshape(x.shape)
    gradients = expected.vjp(x_bar)
    for found, name in zip(pull_back(x_bar), ("b", "A_ub", "b_ub"), strict=True):
        np.testing.assert_allclose(found, getattr(gradients, name), atol=1e-14)


def test_a_system_without_a_solution_has_a_gradient_of_zero(
    jax: Any, solvers: Any
) -> None:
    b = np.array([[1.0, 0.0], [np.nan, 1.0]])
    gradient = jax.grad(lambda b: solvers.nnls(np.eye(2), b)[0].sum())(b)
    # The second variable is at its bound, and its multiplier is zero: it stays there.
    np.testing.assert_array_equal(gradient, [[1, 0], [0, 0]])


def test_a_warm_start_has_a_gradient_of_zero(jax: Any, solvers: Any) -> None:
    gradient = jax.grad(
        lambda start: solvers.nnls(np.eye(2), np.ones(2), warm_start=start).sum()
    )(np.ones(2))
    np.testing.assert_array_equal(gradient, [0, 0])


def test_integers_are_float32_and_so_are_numbers(jax: Any, solvers: Any) -> None:
    x = solvers.nnls(np.eye(2, dtype=np.int32), np.ones(2, np.float32), l1=0.25)
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x, [0.75, 0.75])


def test_wrong_arguments_raise_while_the_call_is_traced(jax: Any, solvers: Any) -> None:
    with pytest.raises(ValueError, match=r"b must have shape \(\.\.\., 2\)"):
        jax.eval_shape(solvers.nnls, np.eye(2), np.ones(3))
    with pytest.raises(ValueError, match="batch axes must broadcast"):
        jax.eval_shape(solvers.nnls, np.ones((4, 2, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="method must be one of"):
        jax.eval_shape(
            partial(solvers.lsq_linear, method="fnnls"), np.eye(2), np.ones(2)
        )
