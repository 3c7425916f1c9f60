"""Least squares within bounds: expected results, without the package, and problems."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
