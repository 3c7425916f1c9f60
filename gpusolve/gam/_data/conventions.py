"""scikit-learn's conventions for estimators, which work without scikit-learn."""

from __future__ import annotations

import importlib
import inspect
import math
import warnings
from collections.abc import Callable, Collection
from numbers import Integral, Real
from types import MethodType
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np

from .inputs import difference_of_names, feature_names, from_sklearn

Method = TypeVar("Method", bound=Callable[..., Any])

UNCHANGED = "$UNCHANGED$"
"""scikit-learn's value for a request that is not changed."""


class NotFittedError(ValueError, AttributeError):
    """The model is not fitted. Used if scikit-learn, which has its own, is missing."""


def check_integer(name: str, value: object) -> None:
    """TypeError for a parameter that is not an integer, such as 24.0, True or None."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")


def check_number(name: str, value: object) -> None:
    """TypeError for a parameter that is not a real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")


def check_choice(name: str, value: object, allowed: Collection[object]) -> None:
    """ValueError for a parameter that is not one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {allowed}, got {value!r}")


def check_between(name: str, value: float, lower: float, upper: float) -> None:
    """ValueError unless a number is greater than `lower` and less than `upper`."""
    if not lower < value < upper:
        limits = f"between {lower} and {upper}"
        if (lower, upper) == (0, math.inf):
            limits = "positive and finite"
        raise ValueError(f"{name} must be {limits}, got {value}")


def check_least(name: str, value: float, least: float) -> None:
    """ValueError for a number that is less than the least value."""
    if not value >= least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def generator(random_state: Any) -> np.random.Generator:
    """A generator from None, a seed, a ``Generator`` or a ``RandomState``."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return np.random.default_rng(random_state)


class AvailableMethod:
    """A method that an object has only if a condition holds for the object."""

    def __init__(
        self, condition: Callable[[Any], bool], method: Callable[..., Any]
    ) -> None:
        self.condition = condition
        self.method = method
        self.__wrapped__ = method  # whose examples are tests
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if instance is None:
            return self.method
        if not self.condition(instance):
            raise AttributeError(
                f"{owner.__name__} has no {self.method.__name__} for its family"
            )
        return MethodType(self.method, instance)


def available_if(condition: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """The decorator of methods that exist if a condition holds, as scikit-learn's."""

    def decorate(method: Method) -> Method:
        return cast("Method", AvailableMethod(condition, method))

    return decorate


class Estimator:
    """An estimator whose parameters are the arguments of ``__init__``.

    Its methods accept values for each row: weights and offsets. A request tells
    scikit-learn's meta-estimators whether to pass the values: True, False, another name
    for them, or None, which makes passing them an error.
    """

    estimator_type = "regressor"
    n_features_in_: int
    feature_names_in_: Any

    @classmethod
    def _parameter_names(cls) -> list[str]:
        parameters = inspect.signature(cls.__init__).parameters
        return sorted(name for name in parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name. `deep` has no effect: none is an estimator."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ValueError for an unknown name."""
        known = self._parameter_names()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. "
                    f"Valid parameters are: {known!r}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name].default and value != defaults[name].default
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """The tags by which scikit-learn recognises what the estimator predicts."""
        utils = importlib.import_module("sklearn.utils")
        missing = getattr(self, "missing", "error")
        classifies = self.estimator_type == "classifier"
        return utils.Tags(
            estimator_type=self.estimator_type,
            input_tags=utils.InputTags(allow_nan=missing != "error"),
            target_tags=utils.TargetTags(required=True),
            classifier_tags=utils.ClassifierTags() if classifies else None,
            regressor_tags=None if classifies else utils.RegressorTags(),
        )

    def _set_features(self, X: Any, count: int) -> None:
        """Store the number of the features of `X`, and their names if it has names."""
        self.n_features_in_ = count
        names = feature_names(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_features(self, X: Any, count: int) -> None:
        """ValueError unless the features have the number and the names of `fit`.

        If there are names only here or only in `fit`, this is a warning.
        """
        names, fitted = feature_names(X), getattr(self, "feature_names_in_", None)
        kind = type(self).__name__
        if (names is None) != (fitted is None):
            here = "has" if fitted is None else "does not have valid"
            then = "without" if fitted is None else "with"
            warnings.warn(
                f"X {here} feature names, but {kind} was fitted {then} feature names",
                stacklevel=5,
            )
        elif names is not None and fitted is not None and [*names] != [*fitted]:
            raise ValueError(
                "The feature names should match those that were passed during fit.\n"
                + difference_of_names(list(names), list(fitted))
            )
        if count != self.n_features_in_:
            raise ValueError(
                f"X has {count} features, but {kind} is expecting "
                f"{self.n_features_in_} features as input"
            )

    def _check_is_fitted(self) -> None:
        if not hasattr(self, "n_iter_"):
            error = from_sklearn("exceptions", "NotFittedError", NotFittedError)
            raise error(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' "
                "with appropriate arguments before using this estimator."
            )

    # ---- metadata --------------------------------------------------------------------

    metadata: ClassVar[dict[str, tuple[str, ...]]] = {
        "fit": ("sample_weight", "offset"),
        "score": ("sample_weight", "offset"),
        "predict": ("offset",),
    }
    """What the methods accept."""

    _metadata_request: Any

    def get_metadata_routing(self) -> Any:
        """The requests, as a ``MetadataRequest`` of scikit-learn."""
        if hasattr(self, "_metadata_request"):
            return self._metadata_request
        routing = importlib.import_module("sklearn.utils.metadata_routing")
        requests = routing.MetadataRequest(owner=type(self).__name__)
        for method, names in self.metadata.items():
            for name in names:
                getattr(requests, method).add_request(param=name, alias=None)
        return requests

    def set_fit_request(
        self, *, sample_weight: Any = UNCHANGED, offset: Any = UNCHANGED
    ) -> Self:
        """Set whether meta-estimators pass weights and offsets to `fit`."""
        return self._request("fit", sample_weight=sample_weight, offset=offset)

    def set_score_request(
        self, *, sample_weight: Any = UNCHANGED, offset: Any = UNCHANGED
    ) -> Self:
        """Set whether meta-estimators pass weights and offsets to `score`."""
        return self._request("score", sample_weight=sample_weight, offset=offset)

    def set_predict_request(self, *, offset: Any = UNCHANGED) -> Self:
        """Set whether meta-estimators pass offsets to `predict`."""
        return self._request("predict", offset=offset)

    def _request(self, method: str, **aliases: Any) -> Self:
        for name, alias in aliases.items():
            if alias != UNCHANGED:
                requests = self.get_metadata_routing()
                getattr(requests, method).add_request(param=name, alias=alias)
                self._metadata_request = requests
        return self
