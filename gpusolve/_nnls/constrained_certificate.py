"""The certificate of a point within linear constraints.

With the residual ``r = b - A z`` of a point z next to x, multipliers of the constraints
``C x >= d``, which are not negative for inequalities, and the negative gradient
``w = A^T r - l1 - l2 x + C^T multipliers``, every feasible x' without penalties has

    ``|r| |b - A x'| >= |r|^2 - multipliers (C z - d) - w (x' - z)``.

If w points out of the interval at each bound p_k next to x_k, the last term is at least
``-w (p - x)``. What violates this is bounded by the largest cosine of the angle between
r and a column. A w_k that is 0 up to rounding counts there, too, and p_k is x_k. `kkt`
is the sum of the three parts and of ``|A (x - z)|``, relative to ``|b| + reach``: every
feasible x' has a variable with ``|a_k x'_k|`` of at least `reach`. If A has rounding
errors, so has r: ``|b| + reach`` is added to its norm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, largest, namespace
from .._device.products import product, transposed
from .._numerics.certificate import CERTIFIED, CONVINCING, HIDDEN, ROUNDED
from .accurate_products import transposed_product
from .constrained_system import EPS, ConstrainedSystem, size_of
from .quadratic import ratio, remainder

SHARE = 1e-4
"""What rounding errors of x may add to the violation of a constraint, relative to the
limit on violations, for an x with terms of the size of b."""


class ConstrainedCertificate(NamedTuple):
    """How far a point is from the optimum.

    Attributes
    ----------
    r : (systems, m) array
        The residual.
    w : (systems, n) array
        The negative gradient of the Lagrangian.
    by_x : (systems,) array
        The gap of the multipliers and of the bounds, relative.
    angle : (systems,) array
        The violation of the optimality conditions by w.
    lack : (systems,) array
        The largest violation of a constraint, relative to the size of its terms.
    size : (systems,) array
        ``sum_k |a_k x_k|``, relative.
    trivial : (systems,) array
        A bound of `by_x` and of `angle` that needs no multipliers.
    pull : (systems,) array
        The terms of ``multipliers (C x - d)`` and of ``l1 x``, relative.
    """

    r: Array
    w: Array
    by_x: Array
    angle: Array
    lack: Array
    size: Array
    trivial: Array
    pull: Array

    @property
    def kkt(self) -> Array:
        """The certificate; infinite for a point that is not feasible."""
        xp = namespace(self.by_x)
        most = CERTIFIED[np.dtype(np.float64)]
        return xp.where(self.lack <= most, self.by_x + self.angle, np.inf)

    @property
    def badness(self) -> Array:
        """What a better point has less of: `kkt`, and the violation of constraints."""
        xp, most = namespace(self.by_x), CERTIFIED[np.dtype(np.float64)]
        kkt = self.by_x + self.angle
        found = xp.where(self.lack <= most, kkt + self.lack, self.lack / EPS)
        return xp.where(xp.isnan(found), np.inf, found)

    def accepts(self, tol: float, dtype: np.dtype[Any]) -> Array:
        """Whether the points are certified, when they are rounded to `dtype`."""
        xp, most, eps = namespace(self.by_x), CERTIFIED[dtype], np.finfo(dtype).eps
        rounding = ROUNDED * (eps * self.size + EPS * self.pull)
        by_x = xp.maximum(tol, most + rounding)
        good = (self.by_x <= by_x) & (self.angle <= max(tol, most))
        # The sides of constraints may have moved by a part of what is allowed.
        good = good & (self.lack <= CERTIFIED[np.dtype(np.float64)] / 2)
        return good & (eps * self.size <= HIDDEN[dtype])


def certify(
    system: ConstrainedSystem,
    x: Array,
    multipliers: Array,
    rest: Array,
    x_rest: Array,
) -> ConstrainedCertificate:
    """Certify points in scaled variables.

    Parameters
    ----------
    system : ConstrainedSystem
    x : (systems, n) array
        Points within the bounds.
    multipliers, rest : (systems, rows) array
        Their sums are the multipliers. Multipliers of bounds are not used: w has them.
    x_rest : (systems, n) array
        The residual of ``x + x_rest`` is the witness.
    """
    xp, norm = namespace(x), system.norm
    multipliers, rest = multipliers * system.general, rest * system.general
    r, lack = system.residual(x), finite(system.lack(x))
    image = product(system.A, x_rest)
    y = r - image
    w = gradient_of_lagrangian(system, system.slope(x, y), multipliers, rest)
    length = xp.sqrt((y * y).sum(axis=-1) + (system.l2 * x * x).sum(axis=-1))
    magnitude = size_of(system.b) + reach(system)
    if system.rounded_matrix:
        length = length + magnitude
    limit = xp.where(could_fall(system, x), np.inf, ratio(length, magnitude))
    gap = multipliers * (lack - product(system.C, x_rest))
    gap = xp.abs(gap).sum(axis=-1)
    is_zero = xp.abs(w) <= CONVINCING * EPS * norm * length[:, None]
    at_bound = xp.where(is_zero, 0, bound_distance(system, x) * w)
    gap = gap + xp.abs(at_bound).sum(axis=-1)
    terms = product(xp.abs(system.C), xp.abs(x)) + xp.abs(finite(system.d))
    pull = (xp.abs(multipliers) * terms).sum(axis=-1)
    pull = pull + xp.abs(system.l1 * x).sum(axis=-1)
    violated = violation(system, x, w, multipliers, length)
    slope = largest(ratio(xp.where(is_zero, xp.abs(w), violated), norm))
    return ConstrainedCertificate(
        r=r,
        w=w,
        by_x=xp.fmin(ratio(ratio(gap, length), magnitude), limit)
        + ratio(size_of(image), magnitude),
        angle=xp.fmin(ratio(slope, length), limit),
        lack=relative_lack(system, lack, terms, magnitude) + 0 * x.sum(axis=-1),
        trivial=limit,
        size=ratio((norm * xp.abs(x)).sum(axis=-1), magnitude),
        pull=ratio(ratio(pull, length), magnitude),
    )


def gradient_of_lagrangian(
    system: ConstrainedSystem, slope: Array, multipliers: Array, rest: Array
) -> Array:
    """``slope + C^T (multipliers + rest)``, the negative gradient.

    With a rest, the sum is computed in twice the working precision.
    """
    if not bool(rest.any()):
        return slope + transposed_product(system.C, multipliers)
    without_rest, _ = remainder(slope, transposed(system.C), -multipliers)
    return without_rest + transposed_product(system.C, rest)


def violation(
    system: ConstrainedSystem, x: Array, w: Array, multipliers: Array, length: Array
) -> Array:
    """How far w is from optimal, for each variable.

    Columns of zeros have no cosine: there, rounding errors count as 0.
    """
    xp = namespace(x)
    up = xp.where(x < system.upper, w, 0)
    down = xp.where(x > system.lower, -w, 0)
    found = xp.maximum(xp.maximum(up, down), 0)
    terms = transposed_product(xp.abs(system.C), xp.abs(multipliers))
    terms = ROUNDED * EPS * (terms + xp.abs(system.l1) + length[:, None])
    return xp.where((system.norm > 0) | (found > terms), found, 0)


def could_fall(system: ConstrainedSystem, x: Array) -> Array:
    """Whether the l1 penalty could be smaller within the bounds."""
    xp, l1 = namespace(x), system.l1
    least = xp.where(l1 > 0, system.lower, system.upper)
    return ((l1 != 0) & (x != least)).any(axis=-1)


def bound_distance(system: ConstrainedSystem, x: Array) -> Array:
    """``x - p`` for the nearest bound p; 0 unless a bound is finite."""
    xp = namespace(x)
    above, below = x - system.lower, x - system.upper
    return finite(xp.where(above <= -below, above, below))


def reach(system: ConstrainedSystem) -> Array:
    """A bound from below of the largest ``|a_k x_k|`` of all feasible x.

    Columns of zeros count with their scale.
    """
    xp, d = namespace(system.C), finite(system.d)
    first = d.shape[-1] - system.equalities
    size = xp.where(xp.arange(d.shape[-1]) < first, xp.maximum(d, 0), xp.abs(d))
    per_unit = product(xp.abs(system.C), 1 / column_size(system))
    return largest(ratio(size, per_unit))


def relative_lack(
    system: ConstrainedSystem, lack: Array, terms: Array, magnitude: Array
) -> Array:
    """The largest violation of a constraint, relative to the size of its terms.

    Terms count with at least a `SHARE` of their size for an x with ``|a_k x_k|`` of
    `magnitude`.
    """
    xp, first = namespace(lack), system.inequalities
    equal = xp.arange(lack.shape[-1]) >= first
    lack = xp.where(equal, xp.abs(lack), xp.maximum(lack, 0))
    per_unit = product(xp.abs(system.C), 1 / column_size(system))
    size = terms + SHARE * magnitude[..., None] * per_unit
    return largest(ratio(lack, size))


def column_size(system: ConstrainedSystem) -> Array:
    """The norms of the columns; 1, their scale, for columns of zeros."""
    norm = system.norm
    return namespace(norm).where(norm > 0, norm, 1)


def finite(values: Array) -> Array:
    """The values, with 0 in place of infinities."""
    xp = namespace(values)
    return xp.where(xp.isinf(values), 0, values)
