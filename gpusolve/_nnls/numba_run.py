"""The state of the active-set method for one system."""

from __future__ import annotations

from typing import NamedTuple

from .._device.compiled import inlined, merged
from .._numerics.scaling import Array
from .numba_sums import (
    Integers,
    add_rows,
    copy,
    dot_of_magnitudes,
    multiply_rows,
    ratio,
)
from .numba_system import DAMPING, MAGNITUDE, NORM, SQUARE, Limits, System


class ActiveSet(NamedTuple):
    """The state of one run, and space for vectors, in a few arrays.

    The compiler would spend minutes on functions of an array for each vector.

    Attributes
    ----------
    H : (capacity, capacity) array
        The inverse of ``G[passive, passive]``, by position. G has the squares of the
        damping on its diagonal here.
    G : (n, n) or (0, n) array
        ``A^T A``, if `has_gram`. Without it, gradients are computed from A.
    has_gram : bool
    at : (8, capacity + 1) array
        Numbers by position. X, PASSIVE_W: values and gradients of the passive
        variables. The others are temporary.
    of : (8, n) array
        Numbers by variable. REST: the values of the variables that are not passive; 0
        for those that are. C: ``A^T (b - A rest) - penalty``, corrected by the true
        residual; used with G only. W: the negative gradient
        ``w = c - G[:, passive] x``. ALL_X: x, if computed since it changed. WITNESS_W:
        the gradient of the witness. GUESS: a point to start at. The others are
        temporary.
    variable : (capacity + 1,) array
        The variable at each position.
    index_of : (3, n) array
        IS_PASSIVE; CANDIDATE: variables that may enter; COLUMN: those that are not 0.
    residuals : (3, rows + n) array
        RESIDUAL, WITNESS: residuals, followed by the part of the l2 penalty. TERMS:
        temporary.
    numbers : (6,) array
        RNORM, KKT, BY_X, ANGLE, SIZE: the certificate and ``sum_k |a_k x_k|`` over the
        magnitude. MULTIPLIER: that of the fixed sum; it has been subtracted from c and
        w.
    counts : (5,) array
        LENGTH, NIT, UPDATES, DOWNDATES, STATUS.
    order : (n,) array
        0, 1, 2, ...
    """

    H: Array
    G: Array
    has_gram: bool
    at: Array
    of: Array
    variable: Integers
    index_of: Integers
    residuals: Array
    numbers: Array
    counts: Integers
    order: Integers


X, PASSIVE_W, U, PRODUCT, STEP, CHANGE, ALONG, TRIAL = range(8)
REST, C, W, ALL_X, WITNESS_W, GUESS, SLOPE, VALUE = range(8)
IS_PASSIVE, CANDIDATE, COLUMN = range(3)
RESIDUAL, WITNESS, TERMS = range(3)
RNORM, KKT, BY_X, ANGLE, SIZE, MULTIPLIER = range(6)
LENGTH, NIT, UPDATES, DOWNDATES, STATUS = range(5)


@inlined
def make_all_x(run: ActiveSet) -> None:
    """X by variable."""
    copy(run.of[ALL_X], run.of[REST])
    for k in range(run.counts[LENGTH]):
        run.of[ALL_X, run.variable[k]] = run.at[X, k]


@inlined
def size(system: System, run: ActiveSet) -> float:
    """``sum_k |a_k x_k|``."""
    return dot_of_magnitudes(system.of[NORM], run.of[ALL_X])


@inlined
def hidden_by_rounding(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Whether rounding x may change ``A x`` by more than `hidden`."""
    make_all_x(run)
    size_to_b = ratio(size(system, run), system.numbers[MAGNITUDE])
    return not limits.eps * size_to_b <= limits.hidden


# ---- the Gram matrix -----------------------------------------------------------------


@merged
def make_gram(system: System, order: Integers, G: Array) -> None:
    """``A^T A``."""
    for j in range(len(G)):
        multiply_rows(system.columns, order, j, system.columns[j], G[j])
        G[j, j] = system.of[SQUARE, j]
        for i in range(j):
            G[i, j] = G[j, i]


@inlined
def find_products(
    system: System, run: ActiveSet, j: int, first: int, last: int
) -> None:
    """Write ``G[j, passive]`` for the positions from `first` to `last` to PRODUCT."""
    if run.has_gram:
        for k in range(first, last):
            run.at[PRODUCT, k] = run.G[j, run.variable[k]]
    else:
        multiply_rows(
            system.columns,
            run.variable[first:],
            last - first,
            system.columns[j],
            run.at[PRODUCT, first:],
        )


@inlined
def add_gram_rows(
    system: System, run: ActiveSet, out: Array, factors: Array, sign: float
) -> None:
    """Add ``sign G[:, passive] factors`` to `out`, with the squares of the damping."""
    length = run.counts[LENGTH]
    for k in range(length):
        run.at[STEP, k] = sign * factors[k]
    add_rows(out, len(out), run.G, run.variable, run.at[STEP], length)
    for k in range(length):
        j = run.variable[k]
        out[j] += run.at[STEP, k] * system.of[DAMPING, j] ** 2
