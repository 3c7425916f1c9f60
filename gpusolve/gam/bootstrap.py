"""How certain effects are: the same model, fitted to bootstrap samples of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import on_host
from .._device.kernels import current
from ._boosting.folds import by_fold, fits_in_batches, make_folds
from ._boosting.path import Path
from ._boosting.stacked import boost_family
from ._model.model import AdditiveModel
from .cv import training_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EffectBootstrap:
    """The effects of a model in bootstrap samples of its training data.

    Attributes
    ----------
    model : BoostedGAM or BoostedGAMClassifier
    coef : (B, n_learners, k) array
        The coefficients of the functions of all learners, for each of B samples. With
        several classes, (B, n_classes, n_learners, k).

    See Also
    --------
    bootstrap_effects, BoostedGAM

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, bootstrap_effects
    >>> X = np.random.default_rng(0).random((50, 2))
    >>> model = BoostedGAM(max_iter=10).fit(X, X[:, 0])
    >>> bootstrap_effects(model, 5, random_state=0).coef.shape[:2]
    (5, 2)
    """

    model: AdditiveModel
    coef: Floats

    def interval(
        self,
        learner: int | str,
        x: Any,
        level: float = 0.95,
        *,
        fit: int = 0,
        center: bool = True,
    ) -> tuple[Floats, Floats]:
        """Bounds of an effect: quantiles of the samples at each point.

        Parameters
        ----------
        learner, x, fit
            As for `BoostedGAM.partial_effect`.
        level : float, optional
            The share of the samples between the bounds, at each point by itself.
        center : bool, optional
            Whether the mean of each effect over the rows of the training data that the
            model keeps is subtracted.

        Returns
        -------
        lower, upper : (n,) array
            On the host.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}")
        index = self.model._index_of(learner)
        coef = self.coef if self.coef.ndim == 3 else self.coef[:, fit]
        at = self.model._design_at(index, x)
        rug = self.model._design_at(index, self.model._rug_of(index))
        coef = coef[:, index, : at.functions]
        effects = np.stack([on_host(at.multiply(own)) for own in coef])
        if center:
            means = [on_host(rug.multiply(own)).mean() for own in coef]
            effects -= np.array(means)[:, None]
        tail = (1 - level) / 2
        lower, upper = np.quantile(effects, [tail, 1 - tail], axis=0)
        return lower, upper


def bootstrap_effects(
    model: AdditiveModel,
    n_samples: int = 100,
    *,
    max_iter: int | None = None,
    choose_steps: bool = False,
    random_state: Any = None,
) -> EffectBootstrap:
    """Fit a model to bootstrap samples of its training data, as a batch.

    Parameters
    ----------
    model : BoostedGAM or BoostedGAMClassifier
        Fitted; see `cv_stop`.
    n_samples : int, optional
        The number B of samples.
    max_iter : int, optional
        The number of iterations; by default the model's ``n_iter_``.
    choose_steps : bool, optional
        Whether each sample has its own number of iterations, at most `max_iter`: the
        number with the least risk of the rows that the sample leaves out. Then the
        bounds include the uncertainty of this number, as in mboost's ``confint``, which
        finds it by another bootstrap inside each sample.
    random_state : int, Generator or RandomState, optional

    Returns
    -------
    EffectBootstrap

    See Also
    --------
    EffectBootstrap, stability_selection

    Notes
    -----
    Boosting shrinks effects, and the intervals do not include the bias of this: they
    show the spread of the fitted effects, not their distance from the truth.

    References
    ----------
    B. Hofner, L. Boccuto and M. Goeker, "Controlling false discoveries in
    high-dimensional situations: boosting with stability selection", BMC Bioinformatics
    16 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, bootstrap_effects
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.2 * rng.standard_normal(300)
    >>> model = BoostedGAM(max_iter=200).fit(X, y)
    >>> samples = bootstrap_effects(model, 50, random_state=0)
    >>> lower, upper = samples.interval(0, np.array([0.25, 0.75]))
    >>> bool(lower[0] > 0 > upper[1])
    True
    """
    data, settings = training_of(model)
    steps = model.n_iter_ if max_iter is None else max_iter
    folds = make_folds("bootstrap", *data.rows_of_x, n_samples, random_state)
    made = []
    with current(data.device):
        for part, fits in fits_in_batches(settings, data, folds):
            path = boost_family(fits, steps)
            last = (
                best_steps(path, len(part.weights)) if choose_steps else repeat(steps)
            )
            pairs = zip(path.each(), last, strict=False)
            made += [own.coef(len(settings.terms), step) for own, step in pairs]
    coef, several = np.stack(made), len(model.paths_) > 1
    return EffectBootstrap(model, by_fold(coef, n_samples) if several else coef)


def best_steps(path: Path, samples: int) -> list[int]:
    """The step of least risk of the rows left out, for each fit of the samples."""
    assert path.out_of_bag is not None
    risk = by_fold(path.out_of_bag, samples)
    best = risk.sum(axis=1).argmin(axis=1)
    return np.repeat(best, len(path.selected) // samples).tolist()
