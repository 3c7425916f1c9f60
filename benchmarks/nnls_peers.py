"""Other libraries that solve non-negative least squares.

Each function takes ``A`` of shape (m, n) or (systems, m, n) and ``b`` of shape
(systems, m), copies them to the library's device, and returns the call that is timed.
The call returns x. A library is imported when its function is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from gpusolve._device.launch import ceil_div, pieces
from gpusolve._device.threads import cores, one_blas_thread

Array = Any
Call = Callable[[], Array]

CHUNKS_PER_CORE = 4
"""Chunks of systems for each core of a pool, so that all cores end together."""

OPTAX_STEPS = 1000
"""Steps of ``optax.nnls``, which does not stop by itself; as in its documentation."""

JAX_OPTIONS = {"JAX_ENABLE_X64": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Environment of JAX: float64, and no reservation of the GPU's memory."""


class Peer(NamedTuple):
    """A library: its name, the module that it needs, and its function in this file."""

    name: str
    module: str
    prepare: Callable[[Array, Array], Call]


def each(A: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    """Each system of a batch."""
    return zip(np.broadcast_to(A, (len(b), *A.shape[-2:])), b, strict=True)


# ---- on one core ---------------------------------------------------------------------


def solve_by_scipy(A: Array, b: Array) -> Array:
    from scipy.optimize import nnls

    with one_blas_thread():
        return np.array([nnls(*system)[0] for system in each(A, b)])


def scipy_loop(A: Array, b: Array) -> Call:
    return partial(solve_by_scipy, A, b)


def fnnls_eigen(A: Array, b: Array) -> Call:
    """fnnlsEigen keeps ``A^T A`` between the systems if they share the matrix."""
    from fnnlsEigen import CachePreComputeNNLS, fnnls

    def solve_all() -> Array:
        solve = CachePreComputeNNLS().fnnls if A.ndim == 2 else fnnls
        return np.array([solve(*system) for system in each(A, b)])

    return solve_all


def one_by_one(solve: Callable[[Array, Array], Array], A: Array, b: Array) -> Call:
    """A loop over the systems."""
    return lambda: np.array([solve(*system) for system in each(A, b)])


def solve_by_bvls(A: Array, b: Array) -> Array:
    from scipy.optimize import lsq_linear

    return lsq_linear(A, b, (0, np.inf), method="bvls").x


def solve_by_fnnls(A: Array, b: Array) -> Array:
    from fnnls import fnnls

    return fnnls(A, b)[0]


def solve_by_qp(solver: str, A: Array, b: Array) -> Array:
    from qpsolvers import solve_ls

    return solve_ls(A, b, lb=np.zeros(A.shape[1]), solver=solver)


# ---- on all cores --------------------------------------------------------------------


def joblib_pool(A: Array, b: Array) -> Call:
    """SciPy in a process for each core."""
    from joblib import Parallel, delayed

    chunks = list(pieces(len(b), ceil_div(len(b), CHUNKS_PER_CORE * cores())))
    systems = [(A if A.ndim == 2 else A[chunk], b[chunk]) for chunk in chunks]

    def solve_all() -> Array:
        pool = Parallel(n_jobs=cores(), max_nbytes=None)  # no files for large arrays
        return np.concatenate(pool(delayed(solve_by_scipy)(*some) for some in systems))

    return solve_all


# ---- on a GPU, if present ------------------------------------------------------------


def jax_call(solve: Callable[[Array, Array], Array], A: Array, b: Array) -> Call:
    """Copy the systems to JAX's device, and map `solve` over them."""
    import jax

    systems = jax.device_put((A, b))
    mapped = jax.jit(jax.vmap(solve, in_axes=(None if A.ndim == 2 else 0, 0)))
    return lambda: mapped(*systems).block_until_ready()


def jaxnnls(A: Array, b: Array) -> Call:
    """An interior-point method on ``A^T A``."""
    os.environ.update(JAX_OPTIONS)
    from jaxnnls import solve_nnls

    return jax_call(lambda A, b: solve_nnls(A.T @ A, A.T @ b)[0], A, b)


def optax(A: Array, b: Array) -> Call:
    """Accelerated projected gradients."""
    os.environ.update(JAX_OPTIONS)
    from optax import nnls

    return jax_call(partial(nnls, iters=OPTAX_STEPS), A, b)


def cuml(A: Array, b: Array) -> Call:
    """cuML solves a batch if the systems share the matrix, otherwise each by itself."""
    import cupy
    from cuml.solvers import nnls

    A, b = cupy.asarray(A), cupy.asarray(b)

    def solve_all() -> Array:
        if A.ndim == 2:
            x = nnls(A, b.T)[0].T
        else:
            x = cupy.stack([nnls(*system)[0] for system in zip(A, b, strict=True)])
        cupy.cuda.Device().synchronize()
        return x

    return solve_all


# ---- all of them ---------------------------------------------------------------------

PEERS = [
    Peer("SciPy", "scipy", scipy_loop),
    Peer("joblib", "joblib", joblib_pool),
    Peer("fnnlsEigen", "fnnlsEigen", fnnls_eigen),
    Peer("jaxnnls", "jaxnnls", jaxnnls),
    Peer("optax", "optax", optax),
    Peer("cuML", "cuml", cuml),
]
"""The libraries that are timed."""

OTHERS = [
    Peer("SciPy BVLS", "scipy", partial(one_by_one, solve_by_bvls)),
    Peer("fnnls", "fnnls", partial(one_by_one, solve_by_fnnls)),
    *(
        Peer(name, name, partial(one_by_one, partial(solve_by_qp, name)))
        for name in ("clarabel", "quadprog")
    ),
]
"""Libraries whose answers are judged, and that are not timed."""


def installed() -> list[Peer]:
    return [peer for peer in PEERS if find_spec(peer.module)]


def distributions() -> list[str]:
    """The packages whose versions a report states."""
    known = packages_distributions()
    modules = [*(peer.module for peer in PEERS), "jax"]
    return [known[module][0] for module in modules if module in known]
