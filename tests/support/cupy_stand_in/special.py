"""The parts of ``cupyx.scipy.special`` that gpusolve uses."""

from __future__ import annotations

import scipy.special

from .array import by_numpy

digamma, erfcx, expit, gammaln, log_ndtr, zeta = (
    by_numpy(getattr(scipy.special, name))
    for name in ("digamma", "erfcx", "expit", "gammaln", "log_ndtr", "zeta")
)
