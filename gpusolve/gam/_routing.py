"""What scikit-learn's metadata routing asks an estimator, without need of it."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

Self = TypeVar("Self", bound="TakesWeights")

UNCHANGED = "$UNCHANGED$"
"""scikit-learn's word for a request that stays as it was."""


class TakesWeights:
    """An estimator whose `fit` and `score` take a `sample_weight`.

    A request is True or False, another name to pass weights under, or None: to pass
    them is then an error.
    """

    _metadata_request: Any

    def get_metadata_routing(self) -> Any:
        """The requests, as scikit-learn has them."""
        if hasattr(self, "_metadata_request"):
            return self._metadata_request
        routing = importlib.import_module("sklearn.utils.metadata_routing")
        requests = routing.MetadataRequest(owner=type(self).__name__)
        for method in (requests.fit, requests.score):
            method.add_request(param="sample_weight", alias=None)
        return requests

    def set_fit_request(self: Self, *, sample_weight: Any = UNCHANGED) -> Self:
        """Request that meta-estimators pass weights to `fit`, or that they do not."""
        return self._request("fit", sample_weight)

    def set_score_request(self: Self, *, sample_weight: Any = UNCHANGED) -> Self:
        """Request that meta-estimators pass weights to `score`, or that they do not."""
        return self._request("score", sample_weight)

    def _request(self: Self, method: str, sample_weight: Any) -> Self:
        if sample_weight != UNCHANGED:
            requests = self.get_metadata_routing()
            getattr(requests, method).add_request(
                param="sample_weight", alias=sample_weight
            )
            self._metadata_request = requests
        return self
