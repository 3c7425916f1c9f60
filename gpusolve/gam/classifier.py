"""The boosted additive model as a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from .._device.kernels import current_device
from ._data import inputs
from ._data.conventions import UNCHANGED
from ._families.classes import ClassFamily
from ._model.fitted import typed_by_device
from ._model.model import AdditiveModel
from ._model.specification import check_parameters
from ._terms.frame import categorical_of, listed
from .families import family_of


def classes_of(y: Any, labels: NDArray[Any], family: ClassFamily) -> NDArray[Any]:
    """The different labels: in the order of a categorical, or sorted.

    y is the response as it was given. ValueError for text without an order if the order
    has a meaning.
    """
    classes, given = np.unique(labels), categorical_of(y, "y")
    is_text = classes.dtype.kind not in "biuf"
    if family.is_ordered and is_text and (given is None or not given.ordered):
        found = listed(tuple(classes.tolist()))
        raise ValueError(
            f"y of the {family.name} family must have an order: numbers, or an ordered "
            "categorical, such as pandas.Categorical(y, ['low', 'high'], ordered=True) "
            f"or polars.Enum; got text without an order: {found}"
        )
    if given is None:
        return classes
    places = {level: place for place, level in enumerate(given.levels)}
    return np.asarray(sorted(classes.tolist(), key=places.__getitem__), classes.dtype)


class BoostedGAMClassifier(AdditiveModel):
    """A classifier whose log odds are a sum of effects, fitted by boosting.

    With two classes the model is ``BoostedGAM(family="binomial")`` for the second
    class. With more, each class has a model against the rest; all are fitted as one
    batch, and the probabilities are divided by their sum. ``family="multinomial"`` fits
    a single model of all classes: its probabilities add up to 1, each iteration updates
    the effects of a learner on all classes, and these effects add up to 0.

    Parameters
    ----------
    learners, n_basis, degree, penalty, penalty_order, df, df_definition
        As for `BoostedGAM`.
    learning_rate, step_rule, max_iter, method, callback, progress, device, outside
        As for `BoostedGAM`.
    missing, unknown
        As for `BoostedGAM`.
    interactions : int or "auto", optional
        As for `BoostedGAM`; the scores of all classes are added.
    early_stopping, validation_fraction, n_iter_no_change, random_state, warm_start
        As for `BoostedGAM`.
    family : {None, "binomial", "multinomial", "prop_odds"} or object, optional
        None is ``Binomial()``: with several classes, a model of each class against the
        rest. ``families.Multinomial`` is a single model of all classes;
        ``families.PropOdds``, for ordered classes, a single model whose effects shift
        the odds of all higher classes.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The classes, sorted; in the order of the categories if y is a categorical of
        pandas, or ordered categories of polars or pyarrow.
    n_classes_ : int
    coefficients_, intercept_, risk_, selected_
        As for `BoostedGAM`; with several classes, a row for every class, but a
        multinomial model has one risk.
    paths_ : list of Path
        The steps of the model of the second class, or of the models of all classes.

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
    family_: ClassFamily
    metadata = AdditiveModel.metadata | dict.fromkeys(
        ("predict_proba", "predict_log_proba", "decision_function"), ("offset",)
    )

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> BoostedGAMClassifier:
        """Fit the model.

        Parameters
        ----------
        X, sample_weight, offset
            As for `BoostedGAM.fit`; a multinomial model has no offset.
        y : (n,) array_like
            The classes: numbers or strings. Strings have no order: for
            `families.PropOdds`, give an ordered categorical.

        Returns
        -------
        BoostedGAMClassifier
            The estimator itself.

        Raises
        ------
        TypeError, ValueError
            As `BoostedGAM.fit` does; and if y has fewer than two classes.
        """
        check_parameters(self)
        family = family_of(self.family or self.default_family)
        if not isinstance(family, ClassFamily):
            raise ValueError(
                "family must be binomial, multinomial or prop_odds, got "
                f"{self.family!r}"
            )
        if family.predictors > 1 and offset is not None:
            raise ValueError(
                "offset must be None for a multinomial model, whose probabilities do "
                "not change if a number is added for all classes"
            )
        data = self._training(X, y, sample_weight, offset)
        with data.frame.current():
            labels, w = inputs.labels(data.y, data.frame.rows), data.weights
            kept = labels if w is None else labels[on_host(w) > 0]
            classes = classes_of(data.y, kept, family)
            if len(classes) < 2:
                raise ValueError(
                    "y must have at least 2 classes: the classifier cannot be fitted "
                    f"to the only one class {classes.tolist()}"
                )
            codes = (labels == classes[:, None]).argmax(axis=0)
            family = family.for_classes(len(classes))
            targets = family.responses(codes, len(classes))
            y = namespace(data.frame.like).asarray(targets)
            self.classes_ = classes
            self.n_classes_: int = len(classes)
            self._fit(X, replace(data, y=y), family)
        return self

    @typed_by_device
    def decision_function(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> Array:
        """The additive predictors, without the link.

        Parameters
        ----------
        X, iteration, offset
            As for `BoostedGAM.predict`.

        Returns
        -------
        (n,) or (n, n_classes) float64 array
            Of the second of two classes, or of each of several; on the device of `X`.
        """
        links = self._links(X, iteration, offset)
        if len(links) == 1:
            return links[0]
        return links.T if len(links) > 2 else links[1] - links[0]

    def set_decision_function_request(self, *, offset: Any = UNCHANGED) -> Self:
        """Set whether meta-estimators pass offsets to `decision_function`."""
        return self._request("decision_function", offset=offset)

    def set_predict_proba_request(self, *, offset: Any = UNCHANGED) -> Self:
        """Set whether meta-estimators pass offsets to `predict_proba`."""
        return self._request("predict_proba", offset=offset)

    def set_predict_log_proba_request(self, *, offset: Any = UNCHANGED) -> Self:
        """Set whether meta-estimators pass offsets to `predict_log_proba`."""
        return self._request("predict_log_proba", offset=offset)

    @typed_by_device
    def predict_log_proba(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> Array:
        """The logarithms of the probabilities of the classes.

        Parameters
        ----------
        X, iteration, offset
            As for `BoostedGAM.predict`.

        Returns
        -------
        (n, n_classes) float64 array
            On the device of `X`. They are finite, also where probabilities underflow.
        """
        return self._log_probabilities(self._links(X, iteration, offset), iteration)

    def _log_probabilities(self, links: Array, iteration: int | None) -> Array:
        """The logarithms of the probabilities, from the predictors (F, n)."""
        with current_device(links):
            s = self._parameters(links, iteration)
            return self.family_.log_probabilities(links, s)

    def _parameters(self, links: Array, iteration: int | None) -> Array:
        """The adaptive parameters of all fits, on the device of the predictors."""
        return namespace(links).asarray(np.array(self._nuisance(iteration)))

    @typed_by_device
    def predict_proba(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> Array:
        """The probabilities of the classes.

        Parameters
        ----------
        X, iteration, offset
            As for `BoostedGAM.predict`.

        Returns
        -------
        (n, n_classes) float64 array
            On the device of `X`.
        """
        return self._probabilities(self._links(X, iteration, offset), iteration)

    def _probabilities(self, links: Array, iteration: int | None) -> Array:
        """The probabilities of the classes, from the predictors (F, n)."""
        with current_device(links):
            return namespace(links).exp(self._log_probabilities(links, iteration))

    def predict(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> NDArray[Any]:
        """The most probable class of each row.

        Parameters
        ----------
        X, iteration, offset
            As for `BoostedGAM.predict`.

        Returns
        -------
        (n,) array
            On the host. Of two classes, it is the second where its odds are above 1.
        """
        return self._class_of(self._links(X, iteration, offset), iteration)

    def _class_of(self, links: Array, iteration: int | None) -> NDArray[Any]:
        """The most probable class of each row, (n,), from the predictors (F, n)."""
        with current_device(links):
            s = self._parameters(links, iteration)
            best = self.family_.most_probable(links, s)
        found: NDArray[Any] = self.classes_[best]
        return found

    def staged_predict(self, X: Any, *, offset: Any = None) -> Iterator[NDArray[Any]]:
        """Predict the class after each iteration, from the first to the last.

        Parameters
        ----------
        X, offset
            As for `BoostedGAM.predict`.

        Yields
        ------
        (n,) array
            On the host.
        """
        stages = enumerate(self._stages(X, offset), 1)
        return (self._class_of(links, step) for step, links in stages)

    def staged_predict_proba(self, X: Any, *, offset: Any = None) -> Iterator[Array]:
        """The probabilities of the classes after each iteration.

        Parameters
        ----------
        X, offset
            As for `BoostedGAM.predict`.

        Yields
        ------
        (n, n_classes) float64 array
            On the device of `X`.
        """
        stages = enumerate(self._stages(X, offset), 1)
        return (self._probabilities(links, step) for step, links in stages)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None
    ) -> float:
        """The share of rows whose class is predicted, weighted.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
        y : (n,) array_like
            The classes.
        sample_weight : (n,) array_like, optional
            Not negative, and not all of it zero.
        offset : float or (n,) array_like, optional
            As for `predict`.
        """
        predicted = self.predict(X, offset=offset)
        right = predicted == inputs.labels(y, len(predicted))
        weights = inputs.observation_weights(sample_weight, right)
        return float(np.average(right, weights=weights))
