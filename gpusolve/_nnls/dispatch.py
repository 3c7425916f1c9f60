"""Where systems are solved: on the device of their arrays, in blocks, or by Dask."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import are_native, is_dask
from .labels import read
from .options import COMPARED
from .result import NNLSResult
from .solve import (
    Solve,
    check_compared,
    check_method,
    completed,
    least_squares,
    make_result,
)
from .sparse_matrices import is_sparse
from .validation import without_masks


def dispatch(
    method: str,
    methods: tuple[str, ...],
    given: dict[str, Any],
    defaults: dict[str, Any],
    options: Any,
    solve: Solve = least_squares,
) -> NNLSResult[Any]:
    """Solve every system where its arrays are, in blocks, or by Dask.

    Parameters
    ----------
    method : str
        Of `methods`.
    given : dict
        The arguments that are not options.
    defaults, options : dict
        The defaults of all options of the public function, and the given options.
    solve : callable
        Solves systems that are on one device.
    """
    check_method(method, methods)
    given = completed(given, defaults, options)
    devices, out = given.pop("devices"), given.pop("out")
    labels, lazy = None, False
    if not are_native(given.values()):
        given, labels = read(without_masks(given) if "weights" in given else given)
        lazy = any(map(is_dask, given.values()))
    if type(given["A"]) is not np.ndarray and is_sparse(given["A"]):
        from .sparse import solve_sparse

        return solve_sparse(method, given, devices, out, labels)
    if not lazy and devices is None and out is None:
        return solve(method, given, labels)
    from .blocks import Batch, LazyProblem, solve_blocks, solve_chunks

    batch = Batch.of(given, solve)
    if method in COMPARED:
        check_compared(method, batch.arrays["A"], given)
    solve_batch = solve_chunks if lazy else solve_blocks
    return make_result(
        solve_batch(method, batch, devices, out), LazyProblem(batch), labels
    )
