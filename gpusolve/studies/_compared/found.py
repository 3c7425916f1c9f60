"""What a compared method finds, and how far a point is from optimal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._numerics.arithmetic import Array, Mask
from ..._numerics.certificate import ratio
from ..._numerics.system import System


class Found(NamedTuple):
    """The last points of a batch of systems; a certificate is computed afterwards.

    Attributes
    ----------
    x : (N, n) array
        In the scaled variables, non-negative.
    nit, n_updates, n_downdates : (N,) int32 array
        Those of :class:`gpusolve.NNLSResult`.
    limited : (N,) bool array
        Whether the limit on `nit` was reached.
    """

    x: Array
    nit: NDArray[np.int32]
    n_updates: NDArray[np.int32]
    n_downdates: NDArray[np.int32]
    limited: Mask

    @classmethod
    def at(cls, x: Array) -> Found:
        """The points x, where positive variables have entered; nothing else is done."""
        nit, n_downdates = np.zeros((2, len(x)), np.int32)
        entered = np.count_nonzero(x > 0, axis=1).astype(np.int32)
        return cls(x.copy(), nit, entered, n_downdates, np.zeros(len(x), bool))


def extent(system: System, x: Array) -> Array:
    """``|b| + sum_k |a_k x_k|``, (N, 1): rounding errors of A x are relative to it."""
    return np.asarray((system.magnitude + system.size(x))[:, None])


def remove_units(system: System, x: Array, w: Array) -> tuple[Array, Array]:
    """Scale x and its negative gradient w to numbers without units.

    They are ``x_j |a_j|`` and ``w_j / |a_j|``, divided by `extent`: scaling A, b or a
    column of A does not change them. For columns of zeros they are 0.
    """
    whole = extent(system, x)
    return ratio(x * system.norm, whole), relative(system, w, whole)


def relative(system: System, w: Array, whole: Array) -> Array:
    """``w_j / |a_j|`` over `whole`; 0 for columns of zeros."""
    return np.where(system.norm > 0, ratio(ratio(w, system.norm), whole), 0)


def distance(system: System, x: Array, w: Array) -> Array:
    """How far each system is from optimal: the largest ``|min(x_j, -w_j)|``.

    x and w are without units. At the optimum x and -w are not negative, and
    one of them is 0.
    """
    value, slope = remove_units(system, x, w)
    return np.asarray(np.max(np.abs(np.minimum(value, -slope)), axis=1, initial=0))


def clear_tiny(system: System, x: Array, w: Array, tol: float) -> Array:
    """x, but 0 where it is at most `tol` or eps and less than ``-w``, without units."""
    value, slope = remove_units(system, x, w)
    tiny = value <= max(tol, float(np.finfo(x.dtype).eps))
    return np.where(tiny & (value < -slope), 0, x)
