"""Componentwise boosting with dense matrices: the oracle of all paths.

Learners are pairs of a design and a penalty from `gpusolve.reference`. Gradients,
losses and adaptive parameters are the family's formulas in NumPy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusolve import reference
from gpusolve.gam.families import CoxPH

Floats = NDArray[np.float64]


class Learner(NamedTuple):
    """A dense design and its penalty, which includes the smoothing parameter."""

    X: Floats
    K: Floats

    def hat(self, w: Floats) -> Floats:
        """The matrix that maps a weighted gradient to the fit, (n, n)."""
        inner = self.X.T @ (w[:, None] * self.X) + self.K
        return np.asarray(self.X @ np.linalg.pinv(inner, 1e-12) @ self.X.T)


def spline(x: Floats, functions: int, lambda_: float, degree: int = 3) -> Learner:
    """A P-spline on the range 0 to 1 with second differences."""
    X = reference.design_matrix(
        x, reference.equidistant_knots(0, 1, functions, degree), degree
    )
    D = np.diff(np.eye(functions), 2, axis=0)
    return Learner(X, lambda_ * D.T @ D)


def given_splines(B: Floats, K: Floats, lambda_: Floats) -> list[Learner]:
    """Bases with the same penalty, of their own smoothing parameters."""
    return [Learner(X, own * K) for X, own in zip(B, lambda_, strict=True)]


def line(x: Floats) -> Learner:
    return Learner(np.column_stack([np.ones(len(x)), x]), np.zeros((2, 2)))


def levels(g: NDArray[Any], lambda_: float) -> Learner:
    """The levels of a factor with a ridge."""
    X = (g[:, None] == np.unique(g)).astype(float)
    return Learner(X, lambda_ * np.eye(X.shape[1]))


class Plain(NamedTuple):
    """A path: (P, steps) selected, -1 if not updated; f of P predictors and n rows."""

    selected: NDArray[np.int64]
    risk: Floats
    held_out: Floats
    nuisance: list[Any]
    f: Floats


def plain_path(
    learners: list[Learner],
    family: Any,
    y: Floats,
    steps: int,
    rate: float,
    *,
    w: Floats | None = None,
    held_out: Floats | None = None,
    start: Any = None,
    scaled: bool = False,
    allowed: Any = True,
) -> Plain:
    """The steps of mboost, or scaled steps; `held_out` are weights of a second risk.

    With several predictors, `allowed` are the learners of each, (P, K).
    """
    P, n = family.predictors, len(y)
    ones = np.ones(n)
    w = ones if w is None else w
    v = 0 * ones if held_out is None else held_out
    if start is None:
        start = family.offset(y, w)
    f = np.reshape(start, (P, -1)) + np.zeros((P, n))
    hats = [learner.hat(w) for learner in learners]
    unit = family.unit(y, f[0], w) if scaled else 1.0
    selected, risks, nuisance = np.full((P, steps), -1), [], []
    update = getattr(family, "update", "noncyclic")
    for step in range(steps + 1):
        s = family.nuisance(y, joined(f), w) if P == 1 else None
        nuisance.append(s)
        risks.append(risks_of(family, y, f, s, w, v))
        if step == steps:
            break
        u = weighted_slopes(family, y, f, s, w)
        h = weighted_curvatures(family, y, f, s, w) if scaled else None
        fits = np.array([[H @ own for H in hats] for own in u])  # (P, K, n)
        gains = np.array([[2 * d @ own - w @ d**2 for d in fit]
                          for own, fit in zip(u, fits, strict=True)])  # fmt: skip

        def move(p: int, j: int, fits: Any = fits, h: Any = h) -> Floats:
            own = slice(None) if update == "joint" else p
            d = fits[own, j]
            curved = 1.0 if h is None else (h[own] * d**2).sum() / (w * d**2).sum()
            return np.asarray(rate * unit / curved * fits[p, j])

        best = np.where(allowed, gains, -np.inf).argmax(axis=1)
        if update == "joint":
            best[:] = gains.sum(axis=0).argmax()
            updated = list(range(P))
        elif update == "cyclic":
            updated = [step % P]
        elif P == 1:
            updated = [0]
        else:
            after = [f + np.eye(P)[:, [p]] * move(p, best[p]) for p in range(P)]
            risks_after = [risks_of(family, y, g, s, w, v)[0] for g in after]
            updated = [int(np.argmin(risks_after))]
        moves = {p: move(p, best[p]) for p in updated}
        for p, d in moves.items():
            selected[p, step] = best[p]
            f[p] += d
    risk, second = np.array(risks).T
    return Plain(selected, risk, second, nuisance, f)


def joined(f: Floats) -> Floats:
    """The predictor of a family that has one, (n,)."""
    return f[0] if len(f) == 1 else f


def risks_of(
    family: Any, y: Floats, f: Floats, s: Any, w: Floats, v: Floats
) -> list[float]:
    """The risks with both weights; losses of rows without weight may be infinite."""
    if isinstance(family, CoxPH):
        found = family.risks(family.arrange(y), f, s, w, v)
        return [float(risk[0, 0]) for risk in found]
    losses = family.loss(y, joined(f), s)
    return [float(own[own > 0] @ losses[own > 0]) for own in (w, v)]


def weighted_slopes(family: Any, y: Floats, f: Floats, s: Any, w: Floats) -> Floats:
    if isinstance(family, CoxPH):
        return np.asarray(family.weighted_gradient(family.arrange(y), f, s, w))
    found = np.reshape(family.gradient(y, joined(f), s), f.shape)
    return np.where(w > 0, w * found, 0)


def weighted_curvatures(family: Any, y: Floats, f: Floats, s: Any, w: Floats) -> Any:
    if isinstance(family, CoxPH):
        h = family.weighted_curvature(family.arrange(y), f[0], s, w)
        return np.reshape(h, f.shape)
    h = family.curvature(y, joined(f), s)
    return None if h is None else np.reshape(w * h, f.shape)
