"""Degenerate non-negative least-squares systems, and the least residual of each.

A solver is judged by ``|b - A x|`` for the x that it returns, computed here in
extended precision, and not by what it reports. The reference is the best result
of SciPy's ``nnls`` and, with up to `BRUTE_COLUMNS` columns, of all supports.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls as scipy_nnls

Array = NDArray[np.float64]
Systems = tuple[Array, Array]
Family = Callable[[Generator, int, int, int], Systems]
Coefficients = Callable[[Generator, int, int, int], Array]

# ---- right-hand sides ----


def right_hand_sides(rng: Generator, A: Array) -> Array:
    """One of four kinds per system: normal, heavy, in the range or the cone of A."""
    systems, m, n = A.shape
    normal = rng.standard_normal((systems, m))
    heavy = normal.copy()
    heavy[np.arange(systems), rng.integers(m, size=systems)] *= weights(rng, systems)
    y = rng.standard_normal((systems, n))
    in_range = np.einsum("kmn,kn->km", A, y)
    in_cone = np.einsum("kmn,kn->km", A, np.where(y == y.max(-1)[:, None], 1, y > 0.5))
    kind = rng.integers(4, size=(systems, 1))
    return np.asarray(np.choose(kind, [normal, heavy, in_range, in_cone]))


def weights(rng: Generator, systems: int, least: float = 0.0) -> Array:
    """``10**u`` with u uniform between `least` and 7."""
    return 10 ** rng.uniform(least, 7, systems)


# ---- matrices with dependent columns ----


def low_rank(rng: Generator, systems: int, m: int, n: int, rank: int) -> Array:
    left = rng.standard_normal((systems, m, rank))
    return np.asarray(left @ rng.standard_normal((systems, rank, n)))


def integers(rng: Generator, systems: int, m: int, n: int) -> Array:
    return rng.integers(-3, 4, (systems, m, n)).astype(np.float64)


def normal(rng: Generator, systems: int, m: int, n: int) -> Array:
    return rng.standard_normal((systems, m, n))


def add_dependents(
    rng: Generator,
    systems: int,
    m: int,
    n: int,
    coefficients: Coefficients,
    independent: Callable[[Generator, int, int, int], Array] = normal,
    least_digits: float = np.inf,
) -> Array:
    """Independent columns and linear combinations of them, in random order.

    The combinations are perturbed by ``10**-u`` times their norm, with u uniform
    between `least_digits` and 16. They are exact if `least_digits` is infinite.
    """
    k = int(rng.integers(1, n)) if n > 1 else n
    base = independent(rng, systems, m, k)
    others = base @ coefficients(rng, systems, k, n - k)
    if least_digits <= 16:
        noise = rng.standard_normal(others.shape)
        noise *= np.linalg.norm(others, axis=1, keepdims=True) / np.sqrt(m)
        others += noise * 10 ** -rng.uniform(least_digits, 16, (systems, 1, n - k))
    return shuffled(rng, np.concatenate([base, others], axis=-1))


def shuffled(rng: Generator, A: Array) -> Array:
    """The columns of each system in random order."""
    order = rng.random((len(A), 1, A.shape[-1])).argsort(axis=-1)
    return np.take_along_axis(A, order, axis=-1)


# ---- coefficients of dependent columns, (systems, k, count) ----


def copies(rng: Generator, systems: int, k: int, count: int) -> Array:
    chosen = rng.integers(k, size=(systems, 1, count))
    return np.asarray(np.arange(k)[:, None] == chosen, np.float64)


def opposites(rng: Generator, systems: int, k: int, count: int) -> Array:
    return -copies(rng, systems, k, count)


def powers_of_two(rng: Generator, systems: int, k: int, count: int) -> Array:
    factors = 2.0 ** rng.integers(-30, 31, (systems, 1, count))
    return np.asarray(copies(rng, systems, k, count) * factors)


def real_factors(rng: Generator, systems: int, k: int, count: int) -> Array:
    factors = 10 ** rng.uniform(-6, 6, (systems, 1, count))
    return np.asarray(copies(rng, systems, k, count) * factors)


def sums(rng: Generator, systems: int, k: int, count: int) -> Array:
    chosen = rng.random((systems, k, count)) < 0.5
    return np.asarray(np.maximum(chosen, copies(rng, systems, k, count)))


def nonnegative(rng: Generator, systems: int, k: int, count: int) -> Array:
    return sums(rng, systems, k, count) * rng.exponential(size=(systems, k, count))


def signed(rng: Generator, systems: int, k: int, count: int) -> Array:
    return sums(rng, systems, k, count) * rng.standard_normal((systems, k, count))


def any_of(rng: Generator, systems: int, k: int, count: int) -> Array:
    """Each column by a random rule of the rules above."""
    rules = (copies, opposites, powers_of_two, real_factors, sums, nonnegative, signed)
    made = np.stack([rule(rng, systems, k, count) for rule in rules])
    kind = rng.integers(len(rules), size=(1, systems, 1, count))
    return np.asarray(np.take_along_axis(made, kind, axis=0)[0])


def kahan(n: int, angle: float = 1.2) -> Array:
    """Upper triangular and nearly singular, although no diagonal entry is small."""
    s, c = np.sin(angle), np.cos(angle)
    return np.diag(s ** np.arange(n)) @ (np.eye(n) - c * np.triu(np.ones((n, n)), 1))


# ---- families ----


def plain(
    rng: Generator,
    systems: int,
    m: int,
    n: int,
    matrices: Callable[[Generator, int, int, int], Array],
) -> Systems:
    A = matrices(rng, systems, m, n)
    return A, right_hand_sides(rng, A)


def heavy_row(
    rng: Generator,
    systems: int,
    m: int,
    n: int,
    matrices: Callable[[Generator, int, int, int], Array],
) -> Systems:
    """The last row demands ``sum(x) = 1``, with a weight between 1 and 1e7."""
    A, b = plain(rng, systems, m, n, matrices)
    weight = weights(rng, systems)
    A[:, -1] = weight[:, None]
    b[:, -1] = weight
    return A, b


def free_columns(rng: Generator, systems: int, m: int, n: int) -> Systems:
    """Small integers: columns with a fixed sum, and free columns as pairs P, -P."""
    pairs = int(rng.integers(1, max(1, (n - 1) // 2) + 1))
    A = rng.integers(0, 10, (systems, m, n)).astype(np.float64)
    A[..., -pairs:] = rng.integers(-2, 3, (systems, m, pairs))
    A[:, -1] = weights(rng, systems, least=4.0).round()[:, None]
    A[:, -1, -2 * pairs :] = 0
    A[..., -2 * pairs : -pairs] = -A[..., -pairs:]
    b = rng.integers(0, 10, (systems, m)).astype(np.float64)
    b[rng.random((systems, m)) < 0.5] = 0
    b[:, -1] = A[:, -1, 0] if n > 2 * pairs else 1.0
    return A, b


def free_line(rng: Generator, systems: int, _m: int, _n: int) -> Systems:
    """Four spectra of 4 channels with a fixed sum, and a line with free parameters.

    Variations of one system whose solution once drifted to x = 1e17: with other weights
    and, in most systems, other entries of b. The shape is fixed.
    """
    spectra = np.array([[3, 8, 0, 6], [8, 7, 1, 8], [0, 6, 3, 7], [9, 9, 5, 3]])
    line = np.array([[1, -2], [1, -1], [1, 0], [1, 1]])
    weight = weights(rng, systems, least=4.0).round()
    A = np.zeros((systems, 5, 8))
    A[:, :4] = np.hstack([spectra, line, -line])
    A[:, 4, :4] = weight[:, None]
    b = np.array([9, 0, 5, 0]) * np.ones((systems, 1))
    other = rng.random((systems, 4)) < rng.choice([0.0, 0.3, 0.6, 1.0], (systems, 1))
    b = np.where(other, rng.integers(0, 10, b.shape), b)
    return A, np.column_stack([b, weight])


MATRICES: dict[str, Callable[[Generator, int, int, int], Array]] = {
    "full rank": normal,
    **{f"rank {rank}": partial(low_rank, rank=rank) for rank in (1, 2, 3, 4)},
    "duplicates": partial(add_dependents, coefficients=copies),
    "powers of two": partial(add_dependents, coefficients=powers_of_two),
    "scaled duplicates": partial(add_dependents, coefficients=real_factors),
    "sums": partial(add_dependents, coefficients=sums),
    "sums of integers": partial(
        add_dependents, coefficients=sums, independent=integers
    ),
    "non-negative combinations": partial(add_dependents, coefficients=nonnegative),
    "signed combinations": partial(add_dependents, coefficients=signed),
    "nearly duplicates": partial(add_dependents, coefficients=copies, least_digits=8.0),
    "nearly dependent": partial(add_dependents, coefficients=signed, least_digits=8.0),
    "nearly opposite": partial(
        add_dependents, coefficients=opposites, least_digits=8.0
    ),
    "opposite pairs": partial(add_dependents, coefficients=opposites),
    "opposite integers": partial(
        add_dependents, coefficients=opposites, independent=integers
    ),
    "mixed": partial(add_dependents, coefficients=any_of),
    "mixed, rank 3": partial(
        add_dependents,
        coefficients=any_of,
        independent=partial(low_rank, rank=3),
    ),
    "mixed, nearly": partial(add_dependents, coefficients=any_of, least_digits=8.0),
}

FAMILIES: dict[str, Family] = {
    **{name: partial(plain, matrices=made) for name, made in MATRICES.items()},
    **{
        f"{name}, heavy row": partial(heavy_row, matrices=made)
        for name, made in MATRICES.items()
    },
    "free columns": free_columns,
    "free line": free_line,
}

BATCH = 200
"""Systems per batch, all of one family and one shape."""


def batch(index: int, seed: int = 0) -> tuple[str, Array, Array]:
    """Family, A and b of a batch; they depend on the arguments only.

    The families alternate. There are 1 to 12 rows and 2 to 12 columns; in one of 16
    batches, on average, up to 40 of both.
    """
    rng = np.random.default_rng([seed, index])
    largest = 40 if rng.integers(16) == 0 else 12
    m, n = int(rng.integers(1, largest + 1)), int(rng.integers(2, largest + 1))
    name = list(FAMILIES)[index % len(FAMILIES)]
    return name, *FAMILIES[name](rng, BATCH, m, n)


EPS = float(np.finfo(np.float64).eps)


def residual(A: Array, b: Array, x: Array) -> Array:
    """``b - A x`` in extended precision, rounded."""
    found = b.astype(np.longdouble)
    for k in range(A.shape[-1]):
        found -= A[..., k].astype(np.longdouble) * x[..., k, None]
    return found.astype(np.float64)


# ---- the reference ----

BRUTE_COLUMNS = 8
"""Brute force tries all supports of matrices with at most this number of columns."""

UNITS = 8.0
"""Error allowed to every solver, in units of ``eps sum_k |a_k| x_k``: `allowance`."""


class Reference(NamedTuple):
    """The best known x of each system; all arrays are (systems,).

    Attributes
    ----------
    rnorm : Array
        The least ``|b - A x|``.
    attainable : Array
        The least ``|b - A x| + UNITS eps sum_k |a_k| x_k`` over all candidates x.
    """

    rnorm: Array
    attainable: Array


def judge(A: Array, b: Array, x: Array, eps: float) -> Reference:
    """The residual of x; infinite if x is not finite or has negative entries.

    A bound on the error of `residual` is added to `rnorm`. It matters where
    ``sum_k |a_k| x_k`` is above ``1e16 |b|``: a residual of 0 may be wrong there.
    """
    rnorm = np.linalg.norm(residual(A, b, x), axis=-1)
    magnitude = (np.linalg.norm(A, axis=-2) * x).sum(axis=-1)
    rnorm += A.shape[-1] * float(np.finfo(np.longdouble).eps) * magnitude
    valid = np.isfinite(rnorm) & (x >= 0).all(axis=-1)
    rnorm = np.where(valid, rnorm, np.inf)
    return Reference(rnorm, rnorm + UNITS * eps * magnitude)


def better(a: Reference, b: Reference) -> Reference:
    return Reference(*map(np.minimum, a, b))


def reference(A: Array, b: Array, dtype: Any = np.float64) -> Reference:
    """The best of x = 0, SciPy and, for a few columns, brute force.

    SciPy's tolerance is absolute. It misses fewer optima if columns have norm 1, so it
    solves the original and the normalised system. All computation is in float64;
    `dtype` belongs to the solver to be judged, and determines `attainable`.
    """
    eps = float(np.finfo(dtype).eps)
    A, b = A.astype(np.float64), b.astype(np.float64)
    norm = norm_or_one(A.swapaxes(-1, -2))
    found = judge(A, b, np.zeros_like(norm), eps)
    for x in (solve_by_scipy(A, b), solve_by_scipy(A / norm[:, None], b) / norm):
        found = better(found, judge(A, b, x, eps))
    if A.shape[-1] <= BRUTE_COLUMNS:
        found = better(found, brute_force(A, b, eps))
    return found


def solve_by_scipy(A: Array, b: Array) -> Array:
    """SciPy's x of each system; 0 if SciPy raises an error."""
    found = np.zeros((len(b), A.shape[-1]))
    for x, *system in zip(found, A, b, strict=True):
        with contextlib.suppress(RuntimeError):
            x[:] = scipy_nnls(*system)[0]
    return found


def brute_force(A: Array, b: Array, eps: float) -> Reference:
    """The best of all supports with at most m columns.

    The least-squares solution on each support is clipped at 0, and judged by its
    residual. So no decision on ranks or signs is needed. Some optimum has a support of
    independent columns with a positive solution, so it is among these candidates.
    """
    _, m, n = A.shape
    best = judge(A, b, np.zeros((len(b), n)), eps)
    for size in range(1, min(m, n) + 1):
        supports = np.array(list(itertools.combinations(range(n), size)))
        P = np.ascontiguousarray(A[:, :, supports].transpose(0, 2, 1, 3))
        b_each = np.repeat(b[:, None], len(supports), axis=1)
        with np.errstate(all="ignore"):
            y = least_squares(P, b_each)
            y += least_squares(P, residual(P, b_each, y))
            found = judge(P, b_each, np.maximum(y, 0), eps)
        best = better(best, Reference(*(values.min(axis=-1) for values in found)))
    return best


def least_squares(P: Array, b: Array) -> Array:
    """The least-squares solutions by QR; arbitrary numbers if P is singular."""
    size = P.shape[-1]
    joined = np.concatenate([P, b[..., None]], axis=-1)
    factor: Array = np.asarray(np.linalg.qr(joined, mode="r"))
    R, c = factor[..., :size, :size], factor[..., :size, size:]
    pivots = np.einsum("...ii->...i", R)
    pivots[pivots == 0] = 1
    return np.asarray(np.linalg.solve(R, c)[..., 0])


# ---- the comparison ----


def excess(A: ArrayLike, b: ArrayLike, x: ArrayLike, reference: Reference) -> Array:
    """``(|b - A x| - best) / |b|``; infinite if x is not finite or negative."""
    A, b, x = (np.asarray(value, np.float64) for value in (A, b, x))
    with np.errstate(all="ignore"):
        rnorm = judge(A, b, x, 0.0).rnorm
    return np.asarray((rnorm - reference.rnorm) / norm_or_one(b))


def allowance(b: ArrayLike, reference: Reference) -> Array:
    """The excess that rounding explains, in the dtype of the reference.

    Let S be ``sum_k |a_k| x_k`` for a candidate x. Rounding x alone changes A x by up
    to ``eps S / 2``. A backward stable solver solves a system whose columns are
    perturbed by a few ``eps |a_k|``, in which the candidate's residual is larger by a
    few ``eps S``. So a solver must reach ``|b - A x| + UNITS eps S`` for every
    candidate, and hence the least of these. The allowance is less than 1e-9 in float64
    where ``S < 5e5 |b|``.

    UNITS is based on the exact optima, in rational arithmetic, of 35,000 of these
    systems with up to 5 columns. Rounding x costs at most ``0.43 eps S``. The reference
    is at most ``0.49 eps S`` above the optimum; within ``1e-11 |b|`` if
    ``S < 1e6 |b|``. A QR without refinement is at most ``3.1 eps S`` above it where S
    is large, except for one system. A solver that treats a column as dependent if its
    remainder is below 4 eps times the terms that cancel, misses candidates with
    ``S > |b| / (4 eps)``; hence a limit of 8 units.
    """
    excess = reference.attainable - reference.rnorm
    return np.asarray(excess / norm_or_one(np.asarray(b, np.float64)))


def norm_or_one(b: Array) -> Array:
    """Norms over the last axis; 1 instead of 0."""
    norm = np.linalg.norm(b, axis=-1)
    return np.asarray(np.where(norm > 0, norm, 1.0))
