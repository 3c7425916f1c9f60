"""When to stop, by the degrees of freedom of a boosted model.

References
----------
P. Buehlmann and T. Hothorn, "Boosting Algorithms: Regularization, Prediction and Model
Fitting", Statistical Science 22 (2007).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import on_host
from .._device.kernels import current
from .._device.threads import Work, workers
from ._boosting.batch import Fits, Settings, Training, make_fits
from ._boosting.stacked import curvature_along
from ._model.model import AdditiveModel
from ._terms.rows import DesignPart, Rows
from .cv import training_of
from .families import FAMILIES, Family

Floats = NDArray[np.float64]
Run = Callable[[Work], None]


@dataclass(frozen=True)
class Criterion:
    """A criterion of when to stop.

    Attributes
    ----------
    df : (steps,) array
        The degrees of freedom after each step, without the offset.
    values : (steps,) array
        The criterion after each step; infinite where it is not defined.

    See Also
    --------
    aic_stop, CrossValidation

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import Criterion
    >>> Criterion(df=np.array([0.5, 0.9]), values=np.array([4.0, 3.0])).best_iteration
    2
    """

    df: Floats
    values: Floats

    @property
    def best_iteration(self) -> int:
        """The first number of steps with the least criterion, at least 1.

        Examples
        --------
        >>> import numpy as np
        >>> from gpusolve.gam import Criterion
        >>> Criterion(df=np.array([0.5, 0.9]), values=np.array([4.0, 3.0]))
        Criterion(2 iterations: best after 2, with 3 and 0.9 degrees of freedom)
        """
        return int(self.values.argmin()) + 1

    def __repr__(self) -> str:
        best = self.best_iteration
        return (
            f"Criterion({len(self.df)} iterations: best after {best}, with "
            f"{self.values[best - 1]:.6g} and {self.df[best - 1]:.3g} degrees of "
            "freedom)"
        )


def aic_stop(model: AdditiveModel, criterion: str | None = None) -> Criterion:
    """Compute an information criterion of a fitted model after every iteration.

    It needs no further fit, but regards the selected learners as given. It therefore
    tends to stop later than `cv_stop`. This is mboost's ``AIC``.

    Parameters
    ----------
    model : BoostedGAM or BoostedGAMClassifier
        Fitted to all rows, by linear learners; it refers to its training data, but not
        after it was pickled.
    criterion : {"aicc", "gmdl", "aic"}, optional
        The corrected AIC, the default, or the minimum description length, for the
        Gaussian family; the AIC for the binomial and Poisson families.

    Returns
    -------
    Criterion

    Raises
    ------
    ValueError
        If the family does not have the criterion, if the model was loaded from a file,
        has 0 iterations, several responses or early stopping, or if a selected learner
        has a constraint.

    See Also
    --------
    Criterion, cv_stop

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, aic_stop
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((200, 3))
    >>> y = np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(200)
    >>> found = aic_stop(BoostedGAM(max_iter=300, learning_rate=0.1).fit(X, y))
    >>> 20 < found.best_iteration < 200
    True
    >>> bool(4 < found.df[found.best_iteration - 1] < 20)
    True
    """
    data, settings = training_of(model)
    family = settings.family
    check_linear(model)
    criterion = checked_criterion(criterion, family)
    with current(data.device):
        df, risk = df_of_model(model, settings, data), model.paths_[0].risk[1:]
        if criterion == "aic":
            return Criterion(df, 2 * risk + 2 * df)
        weights = data.row_weights
        total = float(weights.sum())
        if criterion == "aicc":
            return corrected_aic(df, risk, total)
        squares = float((weights * data.y**2).sum())
        return minimum_description_length(df, risk, total, squares)


def checked_criterion(criterion: str | None, family: Family) -> str:
    """The criterion, by default the first; ValueError if the family lacks it."""
    possible = family.criteria
    if not possible:
        known = tuple(name for name, kind in FAMILIES.items() if kind.criteria)
        raise ValueError(
            f"the family must be one of {known} for a criterion, got {family.name!r}: "
            "use cv_stop"
        )
    if criterion is not None and criterion not in possible:
        raise ValueError(
            f"criterion must be one of {possible} for the {family.name} family, got "
            f"{criterion!r}"
        )
    return criterion or possible[0]


def check_linear(model: AdditiveModel) -> None:
    """ValueError unless the fit is a product of linear steps on all rows."""
    if len(model.paths_) > 1:
        raise ValueError(
            "the model must have one response, or two classes, got "
            f"{len(model.paths_)} predictors"
        )
    if model.early_stopping:
        raise ValueError("early_stopping must be False for a criterion of all rows")
    if model.n_iter_ == 0:
        raise ValueError("the model must have at least one iteration, got 0")
    for learner in np.unique(model.paths_[0].selected).tolist():
        if not model.terms_[learner].is_linear:
            raise ValueError(
                "selected learners must have no constraint and no cuts for a "
                "criterion, got "
                f"{model.names_[learner]}: use cv_stop"
            )


# ---- degrees of freedom --------------------------------------------------------------


def df_of_model(model: AdditiveModel, settings: Settings, data: Training) -> Floats:
    """The degrees of freedom after each step."""
    used, selected = np.unique(model.paths_[0].selected, return_inverse=True)
    terms = tuple(settings.terms[j] for j in used.tolist())
    fits = make_fits(replace(settings, terms=terms), data, data.weights)
    rows = [rows_on_host(design) for design in fits.problem.rows]
    start = np.zeros((1, data.rows)) + on_host(fits.start)
    designs = dict(zip(used.tolist(), rows, strict=True))
    information = settings.family.information
    weights = None if data.weights is None else on_host(data.weights)
    models = model._advance(start, designs)
    bends: Any = (information(f) for (f,) in models)
    return degrees_of_freedom(
        rows,
        [np.diag(H[0]) if H.ndim == 2 else H[0] for H in fits.problem.inverse],
        weights,
        selected,
        sizes_of(fits, chain([start], model._advance(start, designs)), weights),
        None if information(start[0]) is None else bends,
    )


def sizes_of(fits: Fits, models: Iterable[Floats], weights: Floats | None) -> Floats:
    """The size of each step, (steps,), from the models before and after all steps."""
    family, y, (rate,) = fits.family, fits.family.arrange(on_host(fits.y)), fits.rates
    found = []
    for (before,), (after,) in pairwise(models):
        is_scaled = fits.units is not None
        h = family.weighted_curvature(y, before, 0.0, weights) if is_scaled else None
        scale = 1.0 if h is None else curvature_along(after - before, h, weights)
        found.append(rate / scale)
    return np.array(found)


def rows_on_host(design: Rows) -> Rows:
    """The design in arrays on the host."""
    parts = [part.stored() for part in design.parts]
    there = (DesignPart(on_host(p.first), p.offsets, on_host(p.values)) for p in parts)
    return Rows(design.functions, tuple(there))


# ---- criteria ------------------------------------------------------------------------
# `df`, `squares` and `risk` are (steps,) arrays after each step: the degrees of
# freedom, the weighted sum of squared residuals, the negative log-likelihood. N is the
# sum of the weights.


def corrected_aic(df: Floats, squares: Floats, N: float) -> Criterion:
    """The corrected AIC of Hurvich, Simonoff and Tsai; defined for ``df < N - 2``."""
    left = 1 - (df + 2) / N
    penalty = np.full(len(df), math.inf)
    np.divide(1 + df / N, left, out=penalty, where=left > 0)
    return Criterion(df, np.log(squares / N) + penalty)


def minimum_description_length(
    df: Floats, squares: Floats, N: float, total_squares: float
) -> Criterion:
    """The criterion gMDL of Hansen and Yu; defined for ``df < N``.

    `total_squares` is the weighted sum of squares of y, which must exceed `squares`.
    """
    left = N - df
    explained = total_squares - squares
    values = np.full(len(df), math.inf)
    defined = (left > 0) & (explained > 0)
    variance = squares[defined] / left[defined]
    ratio = explained[defined] / (df[defined] * variance)
    values[defined] = np.log(variance) + df[defined] / N * np.log(ratio)
    return Criterion(df, values)


# ---- the traces of hat matrices ------------------------------------------------------


SPARSE_COST = 16
"""Cost of a stored value in a product of sparse matrices, in values of a dense
matrix."""


class SelectedDesigns:
    """The designs of the selected learners side by side: Z, with D functions."""

    def __init__(self, rows: Sequence[Rows], weights: Floats | None, run: Run) -> None:
        self.designs = [design.csr for design in rows]
        self.weighted = [scale_rows(X, weights).T for X in self.designs]
        ends = np.cumsum([0, *(design.functions for design in rows)]).tolist()
        self.functions = ends[-1]
        self.blocks = [slice(*pair) for pair in pairwise(ends)]
        self.run = run

    def products(self, learner: int, curvature: Floats | None) -> Floats:
        """``Z'WVX`` of a learner, (D, k)."""
        X = scale_rows(self.designs[learner], curvature)
        products = np.empty((self.functions, X.shape[1]))
        is_dense = math.prod(X.shape) <= SPARSE_COST * X.nnz
        if is_dense:
            X = X.toarray()

        def write(some: slice) -> None:
            pairs = zip(self.blocks[some], self.weighted[some], strict=True)
            for block, other in pairs:
                product = other @ X
                products[block] = product if is_dense else product.toarray()

        self.run(write)
        return products


def scale_rows(X: Any, factor: Floats | None) -> Any:
    """A sparse matrix with each row multiplied by a factor."""
    return X if factor is None else X.multiply(factor[:, None]).tocsr()


def degrees_of_freedom(
    rows: Sequence[Rows],
    inverse: Sequence[Floats],
    weights: Floats | None,
    selected: NDArray[Any],
    sizes: NDArray[Any],
    curvatures: Iterator[Floats] | None = None,
) -> Floats:
    """The degrees of freedom after each step, (steps,), on the host.

    Parameters
    ----------
    rows : sequence of K Rows
        The designs of the selected learners.
    inverse : sequence of K arrays, (k, k)
        The coefficients of a fit to u are ``inverse X'Wu``.
    weights : (n,) array or None
    selected : (steps,) integer array
    sizes : (steps,) array
        The factor nu of each step.
    curvatures : iterator of (n,) arrays, optional
        The diagonal of V at the model after each step; the identity by default.

    Notes
    -----
    After m steps the fitted values are ``B_m y``, with ``B_m = B_(m-1) + nu V H (I
    - B_(m-1))`` and ``B_0 = 0``. ``H = X A X'W`` is the hat matrix of the learner
    selected by step m, and V the diagonal matrix of the curvatures of the loss at
    the model after that step; it is the identity for the Gaussian family. The
    degrees of freedom are tr B_m.

    B_m is n x n, but it is not needed. Let Z be the designs of all selected
    learners side by side, with D functions. A step reads only ``X'W B_(m-1)``, some
    of the rows of ``Z'W B_(m-1) = U_(m-1) Z'W``, where U_(m-1) is D x D. Let E be
    the rows of the D x D identity with ``E Z'W = X'W``. A step adds ``nu V X R
    Z'W`` to the hat matrix, with ``R = A (E - E U_(m-1))``; hence ``nu Z'WVX R`` to
    U, and ``nu tr(R Z'WVX)`` to the trace.

    With D functions of the selected learners, the memory is D x D numbers and Z; a step
    takes 2 D^2 k operations and, unless V is the identity, a pass over Z.
    """
    with workers(len(rows), len(rows[0])) as run:
        designs = SelectedDesigns(rows, weights, run)
        constant = cache(lambda j: designs.products(j, None))
        U = np.zeros((designs.functions, designs.functions))
        increments = []
        for j, size in zip(selected.tolist(), sizes.tolist(), strict=True):
            if curvatures is None:
                products = constant(j)
            else:
                products = designs.products(j, next(curvatures))
            R = -inverse[j] @ U[designs.blocks[j]]
            R[:, designs.blocks[j]] += inverse[j]
            U += size * products @ R
            increments.append(size * float((R * products.T).sum()))
    return np.cumsum(increments)
