"""Least squares within bounds: expected results, without the package, and problems."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import hilbert

Array = NDArray[Any]

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 32 * EPS


class Bounded(NamedTuple):
    """One problem. `options` are those of the specifications."""

    A: Array
    b: Array
    lower: Array
    upper: Array
    l1: Array
    l2: Array
    weights: Array | None
    sum_to: float | None

    @property
    def options(self) -> dict[str, Any]:
        return {
            "bounds": (self.lower, self.upper),
            "weights": self.weights,
            "sum_to": self.sum_to,
            "l1": self.l1,
            "l2": self.l2,
        }

    @property
    def weights_or_one(self) -> Any:
        return 1.0 if self.weights is None else self.weights

    def in_float32(self) -> Bounded:
        """The problem with all numbers rounded to float32."""
        rounded = {
            name: None if value is None else np.float32(value)
            for name, value in self._asdict().items()
        }
        return self._replace(**rounded)

    @property
    def weighted(self) -> tuple[Array, Array]:
        """A and b in extended precision, times the square roots of the weights."""
        A, b = np.asarray(self.A, np.longdouble), np.asarray(self.b, np.longdouble)
        if self.weights is None:
            return A, b
        root = np.sqrt(np.asarray(self.weights, np.longdouble))
        return A * root[:, None], b * root

    def objective(self, x: Array) -> float:
        A, b = self.weighted
        r = A @ x - b
        return float(r @ r / 2 + self.l1 @ x + self.l2 @ (x * x) / 2)

    def rnorm(self, x: Array) -> float:
        A, b = self.weighted
        r = A @ x - b
        return float(np.sqrt(r @ r))

    def is_feasible(self, x: Array) -> bool:
        """Within bounds exactly, and with the fixed sum up to rounding.

        Rounding errors are relative to the x that fits b, too.
        """
        if not ((x >= self.lower) & (x <= self.upper)).all():
            return False
        if self.sum_to is None:
            return True
        A, b = self.weighted
        size = np.abs(x).sum() + abs(self.sum_to)
        if A.any():
            size += np.sqrt((b @ b) / (A * A).sum(axis=0).max())
        apart = abs(x.sum(dtype=np.longdouble) - self.sum_to)
        return bool(apart <= 16 * np.finfo(x.dtype).eps * size)

    def violation(self, x: Array) -> float:
        """The largest violation of the optimality conditions.

        For each variable, relative to the terms that cancel in its gradient. With a
        fixed sum, it is the least over all multipliers mu: ``w_j - mu`` must be at most
        0 where x_j may grow, and at least 0 where it may shrink.
        """
        A, b = self.weighted
        at = np.asarray(x, np.longdouble)
        norm = np.sqrt((A * A).sum(axis=0) + self.l2)
        w = A.T @ (b - A @ at) - self.l1 - self.l2 * at
        scale = norm * (np.sqrt(b @ b) + norm @ np.abs(at)) + np.abs(self.l1)
        up, down = x < self.upper, x > self.lower
        if self.sum_to is None:
            worst = np.maximum(np.where(up, w, 0), np.where(down, -w, 0))
            return float(np.max(worst[scale > 0] / scale[scale > 0], initial=0))
        apart = w[up, None] - w[None, down]
        scales = scale[up, None] + scale[None, down]
        return float(np.max(apart[scales > 0] / scales[scales > 0], initial=0))

    def brute_force(self) -> float:
        """The least objective over all choices of the variables that are at bounds."""
        A, b = (v.astype(float) for v in self.weighted)
        n, best = A.shape[1], np.inf
        for choice in itertools.product((0, 1, 2), repeat=n):
            free = np.array(choice) == 2
            x = np.where(np.array(choice) == 0, self.lower, self.upper)
            if np.isinf(x[~free]).any():
                continue
            x[free] = 0
            P, k = A[:, free], int(free.sum())
            normal = P.T @ P + np.diag(self.l2[free])
            right = P.T @ (b - A @ x) - self.l1[free]
            if self.sum_to is not None:
                one = np.ones((k, 1))
                normal = np.block([[normal, one], [one.T, np.zeros((1, 1))]])
                right = np.append(right, self.sum_to - x.sum())
            x[free] = np.linalg.lstsq(normal, right, rcond=1e-12)[0][:k]
            slack = 1e-11 * (1 + np.abs(x))
            inside = ((x >= self.lower - slack) & (x <= self.upper + slack)).all()
            if inside and (self.sum_to is None or abs(x.sum() - self.sum_to) < 1e-9):
                best = min(best, self.objective(x))
        return float(best)


def problem(A: Any, b: Any, lower: Any, upper: Any, **given: Any) -> Bounded:
    """A problem whose bounds and penalties are broadcast to all variables."""
    n = np.shape(A)[-1]
    each = {
        "lower": lower,
        "upper": upper,
        "l1": given.get("l1", 0.0),
        "l2": given.get("l2", 0.0),
    }
    of_each = {k: np.broadcast_to(v, n).astype(float) for k, v in each.items()}
    return Bounded(
        np.asarray(A, float),
        np.asarray(b, float),
        **of_each,
        weights=given.get("weights"),
        sum_to=given.get("sum_to"),
    )


KINDS = ("box", "mixed", "free", "upper", "fixed", "tight")
"""Kinds of bounds of `random_problem`."""


def random_bounds(rng: np.random.Generator, kind: str, n: int) -> tuple[Array, Array]:
    """Bounds of one kind; all kinds but "box" and "tight" have infinite ones."""
    width = rng.random(n) * (0.1 if kind == "tight" else 1)
    lower = rng.normal(size=n) * 0.5
    upper = lower + width
    if kind == "free":
        lower[:], upper[:] = -np.inf, np.inf
    elif kind == "upper":
        lower[:] = -np.inf
    elif kind in ("mixed", "fixed"):
        lower[rng.random(n) < 0.3] = -np.inf
        upper[rng.random(n) < 0.3] = np.inf
        if kind == "fixed":
            same = (rng.random(n) < 0.4) & np.isfinite(lower)
            upper[same] = lower[same]
    return lower, upper


def random_problem(
    rng: np.random.Generator,
    m: int,
    n: int,
    kind: str,
    *,
    rank: int | None = None,
    l1: bool = False,
    l2: bool = False,
    weights: bool = False,
    has_sum: bool = False,
) -> Bounded:
    """A feasible problem with random data; a sum that the bounds allow.

    The penalties do not decrease towards infinite bounds: there is a minimum.
    """
    A = rng.standard_normal((m, n))
    if rank is not None:
        A = A[:, :rank] @ rng.standard_normal((rank, n))
    lower, upper = random_bounds(rng, kind, n)
    point = rng.normal(size=n)
    root = rng.random(m) * (rng.random(m) < 0.8)
    root[0] += 0.1
    return problem(
        A,
        A @ point + 0.3 * rng.standard_normal(m),
        lower,
        upper,
        l1=0.5 * rng.random(n) * np.isfinite(lower) if l1 else 0.0,
        l2=rng.random(n) * (rng.random(n) < 0.7) if l2 else 0.0,
        weights=root**2 if weights else None,
        sum_to=float(np.clip(point, lower, upper).sum()) if has_sum else None,
    )


OPTIONS = [
    {},
    {"l1": True},
    {"l2": True},
    {"weights": True},
    {"has_sum": True},
    {"l1": True, "l2": True, "weights": True, "has_sum": True},
]
"""Options of `random_problem`."""


def check(p: Bounded, found: Any, tolerance: float = CERTIFIED) -> None:
    """The solution is feasible, optimal and certified."""
    assert found.status == 0
    assert p.is_feasible(found.x)
    assert p.violation(found.x) <= tolerance
    assert found.kkt <= 1e-10
    size = np.linalg.norm(p.b) + np.linalg.norm(p.A, axis=0) @ np.abs(found.x)
    assert found.rnorm == pytest.approx(p.rnorm(found.x), rel=1e-11, abs=EPS * size)


def stacked(problems: list[Bounded]) -> tuple[Array, Array, dict[str, Any]]:
    """A and b of a batch, and its options."""
    A, b = np.stack([p.A for p in problems]), np.stack([p.b for p in problems])
    options: dict[str, Any] = {
        "bounds": tuple(
            np.stack([p.options["bounds"][k] for p in problems]) for k in (0, 1)
        )
    }
    for name in ("l1", "l2", "weights", "sum_to"):
        if problems[0].options[name] is not None:
            options[name] = np.stack([p.options[name] for p in problems])
    return A, b, options


def kahan(n: int, angle: float = 1.2) -> Array:
    """Upper triangular and nearly singular, although no diagonal entry is small."""
    s, c = np.sin(angle), np.cos(angle)
    return np.diag(s ** np.arange(n)) @ (np.eye(n) - c * np.triu(np.ones((n, n)), 1))


def hard_problems() -> dict[str, Bounded]:
    rng = np.random.default_rng(7)
    A = rng.standard_normal((12, 8))
    b = A @ rng.standard_normal(8) + 0.3 * rng.standard_normal(12)
    twins = np.hstack([A, A])
    nearly = np.hstack([A, A * (1 + 1e-14 * rng.standard_normal(A.shape))])
    zero_columns = A * (np.arange(8) % 5 > 0)
    cumulative = np.tril(np.ones((6, 6)))
    problems = {
        "duplicate columns": problem(twins, b, -0.5, 0.5),
        "duplicate columns, sum": problem(twins, b, -0.5, 0.5, sum_to=1.0),
        "nearly duplicate columns": problem(nearly, b, -0.5, 0.5),
        "zero columns": problem(zero_columns, b, 1.0, 2.0),
        "zero columns, sum": problem(zero_columns, b, -1.0, 2.0, sum_to=3.0),
        "zero matrix": problem(np.zeros((5, 3)), np.ones(5), 1.0, 2.0),
        "zero matrix, sum": problem(np.zeros((5, 3)), np.ones(5), 1.0, 2.0, sum_to=4.5),
        "zero b": problem(A, np.zeros(12), 0.5, 1.0),
        "all fixed": problem(A, b, 0.3, 0.3),
        "all fixed, sum": problem(A, b, 0.25, 0.25, sum_to=2.0),
        "one by one": problem([[2.0]], [3.0], -1.0, 1.0),
        "one by one, sum": problem([[2.0]], [3.0], -1.0, 1.0, sum_to=0.25),
        "simplex": problem(A, b, 0.0, np.inf, sum_to=1.0),
        "simplex, one point": problem(A, b, 0.0, np.inf, sum_to=0.0),
        "simplex, vertex": problem(np.eye(8), 9.0 * np.eye(8)[3], 0.0, 1.0, sum_to=1.0),
        "simplex, ties": problem(np.eye(6), np.ones(6), 0.0, 1.0, sum_to=2.0),
        "sum at its least": problem(A, b, -1.0, 1.0, sum_to=-8.0),
        "sum at its greatest": problem(A, b, -1.0, 1.0, sum_to=8.0),
        "ties": problem(np.eye(6), np.ones(6), -1.0, 1.0),
        "ties, degenerate": problem(cumulative, np.ones(6), -1.0, 1.0),
        "optimum at its bounds": problem(A, A @ np.ones(8), 0.0, 1.0),
        "optimum at zero bounds": problem(A, np.zeros(12), 0.0, 1.0),
        "tiny A": problem(1e-21 * A, b, -1e20, 1e20),
        "huge A": problem(1e150 * A, b, -1e-151, 1e-151),
        "tiny b": problem(A, 1e-200 * b, -1e-201, 1e-201),
        "far bounds": problem(A, b, 1e6, 1e7),
        "badly scaled columns": problem(A * np.logspace(0, -9, 8), b, -1.0, 1.0),
        "badly scaled, sum": problem(A * np.logspace(0, -9, 8), b, -1, 1, sum_to=0.5),
        "large l1": problem(A, b, -1.0, 1.0, l1=1e3),
        "large l1, sum": problem(A, b, -1.0, 1.0, l1=1e3, sum_to=0.5),
        "one weight": problem(A, b, -1.0, 1.0, weights=np.eye(12)[3]),
        "wide": problem(rng.random((5, 20)), rng.random(5), -0.1, 0.1),
        "one row": problem(rng.standard_normal((1, 7)), [1.0], -0.1, 0.1),
    }
    problems |= {
        f"Hilbert {n}": problem(hilbert(n), hilbert(n) @ (np.arange(n) % 2.0), 0.0, 0.8)
        for n in (6, 10, 14)
    }
    problems |= {
        f"Kahan {n}": problem(kahan(n), np.ones(n), -2.0, 2.0) for n in (10, 40)
    }
    problems["Kahan, sum"] = problem(kahan(20), np.ones(20), -2.0, 2.0, sum_to=3.0)
    return problems


HARD = hard_problems()
