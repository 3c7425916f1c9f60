"""The calls whose times are predicted without a GPU, and measured on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from blocks import numbers
from harness import Call, Machine
from nnls_cases import PAPER_SIZES, PIXELS, uniform
from sparse_matrices import matrix
from sparse_products import copy_to_machine

import gpusolve
from gpusolve import sparse
from gpusolve._device.kernels import device_of
from gpusolve._nnls.nnls_gram_kernel import multiply_by_transpose
from gpusolve.gam import BoostedGAM
from gpusolve.studies.experiments import EXPERIMENTS, Systems

SHARE = 66
"""An H200 has 66 times the multiprocessors of the emulated device. With a 66th of the
elements, a kernel whose grid fills the device has as much work for each block."""


class Case(NamedTuple):
    """A call, at the size that is timed and at the size that the emulator counts.

    Attributes
    ----------
    name : str
    make : callable
        Returns the call for a machine and a size: systems, elements, rows or entries.
    size, counted : int
        Size on a GPU, and on the emulator.
    goal : float, optional
        Seconds on an H200.
    left_out : callable, optional
        Returns the call of cuBLAS, which is part of the call and not of its prediction.
    """

    name: str
    make: Callable[[Machine, int], Call]
    size: int
    counted: int
    goal: float | None = None
    left_out: Callable[[Machine, int], Call] | None = None


def nnls(solved: Callable[[int], Systems], machine: Machine, systems: int) -> Call:
    A, b = map(machine.xp.asarray, solved(systems))
    return partial(gpusolve.nnls, A, b, method="gram")


def products(solved: Callable[[int], Systems], machine: Machine, systems: int) -> Call:
    """The products `A^T A`."""
    A = solved(systems)[0]
    columns = np.swapaxes(A.reshape(-1, *A.shape[-2:]), 1, 2)
    given = machine.xp.asarray(np.ascontiguousarray(columns))
    device = device_of(given)
    assert device is not None
    return partial(multiply_by_transpose, given, device)


def one_matrix(systems: int) -> Systems:
    rng = np.random.default_rng(0)
    return rng.standard_normal((64, 16)), rng.standard_normal((systems, 64))


def own_matrices(systems: int) -> Systems:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((systems, 30, 10))
    return A, rng.standard_normal((systems, 30))


def block(function: Callable[..., Any], machine: Machine, n: int) -> Call:
    return partial(function, numbers(machine.xp, n))


def partition(machine: Machine, n: int) -> Call:
    x = numbers(machine.xp, n)
    return partial(gpusolve.stable_partition, x, x > 0)


SEGMENT = 24
"""Elements of a segment."""


def segmented_scan(machine: Machine, n: int) -> Call:
    flags = machine.xp.arange(n) % SEGMENT == 0
    return partial(gpusolve.segmented_scan, numbers(machine.xp, n), flags)


def segmented_reduce(machine: Machine, n: int) -> Call:
    offsets = machine.xp.asarray(np.append(np.arange(0, n, SEGMENT), n))
    return partial(gpusolve.segmented_reduce, numbers(machine.xp, n), offsets=offsets)


def gemv(machine: Machine, rows: int) -> Call:
    A = numbers(machine.xp, 16 * rows).reshape(rows, 16)
    return partial(gpusolve.gemv, A, numbers(machine.xp, 16))


def spmv(machine: Machine, entries: int) -> Call:
    A = copy_to_machine(machine, matrix("banded", entries, seed=0).tocsr())
    return partial(sparse.SpMVPlan(A), numbers(machine.xp, A.shape[1]))


def multiply(machine: Machine, entries: int) -> Call:
    matrices = (matrix("uniform", entries, seed) for seed in (0, 1))
    A, B = (copy_to_machine(machine, one) for one in matrices)
    return partial(sparse.multiply, A, B, method="merge")


def boosted_fit(machine: Machine, rows: int) -> Call:
    """100 steps with 10 learners of 20 cubic B-splines, and their set-up."""
    rng = np.random.default_rng(0)
    data = map(machine.xp.asarray, (rng.random((rows, 10)), rng.standard_normal(rows)))
    model = BoostedGAM(n_basis=20, max_iter=100, method="stacked")
    return partial(model.fit, *data)


def systems(
    name: str, solved: Callable[[int], Systems], size: int, counted: int, goal: float
) -> Case:
    """Systems for `nnls`; the page of costs has the same names."""
    return Case(f"nnls, {name}", partial(nnls, solved), size, counted, goal)


def large_systems(
    name: str, solved: Callable[[int], Systems], size: int, goal: float
) -> Case:
    """Systems that a block solves, from their Gram matrices by cuBLAS."""
    left_out = partial(products, solved)
    return systems(name, solved, size, 2, goal)._replace(left_out=left_out)


def scaled(name: str, make: Callable[[Machine, int], Call], size: int) -> Case:
    """A call whose kernels fill the device: the emulator counts a share of it."""
    return Case(name, make, size, size // SHARE)


deconvolution, gaussians, random = (EXPERIMENTS[name] for name in PAPER_SIZES)
large, pixels = (
    partial(uniform, shape=shape, shared=False) for shape in ((1000, 200), (3, 3))
)

CASES = [
    large_systems("deconvolution, 432 x 48", deconvolution, 48, 0.6e-3),
    large_systems("shifted Gaussians, 512 x 48", gaussians, 48, 2e-3),
    large_systems("shifted Gaussians, 512 x 192", gaussians, 192, 4e-3),
    large_systems("uniform random, 512 x 48", random, 48, 0.6e-3),
    large_systems("random 1000 x 200, 48", large, 48, 0.4e-3),
    systems("64 x 16, one matrix, 1e6", one_matrix, 10**6, 2000, 6e-3),
    systems("30 x 10, 1e5", own_matrices, 10**5, 1000, 0.4e-3),
    systems("3 x 3, 262,144", pixels, PIXELS, 4000, 0.08e-3),
    scaled("reduce, 1e8", partial(block, gpusolve.reduce), 10**8),
    scaled("scan, 1e8", partial(block, gpusolve.scan), 10**8),
    scaled("segmented_scan, 1e8", segmented_scan, 10**8),
    scaled("segmented_reduce, 1e8", segmented_reduce, 10**8),
    scaled("stable_partition, 1e8", partition, 10**8),
    scaled("gemv, 1e5 x 16", gemv, 10**5),
    scaled("spmv, banded, 1e7 entries", spmv, 10**7),
    scaled("multiply, uniform, 1e7 entries each", multiply, 10**7),
    scaled("boost, 1e5 x 10, 100 steps", boosted_fit, 10**5),
]
"""Blocks have float32, solvers float64."""
