"""Componentwise boosting of penalised learners for the squared error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host, on_one_device
from .._device.kernels import current_device, device_of
from .._device.threads import one_blas_thread
from . import _boosting_cpu, _boosting_direct
from .learners import Learners

METHODS = ("auto", "direct", "stacked", "gram")

BLOCK_BYTES = 2**31
"""The most memory that the blocks of ``B'B`` may take for "auto" to choose them."""

SAME_RISK = 1e-6
"""How far the risk may be from a path's for the data to be that path's, relatively."""

ROUNDING = 1e-13
"""Of a number, what rounding may have made of it in sums over many rows."""

DOUBLE = 8

ENTRY_COST = 25
"""What an entry of a block costs on a host, in nonzeros that a pass visits."""


@dataclass(frozen=True)
class Path:
    """The steps of a fit, on the host wherever the fit was made.

    Attributes
    ----------
    offset : float
        What the model starts from: the weighted mean of y.
    selected : (steps,) int32 array
        The learner that each step selected.
    updates : (steps, k) float64 array
        What the step added to the coefficients of that learner.
    risk : (steps + 1,) float64 array
        The weighted sum of squared residuals before the first step and after each.
    method : str
        The method that made the steps, the last of them if several did.
    """

    offset: float
    selected: NDArray[np.int32]
    updates: NDArray[np.float64]
    risk: NDArray[np.float64]
    method: str

    def __len__(self) -> int:
        return len(self.selected)

    def coef(self, learners: int, iteration: int | None = None) -> NDArray[np.float64]:
        """The coefficients after some steps, or all, (learners, k).

        Examples
        --------
        >>> updates = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> path = Path(0.0, np.int32([1, 0, 1]), updates, np.zeros(4), "gram")
        >>> path.coef(2)
        array([[3., 4.],
               [6., 8.]])
        >>> path.coef(2, iteration=1)
        array([[0., 0.],
               [1., 2.]])
        """
        coef = np.zeros((learners, self.updates.shape[1]))
        np.add.at(coef, self.selected[:iteration], self.updates[:iteration])
        return coef

    def followed_by(self, later: Path) -> Path:
        """The path with the steps of one that went on from its end."""
        return Path(
            self.offset,
            np.concatenate([self.selected, later.selected]),
            np.concatenate([self.updates, later.updates]),
            np.concatenate([self.risk, later.risk[1:]]),
            later.method,
        )


def plan(learners: Learners, steps: int) -> str:
    """The method that "auto" stands for.

    "gram" is chosen where its blocks of ``B'B`` fit into `BLOCK_BYTES` and are expected
    to cost less than the passes over the rows that "stacked" makes, one a step. How
    many learners will be selected is not known; twice the root of the number of steps
    is a fair guess. On a host, where a block is made when it is first wanted, so many
    have to fit, and a fit that selects more learners takes more memory. On a device all
    that there could be are allocated at once, and have to fit; a block needs a place in
    shared memory there, too.

    Examples
    --------
    >>> from gpusolve.gam.basis import BSplines
    >>> from gpusolve.gam.learners import make_learners
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> basis = BSplines.spanning(X, n_basis=8).evaluate(X)
    >>> learners = make_learners(basis, 8)
    >>> plan(learners, 5), plan(learners, 100)
    ('stacked', 'gram')
    """
    possible = min(len(learners), steps)
    expected = min(possible, math.ceil(2 * math.sqrt(steps)))
    allocated = expected if device_of(learners.values) is None else possible
    if allocated * learners.gram.size * DOUBLE > BLOCK_BYTES:
        return "stacked"
    if not has_place_for_gram(learners):
        return "stacked"
    return "gram" if expected * passes_of_a_block(learners) < steps else "stacked"


def passes_of_a_block(learners: Learners) -> float:
    """What a block of ``B'B`` costs, in passes over the rows of all learners.

    Of a row, a block multiplies each of the ``degree + 1`` nonzeros by as many. And it
    writes k x k numbers for each learner, however few rows there are. On four cores,
    k = 32 and degree 3, that was 3.5 passes of 1e5 rows and 10 of 1e3.
    """
    width, k = learners.values.shape[-1], learners.n_basis
    return float(width + ENTRY_COST * k**2 / (learners.rows * width))


def has_place_for_gram(learners: Learners) -> bool:
    """Whether shared memory, where it is needed, holds what "gram" puts there."""
    device = device_of(learners.values)
    if device is None:
        return True
    from ._gram_kernel import gram_warps

    limit = device.shared_memory_per_block
    return gram_warps(len(learners), learners.n_basis, limit) > 0


def weighted_mean(y: Array, weights: Array | None) -> float:
    """The mean of y, in float64."""
    if weights is None:
        return float(y.mean())
    return float((weights @ y) / weights.sum())


def residual_of(learners: Learners, y: Array, path: Path) -> Array:
    """What the model at the end of a path leaves of y, (n,)."""
    xp = namespace(y)
    residual = y - path.offset
    coef = xp.asarray(path.coef(len(learners)))
    for learner in np.unique(path.selected).tolist():
        residual = residual - learners.fitted(learner, coef[learner])
    return residual


def checked_target(y: Array, learners: Learners) -> Array:
    """The target, (n,) of float64 where the learners live."""
    y = on_one_device({"the learners": learners.values, "y": y})["y"]
    if y.shape != (learners.rows,):
        raise ValueError(f"y has shape {y.shape}; ({learners.rows},) is wanted")
    return y.astype(np.float64, copy=False)


def check_goes_on(learners: Learners, y: Array, residual: Array, path: Path) -> None:
    """ValueError unless the residual is the one at the end of the path."""
    found = float(residual @ learners.weighted(residual))
    rounding = ROUNDING**2 * float(y @ learners.weighted(y))
    if abs(found - path.risk[-1]) > SAME_RISK * path.risk[0] + rounding:
        raise ValueError(
            f"a warm start wants the data of its path: the risk is {found}, and it "
            f"was {path.risk[-1]} at the end of the path"
        )


def make_steps(
    learners: Learners, residual: Array, learning_rate: float, steps: int, method: str
) -> tuple[Array, Array, Array]:
    """Make the steps where the learners live."""
    if method == "direct":
        with one_blas_thread():
            return _boosting_direct.boost(learners, residual, learning_rate, steps)
    device = device_of(residual)
    if device is None:
        return _boosting_cpu.boost(learners, residual, learning_rate, steps, method)
    from . import _boosting_kernel

    return _boosting_kernel.boost(
        learners, residual, learning_rate, steps, method, device
    )


def boost(
    learners: Learners,
    y: Array,
    *,
    learning_rate: float = 0.1,
    steps: int = 100,
    method: str = "auto",
    start: Path | None = None,
) -> Path:
    """Boost: again and again, fit all learners to the residual and follow the best.

    Parameters
    ----------
    learners : Learners
    y : (n,) array
        Where the learners live.
    learning_rate : float, optional
        How far each step goes towards the fit of its learner.
    steps : int, optional
        How many to make, after those of `start`.
    method : {"auto", "direct", "stacked", "gram"}, optional
        "direct" is the algorithm as the paper writes it, on dense design matrices.
        "stacked" makes one pass over their nonzeros in each step. "gram" makes blocks
        of their cross products and does without the rows from then on. All make the
        same steps. "auto" is "stacked" or "gram", as `plan` says.
    start : Path, optional
        Go on from its end, with the same learners and y.

    Returns
    -------
    Path
        From the first step of `start`, if there is one.

    Raises
    ------
    TypeError
        For y on the CPU and learners on a GPU, or the other way round.
    ValueError
        For an unknown method, y of another shape or on another GPU, or a `start` whose
        end is not where y and the learners are.

    Notes
    -----
    A step selects the first learner with the least unpenalised sum of squares. This is
    mboost's ``gamboost`` with ``family = Gaussian()``.

    All sums are in float64. "gram" knows ``B'Wu`` to the rounding of what it was in the
    beginning; the others make it from the residuals again and again.

    References
    ----------
    .. [1] A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models
           with GPU Acceleration", 2023.
    .. [2] P. Buehlmann and T. Hothorn, "Boosting Algorithms: Regularization, Prediction
           and Model Fitting", Statistical Science 22 (2007).

    Examples
    --------
    >>> from gpusolve.gam.basis import BSplines
    >>> from gpusolve.gam.learners import make_learners
    >>> X = np.random.default_rng(0).random((200, 3))
    >>> basis = BSplines.spanning(X, n_basis=8).evaluate(X)
    >>> path = boost(make_learners(basis, 8), np.sin(6 * X[:, 1]), steps=50)
    >>> path.method, path.selected[:5], bool(path.risk[-1] < 0.01 * path.risk[0])
    ('gram', array([1, 1, 1, 1, 1], dtype=int32), True)
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; one of {METHODS} is wanted")
    with current_device(learners.values):
        y = checked_target(y, learners)
        if start is None:
            offset = weighted_mean(y, learners.weights)
            residual = y - offset
        else:
            offset = start.offset
            residual = residual_of(learners, y, start)
            check_goes_on(learners, y, residual, start)
        chosen = plan(learners, steps) if method == "auto" else method
        made = make_steps(learners, residual, learning_rate, steps, chosen)
    selected, updates, risk = (on_host(array) for array in made)
    path = Path(offset, selected, updates, risk, chosen)
    return path if start is None else start.followed_by(path)
