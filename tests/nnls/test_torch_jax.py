"""``gpusolve.torch`` and ``gpusolve.jax``: solutions and gradients of both."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from every_option import differentiable, solver
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from together import together

import gpusolve

SYSTEMS, ROWS, VARIABLES = 3, 6, 3


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch takes seconds to import: only the process that needs it imports it."""
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def jax() -> Iterator[Any]:
    """JAX, in float64."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax.test_util")
    with jax.enable_x64(True):
        yield jax


@pytest.fixture
def given(rng: Generator) -> dict[str, Any]:
    return differentiable(rng)


class Torch:
    """Solvers of PyTorch's tensors."""

    def __init__(self, torch: Any) -> None:
        import gpusolve.torch

        self.torch = torch
        self.solvers = gpusolve.torch

    def tensors(self, values: Any) -> tuple[Any, ...]:
        """Tensors that need gradients."""
        return tuple(self.torch.tensor(value, requires_grad=True) for value in values)

    def vjp(self, solve: Any, values: Any, x_bar: Any) -> tuple[Any, list[Any]]:
        tensors = self.tensors(values)
        x = solve(*tensors)
        x.backward(self.torch.tensor(x_bar))
        return x.detach().numpy(), [tensor.grad.numpy() for tensor in tensors]


class Jax:
    """Solvers of JAX's arrays, under ``jit``."""

    def __init__(self, jax: Any) -> None:
        import gpusolve.jax

        self.jax = jax
        self.solvers = gpusolve.jax

    def vjp(self, solve: Any, values: Any, x_bar: Any) -> tuple[Any, Any]:
        x, pull_back = self.jax.vjp(self.jax.jit(solve), *values)
        return x, pull_back(x_bar)


@pytest.fixture(params=[Torch, Jax])
def framework(request: pytest.FixtureRequest) -> Any:
    """Each framework in turn."""
    kind: Any = request.param
    return kind(request.getfixturevalue(kind.__name__.lower()))


OPTIONS = [
    ("weights", "l1", "l2"),
    ("weights", "sum_to"),
    ("lower", "upper"),
    ("lower", "upper", "A_ub", "b_ub", "A_eq", "b_eq"),
]


@together("options", OPTIONS)
def test_solutions_and_gradients_are_those_of_the_result(
    framework: Any, given: dict[str, Any], rng: Generator, options: tuple[str, ...]
) -> None:
    """Which ``test_nnls_gradients.py`` compares with differences."""
    names = "A", "b", *options
    values = [given[name] for name in names]
    expected = solver(gpusolve, names)(*values)
    x_bar = rng.standard_normal(expected.x.shape)
    x, found = framework.vjp(solver(framework.solvers, names), values, x_bar)
    assert_array_equal(x, expected.x)
    gradients = expected.vjp(x_bar)
    for name, gradient in zip(names, found, strict=True):
        of_result = getattr(gradients, name)
        if np.shape(of_result) != np.shape(given[name]):  # one number for a system
            of_result = of_result.sum(axis=-1, keepdims=True)
        assert_allclose(gradient, of_result, rtol=1e-14)


def test_a_system_without_a_solution_has_a_gradient_of_zero(framework: Any) -> None:
    """A second variable is at its bound, where its multiplier is 0, and stays there."""
    b = np.array([[1.0, 0.0], [np.nan, 1.0]])
    solve = solver(framework.solvers, ("A", "b"))
    x, gradients = framework.vjp(solve, (np.eye(2), b), np.ones((2, 2)))
    assert np.isnan(x[1]).all()
    assert_array_equal(gradients[1], [[1, 0], [0, 0]])


# ---- PyTorch -------------------------------------------------------------------------


def test_an_argument_that_changes_before_the_backward_pass_is_reported(
    torch: Any,
) -> None:
    A, b = torch.eye(2), torch.ones(2, requires_grad=True)
    x = Torch(torch).solvers.nnls(A, b)
    A *= 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_float32_stays_float32_and_weights_keep_their_dtype(torch: Any) -> None:
    weights = torch.ones(2, dtype=torch.float64, requires_grad=True)
    given = {"bounds": (0, None), "weights": weights}
    x = Torch(torch).solvers.lsq_linear(torch.eye(2), torch.ones(2), **given)
    assert x.dtype == torch.float32
    x.sum().backward()
    assert weights.grad.dtype == torch.float64


def test_second_derivatives_and_wrong_arguments_raise(torch: Any) -> None:
    solvers, b = Torch(torch).solvers, torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="create_graph must be False"):
        solvers.nnls(torch.eye(2), b).sum().backward(create_graph=True)
    with pytest.raises(ValueError, match="method must be one of"):
        solvers.lsq_linear(torch.eye(2), b, method="fnnls")
    with pytest.raises(ValueError, match=r"b must have shape \(\.\.\., 2\)"):
        solvers.nnls(torch.eye(2), torch.ones(3))


@pytest.mark.gpu
def test_tensors_on_a_gpu_stay_there(torch: Any, given: dict[str, Any]) -> None:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch was built without CUDA")
    names = "A", "b", *OPTIONS[-1], "weights", "l1", "l2"
    solve = solver(Torch(torch).solvers, names)
    host = Torch(torch).tensors(given[name] for name in names)
    there = [tensor.detach().cuda().requires_grad_() for tensor in host]
    for tensors in (host, there):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = solve(*tensors)
            x.cos().sum().backward()
    assert x.is_cuda
    for tensor, other in zip(host, there, strict=True):
        assert other.grad.is_cuda
        close = {"rtol": 1e-9, "atol": 1e-12}
        torch.testing.assert_close(other.grad.cpu(), tensor.grad, **close)


# ---- JAX -----------------------------------------------------------------------------


VMAPPED = [
    (("A", "b", "weights"), ((None, 0, 0), (0, None, None)), (2, 1, ROWS, VARIABLES)),
    (("A", "b", "A_ub", "b_ub"), ((None, 0, 0, None),), (1, ROWS, VARIABLES)),
]
"""Arguments, which of them each `vmap` maps, and the shape of A in the one call."""


@together(("names", "mapped", "shape"), VMAPPED)
def test_vmap_is_one_call(
    jax: Any,
    given: dict[str, Any],
    names: tuple[str, ...],
    mapped: tuple[Any, ...],
    shape: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is not mapped is not repeated."""
    solvers, calls = Jax(jax).solvers, []
    values = {name: given[name] for name in names}
    if len(mapped) > 1:
        values["A"] = np.stack([values["A"], values["A"] + 0.1])
    original, solve = solvers.least_squares, solver(solvers, names)

    def counted(*arguments: Any) -> Any:
        calls.append(arguments[-1]["A"].shape)
        return original(*arguments)

    monkeypatch.setattr(solvers, "least_squares", counted)
    for axes in mapped:
        solve = jax.vmap(solve, axes)
    x, pull_back = jax.vjp(jax.jit(solve), *values.values())
    assert calls == [shape]
    if len(mapped) > 1:
        values["A"] = values["A"][:, None]
    expected = solver(gpusolve, names)(*values.values())
    assert_array_equal(x, expected.x)
    x_bar = np.cos(np.arange(x.size)).reshape(x.shape)
    gradients = expected.vjp(x_bar)
    for found, name in zip(pull_back(x_bar), names, strict=True):
        of_result = getattr(gradients, name)
        assert_allclose(found.reshape(of_result.shape), of_result, atol=1e-14)


def test_warm_starts_integers_and_wrong_arguments(jax: Any) -> None:
    """A start has a gradient of 0; numbers do not promote; errors come in tracing."""
    solvers, eye, ones = Jax(jax).solvers, np.eye(2), np.ones(2)
    gradient = jax.grad(lambda x: solvers.nnls(eye, ones, warm_start=x).sum())(ones)
    assert_array_equal(gradient, [0, 0])
    x = solvers.nnls(np.eye(2, dtype=np.int32), np.ones(2, np.float32), l1=0.25)
    assert x.dtype == np.float32
    assert_array_equal(x, [0.75, 0.75])
    for A, b, method, message in (
        (eye, np.ones(3), "auto", r"b must have shape \(\.\.\., 2\)"),
        (np.ones((4, 2, 2)), np.ones((3, 2)), "auto", "batch axes must broadcast"),
        (eye, ones, "fnnls", "method must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            jax.eval_shape(partial(solvers.lsq_linear, method=method), A, b)
