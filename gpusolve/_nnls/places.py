"""Where a batch is solved: on the device of its arrays, in blocks, or by Dask."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import Array, are_native, is_dask
from .._numerics.solution import AnySolution
from .batch import Batch, Given, Solve
from .labels import Labels, read
from .masks import without_masks
from .methods import COMPARED
from .result import NNLSResult
from .solve import METHODS, check_compared, check_method, least_squares, make_result
from .sparse_matrices import is_sparse


def solve_anywhere(
    method: str,
    methods: tuple[str, ...] = METHODS,
    *,
    solve: Solve = least_squares,
    devices: Any = None,
    out: dict[str, Array] | None = None,
    **given: Any,
) -> NNLSResult[Any]:
    """Solve every system where its arrays are, or on `devices`.

    The parameters are as for ``nnls`` and ``lsq_linear``; `solve` solves systems that
    are on one device.
    """
    check_method(method, methods)
    labels, lazy = None, False
    if not are_native(given.values()):
        given, labels = read(without_masks(given) if "weights" in given else given)
        lazy = any(map(is_dask, given.values()))
    if type(given["A"]) is not np.ndarray and is_sparse(given["A"]):
        return solve_by_sparse_products(method, given, devices, out, labels)
    if not lazy and devices is None and out is None:
        result: NNLSResult[Any] = solve(method, given, labels)
        return result
    batch = Batch.of(given, solve)
    if method in COMPARED:
        check_compared(method, batch.arrays["A"], given)
    if lazy:
        solution = solve_by_dask(method, batch, devices, out)
    else:
        solution = solve_in_blocks(method, batch, devices, out)
    return make_result(solution, Given(batch), labels)


def solve_by_sparse_products(
    method: str,
    given: dict[str, Any],
    devices: Any,
    out: Any,
    labels: Labels | None,
) -> NNLSResult[Any]:
    """Solve a batch with sparse matrices."""
    from .sparse_solve import solve_sparse

    return solve_sparse(method, given, devices, out, labels)


def solve_in_blocks(method: str, batch: Batch, devices: Any, out: Any) -> AnySolution:
    """Solve a batch in host memory or in files."""
    from .stream import solve_blocks

    return solve_blocks(method, batch, devices, out)


def solve_by_dask(method: str, batch: Batch, devices: Any, out: Any) -> AnySolution:
    """Describe how Dask solves a batch."""
    if devices is not None or out is not None:
        raise ValueError(
            "devices and out must be None for dask arrays: their workers have devices, "
            "and dask.array.store writes results"
        )
    from .dask_arrays import solve_chunks

    return solve_chunks(method, batch)
