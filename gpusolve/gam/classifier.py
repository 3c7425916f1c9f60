"""The boosted additive model as a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, as_array, namespace, on_host
from .._device.kernels import current_device
from . import _inputs
from ._model import AdditiveModel
from .families import family_of


class BoostedGAMClassifier(AdditiveModel):
    r"""A classifier whose log odds are a sum of effects, fitted by boosting.

    With two classes the model is ``BoostedGAM(family="binomial")`` for the second one.
    With more, each class has a model against the rest; all are fitted as one batch, and
    the probabilities are divided by their sum.

    Parameters
    ----------
    learners, n_basis, degree, penalty, penalty_order, df, df_definition, \
    learning_rate, max_iter, method, device, outside, missing, unknown, \
    early_stopping, validation_fraction, n_iter_no_change, random_state, warm_start
        As for `BoostedGAM`.
    family : {None, "binomial"} or Binomial, optional
        None is ``Binomial()``.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The classes, sorted.
    n_classes_ : int
    coef_, intercept_, risk_, selected_
        As for `BoostedGAM`; with several classes, one row of each for every class.
    paths_ : list of Path
        The steps of the model of the second class, or of those of all classes.

    See Also
    --------
    BoostedGAM : All other attributes and methods.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAMClassifier
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> y = np.where(np.sin(6 * X[:, 0]) > 0, "up", "down")
    >>> model = BoostedGAMClassifier(max_iter=200).fit(X, y)
    >>> model.predict([[0.2, 0.5], [0.8, 0.5]])
    array(['up', 'down'], dtype='<U4')
    >>> model.score(X, y) > 0.98
    True
    """

    default_family = "binomial"
    estimator_type = "classifier"

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None
    ) -> BoostedGAMClassifier:
        """Fit the model.

        Parameters
        ----------
        X, sample_weight, offset
            As for `BoostedGAM.fit`.
        y : (n,) array_like
            The classes: numbers or strings.

        Returns
        -------
        BoostedGAMClassifier
            The estimator itself.

        Raises
        ------
        TypeError, ValueError
            As `BoostedGAM.fit` does; and if y has fewer than two classes.
        """
        self._check_parameters()
        family = family_of(self.family or self.default_family)
        if family.name != "binomial":
            raise ValueError(f"family must be binomial, got {self.family!r}")
        data = self._training(X, None, sample_weight, offset)
        with data.frame.current():
            labels = _inputs.labels(y, data.frame.rows)
            if data.weights is not None:
                present = labels[on_host(data.weights) > 0]
            else:
                present = labels
            classes = np.unique(present)
            if len(classes) < 2:
                raise ValueError(
                    "y must have at least 2 classes: the classifier cannot be fitted "
                    f"to the only one class {classes.tolist()}"
                )
            xp = namespace(data.frame.like)
            targets = (labels == classes[:, None]).astype(np.float64)
            y = xp.asarray(targets if len(classes) > 2 else targets[1])
            self.classes_ = classes
            self.n_classes_ = len(classes)
            self._fit(X, replace(data, y=y), family)
        return self

    def decision_function(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> Array:
        """The additive predictors: (n,) for two classes, else (n, n_classes)."""
        frame = self._covariates(X)
        iteration = self._iteration(iteration)
        offset = self._offset(X, offset)
        with frame.current():
            found = [
                self._link(frame, iteration, offset, fit)
                for fit in range(len(self.paths_))
            ]
            return found[0] if len(found) == 1 else namespace(found[0]).stack(found, 1)

    def predict_proba(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> Array:
        """The probabilities of the classes, (n, n_classes), on the device of `X`."""
        f = self.decision_function(X, iteration=iteration, offset=offset)
        xp = namespace(f)
        with current_device(f):
            p = self.family_.response(f)
            if p.ndim == 1:
                return xp.stack([1 - p, p], axis=1)
            total = p.sum(axis=1, keepdims=True)
            return xp.where(total > 0, p / xp.where(total > 0, total, 1), 1 / len(p.T))

    def predict_log_proba(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> Array:
        """The logarithms of the probabilities of the classes, (n, n_classes)."""
        p = self.predict_proba(X, iteration=iteration, offset=offset)
        with current_device(p), np.errstate(divide="ignore"):
            return namespace(p).log(p)

    def predict(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> NDArray[Any]:
        """The most probable class of each row, (n,), on the host.

        With two classes it is the second one where its log odds are positive.
        """
        f = on_host(self.decision_function(X, iteration=iteration, offset=offset))
        best = (f > 0).astype(np.intp) if f.ndim == 1 else f.argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """The predictions after each iteration, from the first to the last."""
        self._covariates(X)
        return (self.predict(X, iteration=step) for step in range(1, self.n_iter_ + 1))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted, weighted."""
        right = self.predict(X) == _inputs.labels(y, None)
        weights = (
            None if sample_weight is None else on_host(as_array(sample_weight, ""))
        )
        return float(np.average(right, weights=weights))
