"""The certificate of a point within linear constraints.

With the residual ``r = b - A z`` of a point z next to x, multipliers y of the
constraints ``C x >= d``, which are not negative for inequalities, and the negative
gradient ``w = A^T r - l1 - l2 z + C^T y``, every feasible x' without penalties has

    ``|r| |b - A x'| >= |r|^2 - y (C z - d) - w (x' - z)``.

For each variable, p_k is the bound that w points to, or 0 if that is nearer to x_k. So
``w_k (x'_k - p_k)`` is not positive at a bound, and at most ``|w_k x'_k|`` else. `kkt`
is the sum of the *gap* ``|y (C z - d) + w (p - z)| / |r|``, of ``|A (x - z)|``, both
relative to ``|b| + reach``, and of the largest ``|w_k| / |a_k| |r|`` of the variables
whose p_k is not a bound. Every feasible x' has a variable with ``|a_k x'_k|`` of at
least `reach`. If A has rounding errors, so has r: ``|b| + reach`` is added to its norm.

Large multipliers magnify rounding errors of ``C z - d`` and of w. Both are computed in
twice the working precision where this matters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, largest, namespace
from .._device.products import product, transposed, transposed_product
from .._numerics.certificate import (
    ACCURATE,
    CERTIFIED,
    Terms,
    accepts,
    distance_to_optimum,
    ratio,
)
from .._numerics.compensated import remainder
from .constrained_system import EPS, ConstrainedSystem, size_of
from .quadratic import MultiplierTerms

SHARE = 1e-4
"""Limit on the violation of a constraint by rounding errors of x, relative to the limit
on violations, for an x with terms of the size of b."""


class ConstrainedCertificate(NamedTuple):
    """How far a point is from the optimum.

    Attributes
    ----------
    r : (systems, m) array
        The residual.
    w : (systems, n) array
        The negative gradient of the Lagrangian.
    by_x : (systems,) array
        The gap and ``|A (x - z)|``, relative.
    angle : (systems,) array
        The violation of the optimality conditions by w.
    lack : (systems,) array
        The largest violation of a constraint, relative to the size of its terms.
    size : (systems,) array
        ``sum_k |a_k x_k|``, relative.
    trivial : (systems,) array
        A bound of `by_x` and of `angle` that needs no multipliers.
    """

    r: Array
    w: Array
    by_x: Array
    angle: Array
    lack: Array
    size: Array
    trivial: Array

    @property
    def kkt(self) -> Array:
        """The certificate; infinite for a point that is not feasible."""
        xp = namespace(self.by_x)
        most = CERTIFIED[np.dtype(np.float64)]
        return xp.where(self.lack <= most, self.by_x + self.angle, np.inf)

    @property
    def badness(self) -> Array:
        """`kkt`, and the violation of constraints; a better point has less."""
        xp, most = namespace(self.by_x), CERTIFIED[np.dtype(np.float64)]
        kkt = self.by_x + self.angle
        found = xp.where(self.lack <= most, kkt + self.lack, self.lack / EPS)
        return xp.where(xp.isnan(found), np.inf, found)

    def accepts(self, tol: float, dtype: np.dtype[Any]) -> Array:
        """Whether the points are certified, when they are rounded to `dtype`."""
        good = accepts(self.by_x, self.angle, self.size, dtype, tol)
        return good & self.is_feasible

    @property
    def is_feasible(self) -> Array:
        """Whether points satisfy all constraints, up to half of what is allowed.

        The other half may be due to sides that were moved within their rounding.
        """
        return self.lack <= CERTIFIED[np.dtype(np.float64)] / 2


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
    xp = namespace(x)
    multipliers, rest = multipliers * system.general, rest * system.general
    r, image = system.residual(x), product(system.A, x_rest)
    y = r - image
    length = xp.sqrt((y * y).sum(axis=-1) + (system.l2 * x * x).sum(axis=-1))
    magnitude = size_of(system.b) + reach(system)
    C, size, of_columns = xp.abs(system.C), xp.abs(multipliers), column_size(system)
    terms = product(C, xp.abs(x)) + xp.abs(finite(system.d))
    of_gap = ratio((size * terms).sum(axis=-1), magnitude)
    of_w = largest(transposed_product(C, size) / of_columns)
    slope, lack = system.slope(x, y), system.d - product(system.C, x)
    w = slope + transposed_product(system.C, multipliers + rest)
    at = xp.flatnonzero(xp.maximum(of_gap, of_w) > ACCURATE * length)
    if len(at):
        few = system.take(at)
        lack[at] = few.lack(x[at], 0 * x[at])
        w[at] = gradient_of_lagrangian(few, slope[at], multipliers[at], rest[at])
    lack = finite(lack)
    bound = xp.where(w > 0, system.upper, system.lower)
    at_bound = xp.abs(bound - x) <= xp.abs(x)
    nearest = xp.where(at_bound, bound, 0)
    gap = (w * (nearest - x - x_rest)).sum(axis=-1)
    gap = gap - (multipliers * (lack - product(system.C, x_rest))).sum(axis=-1)
    by_x, angle, limit = distance_to_optimum(
        Terms(
            length,
            magnitude,
            apart=size_of(image),
            gap=gap,
            slope=largest(ratio(xp.where(at_bound, 0, xp.abs(w)), of_columns)),
            slack=xp.where(could_fall(system, x), np.inf, 0.0),
        )
    )
    return ConstrainedCertificate(
        r=r,
        w=w,
        by_x=by_x,
        angle=angle,
        lack=relative_residual(system, lack, terms, magnitude) + 0 * x.sum(axis=-1),
        trivial=limit,
        size=ratio((system.norm * xp.abs(x)).sum(axis=-1), magnitude),
    )


def multiplier_terms(
    system: ConstrainedSystem,
    x: Array,
    multipliers: Array,
    rest: Array,
    is_feasible: Array,
) -> MultiplierTerms:
    """The pull of the general constraints at points in scaled variables."""
    xp, by_b = namespace(x), system.b_scale
    multipliers, rest = multipliers * system.general, rest * system.general
    found = gradient_of_lagrangian(system, 0 * x, multipliers, rest)
    gap = (multipliers * finite(system.lack(x, 0 * x))).sum(axis=-1)
    C = xp.abs(system.C * system.general[:, None] / system.scale[..., None, :])
    most = largest(C, keepdims=True)
    share = largest(C / xp.where(most > 0, most, 1), axis=-2)
    return MultiplierTerms(
        slope=-found / system.scale / by_b[:, None],
        gap=-gap / by_b**2,
        reach=reach(system) / by_b,
        share=share + 0 * x,
        is_feasible=is_feasible,
    )


def gradient_of_lagrangian(
    system: ConstrainedSystem, slope: Array, multipliers: Array, rest: Array
) -> Array:
    """``slope + C^T (multipliers + rest)`` in twice the working precision."""
    found, _ = remainder(slope, transposed(system.C), -multipliers)
    return found + transposed_product(system.C, rest)


def could_fall(system: ConstrainedSystem, x: Array) -> Array:
    """Whether the l1 penalty could be smaller within the bounds."""
    xp, l1 = namespace(x), system.l1
    least = xp.where(l1 > 0, system.lower, system.upper)
    return ((l1 != 0) & (x != least)).any(axis=-1)


def reach(system: ConstrainedSystem) -> Array:
    """A bound from below of the largest ``|a_k x_k|`` of all feasible x.

    Columns of zeros count with their scale.
    """
    xp, d = namespace(system.C), finite(system.d)
    first = d.shape[-1] - system.equalities
    size = xp.where(xp.arange(d.shape[-1]) < first, xp.maximum(d, 0), xp.abs(d))
    per_unit = product(xp.abs(system.C), 1 / column_size(system))
    return largest(ratio(size, per_unit))


def relative_residual(
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
