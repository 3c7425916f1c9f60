"""Folds: the weights of the rows in the fit, and of the rows left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import namespace, on_host
from ..._device.kernels import current
from ..._device.threads import part_of_batch
from .._data.conventions import check_choice, generator
from .._data.inputs import whole_or_scaled
from .._families.family import Family
from .batch import Fits, Settings, Training, make_fits
from .problem import Designs

Floats = NDArray[np.float64]

COUNTS = {"bootstrap": 25, "kfold": 10, "subsampling": 25}
"""The kinds of random folds, and their default numbers."""

KINDS = tuple(COUNTS)


class Folds(NamedTuple):
    """The weights of B folds.

    Attributes
    ----------
    weights : (B, n) array
        The weights of the rows in the fit, which include the weights of the data.
    out_of_bag : (B, n) array
        The weights of the data for the rows that are left out, zero for all other rows.
    """

    weights: Floats
    out_of_bag: Floats

    def some(self, which: Any) -> Folds:
        """Some of the folds."""
        return Folds(self.weights[which], self.out_of_bag[which])

    def counting(self, rows: NDArray[np.bool_]) -> Folds:
        """The folds, where only some of the rows left out count.

        All of them count if a fold would lose more than half of the weight.

        Examples
        --------
        >>> folds = Folds(np.eye(2, 4), 1 - np.eye(2, 4))
        >>> folds.counting(np.array([True, True, True, False])).out_of_bag
        array([[0., 1., 1., 0.],
               [1., 0., 1., 0.]])
        """
        out_of_bag = self.out_of_bag * rows
        lost = self.out_of_bag.sum(axis=1) - out_of_bag.sum(axis=1)
        most = self.out_of_bag.sum(axis=1) / 2
        return self if (lost > most).any() else Folds(self.weights, out_of_bag)


def make_folds(
    folds: Any, weights: Floats, y: Any, count: int | None, random_state: Any
) -> Folds:
    """Folds of the n rows whose weight is not 0; arguments as for `cv_stop`.

    The weights and the response y are of all rows of X, as are indices, masks and
    weights of folds; y is for splitters that stratify. ValueError if the folds are
    unknown, or a fold has no row in or out of the bag.
    """
    kept = weights > 0
    if isinstance(folds, str):
        made = named_folds(folds, weights[kept], count, generator(random_state))
    elif hasattr(folds, "split"):
        made = split_folds(folds.split(np.zeros((len(weights), 1)), y), weights)
    elif hasattr(folds, "__array__"):
        made = given_folds(np.asarray(folds, np.float64), weights)
    elif isinstance(folds, Iterable):
        made = split_folds(folds, weights)
    else:
        raise ValueError(
            f"folds must be one of {KINDS}, weights (n, B), a splitter or pairs of "
            f"indices, got {folds!r}"
        )
    if not isinstance(folds, str):
        made = Folds(*(some[:, kept] for some in made))
    for name, some in made._asdict().items():
        empty = np.flatnonzero(some.sum(axis=1) == 0)
        if len(empty):
            raise ValueError(
                f"every fold must have rows in and out of the bag; {name} of fold "
                f"{empty[0]} are all zero"
            )
    return Folds(np.stack([whole_or_scaled(w) for w in made.weights]), made.out_of_bag)


def check_folds(folds: Folds, data: Training, family: Family) -> None:
    """ValueError unless the family can be fitted and compared in each fold."""
    lacking = np.flatnonzero(~sufficient(folds, data, family))
    if len(lacking):
        raise ValueError(
            f"every fold must have {family.needs} for the {family.name} family, but "
            f"fold {lacking[0]} does not: take fewer folds, or folds that stratify y, "
            "or give the number of iterations"
        )


def sufficient(folds: Folds, data: Training, family: Family) -> NDArray[np.bool_]:
    """Whether the family can be fitted and compared in each fold, (B,)."""
    y = on_host(data.y)
    return np.array(
        [
            family.suffices(y[..., inside > 0], True)
            and family.suffices(y[..., outside > 0], False)
            for inside, outside in zip(*folds, strict=True)
        ]
    )


def named_folds(
    kind: str, weights: Floats, count: int | None, rng: np.random.Generator
) -> Folds:
    """Random folds, by mboost's definitions.

    A bootstrap sample has n rows, drawn with the weights as probabilities. k-fold
    leaves out ``n // k`` rows in each fold, and all remaining rows in the last fold;
    subsampling leaves out half of the rows.
    """
    check_choice("folds", kind, KINDS)
    count = COUNTS[kind] if count is None else count
    rows = len(weights)
    if not count >= 1 or (kind == "kfold" and not 2 <= count <= rows):
        raise ValueError(
            f"n_folds must be at least {1 if kind != 'kfold' else 2}, and at most the "
            f"number of rows for k-fold, got {count}"
        )
    if kind == "bootstrap":
        drawn = rng.multinomial(rows, weights / weights.sum(), size=count)
        return given_folds(drawn.T.astype(np.float64), weights)
    if kind == "kfold":
        fold = np.minimum(np.arange(rows) // (rows // count), count - 1)
        inside = rng.permutation(fold)[:, None] != np.arange(count)
    else:
        inside = np.zeros((rows, count), bool)
        for j in range(count):
            inside[rng.permutation(rows)[: rows // 2], j] = True
    return given_folds(inside * weights[:, None], weights)


def given_folds(matrix: Floats, weights: Floats) -> Folds:
    """Folds from a matrix of weights, (n, B), which replace the weights of the data."""
    if matrix.ndim != 2 or len(matrix) != len(weights):
        raise ValueError(
            f"folds must have shape ({len(weights)}, B), for the rows of X, got "
            f"{matrix.shape}"
        )
    if not (np.isfinite(matrix) & (matrix >= 0)).all():
        raise ValueError("folds must be finite and not negative")
    out = np.where(matrix == 0, weights[:, None], 0.0)
    return Folds(np.ascontiguousarray(matrix.T), np.ascontiguousarray(out.T))


def split_folds(pairs: Iterable[Any], weights: Floats) -> Folds:
    """Folds from pairs of the indices of training rows and test rows."""
    inside, outside = [], []
    for train, test in pairs:
        inside.append(counts_of(train, len(weights)) * weights)
        outside.append(counts_of(test, len(weights)) * weights)
    if not inside:
        raise ValueError("folds must have at least one fold, got none")
    return Folds(np.stack(inside), np.stack(outside))


def counts_of(some: Any, rows: int) -> NDArray[np.intp]:
    """How often an array of indices, or a mask, has each row."""
    index = np.asarray(some)
    if index.dtype == bool and index.shape == (rows,):
        index = np.flatnonzero(index)
    is_index = index.ndim == 1 and (index.dtype.kind in "iu" or not len(index))
    if not is_index or (len(index) and not 0 <= index.min() <= index.max() < rows):
        raise ValueError(
            f"folds must have indices from 0 to {rows - 1} or masks of the {rows} rows "
            f"of X, got {some!r:.60}"
        )
    return np.bincount(index.astype(np.intp), minlength=rows)


def deal_folds(y: Any, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The fold of each row, so that all folds have nearly the same distribution of y.

    Of `count` rows that are neighbours in the order of y, each fold gets a random row.

    Examples
    --------
    >>> y = np.array([1.0, 9.0, 2.0, 7.0, 8.0, 3.0])
    >>> fold = deal_folds(y, 2, np.random.default_rng(0))
    >>> fold[0] != fold[2] and fold[5] != fold[3] and fold[4] != fold[1]
    np.True_
    """
    order = np.lexsort([rng.random(len(y)), y])
    blocks = -(-len(y) // count)
    dealt = rng.permuted(np.tile(np.arange(count), (blocks, 1)), axis=1)
    fold = np.empty(len(y), np.intp)
    fold[order] = dealt.reshape(-1)[: len(y)]
    return fold


def fits_of_folds(
    settings: Settings, data: Training, folds: Folds, designs: Designs | None = None
) -> Fits:
    """All folds as a batch; all responses of a fold, if there are several."""
    xp = namespace(data.y)
    weights, out_of_bag = map(xp.asarray, folds)
    if data.y.ndim == 2:
        several = len(data.y)
        data = replace(data, y=xp.tile(data.y, (len(weights), 1)))
        weights = xp.repeat(weights, several, axis=0)
        out_of_bag = xp.repeat(out_of_bag, several, axis=0)
    return make_fits(settings, data, weights, out_of_bag, designs)


def fits_in_batches(
    settings: Settings, data: Training, folds: Folds
) -> Iterator[tuple[Folds, Fits]]:
    """The folds in batches whose matrices need little memory."""
    designs = settings.designs(data)
    for some in designs.batches(len(folds.weights)):
        part = folds.some(some)
        yield part, fits_of_folds(settings, data, part, designs)


def mean_losses(risks: Floats, folds: Folds) -> Floats:
    """The mean loss of the rows left out of each fold, from the risks of all fits.

    The risks are (F, steps + 1), the result is (B, steps + 1): the responses of a fold
    are added.
    """
    total = by_fold(risks, len(folds.weights)).sum(axis=1)
    return np.asarray(total / folds.out_of_bag.sum(axis=1)[:, None])


def by_fold(values: NDArray[np.float64], folds: int) -> NDArray[np.float64]:
    """The values of all fits, (F, ...), as (folds, responses, ...)."""
    return values.reshape(folds, -1, *values.shape[1:])


# ---- as tasks of Dask ----------------------------------------------------------------


Fit = Callable[[Training, Settings, Any, int], NDArray[Any]]
"""Fits some weights for a number of steps; the result has a row for each fit."""


def fit_tasks(
    client: Any,
    fit: Fit,
    data: Training,
    settings: Settings,
    parts: Iterable[Any],
    steps: int,
) -> NDArray[Any]:
    """The results for all parts of the weights; the data are sent to a worker once.

    Parameters
    ----------
    client : distributed.Client
    parts : iterable
        The weights of each task, as `fit` takes them.
    """
    (shared,) = client.scatter([(fit, data, settings, steps)], broadcast=True)
    futures = client.map(fit_task, list(parts), shared=shared, pure=False)
    return np.concatenate(client.gather(futures))


def fit_task(part: Any, shared: tuple[Fit, Training, Settings, int]) -> NDArray[Any]:
    """Fit on a single core, or on the worker's own GPU."""
    fit, data, settings, steps = shared
    with part_of_batch(cores=1), current(data.device):
        return fit(data, settings, part, steps)
