"""Survival curves of a fitted model, if its family has them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..._device.arrays import Array, namespace
from ..._device.kernels import current_device
from .._data import inputs
from .._data.conventions import available_if
from .._data.inputs import dense_array, real_array
from .._families.survival import SurvivalFamily
from ..families import family_of
from .fitted import FittedModel


def has_curves(model: Any) -> bool:
    """Whether the family of a model, fitted or not, is of survival times."""
    return isinstance(family_of(model.family or model.default_family), SurvivalFamily)


class SurvivalCurves(FittedModel):
    """The methods of a model of survival times; see `BoostedGAM`."""

    baseline_: Any

    def stop_at(self, iteration: int) -> Self:
        super().stop_at(iteration)
        self._learn_baseline()
        return self

    stop_at.__doc__ = FittedModel.stop_at.__doc__

    def _learn_baseline(self) -> None:
        """Store what curves need from the training data; nothing without the data."""
        vars(self).pop("baseline_", None)
        if not isinstance(self.family_, SurvivalFamily) or not hasattr(self, "_data"):
            return
        data, _ = self._data
        with data.frame.current():
            f = namespace(data.y).zeros((1, data.rows)) + float(self._intercepts()[0])
            if np.ndim(data.offset) == 1:
                f += data.offset
            (f,) = self._add_effects(f, data.frame, self._coefficients(None))
            self.baseline_ = self.family_.learn(data.y, f, data.weights)

    @available_if(has_curves)
    def cumulative_hazard(self, X: Any, times: Any, *, offset: Any = None) -> Array:
        """The cumulative hazard of each row at the times.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
        times : (T,) array_like
            Not negative.
        offset : float or (n,) array_like, optional
            As for `predict`.

        Returns
        -------
        (n, T) float64 array
            On the device of `X`. For ``"coxph"`` Breslow's estimate, a step function,
            which stays constant after the last event.

        Raises
        ------
        ValueError
            If the times are invalid, or if the model was loaded from a file and then
            stopped at an earlier iteration: the baseline needs the training data.

        See Also
        --------
        survival_function
        """
        (f,) = self._links(X, None, offset)
        if not hasattr(self, "baseline_"):
            raise ValueError(
                "the model must have a baseline: fit it again, a model that was loaded "
                "from a file has the baseline of its last iteration only"
            )
        with current_device(f):
            times = inputs.to_device_of(f, dense_array(times, "times"))
            if times.ndim != 1:
                raise ValueError(f"times must have shape (T,), got {times.shape}")
            times = real_array(times, "times")
            if bool((times < 0).any()):
                raise ValueError(f"times must not be negative, got {times.min()}")
            assert isinstance(self.family_, SurvivalFamily)
            return self.family_.cumulative_hazard(times, f, self.baseline_)

    @available_if(has_curves)
    def survival_function(self, X: Any, times: Any, *, offset: Any = None) -> Array:
        """The probability that each row survives the times.

        Parameters
        ----------
        X, times, offset
            As for `cumulative_hazard`.

        Returns
        -------
        (n, T) float64 array
            ``exp(-H)`` of the cumulative hazard H; on the device of `X`.

        Raises
        ------
        ValueError
            As `cumulative_hazard` does.

        Examples
        --------
        >>> import numpy as np
        >>> from gpusolve.gam import BoostedGAM, survival_times
        >>> rng = np.random.default_rng(0)
        >>> X = rng.random((300, 1))
        >>> time = rng.exponential(np.exp(-2 * X[:, 0]))
        >>> y = survival_times(np.minimum(time, 1.0), time < 1.0)
        >>> model = BoostedGAM(family="coxph").fit(X, y)
        >>> model.survival_function([[0.1], [0.9]], [0.0, 0.2, 0.5]).round(1)
        array([[1. , 0.8, 0.6],
               [1. , 0.3, 0.1]])
        """
        hazard = self.cumulative_hazard(X, times, offset=offset)
        with current_device(hazard):
            return namespace(hazard).exp(-hazard)

    @available_if(has_curves)
    def plot_survival(
        self, X: Any, times: Any, *, labels: Any = None, offset: Any = None
    ) -> Any:
        """Draw the survival curve of each row.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
            A few rows.
        times : (T,) array_like
            Not negative, ascending.
        labels : sequence of str, optional
            The names of the rows; by default the values of the features in which they
            differ, if these are at most three, or their numbers.
        offset : float or (n,) array_like, optional
            As for `predict`.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            As `cumulative_hazard` does.
        """
        from .._plots.survival_plot import names_of_rows, plot_curves

        curves = self.survival_function(X, times, offset=offset)
        assert isinstance(self.family_, SurvivalFamily)
        names = names_of_rows(self._covariates(X)) if labels is None else list(labels)
        return plot_curves(times, curves, names, self.family_.has_steps)
