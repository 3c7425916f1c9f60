"""Certify any answer to a batch of NNLS, whichever library gave it.

The certificate is computed as in ``gpusolve.nnls``: an upper bound on how far
``|b - A x|`` is above the minimum, relative to |b|. It takes a witness, which proves a
lower bound. The best witness is the residual of the optimum, so the residual of one
correct answer serves for all answers. A wrong answer makes a bad witness, which
certifies nothing.

A single term differs: `angle` depends on the witness alone. In ``gpusolve.nnls`` it
also counts gradients that are negative where ``x > 0``. The bound does not need these,
and the entries of an interior-point method are never exactly 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusolve._numerics.certificate import certify
from gpusolve._numerics.system import scale
from gpusolve.studies._compared.solve import best_witness

Array = NDArray[Any]

SAMPLE_ENTRIES = 2**20
"""Limit on the entries of the certified systems' matrices together."""

SAMPLE_SYSTEMS = 1000
"""Limit on the number of systems that are certified: the first systems of a batch."""


class Certifier:
    """Certifies answers to the first systems of a batch.

    Parameters
    ----------
    A : (m, n) or (systems, m, n) array
    b : (systems, m) array
    x : (systems, n) array
        A correct answer, which provides the witness.
    """

    def __init__(self, A: Array, b: Array, x: Array) -> None:
        m, n = A.shape[-2:]
        self.count = max(1, min(SAMPLE_SYSTEMS, SAMPLE_ENTRIES // (m * n)))
        A = A if A.ndim == 2 else A[: self.count]
        self.system = scale(A.astype(float), b[: self.count].astype(float))
        at = self.system.rescale(x[: self.count].astype(float))
        self.witness = best_witness(self.system, at)
        self.angle = certify(self.system, 0 * at, self.witness).angle

    def worst(self, x: Array) -> float:
        """The largest certificate; negative entries of x count as 0."""
        first = np.arange(min(len(x), len(self.witness)))
        system = self.system.take(first)
        at = system.rescale(np.maximum(x[first], 0).astype(float))
        by_x = certify(system, at, self.witness[first]).by_x
        return float((by_x + self.angle[first]).max())
