"""Figure 4 of the paper on boosting: the three products of a step.

A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models with GPU
Acceleration" (2023), section 4.2. A step of their Algorithm 2 multiplies, for each
learner, ``B^T`` by the residual, the inverse of ``B^T B + lambda I`` by the result, and
``B`` by the coefficients. All three products count, in float32, without transfers. B is
patsy's basis on equidistant knots. Version 1 is "threads_per_dot", version 2 is
"threads_per_row", and "auto" is this package's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from .. import emulator
from .._device.arrays import Array
from .._device.kernels import source_directory
from .._gemv.gemv import gemv

SOURCE = source_directory() / "gemv.cu"
"""The kernels of the variants."""

VARIANTS = {
    "threads_per_dot": "version 1",
    "threads_per_row": "version 2",
    "auto": "auto",
}
"""The variants of `gpusolve.gemv`, and their names."""

SIZES = list(product((10**3, 10**4, 10**5), (16, 32, 64)))
"""Rows, and functions of a basis, as in the figure."""

GPUS = ("MX550", "H200")
"""The devices of predictions; the first is the paper's."""

Multiply = Callable[[Array, Array], Array]
Seconds = dict[str, float]


class Step(NamedTuple):
    """The operands of a step: a basis, an inverse and a residual, all float32."""

    B: Array
    inverse: Array
    residual: Array


def make(xp: Any, rows: int, functions: int) -> Step:
    """A basis of B-splines of uniform numbers, and its ridge regression."""
    import patsy

    rng = np.random.default_rng(0)
    x, knots = rng.random(rows), np.linspace(0, 1, functions - 2)[1:-1]
    ends = {"lower_bound": 0, "upper_bound": 1}
    B = patsy.bs(x, knots=knots, include_intercept=True, **ends)
    inverse = np.linalg.inv(B.T @ B + np.eye(functions))
    operands = (B, inverse, rng.standard_normal(rows))
    return Step(*(xp.asarray(operand.astype(np.float32)) for operand in operands))


def products(step: Step, multiply: Multiply) -> Array:
    """The fit of the residual: three products."""
    coefs = multiply(step.inverse, multiply(step.B.T, step.residual))
    return multiply(step.B, coefs)


def call(step: Step, variant: str = "auto") -> Callable[[], Array]:
    """The products by a variant of `gpusolve.gemv`."""
    return partial(products, step, partial(gemv, variant=variant))


def check(step: Step, found: NDArray[np.float32], name: str) -> None:
    """Raise RuntimeError unless a fit equals the fit in float64, up to rounding.

    The operands and the fit are on the host.
    """
    exact = products(Step(*(operand.astype(np.float64) for operand in step)), np.dot)
    terms = len(step.residual) * np.finfo(np.float32).eps
    if not np.allclose(found, exact, rtol=0, atol=terms * abs(exact).max()):
        raise RuntimeError(f"{name} is wrong for {step.B.shape}")


def predicted(rows: int, functions: int) -> Seconds:
    """The predicted seconds of a step on `GPUS`, from counts on the emulator."""
    step, seconds = make(np, rows, functions), {}
    with mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1"):
        for variant, name in VARIANTS.items():
            with emulator.profile() as report:
                check(step, call(step, variant)(), variant)
            for gpu in GPUS:
                seconds[f"{gpu} {name}, predicted"] = report.predict(gpu).seconds
    return {name: seconds[name] for gpu in GPUS for name in seconds if gpu in name}
