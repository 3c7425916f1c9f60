"""Parts of log Gamma and its derivatives that stay accurate for large arguments.

Each is what Stirling's approximation leaves over. The same functions for a device, and
the source of the series, are in ``gamma_function.cuh``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..._device.arrays import Array, is_cupy, namespace

STIRLING_FROM = 10.0
"""The least argument of the series: the first term beyond them is below 1e-16."""

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_LOG_GAMMA = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def special(array: Array) -> Any:
    """The module of special functions for an array, SciPy's or CuPy's."""
    return import_module("cupyx.scipy.special" if is_cupy(array) else "scipy.special")


def distinct_counts(y: Array) -> tuple[Array, Any]:
    """Counts, and the places of y among them; y itself if there are fewer rows.

    A function of the counts is then computed once for each, not for each row.
    """
    counts = float(y.max()) + 1
    if counts > y.size:
        return y, slice(None)
    return namespace(y).arange(counts), y.astype(np.int64)


def log_factorial(y: Array) -> Array:
    """``log y!`` of counts.

    Examples
    --------
    >>> import numpy as np
    >>> log_factorial(np.array([0.0, 2.0, 1.0])).round(6)
    array([0.      , 0.693147, 0.      ])
    """
    counts, place = distinct_counts(y)
    return special(y).gammaln(counts + 1.0)[place]


def stirling_error(x: Array) -> Array:
    """``log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2)`` for x > 0."""
    low, high = _parts(x)
    log_gamma = special(x).gammaln(low)
    stirling = (low - 0.5) * namespace(x).log(low) - low + HALF_LOG_TWO_PI
    return _joined(x, log_gamma - stirling, _series(_LOG_GAMMA, high) / high)


def log_minus_digamma(x: Array) -> Array:
    """``log x - digamma(x)`` for x > 0."""
    low, high = _parts(x)
    difference = namespace(x).log(low) - special(x).digamma(low)
    series = 0.5 / high + _series(_DIGAMMA, high) / (high * high)
    return _joined(x, difference, series)


def trigamma_minus_inverse(x: Array) -> Array:
    """``trigamma(x) - 1 / x`` for x > 0; minus the derivative of the above."""
    low, high = _parts(x)
    difference = special(x).zeta(2.0, low) - 1 / low
    series = (_series(_TRIGAMMA, high) / high + 0.5) / (high * high)
    return _joined(x, difference, series)


def _parts(x: Array) -> tuple[Array, Array]:
    """The arguments of the functions and of the series, each in its own range."""
    xp = namespace(x)
    return xp.minimum(x, STIRLING_FROM), xp.maximum(x, STIRLING_FROM)


def _joined(x: Array, low: Array, high: Array) -> Array:
    return namespace(x).where(x < STIRLING_FROM, low, high)[()]


def _series(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial of ``1 / x^2``, by Horner's rule."""
    t, total = 1 / (x * x), coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * t + coefficient
    return total
