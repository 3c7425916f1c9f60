"""The boosted additive model of all parameters of a distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from .._device.kernels import current_device
from ._boosting.batch import Settings
from ._data import inputs
from ._data.conventions import check_between, check_choice
from ._families.numerics import weighted_mean
from ._model.figures import plot_quantiles
from ._model.fitted import typed_by_device
from ._model.insight import Line, frequencies, lines_of, reductions
from ._model.model import AdditiveModel
from ._model.specification import Plan, bind_learners, check_parameters
from ._terms.frame import Frame
from ._terms.term import Term
from .distributions import Distribution, distribution_of

Floats = NDArray[np.float64]


class BoostedDistribution(AdditiveModel):
    """Every parameter of a distribution as a sum of effects, fitted by boosting.

    `BoostedGAM` models the mean. Here the spread, the shape or the share of zeros
    depend on the features, too, so that the model has intervals and quantiles. This is
    distributional regression, as in R's gamboostLSS.

    Parameters
    ----------
    learners : dict, Term or sequence of Term, optional
        As for `BoostedGAM`, for all parameters; or a dict with learners for each
        parameter, such as ``{"mu": [bbs("age")], "sigma": {"age": bols()}}``.
    family : str or Distribution, optional
        "gaussian", the default, "student_t", "gamma", "beta", "negative_binomial",
        "zero_inflated_poisson" or "zero_inflated_negative_binomial"; or an object of
        `gpusolve.gam.distributions`, which says how iterations update the parameters:
        ``distributions.Gamma("cyclic")``.
    n_basis, degree, penalty, penalty_order, df, df_definition
        As for `BoostedGAM`.
    learning_rate, max_iter, method, device, outside, missing, unknown
        As for `BoostedGAM`.
    early_stopping, validation_fraction, n_iter_no_change, random_state, warm_start
        As for `BoostedGAM`.
    interactions : int, optional
        Must be 0: the gradients by the parameters have different units, so that no sum
        of their scores ranks the pairs.

    Attributes
    ----------
    parameters_ : list of str
        The names of the P parameters.
    coefficients_ : (P, n_learners, k) array
    intercept_ : (P,) array
        The predictors of the constants of maximum likelihood.
    selected_ : (P, n_iter_) array of int32
        The learner that each iteration selected; -1 for parameters that it kept.
    risk_ : (n_iter_ + 1,) array
        Minus the log likelihood, before the first iteration and after each.

    See Also
    --------
    BoostedGAM : All other attributes and methods. `effects`, `partial_effect` and
        `plot` have an argument `fit`: the parameter.

    Notes
    -----
    An iteration updates a single parameter. P cyclic iterations are one iteration of
    gamboostLSS. All gradients are computed at the present predictors.

    References
    ----------
    Mayr, Fenske, Hofner, Kneib & Schmid, "Generalized additive models for location,
    scale and shape for high dimensional data" (2012); Thomas, Mayr, Bischl, Schmid,
    Smith & Hofner, "Gradient boosting for distributional regression" (2018).

    Examples
    --------
    Noise that grows with x:

    >>> import numpy as np
    >>> from gpusolve.gam import BoostedDistribution
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1000, 1))
    >>> y = np.sin(6 * X[:, 0]) + np.exp(2 * X[:, 0] - 2) * rng.standard_normal(1000)
    >>> model = BoostedDistribution(max_iter=300).fit(X, y)
    >>> sigma = model.predict_parameters([[0.0], [0.5], [1.0]])["sigma"]
    >>> bool(sigma[0] < sigma[1] < sigma[2])
    True
    >>> lower, upper = model.predict_interval(X, coverage=0.9).T
    >>> bool(0.85 < np.mean((lower < y) & (y < upper)) < 0.95)
    True
    """

    family_: Distribution

    default_family = "gaussian"

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None
    ) -> BoostedDistribution:
        """Fit the model.

        Parameters
        ----------
        X, sample_weight
            As for `BoostedGAM.fit`.
        y : (n,) array_like
        offset : float, (n,) array_like or dict, optional
            Numbers that are added to the predictor of the first parameter, such as the
            logarithms of exposures; or a dict with such numbers for parameters by name,
            such as ``{"mu": exposure, "sigma": spread}``. The best constants are added.

        Returns
        -------
        BoostedDistribution
            The estimator itself.

        Raises
        ------
        TypeError, ValueError
            As `BoostedGAM.fit` does; and if a parameter has no learners.
        """
        check_parameters(self)
        if self.interactions:
            raise ValueError(
                "interactions must be 0 for BoostedDistribution, whose parameters have "
                f"gradients of different units, got {self.interactions}"
            )
        self._fit_to(X, y, sample_weight, offset, self._distribution())
        return self

    def _distribution(self) -> Distribution:
        return distribution_of(self.family or self.default_family)

    def _read_offset(self, offset: Any, like: Array) -> Any:
        """The offsets of all parameters, (P, n); None without an offset."""
        if offset is None:
            return None
        names = list(self._distribution().links)
        given = offset if isinstance(offset, Mapping) else {names[0]: offset}
        found = namespace(like).zeros((len(names), len(like)))
        for name, own in given.items():
            check_choice("offset", name, names)
            found[names.index(name)] = inputs.start_of(own, like)
        return found

    # ---- learners --------------------------------------------------------------------

    def _by_parameter(self) -> dict[str, list[Term]] | None:
        """The learners of each parameter; None if all have the same."""
        names = self._distribution().links
        if not isinstance(self.learners, Mapping) or set(self.learners) != set(names):
            return None
        return {name: bind_learners(self.learners[name]) for name in names}

    def _bind(self) -> list[Term]:
        given = self._by_parameter()
        if given is None:
            return bind_learners(self.learners)
        found: dict[str, Term] = {}
        for term in (term for terms in given.values() for term in terms):
            if found.setdefault(term.label, term) != term:
                raise ValueError(
                    f"{term.label} must be the same learner for all parameters, got "
                    f"{found[term.label]} and {term} with different options"
                )
        return list(found.values())

    def _settings(self, frame: Frame, family: Any, plan: Plan) -> Settings:
        settings = super()._settings(frame, family, plan)
        return replace(settings, allowed=self._allowed(settings.terms))

    def _allowed(self, terms: Sequence[Term]) -> NDArray[np.bool_] | None:
        """Whether each parameter has each learner, (P, K); None if each has all."""
        given = self._by_parameter()
        if given is None:
            return None
        labels = [{term.label for term in own} for own in given.values()]
        return np.array([[term.label in own for term in terms] for own in labels])

    # ---- predictions -----------------------------------------------------------------

    @property
    def parameters_(self) -> list[str]:
        self._check_is_fitted()
        return list(self.family_.links)

    def _effect_on(self, fit: int) -> str:
        name, link = list(self.family_.links.items())[fit]
        return name if link == "identity" else f"the {link} of {name}"

    def _fit_names(self) -> list[str]:
        return self.parameters_

    @typed_by_device
    def predict(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> Array:
        """Predict the mean.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
        iteration : int, optional
            Use the model after this number of iterations, from 0 to ``n_iter_``.
        offset : float, (n,) array_like or dict, optional
            Numbers that are added to predictors, as in `fit`.

        Returns
        -------
        (n,) float64 array
            On the device of `X`.
        """
        return self._response(self._links(X, iteration, offset))

    def _response(self, links: Array) -> Array:
        with current_device(links):
            return self.family_.response(links)

    def staged_predict(self, X: Any, *, offset: Any = None) -> Iterator[Array]:
        """Predict the mean after each iteration, from the first to the last.

        Parameters
        ----------
        X, offset
            As for `predict`.

        Yields
        ------
        (n,) float64 array
        """
        return (self._response(links) for links in self._stages(X, offset))

    def predict_parameters(
        self, X: Any, *, iteration: int | None = None, offset: Any = None
    ) -> dict[str, Array]:
        """Predict all parameters of the distribution.

        Parameters
        ----------
        X, iteration, offset
            As for `predict`.

        Returns
        -------
        dict of (n,) float64 array
            By the names of the parameters, on the device of `X`.
        """
        links = self._links(X, iteration, offset)
        with current_device(links):
            return self.family_.parameters(links)

    @typed_by_device
    def predict_quantile(
        self,
        X: Any,
        q: Any = 0.5,
        *,
        iteration: int | None = None,
        offset: Any = None,
    ) -> Array:
        """Predict quantiles.

        Parameters
        ----------
        X, iteration, offset
            As for `predict`.
        q : float or (m,) array_like, optional
            Between 0 and 1.

        Returns
        -------
        (n,) or (n, m) float64 array
            On the device of `X`. SciPy computes them, on the host.
        """
        shares = np.asarray(q, np.float64)
        if shares.ndim > 1 or not ((shares > 0) & (shares < 1)).all():
            raise ValueError(f"q must be between 0 and 1, got {q}")
        links = self._links(X, iteration, offset)
        with current_device(links):
            found = self.family_.parameters(links)
            columns = {name: on_host(own)[:, None] for name, own in found.items()}
            quantiles = self.family_.frozen(columns).ppf(np.atleast_1d(shares))
            made = namespace(links).asarray(quantiles)
            return made if shares.ndim else made[:, 0]

    @typed_by_device
    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        iteration: int | None = None,
        offset: Any = None,
    ) -> Array:
        """Predict the interval between two quantiles, which leave out equal shares.

        The interval contains a new response with this probability, if the model is
        true; the uncertainty of the fitted parameters is not included.

        Parameters
        ----------
        X, iteration, offset
            As for `predict`.
        coverage : float, optional
            Between 0 and 1.

        Returns
        -------
        (n, 2) float64 array
            On the device of `X`.
        """
        check_between("coverage", coverage, 0, 1)
        tail = (1 - coverage) / 2
        ends = [tail, 1 - tail]
        return self.predict_quantile(X, ends, iteration=iteration, offset=offset)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None
    ) -> float:
        """The mean log likelihood of the rows, weighted.

        It is not the coefficient of determination: any number, the larger the better.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
        y : (n,) array_like
        sample_weight : (n,) array_like, optional
            Not negative, and not all of it zero.
        offset : float, (n,) array_like or dict, optional
            As for `predict`.
        """
        links = self._links(X, None, offset)
        with current_device(links):
            y = inputs.one_per_row(y, "y", links[0])
            w = inputs.observation_weights(sample_weight, links[0])
            return -float(weighted_mean(self.family_.loss(y, links, None), w))

    # ---- tables and pictures ---------------------------------------------------------

    def _lines(self) -> list[Line]:
        """A line of the summary for each learner of each parameter."""
        allowed = self._allowed(self.terms_)
        found = zip(self.parameters_, reductions(self), frequencies(self), strict=True)
        return [
            replace(line, name=f"{name}: {line.name}")
            for fit, (name, gains, shares) in enumerate(found)
            for learner, line in enumerate(lines_of(self, gains, shares))
            if allowed is None or allowed[fit, learner]
        ]

    def plot_quantiles(
        self,
        X: Any,
        y: Any,
        feature: int | str | None = None,
        *,
        q: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
    ) -> Any:
        """Draw quantiles over a numeric feature, with data.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
            The data to draw. Other features are fixed at their median, or at their most
            frequent level.
        y : (n,) array_like
            The response of these data.
        feature : int or str, optional
            May be omitted if the model has a single feature.
        q : sequence of float, optional
            Between 0 and 1.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the model does not have the feature, or it is not numeric.
        """
        return plot_quantiles(self, self._covariates(X), y, feature, q)

    def __sklearn_tags__(self) -> Any:
        """As for `BoostedGAM`; the score is not the coefficient of determination."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
