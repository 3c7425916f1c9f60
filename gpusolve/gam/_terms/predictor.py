"""Predictions of a boosted additive model, with NumPy alone.

`BoostedGAM.to_python` writes this file with a model at its end. The package itself uses
its B-splines; the other functions repeat `gpusolve.gam._terms` in the fewest words, and
give the same bits.

A model is a dict of plain values:

- ``intercepts``, ``classes`` (None for numbers) and ``response``;
- ``columns``: the names of the features, in the order of a matrix;
- ``outside``, ``unknown``, ``missing``, ``has_offset``;
- ``learners``: a list of dicts with ``name``, ``design`` and ``coef``, a list of
  coefficients for each class.

A design is a ``"sum"`` or a ``"product"`` of designs, or a ``"spline"``, ``"factor"``,
``"bins"`` or ``"numbers"``, which read columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""An array of NumPy. The designs and the B-splines below also take CuPy's."""

Part: TypeAlias = tuple[Array, Array, Array]
"""First functions, offsets, values: value j is of function ``first + offsets[j]``."""

Design: TypeAlias = tuple[int, list[Part]]
"""The number of functions, and their values that are not zero."""

WIDTH = 32
"""The most values of a row in a part: a kernel has a table of 32 offsets for each."""

MODEL: dict[str, Any] = {}
"""The model, which an exported file defines at its end."""


def predict(X: Any, offset: Any = None) -> Array:
    """The predicted response of each row, (n,); for classes, the most probable class.

    X is a matrix, a data frame, or a mapping of columns; offset is a number or (n,).
    """
    f = predict_link(X, offset)
    if MODEL["classes"] is None:
        return RESPONSES[MODEL["response"]](f[0])
    best = (f[0] > 0).astype(int) if len(f) == 1 else f.argmax(axis=0)
    return np.array(MODEL["classes"])[best]


def predict_proba(X: Any, offset: Any = None) -> Array:
    """The probabilities of the classes, (n, classes)."""
    if MODEL["classes"] is None:
        raise ValueError("predict_proba needs a model of classes")
    f, response = predict_link(X, offset), MODEL["response"]
    logit = 2 * f if response == "half logit" else f
    if len(f) == 1:
        return np.exp(np.stack([log_expit(-logit[0]), log_expit(logit[0])], axis=1))
    odds = f.T if response == "log odds" else log_expit(logit).T
    odds = odds - odds.max(axis=1, keepdims=True)
    return np.exp(odds - np.log(np.exp(odds).sum(axis=1, keepdims=True)))


def predict_link(X: Any, offset: Any = None) -> Array:
    """The additive predictor of each class, (classes, n); (1, n) of numbers."""
    if offset is None and MODEL["has_offset"]:
        raise ValueError("offset must be given: the model was fitted with an offset")
    reader = Reader(X)
    start = np.array(MODEL["intercepts"])[:, None]
    f = np.zeros((len(start), reader.rows)) + start
    if offset is not None:
        f = f + np.asarray(offset, float)
    for learner in MODEL["learners"]:
        reader.present = np.ones(reader.rows)
        _, parts = design_of(learner["design"], reader)
        for fit, coef in enumerate(np.array(learner["coef"])):
            f[fit] += multiply(parts, coef) * reader.present
    return f


def log_expit(x: Array) -> Array:
    """``log(1 / (1 + exp(-x)))``."""
    return -np.logaddexp(0, -x)


RESPONSES: dict[str, Callable[[Array], Array]] = {
    "identity": lambda f: f,
    "exp": np.exp,
    "half logit": lambda f: np.exp(log_expit(2 * f)),
    "logit": lambda f: np.exp(log_expit(f)),
}
"""The predicted response for the additive predictor."""


# ---- columns -------------------------------------------------------------------------


class Reader:
    """The columns of X; `present` is 0 in the rows with a missing value."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.present: Array = np.ones(1)
        names = getattr(X, "column_names", getattr(X, "columns", None))
        names = X.keys() if hasattr(X, "keys") else names
        self.names = None if names is None else list(names)
        self.rows = len(X[self.names[0]]) if self.names else len(X)

    def column(self, name: str | int) -> Array:
        """A column by its name, or its position in a matrix."""
        if self.names is None:
            return np.asarray(self.X)[:, MODEL["columns"].index(name)]
        if isinstance(name, int) and name not in self.names:
            name = self.names[name]
        return np.asarray(self.X[name])

    def numbers(self, name: str | int, fill: float = 0.0) -> Array:
        """A numeric column, with `fill` for missing values."""
        x = self.column(name).astype(float)
        if np.isinf(x).any():
            raise ValueError(f"{name} must be finite, got infinity")
        self.note(name, np.isnan(x))
        return np.where(np.isnan(x), fill, x)

    def codes(self, name: str | int, levels: list[Any]) -> Array:
        """The index of each row's level; negative for missing and unknown levels."""
        index = {level: code for code, level in enumerate(levels)}
        values = self.column(name).tolist()
        is_missing = np.array([value is None or value != value for value in values])
        self.note(name, is_missing)
        codes = np.array([index.get(value, -2) for value in values])
        if MODEL["unknown"] == "error" and (codes[~is_missing] < 0).any():
            raise ValueError(f"{name} must have the levels {levels}, got others")
        return codes

    def note(self, name: str | int, is_missing: Array) -> None:
        """Note the rows with missing values, which a learner has no effect on."""
        if MODEL["missing"] == "error" and is_missing.any():
            raise ValueError(f"{name} must not have missing values")
        self.present = self.present * ~is_missing


# ---- designs -------------------------------------------------------------------------


def design_of(node: dict[str, Any], reader: Reader) -> Design:
    """The design of a learner, or of a part of it."""
    if node["kind"] in ("sum", "product"):
        join = add if node["kind"] == "sum" else multiply_rows
        return reduce(join, (design_of(part, reader) for part in node["parts"]))
    return DESIGNS[node["kind"]](node, reader)


def add(a: Design, b: Design) -> Design:
    """The functions of two designs next to each other."""
    return a[0] + b[0], [*a[1], *((first + a[0], *rest) for first, *rest in b[1])]


def multiply_rows(a: Design, b: Design) -> Design:
    """All products of a function of `a` and a function of `b`, `a` the slow index."""
    parts: list[Part] = []
    for first, offsets, values in a[1]:
        for other, others, factors in b[1]:
            products = (values[:, :, None] * factors[:, None]).reshape(len(first), -1)
            places = (offsets[:, None] * b[0] + others).reshape(-1)
            parts += divided(first * b[0] + other, places, products)
    return a[0] * b[0], parts


def divided(first: Array, offsets: Array, values: Array) -> list[Part]:
    """Parts of at most `WIDTH` values: they decide the order of sums in a product."""
    parts = []
    for begin in range(0, len(offsets), WIDTH):
        some = slice(begin, begin + WIDTH)
        own = offsets[some] - offsets[begin]
        parts.append((first + offsets[begin], own, values[:, some]))
    return parts


def multiply(parts: list[Part], coef: Array) -> Array:
    """The product of a design and coefficients, (n,)."""
    total = np.zeros(len(parts[0][0]))
    for first, offsets, values in parts:
        for j, offset in enumerate(offsets):
            total += values[:, j] * coef[first + offset]
    return total


def numbers(node: dict[str, Any], reader: Reader) -> Design:
    """Numeric columns, after a column of ones if there is an intercept."""
    columns = [reader.numbers(name) for name in node["columns"]]
    if node["intercept"]:
        columns.insert(0, np.ones(reader.rows))
    first = np.zeros(reader.rows, int)
    offsets = np.arange(len(columns))
    return len(columns), divided(first, offsets, np.stack(columns, axis=1))


def factor(node: dict[str, Any], reader: Reader) -> Design:
    """A one at the level of each row; the first levels may have no function."""
    codes = reader.codes(node["column"], node["levels"]) - node["skipped"]
    values = (codes >= 0).astype(float)[:, None]
    return len(node["levels"]) - node["skipped"], [
        (np.maximum(codes, 0), np.zeros(1, int), values)
    ]


def bins(node: dict[str, Any], reader: Reader) -> Design:
    """A one at the bin of each row; a value at a cut is in the bin below it."""
    bin_of_row = np.searchsorted(node["cuts"], reader.numbers(node["column"]))
    return len(node["cuts"]) + 1, [
        (bin_of_row, np.zeros(1, int), np.ones((reader.rows, 1)))
    ]


def spline(node: dict[str, Any], reader: Reader) -> Design:
    """The B-splines of a column."""
    lower, upper, degree = node["lower"], node["upper"], node["degree"]
    scores, outside = node["scores"], node["outside"] or MODEL["outside"]
    first, last = (scores[0][0], scores[0][-1]) if scores else (lower, upper)
    x = reader.numbers(node["column"], first)
    is_bounded = node["cyclic"] or outside == "error"
    if is_bounded and not ((x >= first) & (x <= last)).all():
        raise ValueError(f"{node['column']} must be within {first} to {last}")
    if scores:
        x = np.interp(x, *scores)
    knots, cells = node["knots"], node["cells"]
    if knots is None:
        cell, splines, slopes, excess = equidistant(x, lower, upper, cells, degree)
    else:
        knots = np.array(knots)
        cell, splines, slopes, excess = unequal(x, lower, upper, cells, degree, knots)
    if outside == "linear":
        pairs = zip(splines, slopes, strict=True)
        splines = [spline + slope * excess for spline, slope in pairs]
    values = np.stack(splines, axis=1)
    return node["cells"] + degree, [(cell, np.arange(degree + 1), values)]


DESIGNS = {"numbers": numbers, "factor": factor, "bins": bins, "spline": spline}


# ---- B-splines -----------------------------------------------------------------------


def equidistant(
    x: Array, lower: Array, upper: Array, cells: int, degree: int
) -> tuple[Any, ...]:
    """The cells of x, the values and slopes of B-splines, and what is outside."""
    width = (upper - lower) / cells
    position = (x - lower) / np.where(width > 0, width, 1)
    clipped = np.clip(position, 0, cells)
    cell = np.minimum(clipped.astype(np.int32), cells - 1)
    return cell, *nonzero_splines(clipped - cell, degree), position - clipped


def unequal(
    x: Array, lower: float, upper: float, cells: int, degree: int, knots: Array
) -> tuple[Any, ...]:
    """`equidistant` for any knots: `degree` knots are below and above the range."""
    inside = np.clip(x, lower, upper)
    inner = knots[degree + 1 : degree + cells]
    cell = np.searchsorted(inner, inside, side="right")
    last = (inner < upper).sum()  # fewer if knots round to the upper end
    cell = np.minimum(cell, last).astype(np.int32)
    return cell, *unequal_splines(inside, cell, knots, degree), x - inside


def nonzero_splines(u: Array, degree: int) -> tuple[list[Array], list[Array]]:
    """The values and slopes of the functions that are not zero in a cell.

    Parameters
    ----------
    u : array
        The position in the cell, from 0 to 1.
    degree : int

    Returns
    -------
    (list of degree + 1 arrays, list of degree + 1 arrays)
        In the order of their knots, each of the shape of `u`. The slopes are
        derivatives with respect to `u`.

    Notes
    -----
    The recursion of Cox and de Boor, for knots at the integers.
    """
    lower: list[Array] = []
    splines = [np.ones_like(u)]
    for d in range(1, degree + 1):
        lower = splines
        rising = [(u + (d - k)) * lower[k - 1] for k in range(1, d + 1)]
        falling = [(k + 1 - u) * lower[k] for k in range(d)]
        splines = [total / d for total in neighbouring_sums(rising, falling)]
    if degree == 0:
        return splines, [np.zeros_like(u)]
    return splines, neighbouring_sums(lower, [-spline for spline in lower])


def neighbouring_sums(left: list[Array], right: list[Array]) -> list[Array]:
    """For each of m + 1 places, the sum of the arrays to its left and to its right."""
    inner = [a + b for a, b in zip(left, right[1:], strict=False)]
    return [right[0], *inner, left[-1]]


def unequal_splines(
    x: Array, cell: Array, t: Array, degree: int
) -> tuple[list[Array], list[Array]]:
    """The values and slopes of the degree + 1 functions that are not zero in a cell.

    The recursion of Cox and de Boor, at x, (n,), within the range of the knots t:
    ``t[cell + degree] <= x <= t[cell + degree + 1]``. Knots beyond the range may repeat
    its ends. The slopes are derivatives with respect to x.
    """
    zero = np.zeros_like(x)
    knot = [t[cell + i] for i in range(2 * degree + 2)]
    splines, slopes = [zero + 1], [zero]
    for d in range(1, degree + 1):
        # With t the knots of the cell, function k starts at t[start + k].
        start = degree - d
        inner = [
            spline / (knot[start + k + d] - knot[start + k])
            for k, spline in enumerate(splines, 1)
        ]
        ratios = [zero, *inner, zero]
        splines = [
            (x - knot[start + k]) * ratios[k]
            + (knot[start + k + d + 1] - x) * ratios[k + 1]
            for k in range(d + 1)
        ]
        slopes = [d * (ratios[k] - ratios[k + 1]) for k in range(d + 1)]
    return splines, slopes
