"""Componentwise boosting of penalised learners for the squared error."""

from __future__ import annotations

import numpy as np

from .._device.arrays import Array, namespace, on_one_device
from .._device.kernels import current_device
from .._gemv.gemv import VARIANTS, Variant
from ._boosting.batch import Fits
from ._boosting.methods import METHODS, Method
from ._boosting.path import Path, join_paths
from ._boosting.stacked import boost_family
from ._data.conventions import check_choice
from ._families.sums import weighted_mean
from .families import Gaussian
from .learners import Learners


def check_variant(gemv_variant: str, method: str) -> None:
    """ValueError if the method does not have the products."""
    allowed = ("auto", *VARIANTS) if method == "direct" else ("auto",)
    if gemv_variant not in allowed:
        raise ValueError(
            f"gemv_variant must be one of {allowed} for method {method!r}, "
            f"got {gemv_variant!r}"
        )


def boost(
    learners: Learners,
    y: Array,
    *,
    learning_rate: float = 0.1,
    steps: int = 100,
    method: Method = "auto",
    start: Path | None = None,
    gemv_variant: Variant = "auto",
) -> Path:
    """Boost: in each step, fit all learners to the residual and follow the best.

    Parameters
    ----------
    learners : Learners
    y : (n,) array
        On the device of the learners.
    learning_rate : float, optional
        The fraction of the best learner's fit that each step adds to the model.
    steps : int, optional
        Number of steps to make, after the steps of `start`.
    method : {"auto", "direct", "stacked", "gram"}, optional
        "direct" is the algorithm as in the paper, with dense design matrices.
        "stacked" makes a pass over their nonzeros in each step. "gram" computes
        blocks of their cross products and then no longer needs the rows. All make the
        same steps. "auto" chooses "stacked" or "gram" by their expected cost.
    start : Path, optional
        A path to continue from its end, with the same learners and y.
    gemv_variant : str, optional
        The `variant` of :func:`gpusolve.gemv` for the three products of a step of
        "direct". Other methods have only "auto".

    Returns
    -------
    Path
        All steps, including the steps of `start`.

    Raises
    ------
    TypeError
        If y or the learners, but not both, are on a GPU.
    ValueError
        If the method is unknown or does not fit on the device, if it does not have the
        `gemv_variant`, if y has another shape or is on another GPU, or if `start` was
        made with another y or other learners.

    See Also
    --------
    make_learners, Path, BoostedGAM

    Notes
    -----
    A step selects the first learner with the least unpenalised sum of squares, like
    mboost's ``gamboost`` with ``family = Gaussian()``.

    All sums are in float64. "gram" keeps the rounding error of the first ``B'Wu``; the
    other methods compute it from the residuals in every step.

    References
    ----------
    .. [1] A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models
           with GPU Acceleration", 2023.
    .. [2] P. Buehlmann and T. Hothorn, "Boosting Algorithms: Regularization, Prediction
           and Model Fitting", Statistical Science 22 (2007).

    Examples
    --------
    >>> from gpusolve.gam._terms.basis import BSplines
    >>> from gpusolve.gam.learners import make_learners
    >>> X = np.random.default_rng(0).random((200, 3))
    >>> basis = BSplines.spanning(X, n_basis=8).evaluate(X)
    >>> path = boost(make_learners(basis, 8), np.sin(6 * X[:, 1]), steps=50)
    >>> path.method, path.selected[:5], bool(path.risk[-1] < 0.01 * path.risk[0])
    ('gram', array([1, 1, 1, 1, 1], dtype=int32), True)
    """
    y = on_one_device({"the learners": learners.basis.values, "y": y})["y"]
    if y.shape != (learners.rows,):
        raise ValueError(f"y must have shape ({learners.rows},), got {y.shape}")
    check_choice("method", method, METHODS)
    check_variant(gemv_variant, method)
    with current_device(y):
        y = y.astype(np.float64, copy=False)
        offset = start.offset if start else float(weighted_mean(y, learners.weights))
        made = boost_family(
            Fits(
                learners.problem,
                Gaussian(),
                y,
                start=namespace(y).full((1, 1), offset),
                learning_rate=learning_rate,
                offset=offset,
            ),
            steps,
            before=None if start is None else join_paths([start]),
            method=method,
            gemv_variant=gemv_variant,
        )
        return made.each()[0]
