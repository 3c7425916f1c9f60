"""A fitted additive model: its predictions, and the effects that they consist of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import (
    Any,
    ClassVar,
    Concatenate,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    cast,
    overload,
)

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, CudaArray, as_array, namespace
from ..._device.frames import named_columns
from ..._device.kernels import current_device
from ..._device.launch import pieces
from .._boosting.path import Path
from .._data import inputs
from .._data.conventions import Estimator, check_choice, check_integer
from .._data.inputs import (
    check_dense,
)
from .._families.family import Family
from .._terms.frame import Frame, Level, Name
from .._terms.rows import Rows
from .._terms.term import Term, unique_names
from .specification import bind_learners

BLOCK = 2**18
"""The most rows whose designs are computed at once in a prediction."""

CudaColumns: TypeAlias = CudaArray | Mapping[Any, CudaArray]
"""Data that may be on a CUDA device; predictions then have no known type."""

P = ParamSpec("P")


class TypedByDevice(Protocol[P]):
    """A method of `X` and other arguments: the type of the result depends on `X`."""

    @overload
    def __call__(self, X: CudaColumns, *args: P.args, **options: P.kwargs) -> Any: ...
    @overload
    def __call__(
        self, X: Any, *args: P.args, **options: P.kwargs
    ) -> NDArray[np.float64]: ...


def typed_by_device(
    method: Callable[Concatenate[Any, Any, P], Any],
) -> TypedByDevice[P]:
    """The method itself: it returns a NumPy array unless `X` may be on a GPU."""
    return cast("TypedByDevice[P]", method)


class FittedModel(Estimator):
    """The predictions and effects of a model; see `BoostedGAM` for the attributes."""

    default_family: ClassVar[str]
    learners: Any
    learning_rate: float
    outside: str
    missing: str
    unknown: str
    coefficients_: NDArray[np.float64]
    columns_: list[Name]
    interactions_: list[tuple[Name, ...]]
    intercept_: NDArray[np.float64] | float
    method_: str
    family_: Family
    formula_: Any = None
    has_offset_: bool = False
    lambda_: NDArray[np.float64]
    n_iter_: int
    n_rows_: int
    paths_: list[Path]
    risk_: NDArray[np.float64]
    rug_: dict[Name, NDArray[Any]]
    level_counts_: dict[Name, dict[Level, int]]
    selected_: NDArray[np.int32]
    terms_: list[Term]
    validation_risk_: NDArray[np.float64]

    # ---- the iterations --------------------------------------------------------------

    def _keep_paths(self, paths: list[Path]) -> None:
        """Store the steps, and the attributes that follow from them."""
        join: Any = np.stack if len(paths) > 1 else itemgetter(0)
        self.paths_ = paths
        self.n_iter_ = len(paths[0])
        self.method_ = paths[0].method
        coef = [self._columns(path.coef(len(self.terms_))) for path in paths]
        self.coefficients_ = join(coef)
        is_coupled = self.family_.predictors > 1
        self.risk_ = paths[0].risk if is_coupled else join([p.risk for p in paths])
        self.selected_ = join([path.selected for path in paths])
        self.intercept_ = join([path.offset for path in paths])

    def stop_at(self, iteration: int) -> Self:
        """Keep the first iterations only: the model that was fitted by then.

        Parameters
        ----------
        iteration : int
            From 0 to ``n_iter_``.

        Returns
        -------
        The model itself.
        """
        iteration = self._iteration(iteration)
        self._keep_paths([path.until(iteration) for path in self.paths_])
        return self

    def _iteration(self, iteration: int | None) -> int:
        """The number of iterations to use; all by default."""
        self._check_is_fitted()
        if iteration is None:
            return self.n_iter_
        check_integer("iteration", iteration)
        if not 0 <= iteration <= self.n_iter_:
            raise ValueError(f"iteration must be 0 to {self.n_iter_}, got {iteration}")
        return int(iteration)

    def _intercepts(self) -> NDArray[np.float64]:
        return np.array([path.offset for path in self.paths_])

    def _nuisance(self, iteration: int | None) -> list[Any]:
        """The adaptive parameter of each fit after the iteration; 0 without it."""
        step = self._iteration(iteration)
        return [
            0.0 if path.nuisance is None else path.nuisance[step]
            for path in self.paths_
        ]

    def _columns(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coefficients of the columns, from (K, k) coefficients of functions."""
        found = [
            term.column_coefficients(row[: term.functions])
            for term, row in zip(self.terms_, coef, strict=True)
        ]
        padded = np.zeros((len(coef), max(map(len, found))))
        for row, own in zip(padded, found, strict=True):
            row[: len(own)] = own
        return padded

    def __getstate__(self) -> dict[str, Any]:
        """The attributes without the training data, which a pickle does not keep."""
        return {name: value for name, value in vars(self).items() if name != "_data"}

    # ---- reading ---------------------------------------------------------------------

    def _bind(self) -> list[Term]:
        """The given learners, which know their covariates."""
        return bind_learners(self.learners)

    def _frame(self, X: Any, device: str = "auto") -> Frame:
        """The columns of `X` that the learners read; all columns without learners."""
        check_dense(X, "X")
        X = self._columns_of(X)
        if self.learners is None:
            return Frame.of(X, device)
        read = [name for term in self._bind() for name in term.columns]
        return Frame.of(X, device, read)

    def _columns_of(self, X: Any) -> Any:
        """The columns that the formula computes from `X`; `X` without a formula."""
        X = named_columns(X)
        return X if self.formula_ is None else self.formula_.columns(X)

    def _covariates(self, X: Any) -> Frame:
        """The columns for a prediction, with the features of the fit."""
        self._check_is_fitted()
        if self.learners is not None:
            return self._frame(X)
        names = unique_names(name for term in self.terms_ for name in term.columns)
        X = named_columns(X)
        if isinstance(X, Mapping):
            return Frame.of(X, "auto", names)
        columns = self._frame(X).columns
        self._check_features(X, len(columns))
        return Frame(dict(zip(names, columns.values(), strict=True)))

    # ---- predictions -----------------------------------------------------------------

    def _links(self, X: Any, iteration: int | None, offset: Any) -> Array:
        """The additive predictors of all fits, (F, n) on the device of `X`."""
        frame = self._covariates(X)
        coef = self._coefficients(iteration)
        with frame.current():
            return self._add_effects(self._start(X, frame, offset), frame, coef)

    def _add_effects(self, f: Array, frame: Frame, coef: NDArray[np.float64]) -> Array:
        """The predictors f, (F, n), to which the effects of all learners are added."""
        for some, learner, design in self._designs(frame, coef):
            for fit, own in enumerate(coef[:, learner]):
                f[fit, some] += multiply_rows(design, own)
        return f

    def _designs(
        self, frame: Frame, coef: NDArray[np.float64]
    ) -> Iterator[tuple[slice, int, Rows]]:
        """The designs of learners with coefficients, for a block of rows at a time."""
        used = np.flatnonzero(coef.any(axis=(0, 2))).tolist()
        for some in pieces(frame.rows, BLOCK):
            block = frame.take(some)
            for learner in used:
                yield some, learner, self._design(learner, block)

    def _coefficients(self, iteration: int | None) -> NDArray[np.float64]:
        """The coefficients of the functions of all learners, (F, K, k)."""
        step = self._iteration(iteration)
        return np.stack([path.coef(len(self.terms_), step) for path in self.paths_])

    def _start(self, X: Any, frame: Frame, offset: Any) -> Array:
        """The additive predictors before the first iteration, (F, n)."""
        xp = namespace(frame.like)
        start = xp.asarray(self._intercepts())[:, None]
        f = xp.zeros((len(start), frame.rows)) + start
        added = self._offset(X, frame, offset)
        return f if added is None else f + added

    def _offset(self, X: Any, frame: Frame, offset: Any) -> Array | None:
        """The given offset, or the formula's: (n,), a number, or None.

        Warns if the rows of the fit had offsets, and these rows have none.
        """
        if offset is None:
            offset = self._own_offset(X)
            if offset is None and self.has_offset_:
                warnings.warn(
                    "offset is not given, although the model was fitted with a number "
                    "for each row; 0 is added, as by offset=0",
                    stacklevel=4,
                )
        return self._read_offset(offset, frame.like)

    def _read_offset(self, offset: Any, like: Array) -> Any:
        """A given offset on the device of `like`."""
        return inputs.start_of(offset, like)

    def _own_offset(self, X: Any) -> Any:
        """The offset of the formula, or None."""
        return None if self.formula_ is None else self.formula_.offset(named_columns(X))

    def _stages(self, X: Any, offset: Any) -> Iterator[Array]:
        """The additive predictors after each iteration, (F, n).

        Errors of `X` are raised at once.
        """
        frame = self._covariates(X)
        selected = np.array([path.selected for path in self.paths_])
        learners = np.unique(selected[selected >= 0]).tolist()
        with frame.current():
            designs = {j: self._design(j, frame) for j in learners}
            f = self._start(X, frame, offset)
        return self._advance(f, designs)

    def _advance(self, f: Array, designs: dict[int, Rows]) -> Iterator[Array]:
        """The predictors after each iteration, from the predictors before the first."""
        for step in range(self.n_iter_):
            with current_device(f):
                f = f.copy()
                for fit, path in enumerate(self.paths_):
                    learner = int(path.selected[step])
                    if learner >= 0:
                        f[fit] += multiply_rows(designs[learner], path.updates[step])
            yield f

    def _design(self, learner: int, frame: Frame) -> Rows:
        """The design of a learner."""
        return self.terms_[learner].rows(
            frame, outside=self.outside, unknown=self.unknown, missing=self.missing
        )

    # ---- effects ---------------------------------------------------------------------

    @property
    def names_(self) -> list[str]:
        """The names of the learners, as in a formula."""
        self._check_is_fitted()
        return [term.label for term in self.terms_]

    def _fit_names(self) -> list[str]:
        """The names by which `effects` knows the predictors, besides their indices."""
        return [str(label) for label in getattr(self, "classes_", [])]

    def _title(self, fit: int) -> str:
        """What was fitted, for a picture; also the class or the parameter."""
        names = self._fit_names()
        if len(self.paths_) == 1:  # the second of two classes, or no class alone
            fit, names = -1, names if len(names) == 2 else []
        kind = "class " if hasattr(self, "classes_") else ""
        which = f", {kind}{names[fit]}" if names else ""
        return f"{self.family_.name}{which}, {self.n_iter_} steps"

    def _effect_on(self, fit: int) -> str:
        """What the additive predictor of a class or parameter is."""
        return self.family_.effect_on

    def _fit_index(self, fit: int | str) -> int:
        """The index of a predictor, given itself or by its name."""
        names = self._fit_names()
        if isinstance(fit, str):
            check_choice("fit", fit, names)
            return names.index(fit) if len(self.paths_) > 1 else 0
        check_integer("fit", fit)
        if not 0 <= fit < len(self.paths_):
            raise IndexError(f"fit must be 0 to {len(self.paths_) - 1}, got {fit}")
        return int(fit)

    def effects(
        self, X: Any, *, iteration: int | None = None, fit: int | str = 0
    ) -> Array:
        """The effect of every learner on the additive predictor of each row.

        Their sum, the intercept and the offset are the additive predictor.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
        iteration : int, optional
            Use the model after this number of iterations, from 0 to ``n_iter_``.
        fit : int or str, optional
            The class of several, or the parameter of a distribution: its index or name.

        Returns
        -------
        (n, n_learners) float64 array
            On the device of `X`; zeros for learners that were never selected.

        Examples
        --------
        >>> import numpy as np
        >>> from gpusolve.gam import BoostedGAM
        >>> X = np.random.default_rng(0).random((100, 3))
        >>> model = BoostedGAM(max_iter=100).fit(X, np.sin(6 * X[:, 1]))
        >>> effects = model.effects(X)
        >>> np.allclose(model.intercept_ + effects.sum(axis=1), model.predict(X))
        True
        """
        frame = self._covariates(X)
        coef = self._coefficients(iteration)[self._fit_index(fit)]
        with frame.current():
            found = namespace(frame.like).zeros((frame.rows, len(coef)))
            for some, learner, design in self._designs(frame, coef[None]):
                found[some, learner] = multiply_rows(design, coef[learner])
            return found

    def partial_effect(
        self,
        learner: int | str | tuple[Name, ...],
        x: Any,
        *,
        iteration: int | None = None,
        fit: int | str = 0,
    ) -> Array:
        """The effect of a learner on the additive predictor, not centred.

        Parameters
        ----------
        learner : int, str or tuple
            Its index, its name (see `names_`), or its feature or features. The feature
            of a learner of several, or a variable of ``by=``, will do if no other
            learner reads it.
        x : (n,) array_like, or columns as for `fit`
            The values of its feature. If it has several: a data frame, a mapping, or
            a column for each, in the order of the learner.
        iteration : int, optional
            Use the model after this number of iterations, from 0 to ``n_iter_``.
        fit : int or str, optional
            The class of several, or the parameter of a distribution: its index or name.

        Returns
        -------
        (n,) float64 array
            On the device of `x`.

        Raises
        ------
        TypeError
            If `learner` is not an integer, string or tuple.
        IndexError, ValueError
            If the model does not have the learner, or several learners match.

        Examples
        --------
        >>> import numpy as np
        >>> from gpusolve.gam import BoostedGAM, bbs, bols
        >>> x = np.random.default_rng(0).random(100)
        >>> model = BoostedGAM([bols("x"), bbs("x", center=True)])
        >>> model = model.fit({"x": x}, 3 * x + np.sin(6 * x))
        >>> line = model.partial_effect("bols(x)", [0.0, 0.5, 1.0])
        >>> bool(np.isclose(line[2] - line[1], line[1] - line[0]))
        True
        """
        self._check_is_fitted()
        index = self._index_of(learner)
        coef = self._coefficients(iteration)[self._fit_index(fit), index]
        design = self._design_at(index, x)
        with current_device(design.like):
            return multiply_rows(design, coef)

    def _design_at(self, index: int, x: Any) -> Rows:
        """The design of a learner at values of its features, see `partial_effect`."""
        frame = frame_for(self.terms_[index], x)
        with frame.current():
            return self._design(index, frame)

    def _rug_of(self, index: int) -> dict[Name, NDArray[Any]]:
        """Some rows of the training data, of the features of a learner."""
        return {name: self.rug_[name] for name in self.terms_[index].columns}

    def _index_of(self, learner: int | str | tuple[Name, ...]) -> int:
        """The index of a learner: given itself, or by its name or its features."""
        count = len(self.terms_)
        if not isinstance(learner, str | tuple):
            check_integer("learner", learner)
            if not -count <= learner < count:
                raise IndexError(
                    f"learner must be -{count} to {count - 1}, got {learner}"
                )
            return int(learner) % count
        key = learner if isinstance(learner, tuple) else (learner,)
        found: list[int] = []
        for matches in (
            [name == learner for name in self.names_],
            [term.columns == key for term in self.terms_],
            [set(key) <= set(term.columns) for term in self.terms_],
        ):
            found = found or np.flatnonzero(matches).tolist()
        if len(found) == 1:
            return found[0]
        choices = [self.names_[j] for j in found] or self.names_
        raise ValueError(f"learner must be one of {choices}, got {learner!r}")


def multiply_rows(design: Rows, coef: NDArray[np.float64]) -> Array:
    """The product with coefficients on the host, padded with zeros: (n,)."""
    xp = namespace(design.like)
    return design.multiply(xp.asarray(coef[: design.functions]))


def frame_for(term: Term, x: Any) -> Frame:
    """The columns of a term, given as for `fit`, or by position.

    Raises
    ------
    ValueError
        If an array does not have a column for each column of the term.
    """
    names, x = term.columns, named_columns(x)
    if isinstance(x, Mapping | Frame) or hasattr(x, "columns"):
        return Frame.of(x, "auto", names)
    values = as_array(x, "x")
    if len(names) == 1 and values.ndim == 1:
        return Frame.of({names[0]: x})
    if len(names) == 1 or values.ndim != 2 or values.shape[1] != len(names):
        shape = "(n,)" if len(names) == 1 else f"(n, {len(names)})"
        raise ValueError(f"x must have shape {shape}, got {values.shape}")
    return Frame.of({name: values[:, j] for j, name in enumerate(names)})
