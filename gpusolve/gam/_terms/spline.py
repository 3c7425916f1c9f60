"""Penalised splines of one covariate, and their tensor product for two."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from .._data.conventions import check_choice, check_least
from .basis import (
    MAX_DEGREE,
    BSplines,
    CompactBasis,
    Knots,
    Matrix,
    differences,
    kronecker_sum,
)
from .frame import Frame, Name, Values, present_values
from .rows import Reading, Rows, kronecker, spline_rows
from .single import Single, learned
from .term import Term

TAIL = 0.01
"""The share of the rows on each side that are not middle rows."""

MARGIN = 0.1
"""How far a robust range exceeds the middle rows, as a share of their range."""

FAR = 0.5
"""Beyond a robust range by more than this share of it, a row is far outside."""

ROBUST: Literal["robust"] = "robust"
"""The boundary that leaves out outliers."""

STRETCHED = 0.2
"""Knots are stretched if the middle rows occupy less than this share of the range."""

LEAST_RANGE = 1e-300
"""A covariate has at least this range: the slopes of its splines are finite."""

SCORED = 256
"""The most intervals between the values whose scores are kept."""

Table: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""Ascending values, and their normal scores."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Spline(Single):
    """A P-spline of one or two covariates, see `bbs` and `bspatial`.

    The functions are B-splines, or all products of the B-splines of two covariates.
    `ends` and `interior` are learned: the ranges, and the numbers of knots or their
    positions; with `normal_scores` also `scores`: some values of a covariate, and their
    scores.
    """

    function: str = "bbs"
    knots: int | tuple[tuple[float, ...], ...] = 20
    degree: int = 3
    differences: int = 2
    df: float | None = 4.0
    center: bool | str = False
    cyclic: bool = False
    boundary: tuple[tuple[float, float], ...] | str | None = None
    shape: str | None = field(default=None, metadata={"argument": "constraint"})
    knots_at: str = "equidistant"
    end_knots: str = "continued"
    normal_scores: bool = False
    scores: tuple[Table, ...] | None = learned()
    ends: tuple[tuple[float, float], ...] | None = learned()
    interior: tuple[int | tuple[float, ...], ...] | None = learned()

    _most_columns: ClassVar = {"bbs": 2, "bspatial": 2}
    _defaults: ClassVar = {"bspatial": {"df": 6}, "bmono": {"shape": "increasing"}}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("center", self.center, (False, True, "spectral"))
        check_choice("knots_at", self.knots_at, ("equidistant", "quantiles"))
        check_choice("end_knots", self.end_knots, ("continued", "repeated"))
        check_choice("constraint", self.shape, (None, *CONSTRAINTS))
        for name, most in (("degree", MAX_DEGREE), ("differences", 3)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(
                    f"{name} must be 0 to {most}, got {getattr(self, name)}"
                )
        if isinstance(self.knots, int):
            check_least("knots", self.knots, 0)
        self._check_combination()

    def _check_combination(self) -> None:
        """ValueError for arguments that exclude each other."""
        count = len(self.covariates)
        if count == 1 and self.function == "bspatial":
            raise ValueError("bspatial must be given two columns, got 1")
        if self.is_constrained and (self.cyclic or self.center):
            raise ValueError(
                "a term with a constraint must be neither cyclic nor centred"
            )
        if self.cyclic and self.boundary == ROBUST:
            raise ValueError("the boundary of a cyclic term must be its period")
        if self.normal_scores and (self.cyclic or self.boundary is not None):
            raise ValueError(
                "a term of normal scores must be neither cyclic nor have a boundary"
            )
        if self.cyclic and self.end_knots == "repeated":
            raise ValueError("a cyclic term must have end_knots='continued'")
        if count == 2 and (self.cyclic or self.is_constrained):
            raise ValueError(
                "a term of two columns must be neither cyclic nor have a constraint"
            )
        for name in ("boundary", "knots"):
            given = getattr(self, name)
            if isinstance(given, tuple) and len(given) < max(1, count):
                raise ValueError(f"{name} must be given for each column, got {given}")

    @property
    def is_constrained(self) -> bool:
        return self.shape is not None

    def _learn(self, frame: Frame) -> dict[str, Any]:
        columns = [frame.values(name) for name in self.covariates]
        scores = tuple(map(scores_of, columns)) if self.normal_scores else None
        if scores is not None:
            columns = [scored(*both) for both in zip(columns, scores, strict=True)]

        def read(j: int) -> Array:
            x = present_values(self.covariates[j], frame)
            return x if scores is None else scores_in(x, scores[j])

        margins = [
            self._learned_knots(j, own, functools.partial(read, j))
            for j, own in enumerate(columns)
        ]
        return {
            "scores": scores,
            "ends": tuple((knots.lower, knots.upper) for knots in margins),
            "interior": tuple(knots.interior for knots in margins),
        }

    def _learned_knots(
        self, j: int, values: Values, read: Callable[[], Array]
    ) -> Knots:
        """The knots of a covariate on the given range, or on the range of the data."""
        name = self.covariates[j]
        lower, upper = whole = values.lower, values.upper
        if self.boundary == ROBUST:
            lower, upper = robust_range(values)
        elif isinstance(self.boundary, tuple):
            lower, upper = self.boundary[j]
            check_range(name, whole, (lower, upper))
        if not np.isfinite(upper - lower):
            raise ValueError(f"{name} must have a finite range, got {lower} to {upper}")
        if 0 < upper - lower < LEAST_RANGE:
            raise ValueError(
                f"{name} must have a range of at least {LEAST_RANGE}, or one value, "
                f"got {lower} to {upper}: multiply it by a number"
            )
        interior: int | tuple[float, ...]
        if not isinstance(self.knots, int):
            interior = self.knots[j]
            if not (np.diff([lower, *interior, upper]) > 0).all():
                raise ValueError(
                    f"knots of {name} must ascend within {lower} to {upper}, got "
                    f"{interior}"
                )
        elif self.knots_at == "quantiles":
            # without repetition, and none at the ends
            shares = np.arange(1, self.knots + 1) / (self.knots + 1)
            found = np.unique(np.quantile(on_host(read()).astype(np.float64), shares))
            interior = tuple(found[(found > lower) & (found < upper)].tolist())
        else:
            warn_if_stretched(name, values, self.knots + 1, upper - lower)
            interior = self.knots
        knots = self._knots((lower, upper), interior or 0)
        count = knots.cells if self.cyclic else knots.functions
        if count <= self.differences:
            raise ValueError(
                f"{name} must have more than {self.differences} functions for "
                f"differences={self.differences}, got {count}"
            )
        return knots

    @functools.cached_property
    def _margins(self) -> tuple[Knots, ...]:
        """The knots of each covariate."""
        assert self.ends is not None
        assert self.interior is not None
        return tuple(
            self._knots(ends, interior)
            for ends, interior in zip(self.ends, self.interior, strict=True)
        )

    def _knots(
        self, ends: tuple[float, float], interior: int | tuple[float, ...]
    ) -> Knots:
        are_repeated = self.end_knots == "repeated"
        return Knots(*ends, interior, self.degree, self.cyclic, are_repeated)

    @property
    def _functions(self) -> int:
        return math.prod(knots.functions for knots in self._margins)

    def _plain_rows(self, data: Reading) -> Rows:
        outside = self._outside(data)
        margins = [
            spline_rows(knots, self._read(j, data), outside, data.dtype)
            for j, knots in enumerate(self._margins)
        ]
        return functools.reduce(kronecker, margins)

    @property
    def own_ranges(self) -> dict[Name, tuple[float, float]]:
        ends = self.ends or ()
        if self.scores is not None:
            ends = tuple((values[0], values[-1]) for values, _ in self.scores)
        return dict(zip(self.covariates, ends, strict=False))

    def _exported(self) -> dict[str, Any]:
        own = {
            "kind": "spline",
            "outside": "clamp" if self.boundary == ROBUST else None,
        }
        margins = [
            own | {"column": name, "scores": scores} | knots.exported()
            for name, knots, scores in zip(
                self.covariates,
                self._margins,
                self.scores or (None,) * len(self.covariates),
                strict=True,
            )
        ]
        is_single = len(margins) == 1
        return margins[0] if is_single else {"kind": "product", "parts": margins}

    def _outside(self, data: Reading) -> str:
        """How values outside the range are evaluated; a robust range clamps them."""
        return "clamp" if self.boundary == ROBUST else data.outside

    def _read(self, j: int, data: Reading) -> Array:
        """The values of a column or their scores, (n,), within the range if asked."""
        name = self.covariates[j]
        ends = self.own_ranges[name]
        x = data.numeric(name, ends[0])
        if self.cyclic or self._outside(data) == "error":
            check_range(name, (float(x.min()), float(x.max())), ends)
        return x if self.scores is None else scores_in(x, self.scores[j])

    # ---- penalty and transform ----

    @property
    def _sizes(self) -> list[int]:
        """The number of B-splines of each covariate, or around its period."""
        return [k.cells if self.cyclic else k.functions for k in self._margins]

    @property
    def _differences(self) -> list[Matrix]:
        """The matrices D of the penalties D'D, one for each covariate."""
        order = self.differences
        return [differences(k, order, cyclic=self.cyclic) for k in self._sizes]

    @property
    def _margin_null_dimension(self) -> int:
        return min(self.differences, 1) if self.cyclic else self.differences

    @property
    def _null_dimension(self) -> int:
        if self.center:
            return 0
        return int(self._margin_null_dimension ** len(self._margins))

    def _penalty(self) -> Matrix:
        D = self._differences
        if not self.center:
            return functools.reduce(kronecker_sum, [M.T @ M for M in D])
        columns = math.prod(M.shape[1] for M in D)
        return np.eye(columns - self._margin_null_dimension ** len(D))

    def _units(self) -> Matrix:
        """All B-splines have the same unit, also with a ridge."""
        if self.center:
            return super()._units()
        columns = math.prod(self._sizes)
        return np.ones((columns, columns))

    def _transform(self) -> Matrix | None:
        fold = self._margins[0].fold()
        if not self.center:
            return fold
        D = self._differences
        if self.center is True and len(D) == 1 and not self.cyclic:
            # D'(DD')^-1: columns whose coefficients are the differences D b
            return np.asarray(np.linalg.solve(D[0] @ D[0].T, D[0]).T, np.float64)
        columns = spectral_columns(D, self._margin_null_dimension)
        return columns if fold is None else fold @ columns

    def _constraint(self) -> Matrix | None:
        if self.shape is None:
            return None
        (knots,) = self._margins
        return CONSTRAINTS[self.shape](knots)


def penalty_options(kind: str | None, order: int, df: float) -> dict[str, Any]:
    """The arguments of a spline for a kind of `penalty_matrix`."""
    options = {"cyclic": kind == "cyclic", "df": None if kind is None else df}
    if kind is not None:
        options["differences"] = 0 if kind == "ridge" else order
    return options


def equal_bases(terms: Sequence[Term], data: Reading) -> CompactBasis | None:
    """The bases of splines with the same equidistant knots, evaluated at once.

    None for other terms, and if a value is missing.
    """
    splines = [
        term
        for term in terms
        if isinstance(term, Spline) and len(term.covariates) == 1 and term.by is None
    ]
    margins = [spline._margins[0] for spline in splines]
    shapes = {(knots.interior, knots.degree) for knots in margins}
    rules = {spline._outside(data) for spline in splines}
    if len(splines) < len(terms) or len(shapes) > 1 or len(rules) > 1:
        return None
    if not all(knots.are_uniform for knots in margins):
        return None
    data.frame.examine(spline.covariates[0] for spline in splines)
    columns = [spline._read(0, data) for spline in splines]
    if data.present is not None:
        return None
    lower, upper = np.array([(knots.lower, knots.upper) for knots in margins]).T.copy()
    (outside,) = rules
    basis = BSplines(lower, upper, margins[0].functions, margins[0].degree)
    X = namespace(columns[0]).stack(columns, axis=1)
    return basis._evaluate(X, outside, data.dtype)


def curvature(knots: Knots) -> Matrix:
    """The matrix whose product with the coefficients has the sign of the curvature."""
    return np.asarray(np.diff(knots.slope_matrix(), axis=0))


CONSTRAINTS: dict[str, Callable[[Knots], Matrix]] = {
    "increasing": Knots.slope_matrix,
    "decreasing": lambda knots: -knots.slope_matrix(),
    "convex": curvature,
    "concave": lambda knots: -curvature(knots),
    "positive": lambda knots: np.eye(knots.functions),
    "negative": lambda knots: -np.eye(knots.functions),
}
"""C of the constraints ``C b >= 0`` by their names."""


def spectral_columns(D: list[Matrix], null_dimension: int) -> Matrix:
    """``V diag(e^-1/2)`` of the eigenvectors V of the penalty, without its null space.

    The eigenvectors of ``Ka (x) I + I (x) Kb`` are products of eigenvectors of Ka and
    of Kb.
    """
    values, vectors = zip(*[np.linalg.eigh(M.T @ M) for M in D], strict=True)
    strength = functools.reduce(np.add.outer, values).ravel()
    null = [np.arange(len(spectrum)) < null_dimension for spectrum in values]
    kept = ~functools.reduce(np.logical_and.outer, null).ravel()
    V = functools.reduce(np.kron, vectors)
    return np.asarray(V[:, kept] / np.sqrt(strength[kept]))


# ---- knots from the data -------------------------------------------------------------


def check_range(
    name: Name, found: tuple[float, float], allowed: tuple[float, float]
) -> None:
    """ValueError unless the values of a column are within a range."""
    if found[0] < allowed[0] or found[1] > allowed[1]:
        raise ValueError(
            f"{name} must be within the range {allowed[0]} to {allowed[1]} of the "
            f"knots, got {found[0]} to {found[1]}"
        )


def robust_range(values: Values) -> tuple[float, float]:
    """The range of the middle 98 % of the rows, and a tenth of it on each side.

    At most the range of the data; all of it if the middle rows have the same value.
    """
    begin, _, end = middle_rows(values)
    if begin == end:
        return values.lower, values.upper
    margin = MARGIN * (end - begin)
    return max(values.lower, begin - margin), min(values.upper, end + margin)


def middle_rows(values: Values) -> tuple[float, float, float]:
    """The least, the median and the greatest value of the middle 98 % of the rows."""
    ordered = values.some
    last = len(ordered) - 1
    cut = int(TAIL * last)
    return float(ordered[cut]), float(ordered[last // 2]), float(ordered[last - cut])


def far_rows(terms: Sequence[Term], frame: Frame, rows: int) -> NDArray[np.bool_]:
    """The rows far outside of the robust range of a spline, (n,), on the host."""
    far: Array = np.zeros(rows, bool)
    for term in terms:
        if not isinstance(term, Spline) or term.boundary != ROBUST:
            continue
        for name, (lower, upper) in term.own_ranges.items():
            x, margin = frame.numeric(name), FAR * (upper - lower)
            outside = (x < lower - margin) | (x > upper + margin)
            far = outside | namespace(x).asarray(far)
    return np.asarray(on_host(far))


def scores_of(column: Values) -> Table:
    """Some values of a column and their normal scores.

    The normal score of a value is the quantile of the normal distribution for the share
    of rows below the value, where half of the rows that equal it count.

    Examples
    --------
    >>> some = np.array([1.0, 1.0, 1.0, 5.0, 100.0])
    >>> values, scores = scores_of(Values(1.0, 100.0, some, True))
    >>> values, np.round(scores, 2)
    ((1.0, 5.0, 100.0), array([-0.52,  0.52,  1.28]))
    """
    from scipy.special import ndtri

    ordered = column.some.astype(np.float64)
    ends = [column.lower, column.upper]
    values = np.unique([*ordered, *ends])
    if len(values) > SCORED:
        shares = np.linspace(0, 1, SCORED + 1)
        values = np.unique([*np.quantile(ordered, shares, method="nearest"), *ends])
    below = np.searchsorted(ordered, values, "left")
    up_to = np.searchsorted(ordered, values, "right")
    last = 2 * len(ordered) - 1
    scores = ndtri(np.clip(below + up_to, 1, last) / (last + 1))
    return tuple(values.tolist()), tuple(scores.tolist())


def scores_in(x: Array, table: Table) -> Array:
    """The normal scores of values, (n,), interpolated in a table."""
    xp = namespace(x)
    values, scores = (xp.asarray(column, np.float64) for column in table)
    return xp.interp(x.astype(np.float64), values, scores).astype(x.dtype)


def scored(column: Values, table: Table) -> Values:
    """The normal scores of the values of a column."""
    ends = np.array([column.lower, column.upper], column.some.dtype)
    lower, upper = scores_in(ends, table).tolist()
    return Values(lower, upper, scores_in(column.some, table), column.are_all)


def warn_if_stretched(name: Name, values: Values, cells: int, width: float) -> None:
    """Warn if a few outliers stretch equidistant knots.

    They do if the middle 98 % of the rows, without at least the least and the greatest,
    are within a fifth of the range, and have more different values than there are
    cells: few functions then describe most of the data. Of long data, some evenly
    spaced rows are examined.
    """
    ordered = values.some
    last = len(ordered) - 1
    begin, end = int(np.ceil(TAIL * last)), int(np.floor((1 - TAIL) * last))
    middle = ordered[begin : end + 1]
    if len(middle) <= cells or float(middle[-1] - middle[0]) >= STRETCHED * width:
        return
    if int((middle[1:] > middle[:-1]).sum()) < cells:
        return
    warnings.warn(
        f"{name} has outliers that stretch its knots: 98 % of the rows are within "
        f"{float(middle[0]):.6g} to {float(middle[-1]):.6g}, less than a fifth of the "
        'range; knots_at="quantiles" or clipping may fit better',
        UserWarning,
        stacklevel=2,
    )
