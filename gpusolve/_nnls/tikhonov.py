"""Tikhonov's penalty ``lam |L (x - prior)|^2 / 2``: rows below those of A.

The matrix ``[A; L]`` is made once for all systems that share A and L; `lam` is the
weight of the rows of L, and kernels apply weights as they read rows. Where systems have
matrices of their own, they are solved in blocks: the memory for stacked matrices does
not depend on the size of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._device.arrays import (
    Array,
    broadcast_shapes,
    largest,
    namespace,
)
from .._device.products import product
from .._numerics.certificate import Solution
from .problem import (
    Block,
    Option,
    Problem,
    blank_solution,
    blocks,
    drop_repeats,
    joined,
    unrepeated_batch_shape,
)

STACKED = 2**26
"""The most elements of the stacked matrices that are made at once."""

RESIDUALS = 2**22
"""The most elements of the residuals that are computed at once."""


def solve_stacked(problem: Problem, solve: Callable[[Problem], Solution]) -> Solution:
    """Solve every system of a problem with L; `solve` is for problems without L.

    ``rnorm`` is the residual of A and b alone.
    """
    parts = [(block, solve_block(problem, block, solve)) for block in cut(problem)]
    if len(parts) == 1:
        return parts[0][1]
    xp, batch = namespace(problem.A), problem.batch
    blank = blank_solution(problem).arrays()
    fields = {k: xp.empty((*batch, *f.shape[1:]), f.dtype) for k, f in blank.items()}
    whole = Solution(**fields)
    for block, solution in parts:
        whole.put(block, solution)
    return whole


def solve_block(
    problem: Problem, block: Block, solve: Callable[[Problem], Solution]
) -> Solution:
    """Solve the systems of a block."""
    part = problem.part(block)
    solution = solve(stacked(part))
    return solution._replace(rnorm=misfit(part, solution.x))


def cut(problem: Problem) -> Iterator[Block]:
    """Blocks of the batch whose stacked matrices have at most `STACKED` elements."""
    matrices = [problem.A] if problem.L is None else [problem.A, problem.L]
    size = sum(math.prod(matrix.shape[-2:]) for matrix in matrices)
    own = broadcast_shapes(*[unrepeated_batch_shape(matrix, 2) for matrix in matrices])
    own = (*(1,) * (len(problem.batch) - len(own)), *own)
    for block in blocks(own, STACKED // max(1, size)):
        pairs = zip(block, own, strict=True)
        yield tuple(slice(None) if length == 1 else part for part, length in pairs)


def stacked(problem: Problem) -> Problem:
    """The same systems without L: its rows are below those of A, with weights `lam`."""
    if problem.L is None:
        return problem
    A, L = drop_repeats(problem.A, 2), drop_repeats(problem.L, 2)
    return problem._replace(
        A=joined([A, L], 2),
        b=joined([problem.b, penalty_target(L, problem.prior)], 1),
        weights=stacked_weights(problem, L.shape[-2]),
        L=None,
        lam=1.0,
        prior=None,
    )


@np.errstate(all="ignore")
def penalty_target(L: Array, prior: Option | None) -> Array:
    """``L prior``, a (..., p) array in the dtype of L."""
    xp = namespace(L)
    if prior is None:
        return xp.zeros(L.shape[-2], L.dtype)
    mean = xp.asarray(prior)
    mean = xp.broadcast_to(mean, (*mean.shape[:-1], L.shape[-1]))
    return product(L.astype(np.float64, copy=False), mean).astype(L.dtype, copy=False)


def stacked_weights(problem: Problem, p: int) -> Array | None:
    """The weights of the rows of A, then `lam` for p rows; None if all are 1."""
    weights, lam = problem.weights, problem.lam
    if weights is None and isinstance(lam, float) and lam == 1:
        return None
    xp = namespace(problem.A)
    if weights is None:
        weights = xp.ones(problem.shape[0], problem.dtype)
    of_L = xp.asarray(lam, problem.dtype)[..., None]
    return joined([weights, xp.broadcast_to(of_L, (*of_L.shape[:-1], p))], 1)


@np.errstate(all="ignore")
def misfit(problem: Problem, x: Array) -> Array:
    """``|b - A x|`` with weights, in float64 and rounded to the dtype of x."""
    xp, batch = namespace(x), problem.batch
    found = xp.empty(batch, x.dtype)
    for block in blocks(batch, RESIDUALS // max(1, problem.shape[0])):
        part = problem.part(block)
        A, b = (array.astype(np.float64, copy=False) for array in (part.A, part.b))
        r = b - product(A, x[block])
        if part.weights is not None:
            root = xp.sqrt(part.weights.astype(np.float64, copy=False))
            r = xp.where(root == 0, 0, root * r)
        found[block] = norm(r)
    return found


def norm(r: Array) -> Array:
    """The 2-norm of the last axis, without overflow."""
    xp = namespace(r)
    most = largest(xp.abs(r), keepdims=True)
    scale = xp.where((most > 0) & (most < math.inf), most, 1)
    return scale[..., 0] * xp.sqrt(((r / scale) ** 2).sum(axis=-1))


@np.errstate(all="ignore")
def seminorm(given: dict[str, Any], x: Array) -> Array:
    """``|L (x - prior)|``; `given` has the fields of a `Problem`."""
    L: Array = given["L"].astype(np.float64, copy=False)
    prior: Option = 0.0 if given["prior"] is None else given["prior"]
    found: Array = norm(product(L, x - prior)).astype(x.dtype, copy=False)
    return found
