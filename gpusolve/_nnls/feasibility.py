"""Proofs that a system of linear constraints has no solution.

By Farkas's lemma, no x has ``C x >= d`` if and only if there are multipliers y, not
negative for inequalities, with ``C^T y = 0`` and ``d y > 0``. They are the solution of
least squares within bounds: ``C^T y = 0`` and ``d y = 1`` in the least-squares sense
(C. L. Lawson and R. J. Hanson, *Solving Least Squares Problems*, chapter 23).
"""

from __future__ import annotations

import math

from .._device.arrays import Array, largest, namespace
from .._device.kernels import Device
from . import cpu, device
from .accurate_products import transposed_product
from .constrained_certificate import finite
from .constrained_system import ConstrainedSystem, power_of_two
from .inputs import Problem

PROVEN = 1e-9
"""A proof shows that each x with elements up to the inverse of this number, in units of
the largest element of d, violates a constraint."""

SCALINGS = 3
"""How often columns and rows are scaled for a proof."""


def farkas_vectors(
    system: ConstrainedSystem, target: Device | None
) -> tuple[Array, Array]:
    """Multipliers y of each system, and a mask of the systems that y proves infeasible.

    A proof counts only if rounding errors of its terms cannot explain it.
    """
    xp, systems = namespace(system.b), len(system.b)
    C, d, row_scale = equilibrated(system)
    rows, n = C.shape[-2:]
    d = xp.broadcast_to(d, (systems, rows))
    absent = system.d == -math.inf
    equal = xp.arange(rows) >= rows - system.equalities
    columns = xp.broadcast_to(xp.swapaxes(C, -1, -2), (systems, n, rows))
    given = Problem(
        A=xp.concatenate([columns, d[:, None, :]], axis=-2),
        b=xp.where(xp.arange(n + 1) == n, 1.0, 0.0),
        batch=(systems,),
        bounds=(xp.where(equal, -math.inf, 0.0), xp.where(absent, 0.0, math.inf)),
    )
    if target is None:
        y = cpu.nnls(given, "qr").x
    else:
        y = device.nnls(given, target, "qr").x
    gain, terms = (d * y).sum(axis=-1), xp.abs(d * y).sum(axis=-1)
    rest = largest(xp.abs(transposed_product(C, y)))
    proven = (rest <= PROVEN * gain) & (gain > PROVEN * terms) & xp.isfinite(rest)
    return y * row_scale, proven


def equilibrated(system: ConstrainedSystem) -> tuple[Array, Array, Array]:
    """C and d for proofs, and the factors of the rows.

    The size of A does not matter for them: rows and columns of C are scaled to
    elements of at most 1, and d by its largest element.
    """
    xp, row_scale = namespace(system.b), 1.0
    C = xp.where((system.d == -math.inf)[..., None], 0, system.C)
    for _ in range(SCALINGS):
        C = C * power_of_two(largest(xp.abs(C), axis=-2))[..., None, :]
        factor = power_of_two(largest(xp.abs(C)))
        C, row_scale = C * factor[..., None], row_scale * factor
    d = finite(system.d) * row_scale
    most = largest(xp.abs(d), keepdims=True)
    return C, d / xp.where(most > 0, most, 1), row_scale
