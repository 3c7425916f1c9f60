"""The parts of ``cupyx.scipy.special`` that gpusolve uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.special

from .array import compute, ndarray


def _elementwise(function: Callable[..., Any]) -> Any:
    def call(*x: Any) -> ndarray:
        return compute(function, *x)

    return call


digamma, gammaln = map(_elementwise, (scipy.special.digamma, scipy.special.gammaln))
expit, zeta = map(_elementwise, (scipy.special.expit, scipy.special.zeta))
erfcx, log_ndtr = map(_elementwise, (scipy.special.erfcx, scipy.special.log_ndtr))
