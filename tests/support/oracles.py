"""Expected results, computed without the package: by brute force or by SciPy."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import bounded_systems
import numpy as np
from bounded_systems import Bounded
from numpy.typing import NDArray
from scipy.optimize import nnls as scipy_nnls

Array = NDArray[Any]

# ---- non-negative least squares ----


def system(A: Array, b: Array, l1: float = 0.0, l2: float = 0.0) -> Bounded:
    """One non-negative system."""
    return Bounded.of(np.asarray(A)[None], np.asarray(b)[None], (0, np.inf), l1, l2)


def violation(A: Array, b: Array, x: Array, l1: float = 0.0, l2: float = 0.0) -> float:
    """The largest violation of the optimality conditions, in extended precision."""
    given, x = system(A, b, l1, l2), np.asarray(x)[None]
    inside = (x >= 0).all() and np.isfinite(x).all()
    return float(bounded_systems.violation(given, x)[0]) if inside else np.inf


def brute_force(A: Array, b: Array, l1: float = 0.0, l2: float = 0.0) -> float:
    """The least objective over all passive sets, for matrices with few columns."""
    n = A.shape[1]
    best = objective(A, b, np.zeros(n), l1, l2)
    for size in range(1, n + 1):
        for passive in map(list, itertools.combinations(range(n), size)):
            P = A[:, passive]
            normal = P.T @ P + l2 * np.eye(size)
            y = np.linalg.lstsq(normal, P.T @ b - l1, rcond=None)[0]
            if (y >= 0).all():
                x = np.zeros(n)
                x[passive] = y
                best = min(best, objective(A, b, x, l1, l2))
    return best


def objective(A: Array, b: Array, x: Array, l1: float = 0.0, l2: float = 0.0) -> float:
    return float(bounded_systems.objective(system(A, b, l1, l2), x[None])[0])


def residual_norm(A: Array, b: Array, x: Array) -> float:
    """``|b - A x|`` in extended precision."""
    return float(bounded_systems.residual_norm(system(A, b), np.asarray(x)[None])[0])


def scipy_rnorm(A: Array, b: Array) -> float:
    return float(scipy_nnls(A, b)[1])


# ---- quadratic programs with linear constraints ----

KKT = 1e-11
"""Limit on the violation of a condition of a minimum, relative to its terms."""


def times(x: Array, G: Array) -> Array:
    """``x G`` for each system."""
    return np.asarray((x[..., None, :] @ G)[..., 0, :])


def check_kkt(
    G: Any,
    c: Any,
    bounds: Any,
    result: Any,
    sum_to: float | None = None,
    **rows: Any,
) -> None:
    """The conditions of Karush, Kuhn and Tucker of a batch, which prove a minimum.

    Relative to their terms. A fixed sum has a multiplier, too, which is not returned.
    """
    assert not np.any(result.status)
    x, lower, upper = np.broadcast_arrays(result.x, *bounds)
    assert ((lower <= x) & (x <= upper)).all()
    gradient, terms = c - times(x, G), np.abs(c) + times(np.abs(x), np.abs(G))
    terms = terms + np.abs(result.dual)
    for kind in ("ub", "eq"):
        if f"A_{kind}" not in rows:
            continue
        C, d, y = rows[f"A_{kind}"], rows[f"b_{kind}"], getattr(result, f"dual_{kind}")
        slack, size = d - x @ np.transpose(C), np.abs(d) + np.abs(x) @ np.abs(C).T
        violated = np.abs(slack) if kind == "eq" else np.maximum(-slack, 0)
        assert (violated <= KKT * (1 + size)).all()
        if kind == "ub":
            assert (y >= 0).all()
            assert (np.abs(y * slack) <= KKT * (1 + y) * (1 + size)).all()
        gradient, terms = gradient - y @ C, terms + np.abs(y) @ np.abs(C)
    left = gradient - result.dual
    if sum_to is not None:
        assert np.allclose(x.sum(axis=-1), sum_to, rtol=KKT, atol=0)
        left = left - left[..., :1]
    assert (np.abs(left) <= KKT * (1 + terms)).all()
    wrong = np.where(x > lower, -result.dual, 0), np.where(x < upper, result.dual, 0)
    assert (np.maximum(*wrong) <= KKT * (1 + terms)).all()


# ---- monoids, on Python numbers and lists ----

Operator = Callable[[Any, Any], Any]


def operator(name: str, dtype: np.dtype[Any]) -> tuple[Any, Operator]:
    """Identity and operator of a monoid on numbers of this dtype."""
    identity, combine = OPERATORS[name]
    if callable(identity):
        identity = identity(dtype)
    if dtype.kind not in "iub":
        return identity, combine
    wrapped = wrapping(dtype)
    return identity, lambda a, b: wrapped(combine(a, b))


def wrapping(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    """A function that converts numbers, or lists of them, to this dtype; they wrap."""
    if dtype.kind == "b":
        return bool
    if dtype.kind not in "iu":
        return lambda value: value
    least, count = int(np.iinfo(dtype).min), 2 ** (8 * dtype.itemsize)

    def wrap(value: Any) -> Any:
        if isinstance(value, int):
            return (value - least) % count + least
        return [wrap(item) for item in value]

    return wrap


def least(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return -math.inf
    return False if dtype.kind == "b" else int(np.iinfo(dtype).min)


def greatest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return math.inf
    return True if dtype.kind == "b" else int(np.iinfo(dtype).max)


def join_segment_sums(a: list[Any], b: list[Any]) -> list[Any]:
    """Segment sums of two adjacent runs: best, at the start, at the end, and all."""
    return [
        max(a[0], b[0], a[2] + b[1]),
        max(a[1], a[3] + b[1]),
        max(b[2], a[2] + b[3]),
        a[3] + b[3],
    ]


def multiply_matrices(a: Any, b: Any) -> Any:
    columns = list(zip(*b, strict=True))
    return [[sum(map(int.__mul__, row, column)) for column in columns] for row in a]


OPERATORS: dict[str, tuple[Any, Operator]] = {
    "add": (0, lambda a, b: a + b),
    "mul": (1, lambda a, b: a * b),
    "min": (greatest, lambda a, b: math.nan if a != a or b != b else min(a, b)),
    "max": (least, lambda a, b: math.nan if a != a or b != b else max(a, b)),
    "logical_and": (True, lambda a, b: bool(a) and bool(b)),
    "logical_or": (False, lambda a, b: bool(a) or bool(b)),
    "mssp": ([0, 0, 0, 0], join_segment_sums),
    "matrix product": ([[1, 0], [0, 1]], multiply_matrices),
    "affine": ([1, 0], lambda f, g: [f[0] * g[0], f[1] * g[0] + g[1]]),
    "argmax": (
        lambda dtype: [least(dtype), greatest(dtype)],
        lambda a, b: max(a, b, key=lambda pair: (pair[0], -pair[1])),
    ),
    "first nonzero": (0, lambda a, b: a or b),
    "exclusive or": (0, lambda a, b: a ^ b),
}


def fold(values: list[Any], identity: Any, combine: Operator) -> Any:
    """Combine all values from left to right."""
    return functools.reduce(combine, values, identity)


def prefixes(
    values: list[Any], identity: Any, combine: Operator, exclusive: bool = False
) -> list[Any]:
    """Combine every prefix; an exclusive prefix ends before its value."""
    found = list(itertools.accumulate(values, combine, initial=identity))
    return found[:-1] if exclusive else found[1:]


def segments(values: list[Any], flags: list[Any]) -> list[list[Any]]:
    """Split the values before each nonzero flag."""
    found: list[list[Any]] = []
    for value, flag in zip(values, flags, strict=True):
        if flag or not found:
            found.append([])
        found[-1].append(value)
    return found


def maximum_segment_sum(values: list[Any]) -> Any:
    """The largest sum of all contiguous segments, at least 0."""
    starts = range(len(values))
    sums = (itertools.accumulate(values[start:]) for start in starts)
    return max(itertools.chain([0], *sums))
