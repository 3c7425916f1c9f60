"""Tikhonov's penalty for sparse matrices: as sparse rows, and in degrees of freedom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from .inputs import Problem
from .sparse_arrays import host_rows, rows_of
from .sparse_matrices import Container


@np.errstate(all="ignore")
def penalty_rows(
    problem: Problem, matrix: Container, chosen: NDArray[np.intp]
) -> tuple[Container, Array]:
    """A matrix with the rows ``sqrt(lam) L`` below, and their right-hand sides.

    The systems `chosen` share L and `lam`. The right-hand sides, (systems, p), are
    those of `prior`, on the host.
    """
    assert problem.L is not None
    xp, (m, n) = namespace(matrix.data), matrix.shape
    L = rows_of(problem, problem.L, 2, chosen[:1])[0]
    L = L * float(np.sqrt(host_rows(problem, problem.lam, 0, chosen[:1])[0]))
    prior = 0.0 if problem.prior is None else problem.prior
    below = host_rows(problem, prior, 1, chosen) @ on_host(L).T
    ends = matrix.nnz + xp.cumsum((L != 0).sum(axis=-1))
    at, L = xp.flatnonzero(L), L.reshape(-1)
    entries = [
        (matrix.data, L[at]),
        (matrix.indices, (at % n).astype(matrix.indices.dtype)),
        (matrix.indptr, ends.astype(matrix.indptr.dtype)),
    ]
    joined = tuple(xp.concatenate(parts) for parts in entries)
    return type(matrix)(joined, shape=(m + len(ends), n)), below
