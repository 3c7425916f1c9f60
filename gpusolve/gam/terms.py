"""The base learners of a boosted model, with the arguments of mboost.

Every function returns a `Term`. Terms are combined with ``+``, a learner with the
columns of both, and ``*``, their row-wise Kronecker product. A term without a column
takes the key of a dict: ``{"age": bbs(df=3), ("lon", "lat"): bspatial()}``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from numbers import Integral
from typing import Any, Literal, TypeVar

import numpy as np

from .._device.arrays import Array
from .._device.launch import CACHED
from ._data.conventions import check_choice, check_integer, check_number
from ._terms.dense import Kernel, User
from ._terms.frame import Name
from ._terms.linear import Linear, Region, Stump, graph_of
from ._terms.single import Single, written_arguments
from ._terms.spline import ROBUST, Spline
from ._terms.term import Product, Sum, Term

Constraint = Literal[
    "increasing", "decreasing", "convex", "concave", "positive", "negative"
]

__all__ = [
    "Product",
    "Sum",
    "Term",
    "bbs",
    "bkernel",
    "bmono",
    "bmrf",
    "bols",
    "brad",
    "brandom",
    "bspatial",
    "btree",
    "buser",
]

Range = tuple[float, float]

AnyTerm = TypeVar("AnyTerm", bound=Single)

Converter = Callable[[str, Any], Any]


def bbs(
    *x: Name,
    by: Name | None = None,
    knots: int | Sequence[Any] = 20,
    degree: int = 3,
    differences: int = 2,
    df: float = 4,
    lambda_: float | None = None,
    center: bool | str = False,
    cyclic: bool = False,
    boundary: Range | Sequence[Range] | Literal["robust"] | None = None,
    constraint: Constraint | None = None,
    knots_at: str = "equidistant",
    end_knots: str = "continued",
    normal_scores: bool = False,
) -> Spline:
    """A penalised B-spline (P-spline) of a numeric covariate.

    Parameters
    ----------
    *x : str or int
        The column; two columns are a surface, as `bspatial`.
    by : str or int, optional
        A column whose effect varies with `x`: each row is multiplied by a numeric
        column; a factor has an effect of `x` for each level but the first.
    knots : int or sequence of float, optional
        The number of knots within the range, or their positions.
    degree : int, optional
        Degree of the polynomials, 0 to 5.
    differences : int, optional
        Order of the differences of neighbouring coefficients that are penalised, 0 to
        3. 0 penalises the coefficients themselves.
    df : float, optional
        Degrees of freedom of one fit.
    lambda_ : float, optional
        The smoothing parameter; given this, `df` is ignored.
    center : {False, True, "spectral"}, optional
        Leave out what the penalty does not affect: a line for differences of order 2.
        "spectral" gives the same fits, by the eigenvectors of the penalty.
    cyclic : bool, optional
        Whether the effect is periodic: its ends meet, with their derivatives below
        `degree`. The period is the range, usually given as `boundary`. Values outside
        are an error.
    boundary : (lower, upper) or "robust", optional
        The range of the knots; by default the range of the data. "robust" is the range
        of the middle 98 % of the rows, and a tenth of it on each side; values outside,
        also when fitting, have the effect of its nearest end.
    constraint : {"increasing", "decreasing", "convex", "concave", "positive", \
"negative"}, optional
        The shape of the effect.
    knots_at : {"equidistant", "quantiles"}, optional
        Where the knots are. Quantiles follow the data; values that occur often give
        fewer knots.
    end_knots : {"continued", "repeated"}, optional
        The knots beyond the range: at the same distances, as in mboost, or all at its
        ends, as in patsy's and R's ``bs``. Both bases have the same span; they
        differ in what a penalty on their coefficients affects. With "repeated",
        differences of order 2 leave free a curve instead of a line. Outside the range,
        where patsy raises an error, the `outside` of the estimator holds for both.
    normal_scores : bool, optional
        Whether the spline is of the normal scores of the values, for skewed columns
        such as incomes: the quantiles of the normal distribution for the shares of the
        rows below. A log-normal column becomes normal. At most 257 values of the
        training data and their scores are kept, between which scores are interpolated.
        A value outside has the score of the nearest end.

    Returns
    -------
    Spline

    Warns
    -----
    UserWarning
        If outliers stretch equidistant knots: the middle 98 % of the rows are within a
        fifth of the range, and have more different values than there are cells.

    See Also
    --------
    bols, bspatial, bmono, BoostedGAM

    References
    ----------
    P. H. C. Eilers and B. D. Marx, "Flexible Smoothing with B-splines and Penalties",
    Statistical Science 11 (1996).

    Examples
    --------
    >>> bbs("age", df=3)
    bbs('age', df=3)
    >>> bbs("day", cyclic=True, boundary=(0, 365)).label
    'bbs(day, cyclic=True, boundary=(0, 365))'
    """
    return make(Spline, "bbs", **locals())


def bmono(*x: Name, constraint: Constraint = "increasing", **options: Any) -> Spline:
    """A P-spline with a constraint on its shape.

    Parameters
    ----------
    *x : str or int
        The column.
    constraint : {"increasing", "decreasing", "convex", "concave", "positive", \
"negative"}, optional
        The shape of the effect.
    **options
        As for `bbs`.

    See Also
    --------
    bbs, BoostedGAM

    Examples
    --------
    >>> bmono("income", df=3) + bmono("age", constraint="concave")
    bmono('income', df=3) + bmono('age', constraint='concave')
    """
    return make(Spline, "bmono", x, constraint=constraint, **options)


def bspatial(*x: Name, df: float = 6, **options: Any) -> Spline:
    """A smooth surface: the tensor product of P-splines of two numeric covariates.

    Parameters
    ----------
    *x : str or int
        The two columns. The functions of the first column are the slow index.
    df : float, optional
        Degrees of freedom of one fit.
    **options
        As for `bbs`, but neither `cyclic` nor `constraint`. `knots` is the number of
        knots of each column, or a pair of their positions, `boundary` a pair of ranges.
        `center` leaves out products of lines for differences of order 2.

    See Also
    --------
    bbs, brad, bmrf, BoostedGAM

    Examples
    --------
    >>> bspatial("lon", "lat", knots=6)
    bspatial('lon', 'lat', knots=6)
    """
    return make(Spline, "bspatial", x, df=df, **options)


def bols(
    *x: Name,
    by: Name | None = None,
    intercept: bool = True,
    df: float | None = None,
    lambda_: float | None = None,
    contrasts: str = "treatment",
    levels: Sequence[Any] | None = None,
) -> Linear:
    """A linear effect of numeric covariates, or the effects of a factor's levels.

    Parameters
    ----------
    *x : str or int
        Numeric columns, or a single factor: a categorical or text column.
    by : str or int, optional
        As for `bbs`.
    intercept : bool, optional
        Whether there is a column of ones. It is penalised, too, if there is a penalty.
    df : float, optional
        Degrees of freedom; without them and `lambda_` nothing is penalised.
    lambda_ : float, optional
        The smoothing parameter of the ridge; given this, `df` is ignored.
    contrasts : {"treatment", "sum", "helmert", "dummy"}, optional
        The columns of a factor of L levels: L - 1 contrasts; "dummy" is an indicator of
        each level, without an intercept. An ordered factor with "treatment" has a
        penalty on differences of neighbouring levels. Without a penalty the fit of
        every coding is the mean of each level, and a level without rows has no effect.
        With a penalty on contrasts, memory grows with the square of L; otherwise, and
        with "dummy", with L.
    levels : sequence, optional
        The levels of a factor. Given these, a numeric column is a factor, too.

    See Also
    --------
    bbs, brandom, BoostedGAM

    Examples
    --------
    >>> bols("age", "income")
    bols('age', 'income')
    >>> bols("region", df=2, contrasts="sum").label
    "bols(region, df=2, contrasts='sum')"
    """
    return make(Linear, "bols", **locals())


def brandom(
    *x: Name, df: float = 4, contrasts: str = "dummy", **options: Any
) -> Linear:
    """A random effect: the levels of a factor with a ridge penalty.

    Parameters
    ----------
    *x : str or int
        The factor. A numeric column becomes a factor whose levels are its values.
    df, contrasts, **options
        As for `bols`.

    See Also
    --------
    bols, bmrf, BoostedGAM

    Examples
    --------
    >>> brandom("patient") + brandom("patient", by="time", df=2)
    brandom('patient') + brandom('patient', by='time', df=2)
    """
    return make(Linear, "brandom", x, df=df, contrasts=contrasts, **options)


def buser(
    *x: Name,
    K: Any = None,
    design: Callable[..., Array] | None = None,
    by: Name | None = None,
    df: float = 4,
    lambda_: float | None = None,
) -> User:
    """A given design with a given penalty.

    Parameters
    ----------
    *x : str or int
        The numeric columns of the design.
    K : (k, k) array_like, optional
        The penalty, positive semidefinite; the identity by default.
    design : callable, optional
        Takes the columns, (n,) each and on their device, and returns the design matrix,
        (n, k). A term with a callable cannot be stored as JSON.
    by, df, lambda_
        As for `bbs`.

    See Also
    --------
    bkernel, bols, BoostedGAM

    Examples
    --------
    >>> buser("x1", "x2", df=1)
    buser('x1', 'x2', df=1)
    """
    return make(User, "buser", **locals())


def bmrf(*x: Name, neighbours: Any, **options: Any) -> Region:
    """A Markov random field: neighbouring regions have similar effects.

    Parameters
    ----------
    *x : str or int
        The column with the region of each row.
    neighbours : mapping, matrix or sequence of pairs
        The regions and which of them are neighbours: the neighbours of each region; an
        adjacency matrix, dense or sparse, of regions 0, 1, .., or a data frame with the
        regions as its index; or pairs of regions. Regions without rows are allowed.
    **options
        `by`, `df`, `lambda_` and `center` as for `bbs`. The penalty is the sum of the
        squared differences of neighbours; it does not affect the mean of connected
        regions, which ``center=True`` leaves out.

    See Also
    --------
    bspatial, brandom, BoostedGAM

    References
    ----------
    F. Sobotka and T. Kneib, "Geoadditive expectile regression", Computational
    Statistics & Data Analysis 56 (2012).

    Examples
    --------
    >>> bmrf("state", neighbours={"a": ["b"], "b": ["a", "c"], "c": ["b"]}, df=2)
    bmrf('state', df=2)
    """
    regions, edges = graph_of(neighbours)
    term = make(Region, "bmrf", x, **options)
    return replace(term, regions=levels_of(regions), edges=edges)


def bkernel(
    *x: Name,
    kernel: str | Callable[[Array, Array], Array] = "rbf",
    knots: int | Sequence[Any] = 100,
    scale: float | None = None,
    by: Name | None = None,
    df: float = 4,
    lambda_: float | None = None,
) -> Kernel:
    """A function in the space of a kernel, with its norm as the penalty.

    Parameters
    ----------
    *x : str or int
        Numeric columns, whose distances must be comparable.
    kernel : {"rbf", "matern", "exponential"} or callable, optional
        ``exp(-d^2 / 2)``, ``(1 + d) exp(-d)`` or ``exp(-d)`` of the distance d in units
        of `scale`; or a function that takes points (n, p) and knots (m, p), on the
        device of the data, and returns the values (n, m) of a positive semidefinite
        kernel. A term with a callable cannot be stored as JSON.
    knots : int or (m, p) sequence, optional
        How many rows the functions are centred at, far from each other; or where.
    scale : float, optional
        By default the kernel falls to 0.001 across the data.
    by, df, lambda_
        As for `bbs`.

    See Also
    --------
    buser, brad, BoostedGAM

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning"
    (2006), chapter 8.

    Examples
    --------
    >>> bkernel("lon", "lat", kernel="exponential", knots=30)
    bkernel('lon', 'lat', kernel='exponential', knots=30)
    """
    if not isinstance(knots, Integral):
        knots = points_of(knots)
    return make(Kernel, "bkernel", **locals())


def brad(*x: Name, kernel: str = "matern", **options: Any) -> Kernel:
    """Radial functions, as in kriging: `bkernel` with the kernel of mboost's ``brad``.

    Parameters
    ----------
    *x : str or int
        Numeric columns, whose distances must be comparable.
    kernel, **options
        As for `bkernel`.

    See Also
    --------
    bspatial, bkernel, BoostedGAM

    Examples
    --------
    >>> brad("lon", "lat", knots=50, df=6)
    brad('lon', 'lat', df=6, knots=50)
    """
    return replace(bkernel(*x, kernel=kernel, **options), function="brad")


def btree(*x: Name, bins: int = 255, min_rows: int = 4) -> Stump:
    """A stump, a regression tree of depth 1: a step function with one jump.

    Each iteration chooses the best of all cuts between bins. The sum of the steps is a
    piecewise constant effect. A learner for each column gives mboost's ``blackboost``
    with stumps.

    Parameters
    ----------
    *x : str or int
        The numeric column.
    bins : int, optional
        Into how many bins its values are divided, at most 255: by their quantiles if
        there are more values.
    min_rows : int, optional
        The fewest rows on each side of a jump, or the least sum of their weights; 4 as
        in mboost. Where no cut has as many, the effect is a constant.

    See Also
    --------
    bbs, BoostedGAM

    Examples
    --------
    >>> btree("age")
    btree('age')
    """
    return make(Stump, "btree", **locals())


# Stored models and pickles name the public module, also after a class has moved.
for _public in (Kernel, Linear, Product, Region, Spline, Stump, Sum, Term, User):
    _public.__module__ = __name__


# ---- arguments as plain values -------------------------------------------------------


def make(
    kind: type[AnyTerm], function: str, x: tuple[Any, ...], **arguments: Any
) -> AnyTerm:
    """The term that a function makes of its arguments; TypeError for unknown names."""
    known = arguments_of(kind)
    if unknown := [name for name in arguments if name not in known]:
        raise TypeError(f"{function} must have no argument {unknown[0]!r}")
    plain = {}
    for name, value in arguments.items():
        field, convert = known[name]
        plain[field] = convert(name, value)
    return kind(function=function, covariates=names_of(function, x), **plain)


@lru_cache(CACHED)
def arguments_of(kind: type[Single]) -> dict[str, tuple[str, Converter]]:
    """The arguments of a term: the fields that store them, as plain values."""
    found = {}
    for field in written_arguments(kind):
        name = field.metadata.get("argument", field.name)
        convert = CONVERTERS.get(name) or CONVERTERS.get(str(field.type), as_it_is)
        found[name] = field.name, convert
    return found


def names_of(function: str, names: tuple[Any, ...]) -> tuple[Name, ...]:
    """The names of columns; TypeError for anything else, such as arrays."""
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | Integral):
            raise TypeError(
                f"{function} must be given names or positions of columns, got "
                f"{type(name).__name__}"
            )
    return tuple(name if isinstance(name, str) else int(name) for name in names)


def as_it_is(name: str, value: Any) -> Any:
    return value


def integer(name: str, value: Any) -> int:
    """An integer; TypeError for anything else."""
    check_integer(name, value)
    return int(value)


def optional_number(name: str, value: Any) -> float | None:
    """A float or None; TypeError for anything else."""
    if value is None:
        return None
    check_number(name, value)
    return float(value)


def interior_of(name: str, knots: Any) -> int | tuple[tuple[float, ...], ...]:
    """The number of knots, or their positions for each column."""
    if isinstance(knots, Integral):
        return integer(name, knots)
    if not np.iterable(knots):
        raise TypeError(f"knots must be an integer or their positions, got {knots!r}")
    given = list(knots)
    nested = given if given and np.ndim(given[0]) else [given]
    return tuple(tuple(map(float, positions)) for positions in nested)


def points_of(knots: Any) -> list[list[float]]:
    """Points of one or several columns, as rows of a matrix."""
    points = np.asarray(knots, np.float64)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise ValueError(
            "knots must be an integer or a matrix of finite numbers, got shape "
            f"{points.shape}"
        )
    return points.tolist()  # type: ignore[no-any-return]


def ranges_of(name: str, boundary: Any) -> tuple[Range, ...] | str | None:
    """The range of each column."""
    if boundary is None or isinstance(boundary, str):
        check_choice(name, boundary, (None, ROBUST))
        return boundary
    if not np.iterable(boundary):
        raise TypeError(f"boundary must be a lower and an upper end, got {boundary!r}")
    given = list(boundary)
    ranges = []
    for ends in given if np.ndim(given[0]) else [given]:
        lower, upper = map(float, ends)
        if not (np.isfinite([lower, upper]).all() and lower < upper):
            raise ValueError(f"boundary must be finite and ascend, got {boundary}")
        ranges.append((lower, upper))
    return tuple(ranges)


def levels_of(levels: Sequence[Any]) -> tuple[Any, ...]:
    """The levels of a factor as Python's strings, numbers and bools."""
    return tuple(
        level.item() if isinstance(level, np.generic) else level for level in levels
    )


def matrix_of(K: Any) -> tuple[tuple[float, ...], ...]:
    """A matrix as tuples."""
    matrix = np.asarray(K, np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"K must be a matrix, got shape {matrix.shape}")
    return tuple(tuple(row) for row in matrix.tolist())


CONVERTERS: dict[str, Converter] = {
    "int": integer,
    "bool": lambda _, value: bool(value),
    "float | None": optional_number,
    "knots": interior_of,
    "boundary": ranges_of,
    "levels": lambda _, levels: None if levels is None else levels_of(levels),
    "K": lambda _, K: None if K is None else matrix_of(K),
}
"""How arguments become the plain values that a term stores, by type or name."""
