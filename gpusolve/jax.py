"""Least squares within bounds for JAX, with gradients, under ``jit`` and ``vmap``.

``import gpusolve.jax`` imports JAX, which the extra ``jax`` brings. JAX calls the
solver on the host: arrays on a CPU are not copied, arrays on a GPU are copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from ._nnls.arguments import (
    AXES,
    METHODS,
    NNLS_METHODS,
    NON_NEGATIVE,
    UNBOUNDED,
    BoundedGradientOptions,
    GradientOptions,
    MethodName,
    NNLSMethodName,
    batch_axes,
    defaults_of,
    shows,
)
from ._nnls.gradients import DUALS, gradients_at
from ._nnls.solve import check_method, completed, least_squares
from ._nnls.validation import NUMBERS, pair, validate

__all__ = ["lsq_linear", "nnls"]

Arrays = dict[str, Any]
"""Arguments by name: JAX's arrays, or NumPy's arrays on the host."""


@shows(GradientOptions)
def nnls(
    A: Any,
    b: Any,
    *,
    method: NNLSMethodName = "auto",
    **options: Unpack[GradientOptions],
) -> jax.Array:
    """The x of :func:`gpusolve.nnls`, as an array that JAX differentiates.

    Parameters
    ----------
    A : (..., m, n) array_like
        Arrays of JAX or NumPy. All arrays get the dtype of A and b, at least float32.
    b : (..., m) array_like
        The leading axes of all arrays broadcast; a shared matrix is not copied.
    method, weights, sum_to, warm_start, l1, l2, tol, maxiter
        As for :func:`gpusolve.nnls`. The method, `tol` and `maxiter` must not be
        traced.

    Returns
    -------
    (..., n) array
        It has a derivative in reverse mode with respect to A, b, `weights`, `sum_to`,
        `l1` and `l2`: the gradient of :meth:`gpusolve.NNLSResult.vjp`. ``vmap`` adds an
        axis to the batch, which is solved by one call.

    Raises
    ------
    TypeError, ValueError
        As for :func:`gpusolve.nnls`, while the call is traced.

    See Also
    --------
    gpusolve.nnls, gpusolve.Gradients

    Notes
    -----
    Where a variable is at a bound and its multiplier is zero, x has one-sided
    derivatives only. The result is the derivative for changes that keep the variable at
    its bound. Systems without a solution, whose x is NaN, have gradients of zero.

    JAX computes in float32 unless ``jax.config.update("jax_enable_x64", True)`` is
    called first.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import gpusolve.jax
    >>> A = jnp.array([[2.0, 0.0], [0.0, 1.0]])
    >>> jax.grad(lambda b: gpusolve.jax.nnls(A, b).sum())(jnp.array([3.0, -1.0]))
    Array([0.5, 0. ], dtype=float32)
    """
    check_method(method, NNLS_METHODS)
    return differentiable(method, A, b, NON_NEGATIVE, GradientOptions, options)


@shows(BoundedGradientOptions)
def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = UNBOUNDED,
    *,
    method: MethodName = "auto",
    **options: Unpack[BoundedGradientOptions],
) -> jax.Array:
    """The x of :func:`gpusolve.lsq_linear`, as an array that JAX differentiates.

    Parameters
    ----------
    A, b, method, weights, sum_to, warm_start, l1, l2, tol, maxiter
        As for :func:`gpusolve.jax.nnls`.
    bounds : pair of float or (..., n) array_like
        As for :func:`gpusolve.lsq_linear`. Both bounds may be differentiated.
    A_ub, b_ub, A_eq, b_eq
        The linear constraints of :func:`gpusolve.lsq_linear`; all may be
        differentiated.

    Returns
    -------
    (..., n) array
        As for :func:`gpusolve.jax.nnls`. Where two bounds are equal, each has half of
        the gradient. Inequalities that have a multiplier count as equalities; all
        others have gradients of zero.

    Raises
    ------
    TypeError, ValueError
        As for :func:`gpusolve.lsq_linear`, while the call is traced.

    See Also
    --------
    gpusolve.lsq_linear, gpusolve.Gradients

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import gpusolve.jax
    >>> A, b = jnp.eye(2), jnp.array([2.0, 2.0])
    >>> jax.grad(lambda upper: gpusolve.jax.lsq_linear(A, b, (0, upper)).sum())(
    ...     jnp.array([1.0, 5.0])
    ... )
    Array([1., 0.], dtype=float32)
    """
    check_method(method, METHODS)
    return differentiable(method, A, b, bounds, BoundedGradientOptions, options)


class Settings(NamedTuple):
    """Arguments that are the same for all systems, and have no derivative.

    Attributes
    ----------
    method : str
    tol : float or None
    maxiter : int or None
    numbers : tuple of (str, float)
        The arguments that are numbers, by name.
    """

    method: str
    tol: float | None
    maxiter: int | None
    numbers: tuple[tuple[str, float], ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `validate`."""
        return {"tol": self.tol, "maxiter": self.maxiter, **dict(self.numbers)}


def differentiable(
    method: str, A: Any, b: Any, bounds: Any, kind: type[Any], options: Any
) -> jax.Array:
    """The solutions, as a function of the arrays among the arguments."""
    lower, upper = pair(bounds)
    given = {"A": A, "b": b, "lower": lower, "upper": upper}
    given = completed(given, defaults_of(kind), options)
    settings = Settings(method, given.pop("tol"), given.pop("maxiter"))
    given = {name: value for name, value in given.items() if value is not None}
    numbers = {k: float(v) for k, v in given.items() if isinstance(v, NUMBERS)}
    arrays = {k: jnp.asarray(v) for k, v in given.items() if k not in numbers}
    of_data = [v.dtype for k, v in arrays.items() if k in ("A", "b")]
    dtype = jnp.result_type(np.float32, *of_data)
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    return batched(settings._replace(numbers=tuple(numbers.items())), with_axes(arrays))


def with_axes(arrays: Arrays) -> Arrays:
    """The arrays, all with the same number of batch axes.

    So an axis that ``vmap`` adds is the first axis of the batch for each array.
    """
    own = {k: len(batch_axes(k, array.shape)) for k, array in arrays.items()}
    most = max(own.values())
    found = {}
    for name, array in arrays.items():
        core = array.shape[own[name] :] or (1,) * len(AXES[name])
        ones = (1,) * (most - own[name])
        found[name] = array.reshape(*ones, *array.shape[: own[name]], *core)
    return found


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def batched(settings: Settings, arrays: Arrays) -> jax.Array:
    """The solutions of a batch."""
    x: jax.Array = solutions(settings, arrays)["x"]
    return x


def solutions(settings: Settings, arrays: Arrays) -> Arrays:
    """Solve every system of the batch in one call of the host.

    The multipliers of linear constraints follow x.
    """
    zeros: Arrays = {
        k: np.broadcast_to(v.dtype.type(0), v.shape) for k, v in arrays.items()
    }
    problem = validate(**settings.arguments, **zeros)
    lengths = {"x": problem.shape[1]}
    for name, side in zip(DUALS, (problem.b_ub, problem.b_eq), strict=True):
        if problem.has_constraints:
            lengths[name] = 0 if side is None else side.shape[-1]
    shapes = {
        name: jax.ShapeDtypeStruct((*problem.batch, length), problem.dtype)
        for name, length in lengths.items()
    }
    solve = partial(solve_on_host, settings, tuple(shapes))
    found: Arrays = jax.pure_callback(solve, shapes, arrays, vmap_method="expand_dims")
    return found


def forward(settings: Settings, arrays: Arrays) -> tuple[jax.Array, Any]:
    """The solutions, and what `backward` needs."""
    found = solutions(settings, arrays)
    return found["x"], (arrays, found)


def backward(settings: Settings, kept: Any, x_bar: jax.Array) -> tuple[Arrays]:
    """The gradients of all arrays, in one call of the host."""
    arrays, found = kept
    shapes = {k: jax.ShapeDtypeStruct(v.shape, v.dtype) for k, v in arrays.items()}
    pull_back = partial(pull_back_on_host, settings, shapes)
    return (
        jax.pure_callback(
            pull_back, shapes, arrays, found, x_bar, vmap_method="expand_dims"
        ),
    )


batched.defvjp(forward, backward)


def solve_on_host(settings: Settings, names: tuple[str, ...], arrays: Arrays) -> Arrays:
    """The solutions of a batch, and their multipliers, by name."""
    given = {"sum_to": None, "warm_start": None, **settings.arguments}
    given |= {name: np.asarray(array) for name, array in arrays.items()}
    result = least_squares(settings.method, given)
    return {name: getattr(result, name) for name in names}


def pull_back_on_host(
    settings: Settings,
    shapes: Mapping[str, Any],
    arrays: Arrays,
    found: Arrays,
    x_bar: Any,
) -> Arrays:
    """The gradients of a batch.

    Its arrays have the axes that ``vmap`` has added before the axes of `shapes`, of
    length 1 where an array is not mapped. All gradients have the full length there.
    """
    axes = arrays["A"].ndim - len(shapes["A"].shape)
    named = {**arrays, **found, "x_bar": x_bar}
    added = np.broadcast_shapes(*[array.shape[:axes] for array in named.values()])
    whole = {
        name: np.broadcast_to(np.asarray(array), (*added, *array.shape[axes:]))
        for name, array in named.items()
    }
    given = {name: whole[name] for name in arrays}
    bars = gradients_at({**settings.arguments, **given}, whole, whole["x_bar"])
    return {name: bars.get(name, np.zeros_like(given[name])) for name in given}
