"""The boosted additive model as a regressor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

from .._device.arrays import Array, namespace
from .._device.kernels import current_device
from ._boosting.batch import is_vector
from ._boosting.path import Path
from ._data import inputs
from ._data.conventions import available_if, check_choice
from ._model import insight
from ._model.figures import names_of_rows, plot_curves
from ._model.fitted import typed_by_device
from ._model.insight import has_curves
from ._model.model import AdditiveModel
from ._model.specification import check_parameters
from .families import family_of


class BoostedGAM(AdditiveModel):
    r"""A generalised additive model, fitted by componentwise boosting.

    .. math:: g(\hat y) = \beta_0 + \sum_j f_j(x), \qquad
              f_j(x) = \sum_i \gamma_{ji} B_{ji}(x)

    Every effect is a penalised learner: a spline, a line, a factor, a map. Each
    iteration fits all learners to the negative gradient of the loss, and moves the
    model a little towards the best fit. Learners that do not improve the fit are never
    selected.

    Parameters
    ----------
    learners : dict, Term or sequence of Term, optional
        The learners by feature, or by tuple of features, as in
        ``{"age": bbs(df=4), ("lon", "lat"): bspatial()}``; or learners that name their
        features, as in ``[bbs("age"), bols("sex")]``. By default a spline `bbs` of each
        numeric feature, and `bols` of each categorical feature; `brandom`, with the df
        of the splines, if it has more levels.
    family : str or Family, optional
        What is minimised, by name or as an object of `gpusolve.gam.families`: by
        default "gaussian".
    n_basis : int, optional
        Number of basis functions of each default spline, at least ``degree + 1``. By
        default 4 for each degree of freedom, and at least 24.
    degree : int, optional
        Degree of the default splines, 0 to 5.
    penalty : {"difference", "ridge", "cyclic", None}, optional
        What is penalised in the default splines: differences of neighbouring
        coefficients (P-splines), the coefficients themselves, differences around the
        ring of a periodic spline, nothing.
    penalty_order : int, optional
        Order of the differences, 1 to 3.
    df : float or "auto", optional
        Degrees of freedom of one fit of a default spline; fewer give smaller steps.
        They are the same for all, so that none is preferred. "auto" begins with 6, and
        doubles them if this lowers the loss of the rows left out by more than its
        standard error over the folds: up to 48, a quarter of the number of rows,
        and half of a given `n_basis`. The same folds choose the range of the knots,
        normal scores of skewed features, and stumps next to the splines or
        alone, for effects that jump; `summary` says what was chosen. See Notes. With a
        given number of iterations, and with `early_stopping`, df is 6 and nothing is
        chosen.
    df_definition : {"2S-SS", "trace"}, optional
        ``tr(2S - S'S)`` or ``tr(S)`` of the hat matrix S; for all learners.
    interactions : int or "auto", optional
        How many pairs of features get a learner of their joint effect, at most. A model
        without pairs is fitted first. The pairs that explain most of its residuals are
        added to the learners, and all learners are fitted together. "auto" chooses
        among 0, 1, 2, 4, 8 and 16 pairs by the folds of `max_iter`. See Notes.
    learning_rate : float, optional
        The fraction of the best fit that an iteration adds to the model, positive. The
        squared error never increases for rates up to 1.
    step_rule : {"scaled", "mboost"}, optional
        "scaled" makes the steps independent of the unit of y and of the offset. With
        mboost's steps, counts above about 12 need a smaller rate, and
        the absolute error of large numbers many iterations. See Notes.
    max_iter : int or "auto", optional
        Number of iterations. More iterations fit the data more closely. "auto" is the
        number with the least mean loss of rows left out, see `cv`: folds make steps,
        as one batch, until half as many steps as led to the last gain, and at least
        `n_iter_no_change`, gained nothing more; at most 10,000. A gain is a decrease of
        the mean loss by more than a tenth of its standard error. Of more than 50,000
        rows a sample is taken, unless `cv` is given. All rows are then fitted.
        For `Huber` whose delta is adaptive, whose losses have no common scale, it is
        100.
    cv : int, splitter or iterable, optional
        The rows that "auto" leaves out: a number of folds, an object with a method
        ``split``, or pairs of indices as for `cv_stop`, such as
        ``list(GroupKFold().split(X, y, groups))``. By default 3 folds with nearly the
        same distribution of y; below 1,000 rows, up to 5 times 5 folds; above 20,000
        rows, a single part, `validation_fraction` of the rows. Fewer rows than folds
        are left out one by one. A row left out does not count if it is beyond the
        robust range of a spline by more than half of the range.
    method : {"auto", "stacked", "gram"}, optional
        How a CPU makes the steps. "stacked" makes a pass over the rows in each step.
        "gram" computes blocks of cross products of the learners, and then no longer
        needs the rows. Both give the same model; "auto" chooses by their expected cost.
        Only "stacked" has families other than the Gaussian, learners other than splines
        with the same knots, constraints, early stopping and a callback. A GPU always
        uses "stacked".
    callback : callable, optional
        ``callback(iteration, risk)`` after each iteration, on a GPU after 50 at a time;
        a true result ends the fit. The risk is the sum over the training data and the
        classes. Not with `early_stopping`.
    progress : bool, optional
        Whether a progress bar is shown. By default on a terminal and in a notebook, if
        the fit takes more than five seconds on a CPU.
    device : {"auto", "cpu", "cuda"}, optional
        The device to fit on; "auto" is the device of `X`.
    outside : {"linear", "clamp", "error"}, optional
        Outside the range of the training data, continue a spline linearly, keep its
        value at the end of the range, or raise an error. With "clamp", the range of the
        default splines leaves out outliers, see "robust" of `bbs`: a row far outside
        then moves neither the knots nor the prediction.
    missing : {"error", "zero"}, optional
        A missing value is an error; or its row takes no part in the learners that read
        it, and these have no effect on its prediction.
    unknown : {"error", "zero"}, optional
        A level of a factor that was not in the training data is an error, or has no
        effect.
    early_stopping : bool, optional
        Whether some rows are held out, and the iterations end by the patience of
        `max_iter`. The model of least risk is kept, without a fit of all rows.
    validation_fraction : float, optional
        The fraction of the rows that are held out.
    n_iter_no_change : int, optional
        The fewest iterations without a gain, after which the iterations end.
    random_state : int, Generator, RandomState or None, optional
        For the choice of these rows. With the default, equal calls give equal models.
    warm_start : bool, optional
        Whether `fit` continues the last fit, with the same data and a larger
        `max_iter`, instead of starting again; neither with `early_stopping` nor with
        "auto".

    Attributes
    ----------
    intercept_ : float
        The model before the first iteration, without an offset that is a vector: the
        constant of least risk, or the given number. With mboost's steps, 0 if the
        offset is a vector.
    terms_ : list of Term
        The learners, with the ranges and levels of the training data, and the degrees
        of freedom ``df`` that were chosen.
    names_ : list of str
        Their names.
    interactions_ : list of tuple
        The features of the pairs, in the order in which they were found. Their learners
        are the last of `terms_`.
    family_ : Family
    coefficients_ : (n_learners, k) array
        The coefficients of each learner; zero if it was never selected, and beyond its
        number of coefficients.
    lambda_ : (n_learners,) array
        The smoothing parameters.
    selected_ : (n_iter_,) array of int32
        The learner that each iteration selected.
    risk_ : (n_iter_ + 1,) array
        The weighted sum of losses before the first iteration and after each.
    validation_risk_ : array
        The mean loss of the rows that were left out, before the first iteration and
        after each; with "auto", the mean over the folds.
    n_iter_ : int
        Number of iterations that were made, or chosen by "auto" or early stopping.
    path_ : Path
        All iterations; earlier models are computed from it, and a warm start
        continues it.
    method_ : str
        The method that was used.
    rug_ : dict
        At most 200 rows of the training data, for plots.
    has_offset_ : bool
        Whether the model was fitted with an offset that is a vector.
    level_counts_ : dict of dict
        The number of rows of each level of the factors, by feature and level.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (n_features,) array of object
        Defined only if `X` was a data frame or a mapping whose keys are strings.
    columns_ : list of str or int
        The names of the features, or their positions in an array.
    feature_importances_ : (n_features,) array
        The share of each feature in the decrease of the risk.
    baseline_ : Baseline or float
        Defined only for survival times: Breslow's cumulative hazard where the additive
        predictor is 0, as arrays `times` and `hazard`; or the scale.

    See Also
    --------
    BoostedGAMClassifier, BoostedDistribution, gamboost, cv_stop

    Notes
    -----
    The model is the same as mboost's ``gamboost`` [1]_, with other defaults: the
    learning rate 0.3 instead of 0.1 needs fewer iterations for the same error on new
    rows. `gamboost` has mboost's defaults. All fitted attributes are on
    the host. A model that was fitted on a GPU can be pickled, and loaded on a machine
    without a GPU.

    If `X` is float32, the designs are stored as float32, which halves the memory; all
    sums are in float64.

    On a CPU, splines are computed from the covariates in every iteration. A fit needs
    the columns as they are, 8 bytes for each number (4 for float32), and some vectors
    of 8 bytes for each row; surfaces, splines on quantiles and splines with missing
    values also their nonzero values.

    A scaled step is ``learning_rate / h`` times the fit d, where h is the mean of the
    curvatures of the loss, weighted by ``w d^2``: see `Family.curvature`. This is a
    step of Newton's method along d, but the curvature is not only that at f: it bounds
    the slope of the gradient up to the best f of a row, so that a step does not go
    beyond it. This does not prove that the risk decreases in each iteration. It did for
    counts, positive numbers and classes, with means of 1e-2 to 1e6 and rates of 0.05 to
    1. The curvature of the squared error is 1. For absolute errors and quantiles, which
    have none, ``1 / h`` is the median absolute residual before the first iteration,
    twice as much for quantiles. Small rises of the risk are normal there.

    A tenth of the standard error is small: it left the errors of the 15 data sets of
    `benchmarks/gam_defaults.py` as they were, up to 0.1 %. It ends fits that would
    improve for thousands of iterations, such as splines at a jump. The rows of a sample
    have nearly the same distribution of y. Its errors of estimation, which choose the
    number, are larger than with all rows, but small next to the noise of y.

    "auto" compares two models after 20, 40, 80, .. iterations, by the least losses
    until then. The richer model is chosen when its loss is lower by more than the
    standard error, and by more than half of what the simpler gained in the second half
    of its iterations. It is rejected if its loss is not lower. Between, both continue.
    In this order are tried: knots on the full range of the data instead of the robust
    range; normal scores of the features whose middle 98 % of the rows extend three
    times as far from the median to one side as to the other; twice the degrees of
    freedom, and, unless the loss is higher by more than the standard error, twice
    these, too; from 1,000 rows on, stumps next to splines of 6 degrees of freedom,
    and otherwise next to the best splines. A range, scores and stumps may be behind at
    first, for at most 40 iterations. From 1,000 rows on, a range and scores need only
    be better; stumps by more than twice the standard error. Where 48 degrees of freedom
    are the best, effects may have many jumps: stumps alone, and next to splines of 6
    degrees of freedom, may then be behind for thousands of iterations, and must be
    better by more than the standard error.

    The learner of a pair is the product of two splines, of a spline and the levels of a
    factor, or of the levels of two factors. The splines have 6 knots, at quantiles. No
    part has a constant, so the learner does not repeat a main effect. The score of a
    pair is the reduction of the sum of squares of the negative gradient beyond the main
    effects of both features, by a fit with `df` degrees of freedom, 6 for "auto". Its
    splines are straight between 4 knots. The fit of a pair, without a penalty, is
    subtracted before the next pair is chosen: features that resemble each other do not
    repeat a pair. The best ``16 * interactions`` pairs are then compared again. Many
    features have many pairs: if the rows of all pairs exceed ``2**27``, each score is
    of random rows, at least 4,096. The 435 pairs of 30 features take seconds. Pairs
    that a learner reads together are left out. So are factors of many levels: of more
    than 42 with a number, of more than 256 combinations with a factor. The callback is
    for the last fit.

    `cv_stop`, `bootstrap_effects`, `stability_selection`, the folds of "auto" and a
    warm start keep the pairs, which are found with all rows; with `early_stopping`,
    with all rows that are not held out. A pair that is only chance has a score, too, so
    the number of pairs should be chosen by the error of rows that no fit has read.
    "auto" finds pairs with all rows, and compares their numbers by rows left out.

    A fit that is interrupted (Ctrl-C) ends with a warning, and keeps the iterations
    that were made; on a GPU only with `progress` or a callback, which divide the launch
    into parts, and not with early stopping.

    - Infinity is an error, and so is NaN unless ``missing="zero"``.
    - A constant feature has no effect.
    - A spline of a feature with at most `df` levels, or of at most `df` rows, is fitted
      without a penalty.
    - If `y` is constant, all coefficients are zero, up to the rounding of the mean.
    - Rows of weight zero are ignored. Integer weights, up to rounding, count rows;
      other weights are scaled so that their sum is the number of positive weights.

    References
    ----------
    .. [1] B. Hofner, A. Mayr, N. Robinzonov and M. Schmid, "Model-based boosting in R:
           a hands-on tutorial using the R package mboost", Computational Statistics 29
           (2014).
    .. [2] A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models
           with GPU Acceleration", 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, bbs, bols
    >>> X = np.random.default_rng(0).random((500, 4))
    >>> y = np.sin(6 * X[:, 2]) + X[:, 0]
    >>> model = BoostedGAM(max_iter=200).fit(X, y)
    >>> model.score(X, y) > 0.999
    True
    >>> np.unique(model.selected_)
    array([0, 2], dtype=int32)

    The model after 10 iterations, without fitting again:

    >>> early = model.predict(X, iteration=10)
    >>> bool(np.isclose(((y - early) ** 2).sum(), model.risk_[10]))
    True

    Counts, with a spline of one column and a line of another:

    >>> counts = np.random.default_rng(1).poisson(np.exp(y))
    >>> model = BoostedGAM({0: bols(), 2: bbs()}, family="poisson").fit(X, counts)
    >>> model.names_
    ['bols(0)', 'bbs(2)']

    A product of two features, which no sum of effects explains:

    >>> y = y + 6 * (X[:, 0] - 0.5) * (X[:, 3] - 0.5)
    >>> model = BoostedGAM(max_iter=100, interactions=1).fit(X, y)
    >>> model.interactions_, model.names_[-1]
    ([(0, 3)], 'bbs(0) * bbs(3)')
    """

    default_family = "gaussian"
    baseline_: Any

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> BoostedGAM:
        """Fit the model.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
            NumPy, CuPy, pandas, polars, pyarrow, or any object that supports
            ``__cuda_array_interface__``, DLPack or ``__arrow_c_stream__``; in any
            memory layout. What is masked or null is missing, as is NaN. A
            ``numpy.memmap``, a dask array or a dask data frame is read in blocks of
            rows to columns in memory.
        y : (n,) array_like
            Optional for a model of `gamboost`, whose formula names it.
            Of a family of survival times: as of `survival_times`.
        sample_weight : (n,) array_like, optional
            Not negative.
        offset : float or (n,) array_like, optional
            The additive predictor before the first iteration: a number instead of the
            best constant, or numbers for the rows, such as the logarithms of exposures,
            to which the best constant is added.

        Returns
        -------
        BoostedGAM
            The estimator itself.

        Raises
        ------
        TypeError
            If the data are not real numbers, or a parameter has the wrong type.
        ValueError
            If the data contain NaN or infinity or have the wrong shape, if y is not a
            response of the family, if a parameter is out of range, if a warm start has
            other data or fewer iterations, or if the risk becomes infinite.
        ImportError
            If ``device="cuda"`` and CuPy is not installed.
        RuntimeError
            If ``device="cuda"`` and the machine has no GPU or no driver.

        Warns
        -----
        UserWarning
            If the risk of the training data rises by more than a tenth of its decrease,
            if the risk of the rows held out is least after the last iteration, or if
            the fit is interrupted.
        """
        check_parameters(self)
        family = family_of(self.family or self.default_family)
        if family.predictors > 1:
            raise ValueError(
                "family must have one predictor: BoostedDistribution and "
                f"BoostedGAMClassifier have several, got {family!r}"
            )
        self._fit_to(X, y, sample_weight, offset, family)
        insight.learn_baseline(self)
        return self

    def stop_at(self, iteration: int) -> Self:
        super().stop_at(iteration)
        insight.learn_baseline(self)
        return self

    stop_at.__doc__ = AdditiveModel.stop_at.__doc__

    @property
    def path_(self) -> Path:
        """All iterations."""
        return self.paths_[0]

    @typed_by_device
    def predict(
        self,
        X: Any,
        *,
        iteration: int | None = None,
        kind: Literal["response", "link"] = "response",
        offset: Any = None,
    ) -> Array:
        """Predict the response.

        Parameters
        ----------
        X : (n, n_features) array_like, data frame or mapping
        iteration : int, optional
            Use the model after this number of iterations, from 0 to ``n_iter_``.
        kind : {"response", "link"}, optional
            The response, or the additive predictor.
        offset : float or (n,) array_like, optional
            What is added to the additive predictor: a number for each row, if the model
            was fitted with such an offset. Without it, 0 is added, with a warning.

        Returns
        -------
        (n,) float64 array
            On the device of `X`.

        Notes
        -----
        The rows are read in blocks, so `X` may be larger than the memory: a
        ``numpy.memmap`` of float32 or float64. For data that come in parts, call
        `predict` for each:
        ``np.concatenate([model.predict(part) for part in parts])``.

        Learners that were never selected have no effect and are not evaluated: with
        `learners`, missing values and unknown levels of their features are no error.
        """
        check_choice("kind", kind, ("response", "link"))
        (f,) = self._links(X, iteration, offset)
        return self._predicted(f, kind, iteration)

    def staged_predict(
        self,
        X: Any,
        *,
        kind: Literal["response", "link"] = "response",
        offset: Any = None,
    ) -> Iterator[Array]:
        """Predict the response after each iteration, from the first to the last.

        An invalid `X` raises an error at once, not at the first iteration.

        Parameters
        ----------
        X, kind, offset
            As for `predict`.

        Yields
        ------
        (n,) float64 array
        """
        check_choice("kind", kind, ("response", "link"))
        stages = enumerate(self._stages(X, offset), 1)
        return (self._predicted(f, kind, step) for step, (f,) in stages)

    def _predicted(self, f: Array, kind: str, iteration: int | None) -> Array:
        """The response or the link for the additive predictor."""
        if kind == "link":
            return f
        with current_device(f):
            s = namespace(f).asarray(self._nuisance(iteration)[0])
            return self.family_.mean(f, s)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None
    ) -> float:
        """The share of the deviance that the model explains, ``1 - D / D_0``.

        D is the weighted sum of the losses, minus the losses of a perfect fit. D_0 is
        the same of the best constant, which is added to an offset vector.
        For the Gaussian family it is the coefficient of determination. An adaptive
        parameter has the value of the last iteration. For a family of your own, the
        loss of a perfect fit counts as 0.

        For survival times: Harrell's `concordance` of the rows with weight.

        If y is constant, up to rounding, the result is 1 if y is predicted up to
        rounding, and 0 otherwise. Rows of weight zero are ignored.

        Parameters
        ----------
        X : (n, n_features) array_like
        y : (n,) array_like
        sample_weight : (n,) array_like, optional
            Not negative, and not all of it zero.
        offset : float or (n,) array_like, optional
            As for `predict`.
        """
        if offset is None:
            offset = self._own_offset(X)
        (f,) = self._links(X, None, offset)
        (s,) = self._nuisance(None)
        with current_device(f):
            y = self.family_.prepare(y, f)
            w = inputs.observation_weights(sample_weight, f)
            start = inputs.start_of(offset, f)
            kept = slice(None) if w is None else w > 0
            return self.family_.score(
                y[kept],
                f[kept],
                namespace(f).asarray(s),
                None if w is None else w[kept],
                start[kept] if is_vector(start) else None,
            )

    # ---- survival times --------------------------------------------------------------

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
        return insight.cumulative_hazard(self, f, times)

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
        curves = self.survival_function(X, times, offset=offset)
        names = names_of_rows(self._covariates(X)) if labels is None else list(labels)
        family: Any = self.family_
        return plot_curves(times, curves, names, family.has_steps)
