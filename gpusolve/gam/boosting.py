"""Componentwise boosting of penalised learners for the squared error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host, on_one_device
from .._device.kernels import Device, current, device_of
from .._device.threads import one_blas_thread
from .._gemv.gemv import VARIANTS
from ._boosting import boosting_cpu, boosting_kernel
from ._boosting.gram_kernel import DOUBLE, gram_fits, stacked_fits
from ._families.location import weighted_mean
from ._stacked import stacked_kernel
from .learners import Learners

METHODS = ("auto", "direct", "stacked", "gram")

BLOCK_BYTES = 2**31
"""Memory limit for the blocks of ``B'B``, in bytes, for "auto" to choose "gram"."""

RISK_TOLERANCE = 1e-6
"""Relative difference between two risks up to which they are considered equal."""

ROUNDING = 1e-13
"""Relative rounding error of sums over many rows."""

ENTRY_COST = 25
"""Cost of computing one entry of a block on a host, in nonzeros that a pass reads."""


@dataclass(frozen=True)
class Path:
    """The steps of a fit, as arrays on the host.

    Attributes
    ----------
    offset : float
        The model before the first step; 0 if it differs from row to row.
    selected : (steps,) int32 array
        The learner that each step selected.
    updates : (steps, k) float64 array
        The change of that learner's coefficients; padded with zeros if other learners
        have more of them.
    risk : (steps + 1,) float64 array
        The weighted sum of losses before the first step and after each: of the squared
        residuals for the Gaussian family.
    method : str
        The method that made the steps, or the last of them.
    nuisance : (steps + 1,) float64 array or None
        The adaptive parameter of the family before the first step and after each; None
        if it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import Path
    >>> updates = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> path = Path(0.0, np.int32([1, 0, 1]), updates, np.zeros(4), "gram")
    >>> path.coef(2)
    array([[3., 4.],
           [6., 8.]])
    >>> path.coef(2, iteration=1)
    array([[0., 0.],
           [1., 2.]])
    """

    offset: float
    selected: NDArray[np.int32]
    updates: NDArray[np.float64]
    risk: NDArray[np.float64]
    method: str
    nuisance: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.selected)

    def coef(self, learners: int, iteration: int | None = None) -> NDArray[np.float64]:
        """The coefficients after some of the steps, or after all, (learners, k)."""
        coef = np.zeros((learners, self.updates.shape[1]))
        np.add.at(coef, self.selected[:iteration], self.updates[:iteration])
        return coef

    def followed_by(self, later: Path) -> Path:
        """The path with the steps of `later` appended, which continues it."""
        nuisance = later.nuisance
        if self.nuisance is not None and nuisance is not None:
            nuisance = np.concatenate([self.nuisance, nuisance[1:]])
        return Path(
            self.offset,
            np.concatenate([self.selected, later.selected]),
            np.concatenate([self.updates, later.updates]),
            np.concatenate([self.risk, later.risk[1:]]),
            later.method,
            nuisance,
        )

    def until(self, iteration: int) -> Path:
        """The first steps of the path."""
        return Path(
            self.offset,
            self.selected[:iteration],
            self.updates[:iteration],
            self.risk[: iteration + 1],
            self.method,
            None if self.nuisance is None else self.nuisance[: iteration + 1],
        )


def check_method(
    method: str, learners: int, n_basis: int, device: Device | None
) -> None:
    """ValueError if the method is unknown, or does not fit in shared memory."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    if method != "direct" and not stacked_fits(n_basis, device):
        raise ValueError(
            f"n_basis must be smaller, or method 'direct': the sums of {n_basis} basis "
            "functions do not fit in shared memory"
        )
    if method == "gram" and not gram_fits(learners, n_basis, device):
        raise ValueError(
            f"method must be 'stacked' for {n_basis} basis functions of {learners} "
            "learners, which do not fit in shared memory, got 'gram'"
        )


def check_variant(gemv_variant: str, method: str) -> None:
    """ValueError if the method has no such products."""
    allowed = ("auto", *VARIANTS) if method == "direct" else ("auto",)
    if gemv_variant not in allowed:
        raise ValueError(
            f"gemv_variant must be one of {allowed} for method {method!r}, "
            f"got {gemv_variant!r}"
        )


def choose_method(learners: Learners, steps: int, device: Device | None) -> str:
    """The method that "auto" stands for.

    "gram" is chosen if its blocks of ``B'B`` fit in `BLOCK_BYTES`, and are expected to
    cost less than the passes over the rows that "stacked" makes, one in each step. The
    number of learners that will be selected is unknown; it is estimated as twice the
    square root of the number of steps.

    A host computes a block when its learner is first selected. The estimated number of
    blocks must fit; a fit that selects more learners takes more memory. A device
    allocates all blocks that can become necessary, and these must fit. On a device the
    sums of a block must also fit in shared memory.

    Examples
    --------
    >>> from gpusolve.gam.basis import BSplines
    >>> from gpusolve.gam.learners import make_learners
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> basis = BSplines.spanning(X, n_basis=8).evaluate(X)
    >>> learners = make_learners(basis, 8)
    >>> [choose_method(learners, steps, device=None) for steps in (5, 100)]
    ['stacked', 'gram']
    """
    possible = min(len(learners), steps)
    expected = min(possible, math.ceil(2 * math.sqrt(steps)))
    allocated = expected if device is None else possible
    if allocated * learners.gram.size * DOUBLE > BLOCK_BYTES:
        return "stacked"
    if not gram_fits(len(learners), learners.n_basis, device):
        return "stacked"
    return "gram" if expected * passes_of_a_block(learners) < steps else "stacked"


def passes_of_a_block(learners: Learners) -> float:
    """The cost of a block of ``B'B``, in passes over the rows of all learners.

    A block multiplies each of the ``degree + 1`` nonzeros of a row by each nonzero of
    the selected learner. It also writes k x k numbers for each learner, even for few
    rows. With four cores, k = 32 and degree 3, the measured cost of a block was 3.5
    passes of 1e5 rows, and 10 passes of 1e3 rows.
    """
    width, k = learners.values.shape[-1], learners.n_basis
    return float(width + ENTRY_COST * k**2 / (learners.rows * width))


def residual_after(learners: Learners, y: Array, path: Path) -> Array:
    """The residual of y at the end of a path, (n,)."""
    xp = namespace(y)
    residual = y - path.offset
    coef = xp.asarray(path.coef(len(learners)))
    for learner in np.unique(path.selected).tolist():
        residual = residual - learners.fitted(learner, coef[learner])
    return residual


def check_continues(learners: Learners, y: Array, residual: Array, path: Path) -> None:
    """ValueError unless the residual has the risk at the end of the path."""
    risk = float(residual @ learners.weighted(residual))
    rounding = ROUNDING**2 * float(y @ learners.weighted(y))
    if abs(risk - path.risk[-1]) > RISK_TOLERANCE * path.risk[0] + rounding:
        raise ValueError(
            "a warm start needs the data of its path: the risk must be "
            f"{path.risk[-1]}, as at the end of the path, got {risk}"
        )


def boost(
    learners: Learners,
    y: Array,
    *,
    learning_rate: float = 0.1,
    steps: int = 100,
    method: str = "auto",
    start: Path | None = None,
    gemv_variant: str = "auto",
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
        Number of steps to make, after those of `start`.
    method : {"auto", "direct", "stacked", "gram"}, optional
        "direct" is the algorithm as in the paper, with dense design matrices.
        "stacked" makes one pass over their nonzeros in each step. "gram" computes
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
        All steps, those of `start` included.

    Raises
    ------
    TypeError
        If one of y and the learners is on the CPU and the other on a GPU.
    ValueError
        If the method is unknown or does not fit on the device, if it has no such
        `gemv_variant`, if y has another shape or is on another GPU, or if y and the
        learners are not those of `start`.

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
    >>> from gpusolve.gam.basis import BSplines
    >>> from gpusolve.gam.learners import make_learners
    >>> X = np.random.default_rng(0).random((200, 3))
    >>> basis = BSplines.spanning(X, n_basis=8).evaluate(X)
    >>> path = boost(make_learners(basis, 8), np.sin(6 * X[:, 1]), steps=50)
    >>> path.method, path.selected[:5], bool(path.risk[-1] < 0.01 * path.risk[0])
    ('gram', array([1, 1, 1, 1, 1], dtype=int32), True)
    """
    y = on_one_device({"the learners": learners.values, "y": y})["y"]
    if y.shape != (learners.rows,):
        raise ValueError(f"y must have shape ({learners.rows},), got {y.shape}")
    device = device_of(y)
    check_method(method, len(learners), learners.n_basis, device)
    check_variant(gemv_variant, method)
    with current(device):
        return _boost(
            learners,
            y.astype(np.float64, copy=False),
            learning_rate=learning_rate,
            steps=steps,
            method=method,
            start=start,
            gemv_variant=gemv_variant,
            device=device,
        )


def _boost(
    learners: Learners,
    y: Array,
    *,
    learning_rate: float,
    steps: int,
    method: str,
    start: Path | None,
    device: Device | None,
    offset: float | None = None,
    gemv_variant: str = "auto",
) -> Path:
    """`boost` for checked arguments, on the current device.

    `offset` is the model before the first step; by default the weighted mean of y.
    """
    if method == "auto":
        method = choose_method(learners, steps, device)
    if start is None:
        if offset is None:
            offset = float(weighted_mean(y, learners.weights))
        residual = y - offset
    else:
        offset = start.offset
        residual = residual_after(learners, y, start)
        check_continues(learners, y, residual, start)
    made = make_steps(
        learners, residual, learning_rate, steps, method, gemv_variant, device
    )
    selected, updates, risk = (on_host(array) for array in made)
    path = Path(offset, selected, updates, risk, method)
    return path if start is None else start.followed_by(path)


def make_steps(
    learners: Learners,
    residual: Array,
    learning_rate: float,
    steps: int,
    method: str,
    gemv_variant: str,
    device: Device | None,
) -> tuple[Array, Array, Array]:
    """Make the steps on the device of the learners: ``selected, updates, risk``."""
    if method == "direct":
        from ..studies import _boosting_direct as direct

        with one_blas_thread():
            return direct.boost(learners, residual, learning_rate, steps, gemv_variant)
    if device is None:
        return boosting_cpu.boost(learners, residual, learning_rate, steps, method)
    if method == "stacked":
        return stacked_kernel.boost_residual(
            learners, residual, learning_rate, steps, device
        )
    return boosting_kernel.boost(learners, residual, learning_rate, steps, device)
