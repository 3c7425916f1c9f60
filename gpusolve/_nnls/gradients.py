"""The derivatives of solutions with respect to the arguments, in reverse mode."""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple

import numpy as np

from .._device.arrays import Array, ArrayT, as_array, flat_batch, namespace
from .._device.kernels import current, device_of
from .._device.products import product as dense_product
from .._device.products import transposed_product
from .constraint_rows import ActiveRows, Duals, scaled_rows
from .covariance import inverse_of_free, scaled_gram
from .sparse_matrices import SparseMatrices
from .validation import validate

DUALS = "dual_ub", "dual_eq"
"""The multipliers of linear constraints, which gradients need next to x."""


class Gradients(NamedTuple, Generic[ArrayT]):
    """The gradient of a function of x with respect to each argument.

    Each array has the shape of the argument that was given; an option of shape (..., 1)
    has gradients of shape (..., n), one for each variable. An argument that was not
    given has the gradient None; the bounds and penalties of `nnls` are numbers.

    Attributes
    ----------
    A, b, weights, l1, l2, lower, upper, sum_to, L, lam, prior : array or None
        For `bounded_qp`, A is the symmetric gradient of G, and b the gradient of c.
    A_ub, b_ub, A_eq, b_eq : array or None
        Inequalities that do not hold with equality have gradients of 0.

    See Also
    --------
    NNLSResult.vjp, gpusolve.torch.nnls, gpusolve.jax.nnls

    Examples
    --------
    >>> import gpusolve
    >>> result = gpusolve.nnls([[2.0, 0.0], [0.0, 1.0]], [4.0, -1.0])
    >>> result.vjp([1.0, 1.0]).b
    array([0.5, 0. ])
    """

    A: ArrayT
    b: ArrayT
    weights: ArrayT | None
    l1: ArrayT
    l2: ArrayT
    lower: ArrayT
    upper: ArrayT
    sum_to: ArrayT | None
    L: ArrayT | None = None
    lam: ArrayT | None = None
    prior: ArrayT | None = None
    A_ub: ArrayT | None = None
    b_ub: ArrayT | None = None
    A_eq: ArrayT | None = None
    b_eq: ArrayT | None = None


Gradients.__module__ = "gpusolve"  # pickles stay valid if the class moves


@np.errstate(all="ignore")
def pull_back(
    given: dict[str, Any], x: Array, x_bar: Array, duals: Duals = (None, None)
) -> Gradients[Any]:
    """The gradients of ``x_bar . x``; see :meth:`gpusolve.NNLSResult.vjp`.

    `given` has the fields of a `Problem`, as for `covariance`.

    Notes
    -----
    The free variables F satisfy ``A_F^T W (b - A x) = l1_F + l2_F x_F + C_F^T y``. Here
    C are the active rows: of linear constraints, and of a fixed sum. With v and z, the
    solution of the same system with `x_bar` on its right side and multipliers z, and
    ``u = W A v``, each gradient is a product of u, v, x, y, z and the residual.
    """
    xp, dtype, A = namespace(x), x.dtype, given["A"]
    if isinstance(A, SparseMatrices):
        raise ValueError(
            "vjp needs a result of a dense A, got a sparse A; call A.toarray() first"
        )
    given = {**given, "A": without_ones(A)}
    solved = xp.isfinite(x).all(axis=-1, keepdims=True)
    x_bar = xp.where(solved, x_bar, 0).astype(np.float64, copy=False)
    x = xp.where(solved, x, 0).astype(np.float64, copy=False)
    lower, upper = given["bounds"]
    free = (x > lower) & (x < upper) & solved
    active = ActiveRows.of(given, x, duals)
    rows = None if active is None else active.whole
    y = None if active is None else active.multipliers
    found = adjoint(given, free, x_bar, rows, y)
    v, z, y = (xp.where(solved, part, 0) for part in found)
    bars, at_bound = product_bars(given, x, v, solved)
    values = {**given, "A": A, "lower": lower, "upper": upper}
    if given["L"] is None:
        values["lam"] = None
    else:
        of_penalty, along = penalty_bars(given, x, v, solved)
        bars, at_bound = bars | of_penalty, at_bound + along
    if rows is not None:
        at_bound = at_bound + transposed_product(rows, z)
    moved = xp.where(free | ~solved, 0, x_bar - at_bound)
    share = xp.where(xp.asarray(lower) == upper, 0.5, 1.0)
    bars |= {
        "l1": -v,
        "l2": -v * x,
        "lower": xp.where(x <= lower, share * moved, 0),
        "upper": xp.where(x >= upper, share * moved, 0),
        "sum_to": z[..., -1] if given["sum_to"] is not None else None,
    }
    if active is not None:
        parts = (xp.split(part, active.ends, axis=-1) for part in (y, z))
        bars |= constraint_bars(given, x, v, *parts)
    return Gradients(
        **{
            name: None
            if values[name] is None
            else collected(bars[name], np.shape(values[name])).astype(dtype, copy=False)
            for name in Gradients._fields
        }
    )


def adjoint(
    given: dict[str, Any],
    free: Array,
    x_bar: Array,
    rows: Array | None,
    y: Array | None,
) -> tuple[Array, Array, Array]:
    """Solve for v and z of `pull_back`; and the multipliers y, of least norm.

    Rows that depend on each other share what one of them may have.
    """
    xp = namespace(x_bar)
    size, gram = scaled_gram(given)
    if rows is not None:
        rows, factor = scaled_rows(rows, size)
    H, change = inverse_of_free(gram, free, rows, singular=0.0)
    scaled = x_bar / size
    v = product(H, scaled) / size
    if rows is None or change is None or y is None:
        none = xp.zeros((*v.shape[:-1], 0))
        return v, none, none
    pull = transposed_product(rows, y * factor)
    return v, product(change, scaled) / factor, product(change, pull) / factor


def constraint_bars(
    given: dict[str, Any], x: Array, v: Array, y: list[Array], z: list[Array]
) -> dict[str, Array]:
    """The gradients of the matrices and the sides of linear constraints."""
    bars = {}
    for name, multipliers, change in zip(("ub", "eq"), y[:2], z[:2], strict=True):
        if given[f"A_{name}"] is not None:
            ndim = given[f"A_{name}"].ndim
            bars[f"A_{name}"] = -outer(multipliers, v, ndim) - outer(change, x, ndim)
            bars[f"b_{name}"] = change
    return bars


def product_bars(
    given: dict[str, Any], x: Array, v: Array, solved: Array
) -> tuple[dict[str, Any], Array]:
    """The gradients of A, b and the weights, and of x at a bound through ``A x``.

    `solved` is a mask of the systems, (..., 1); all others have gradients of 0.
    """
    xp = namespace(x)
    A = given["A"].astype(np.float64, copy=False)
    if given["gram_dtype"]:
        whole = outer(v, x, A.ndim)
        symmetric = -0.5 * (whole + xp.swapaxes(whole, -1, -2))
        return {"A": symmetric, "b": v}, product(A, v)
    w = given["weights"]
    b = given["b"].astype(np.float64, copy=False)
    if w is not None:  # rows of weight 0 may have NaN
        finite = xp.isfinite(A).all(axis=-1) & xp.isfinite(b)
        A, b = xp.where(finite[..., None], A, 0), xp.where(finite, b, 0)
    r, along = (xp.where(solved, f, 0) for f in (b - product(A, x), product(A, v)))
    weighted, u = (r, along) if w is None else (w * r, w * along)
    ndim = given["A"].ndim
    bars = {
        "A": outer(weighted, v, ndim) - outer(u, x, ndim),
        "b": u,
        "weights": r * along,
    }
    return bars, transposed_product(A, u)


def penalty_bars(
    given: dict[str, Any], x: Array, v: Array, solved: Array
) -> tuple[dict[str, Any], Array]:
    """The gradients of L, lam and the prior, and of x at a bound through ``L x``."""
    xp, L = namespace(x), given["L"].astype(np.float64, copy=False)
    lam = xp.where(solved, xp.asarray(given["lam"])[..., None], 0)
    below = x if given["prior"] is None else x - given["prior"]
    below = xp.where(solved, below, 0)
    r, along = (xp.where(solved, product(L, f), 0) for f in (-below, v))
    ndim, u = L.ndim, lam * along
    pulled = xp.where(solved, transposed_product(L, u), 0)
    bars = {
        "L": outer(lam * r, v, ndim) - outer(u, below, ndim),
        "lam": (r * along).sum(axis=-1),
        "prior": pulled,
    }
    return bars, pulled


def without_ones(A: Array) -> Array:
    """A matrix that all systems share, without batch axes; others as they are."""
    if A.ndim == 2:
        return A
    return A[(0,) * (A.ndim - 2)] if math.prod(A.shape[:-2]) == 1 else A


def product(A: Array, x: Array) -> Array:
    """``A x`` for each system; A may be sparse."""
    if isinstance(A, SparseMatrices):
        return A.times(x)
    return dense_product(A, x)


def outer(u: Array, v: Array, ndim: int) -> Array:
    """``u v^T`` for each system; the sum of all systems if `ndim` is 2."""
    xp = namespace(u)
    if ndim > 2:
        return u[..., :, None] * v[..., None, :]
    return xp.matmul(flat_batch(u, 1).T, flat_batch(v, 1))


def collected(bar: Array, shape: tuple[int, ...]) -> Array:
    """The sum of a gradient over the axes along which the argument was broadcast."""
    bar = bar.sum(axis=tuple(range(bar.ndim - len(shape))))
    bar = bar.reshape((1,) * (len(shape) - bar.ndim) + bar.shape)
    pairs = enumerate(zip(bar.shape, shape, strict=True))
    repeated = tuple(axis for axis, (have, given) in pairs if have > given)
    return bar.sum(axis=repeated, keepdims=True)


def gradients_at(
    given: dict[str, Any], found: dict[str, Any], x_bar: Any
) -> dict[str, Array]:
    """The gradients of ``x_bar . x`` at solutions, without solving again.

    `found` has x, and the multipliers of linear constraints. There is a gradient for
    each argument that has one, of the shape of the argument.
    """
    A = as_array(given["A"], "A")
    with current(device_of(A)):
        problem = validate(**{**given, "A": A})
        points = as_array(found["x"], "x"), as_array(x_bar, "x_bar")
        duals = [
            None if found.get(name) is None else as_array(found[name], name)
            for name in DUALS
        ]
        bars = pull_back(problem._asdict(), *points, (duals[0], duals[1]))._asdict()
    return {
        name: collected(bar, np.shape(given[name]))
        for name, bar in bars.items()
        if bar is not None
    }
