"""``gpusolve.torch``: solutions and gradients as tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from every_option import differentiable
from together import together

import gpusolve

SYSTEMS, ROWS, VARIABLES = 3, 6, 3


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch takes seconds to import: only the process that needs it imports it."""
    return pytest.importorskip("torch")


@pytest.fixture
def solvers(torch: Any) -> Any:
    """The module ``gpusolve.torch``."""
    import gpusolve.torch

    return gpusolve.torch


def tensors(torch: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Tensors that need gradients."""
    return {k: torch.tensor(v, requires_grad=True) for k, v in given.items()}


@together(
    "names",
    [
        ("weights", "l1", "l2"),
        ("sum_to",),
        ("lower", "upper"),
        ("lower", "upper", "A_ub", "b_ub", "A_eq", "b_eq"),
    ],
)
def test_gradients_are_differences(
    names: tuple[str, ...], torch: Any, solvers: Any, rng: np.random.Generator
) -> None:
    given = tensors(torch, differentiable(rng))
    chosen = {name: given[name] for name in ("A", "b", *names)}

    def solve(*values: Any) -> Any:
        named = dict(zip(chosen, values, strict=True))
        if "upper" not in chosen:
            return solvers.nnls(**named)
        bounds = named.pop("lower"), named.pop("upper")
        return solvers.lsq_linear(**named, bounds=bounds)

    assert torch.autograd.gradcheck(solve, tuple(chosen.values()))


def test_solutions_and_gradients_are_those_of_the_result(
    torch: Any, solvers: Any, rng: np.random.Generator
) -> None:
    names = "A", "b", "weights", "l1", "l2", "sum_to"
    numbers = {name: differentiable(rng)[name] for name in names}
    given = tensors(torch, numbers)
    expected = gpusolve.nnls(**numbers)
    x_bar = rng.standard_normal(expected.x.shape)
    x = solvers.nnls(**given)
    x.backward(torch.tensor(x_bar))
    np.testing.assert_array_equal(x.detach(), expected.x)
    gradients = expected.vjp(x_bar)
    for name in ("A", "b", "weights", "sum_to"):
        np.testing.assert_array_equal(given[name].grad, getattr(gradients, name))
    assert given["l1"].grad.shape == ()
    assert given["l2"].grad.shape == (SYSTEMS, 1)


def test_an_argument_that_changes_before_the_backward_pass_is_reported(
    torch: Any, solvers: Any
) -> None:
    A, b = torch.eye(2), torch.ones(2, requires_grad=True)
    x = solvers.nnls(A, b)
    A *= 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_a_system_without_a_solution_has_a_gradient_of_zero(
    torch: Any, solvers: Any
) -> None:
    b = torch.tensor([[1.0, 0.0], [math.nan, 1.0]], requires_grad=True)
    x = solvers.nnls(torch.eye(2), b)
    assert x[1].isnan().all()
    x[0].sum().backward()
    # The second variable is at its bound, and its multiplier is zero: it stays there.
    np.testing.assert_array_equal(b.grad, [[1, 0], [0, 0]])


def test_float32_stays_float32_and_weights_keep_their_dtype(
    torch: Any, solvers: Any
) -> None:
    weights = torch.ones(2, dtype=torch.float64, requires_grad=True)
    x = solvers.lsq_linear(torch.eye(2), torch.ones(2), (0, None), weights=weights)
    assert x.dtype == torch.float32
    x.sum().backward()
    assert weights.grad.dtype == torch.float64


def test_second_derivatives_and_wrong_arguments_raise(torch: Any, solvers: Any) -> None:
    b = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="create_graph must be False"):
        solvers.nnls(torch.eye(2), b).sum().backward(create_graph=True)
    with pytest.raises(ValueError, match="method must be one of"):
        solvers.lsq_linear(torch.eye(2), b, method="fnnls")
    with pytest.raises(ValueError, match=r"b must have shape \(\.\.\., 2\)"):
        solvers.nnls(torch.eye(2), torch.ones(3))


@pytest.mark.gpu
def test_tensors_on_a_gpu_stay_there(
    torch: Any, solvers: Any, rng: np.random.Generator
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch was built without CUDA")
    numbers = differentiable(rng)
    del numbers["sum_to"]
    host = tensors(torch, numbers)
    there = {k: v.detach().cuda().requires_grad_() for k, v in host.items()}
    for given in (host, there):
        values = dict(given)
        bounds = values.pop("lower"), values.pop("upper")
        with torch.cuda.stream(torch.cuda.Stream()):
            x = solvers.lsq_linear(bounds=bounds, **values)
            x.cos().sum().backward()
    assert x.is_cuda
    for name, tensor in host.items():
        found = there[name].grad
        assert found.is_cuda
        torch.testing.assert_close(found.cpu(), tensor.grad, rtol=1e-9, atol=1e-12)
