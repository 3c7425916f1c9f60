"""Least squares within bounds for PyTorch, with gradients.

``import gpusolve.torch`` imports PyTorch, which the extra ``torch`` brings. Tensors are
not copied: they are shared through DLPack.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Unpack

import torch

from ._nnls.arguments import (
    METHODS,
    NNLS_METHODS,
    NON_NEGATIVE,
    UNBOUNDED,
    BoundedGradientOptions,
    GradientOptions,
    MethodName,
    NNLSMethodName,
    defaults_of,
    shows,
)
from ._nnls.gradients import DUALS, gradients_at
from ._nnls.solve import check_method, completed, least_squares
from ._nnls.validation import pair

__all__ = ["lsq_linear", "nnls"]


@shows(GradientOptions)
def nnls(
    A: torch.Tensor,
    b: torch.Tensor,
    *,
    method: NNLSMethodName = "auto",
    **options: Unpack[GradientOptions],
) -> torch.Tensor:
    """The x of :func:`gpusolve.nnls`, as a tensor with a gradient.

    Parameters
    ----------
    A : (..., m, n) tensor
        On the CPU or on a CUDA device, where all tensors are.
    b : (..., m) tensor
        The leading axes of all tensors broadcast; a shared matrix is not copied.
    method, weights, sum_to, warm_start, l1, l2, tol, maxiter
        As for :func:`gpusolve.nnls`; tensors wherever it takes arrays.

    Returns
    -------
    (..., n) tensor
        It has a gradient if A, b, `weights`, `sum_to`, `l1` or `l2` needs it: the
        gradient of :meth:`gpusolve.NNLSResult.vjp`. Second derivatives
        (``create_graph=True``) and the transforms of ``torch.func`` raise an error.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As for :func:`gpusolve.nnls`.

    See Also
    --------
    gpusolve.nnls, gpusolve.Gradients

    Notes
    -----
    Where a variable is at a bound and its multiplier is zero, x has one-sided
    derivatives only. The result is the derivative for changes that keep the variable at
    its bound. Systems without a solution, whose x is NaN, have gradients of zero.

    On a CUDA device, kernels are launched on PyTorch's current stream.

    Examples
    --------
    >>> import torch
    >>> import gpusolve.torch
    >>> b = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> x = gpusolve.torch.nnls(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), b)
    >>> x.sum().backward()
    >>> x.detach(), b.grad
    (tensor([1.5000, 0.0000]), tensor([0.5000, 0.0000]))
    """
    check_method(method, NNLS_METHODS)
    return differentiable(method, A, b, NON_NEGATIVE, GradientOptions, options)


@shows(BoundedGradientOptions)
def lsq_linear(
    A: torch.Tensor,
    b: torch.Tensor,
    bounds: Any = UNBOUNDED,
    *,
    method: MethodName = "auto",
    **options: Unpack[BoundedGradientOptions],
) -> torch.Tensor:
    """The x of :func:`gpusolve.lsq_linear`, as a tensor with a gradient.

    Parameters
    ----------
    A, b, method, weights, sum_to, warm_start, l1, l2, tol, maxiter
        As for :func:`gpusolve.torch.nnls`.
    bounds : pair of float or (..., n) tensor
        As for :func:`gpusolve.lsq_linear`. Both bounds may have gradients.
    A_ub, b_ub, A_eq, b_eq
        The linear constraints of :func:`gpusolve.lsq_linear`; all may have gradients.

    Returns
    -------
    (..., n) tensor
        As for :func:`gpusolve.torch.nnls`. Where two bounds are equal, each has half of
        the gradient. Inequalities that have a multiplier count as equalities; all
        others have gradients of zero.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As for :func:`gpusolve.lsq_linear`.

    See Also
    --------
    gpusolve.lsq_linear, gpusolve.Gradients

    Examples
    --------
    >>> import torch
    >>> import gpusolve.torch
    >>> upper = torch.tensor([1.0, 5.0], requires_grad=True)
    >>> x = gpusolve.torch.lsq_linear(torch.eye(2), torch.ones(2) + 1, (0, upper))
    >>> x.sum().backward()
    >>> upper.grad
    tensor([1., 0.])
    """
    check_method(method, METHODS)
    return differentiable(method, A, b, bounds, BoundedGradientOptions, options)


def differentiable(
    method: str, A: Any, b: Any, bounds: Any, kind: type[Any], options: Any
) -> torch.Tensor:
    """The solutions, as a function of the tensors among the arguments."""
    lower, upper = pair(bounds)
    given = {"A": A, "b": b, "lower": lower, "upper": upper}
    given = completed(given, defaults_of(kind), options)
    tensors = {k: v for k, v in given.items() if isinstance(v, torch.Tensor)}
    others = {name: value for name, value in given.items() if name not in tensors}
    x: torch.Tensor = Solutions.apply(method, others, tuple(tensors), *tensors.values())
    return x


class Solutions(torch.autograd.Function):  # type: ignore[misc]
    """The solutions as a function of tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        method: str,
        others: dict[str, Any],
        names: tuple[str, ...],
        *tensors: torch.Tensor,
    ) -> torch.Tensor:
        """Solve every system."""
        given = others | shared(names, tensors)
        with stream_of(tensors):
            found = least_squares(method, given)._asdict()
            kept = {k: torch.as_tensor(found[k]) for k in ("x", *DUALS) if k in found}
        # PyTorch reports what is changed in place before the backward pass.
        ctx.save_for_backward(*kept.values(), *tensors)
        ctx.others, ctx.names, ctx.kept = others, names, tuple(kept)
        return kept["x"]

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradients of all tensors."""
        if torch.is_grad_enabled():
            raise RuntimeError(
                "solutions have first derivatives only: create_graph must be False"
            )
        saved = shared(ctx.kept + ctx.names, ctx.saved_tensors)
        kept = {name: saved.pop(name) for name in ctx.kept}
        with stream_of(list(saved.values())):
            found = gradients_at(ctx.others | saved, kept, bars[0])
            gradients = {name: torch.as_tensor(bar) for name, bar in found.items()}
        return None, None, None, *map(gradients.get, ctx.names)


def shared(names: tuple[str, ...], tensors: Any) -> dict[str, torch.Tensor]:
    """The tensors by name, as DLPack exports them: without gradients."""
    pairs = zip(names, tensors, strict=True)
    return {name: tensor.detach() for name, tensor in pairs}


def stream_of(tensors: Any) -> ExitStack:
    """Let CuPy use the GPU of the tensors, and PyTorch's current stream there."""
    stack = ExitStack()
    if tensors and tensors[0].is_cuda:
        import cupy

        gpu = tensors[0].device
        pointer = torch.cuda.current_stream(gpu).cuda_stream
        # PyTorch's streams have this method since 2.10.
        stream = SimpleNamespace(__cuda_stream__=lambda: (0, pointer))
        stack.enter_context(cupy.cuda.Device(gpu.index))
        stack.enter_context(cupy.cuda.Stream.from_external(stream))
    return stack
