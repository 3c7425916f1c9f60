"""The result of batched least squares within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic

import numpy as np

from .._device.arrays import Array, ArrayT, is_cupy, is_dask, namespace, unwrapped
from .._device.interrupts import interruptible
from .._device.kernels import current_device
from .._numerics.certificate import BY_GRAM, BY_QR, Solution
from .arguments import COMPARED
from .covariance import covariance
from .feasibility import Proof, proof_of
from .gradients import Gradients, product, pull_back
from .labels import Labels, label, plain
from .problem import seminorm

SOLUTION_FIELDS = Solution._fields

METHOD_NAMES = {
    "gram": BY_GRAM,
    "qr": BY_QR,
    **{name: method.number for name, method in COMPARED.items()},
}


@dataclass(frozen=True)
class NNLSResult(Generic[ArrayT]):
    r"""Solutions of a batch of systems; unpacks as ``x, rnorm = result``.

    It is returned by `nnls`, `lsq_linear` and `bounded_qp`. The arrays are on the
    device of the inputs; for dask arrays they are dask arrays, and
    ``dask.compute(result)`` has NumPy's. ``...`` stands for the batch axes. A and b are
    the given arrays, with rows multiplied by the square roots of the weights. With L,
    `kkt` and `status` are those of A and b with rows below them: L and ``L prior``,
    multiplied by the square root of `lam`.

    Attributes
    ----------
    x : (..., n) array
        The solutions, within the bounds.
    rnorm : (...,) array
        ``|b - A x|``, the 2-norm of the residual of the returned x. Where terms cancel,
        the residual is computed in twice the working precision. With L it is the
        residual of A and b alone, in float64; `seminorm` has the penalty.
    dual : (..., n) array
        The negative gradient ``A^T (b - A x) - l1 - l2 x``, with L also
        ``- lam L^T L (x - prior)``. Up to rounding it is 0
        where x is between its bounds, at most 0 where x is at its lower bound, and at
        least 0 where x is at its upper bound. With `sum_to` the multiplier of the sum
        has been subtracted. It belongs to x before x was rounded to its dtype; a row of
        A with a large weight may magnify the difference.
    kkt : (...,) array
        The certificate: an upper bound on how far ``|b - A x|`` is above the minimum,
        relative to B. For every feasible x' (without penalties, to first order)

        .. math:: |b - A x| \le |b - A x'| + kkt \, (B + \sum_k |a_k| \, |x'_k - p_k|).

        Here p_k is the bound next to x_k, or 0 if 0 is nearer (x_k itself if it has no
        bounds), and B is
        ``|b| + sum_k |a_k z_k|`` for the feasible z next to 0. For ``x >= 0`` p_k is 0,
        and B is ``|b|``. It is computed from A, b, x and a witness: a vector that
        bounds all residuals from below. It is never divided by x. An optimal x has a
        `kkt` of a few eps, or more where x is so large that rounding x changes ``A x``:
        by up to ``eps sum_k |a_k x_k|``.
        With linear constraints, x' are the points that satisfy them, p_k is 0, and B is
        ``|b|`` plus a lower bound of the largest ``|a_k x'_k|`` of these points. The
        slack of constraints counts with their multipliers; an x that violates a
        constraint has an infinite `kkt`.
    nit : (...,) int32 array
        Number of least-squares solutions that were computed: one per passive set.
    status : (...,) int32 array
        0: converged and certified. `kkt` is at most 1e-10 (float32: 1e-4), or at most
        `tol` if that is larger. Rounding in x may add up to
        ``8 eps sum_k |a_k x_k| / B``.
        1: stopped at `maxiter`; x is the best feasible point so far.
        2: A, b or an option contains NaN or infinity (bounds may be infinite), or a
        weight or penalty is negative; all floating-point fields are NaN. Rows of
        weight 0 do not count.
        3: not certified; x is the best point found. Either `kkt` shows how far x may
        be from the optimum; or x is so large that rounding it changes ``b - A x`` by
        more than 1e-6 B (float32: 1e-3), as with nearly dependent columns.
        4: infeasible: the bounds contradict each other, the sum or the linear
        constraints, by more than the rounding of what was given; or all weights are
        zero. All floating-point fields are NaN; :meth:`proof` has the proof.
        -1: not solved; in the caller's array, after an interrupt.
    n_updates, n_downdates : (...,) int32 array
        Number of columns that entered and that left the passive set.
    repaired : (...,) bool array
        Whether the system was solved a second time, because the first solution was not
        certified: by ``"qr"`` after ``"gram"``, or with a larger threshold for
        dependent columns.
    method : (...,) uint8 array
        The method that found x: 0 for ``"gram"``, 1 for ``"qr"``, and 2 to 10 for the
        compared methods in the order of `nnls`. With linear constraints, the method
        that found the multipliers.
    dual_ub, dual_eq : (..., rows) array or None
        With linear constraints, their multipliers; `dual_ub` is not negative. Up to
        rounding ``A^T (b - A x) - l1 - l2 x`` is
        ``dual + A_ub^T dual_ub + A_eq^T dual_eq``, and `dual` is what remains for the
        bounds. A multiplier is the fall of the objective for each unit by which its
        element of b_ub or b_eq rises.

    See Also
    --------
    nnls, lsq_linear, bounded_qp

    Examples
    --------
    >>> import gpusolve
    >>> result = gpusolve.nnls([[3.0, 2.0], [1.0, 1.0]], [3.0, 2.0])
    >>> result.x.round(6), result.rnorm.round(6)
    (array([0. , 1.6]), np.float64(0.447214))
    >>> int(result.status), bool(result.kkt < 1e-14)
    (0, True)
    """

    x: ArrayT
    rnorm: ArrayT | Any  # a number for one system, as all fields without (..., n)
    dual: ArrayT
    kkt: ArrayT | Any
    nit: ArrayT | Any
    status: ArrayT | Any
    n_updates: ArrayT | Any
    n_downdates: ArrayT | Any
    repaired: ArrayT | Any
    method: ArrayT | Any
    dual_ub: ArrayT | None = None
    dual_eq: ArrayT | None = None
    _given: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)
    _labels: Labels | None = field(repr=False, compare=False, default=None)

    def __iter__(self) -> Iterator[ArrayT | Any]:
        return iter((self.x, self.rnorm))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int | slice) -> Any:
        return (self.x, self.rnorm)[index]

    def _asdict(self) -> dict[str, ArrayT | Any]:
        """The arrays by name, as for a named tuple."""
        found = {
            item.name: getattr(self, item.name) for item in fields(self) if item.compare
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def residual(self) -> ArrayT:
        """``b - A x``, a (..., m) array; with `bounded_qp` ``c - G x``.

        Each access computes it from the given A and b, which must not have changed
        since. Weights do not affect it: it has rows of weight 0, too. It is NaN where x
        is.
        """
        x = computed(plain(self.x))
        A, b = self._given["A"], self._given["b"]
        with current_device(x), np.errstate(invalid="ignore"):
            known = ~namespace(x).isnan(x).any(axis=-1, keepdims=True)
            found = namespace(x).where(known, b - product(A, x), np.nan)
        residual: ArrayT = label(self._labels, found, "residual")
        return residual

    @property
    def seminorm(self) -> ArrayT | Any:
        """``|L (x - prior)|`` without `lam`, a (...,) array.

        Each access computes it. ValueError if there was no L.
        """
        x = computed(plain(self.x))
        if self._given["L"] is None:
            raise ValueError("seminorm needs a result with L, got L=None")
        with current_device(x):
            found = unwrapped(seminorm(self._given, x))
        return label(self._labels, found, "seminorm")

    @property
    def method_counts(self) -> dict[str, int]:
        """The number of systems for which each method found x.

        Compared methods are left out if they found none. On a GPU, this waits for the
        solver.
        """
        counts = {
            name: int((plain(self.method) == number).sum())
            for name, number in METHOD_NAMES.items()
        }
        return {
            name: count
            for name, count in counts.items()
            if count or name not in COMPARED
        }

    def covariance(self, variance: Any = None) -> ArrayT:
        """The covariance of x, as if its active constraints had been known before.

        Variables at a bound count as constants. For the others, F,

            ``variance G_F^-1``,   ``G = A^T W A + lam L^T L + diag(l2)``.

        Active constraints are equalities, a fixed sum, and inequalities that have a
        multiplier, or that a change of x cannot leave as long as it keeps the others:
        an equality that was given as two inequalities, and a row that was given twice.
        With them it is ``variance Z (Z^T G Z)^-1 Z^T``, where the columns
        of Z are a basis of the changes of F that keep them. The Gram matrix is
        inverted: the relative error is about eps times the square of the
        condition number of ``A_F``, with columns of unit norm.

        Parameters
        ----------
        variance : float or (...,) array_like, optional
            The variance of an element of b of weight 1. Default: 1 if there are
            weights, which then are inverse variances, and for `bounded_qp`, where G is
            an inverse covariance; else ``rnorm**2 / (m - p)``. Here p is the number of
            columns of Z; with L it is the trace of the influence matrix, the derivative
            of ``A x`` by b. Masked arrays have weights, 0 and 1: their default is 1,
            too.

        Returns
        -------
        (..., n, n) array
            It is 0 for variables at a bound. It is NaN for an infeasible system,
            for a singular matrix, and, without a variance, unless ``m - p`` is
            positive.

        Examples
        --------
        >>> import gpusolve
        >>> result = gpusolve.nnls([[1, 0], [1, 0], [0, 1]], [1, 3, -1])
        >>> result.covariance(variance=1)
        array([[0.5, 0. ],
               [0. , 0. ]])

        With a fixed difference, the errors of both variables are the same:

        >>> rows = {"A_eq": [[1, -1]], "b_eq": [1]}
        >>> result = gpusolve.lsq_linear([[1, 0], [1, 0], [0, 1]], [1, 3, -1], **rows)
        >>> result.covariance(variance=3).round(12)
        array([[1., 1.],
               [1., 1.]])
        """
        found: ArrayT = label(
            self._labels, self._covariance(variance, diagonal=False), "covariance"
        )
        return found

    def variance(self, variance: Any = None) -> ArrayT:
        """The diagonal of `covariance`, without the memory of the whole.

        Its root is the standard error of x.

        Parameters
        ----------
        variance : float or (...,) array_like, optional
            As for `covariance`.

        Returns
        -------
        (..., n) array

        Examples
        --------
        >>> import gpusolve
        >>> gpusolve.nnls([[1, 0], [1, 0], [0, 1]], [1, 3, -1]).variance(1)
        array([0.5, 0. ])
        """
        found: ArrayT = label(
            self._labels, self._covariance(variance, diagonal=True), "x"
        )
        return found

    def _covariance(self, variance: Any, *, diagonal: bool) -> Array:
        """The covariance or its diagonal, without labels."""
        x, rnorm = computed(plain(self.x)), plain(self.rnorm)
        with current_device(x):
            return interruptible(
                self._work,
                covariance,
                self._given,
                x,
                rnorm,
                self._duals,
                plain(variance),
                diagonal=diagonal,
            )

    def proof(self) -> Proof[ArrayT]:
        """The proofs that the systems of status 4 have no solution.

        Each call computes them. They are multipliers of all constraints, in float64
        also for float32 systems.

        Returns
        -------
        Proof
            Arrays without labels; NaN for systems without a proof.

        Examples
        --------
        Two numbers of at least 1, whose sum is at most 1:

        >>> import gpusolve
        >>> rows = {"A_ub": [[1.0, 1.0]], "b_ub": [1.0]}
        >>> result = gpusolve.lsq_linear([[1.0, 0.0]], [1.0], (1, 9), **rows)
        >>> int(result.status), result.proof().ub
        (4, array([1.]))
        """
        status = computed(plain(self.status))
        with current_device(status):
            status = namespace(status).asarray(status)
            found: Proof[ArrayT] = proof_of(self._given, status)
        return found

    @property
    def _work(self) -> float:
        """An estimate of the multiplications of a factorisation; 0 on a GPU."""
        x = plain(self.x)
        m, n = self._given["A"].shape[-2:]
        return 0.0 if is_cupy(x) else float(x.size) * n * (m + n)

    @property
    def _duals(self) -> tuple[Any, Any]:
        return plain(self.dual_ub), plain(self.dual_eq)

    def vjp(self, x_bar: Any) -> Gradients[ArrayT]:
        """The gradients of a function of x with respect to the arguments.

        This is the vector-Jacobian product of reverse-mode differentiation. It takes
        the factor of the variables between their bounds; variables at a bound move with
        the bound. Active constraints count as equalities, as for `covariance`.

        Parameters
        ----------
        x_bar : (..., n) array_like
            The gradient of the function with respect to x.

        Returns
        -------
        Gradients
            Arrays without labels. A shared argument has the sum over all systems that
            it is shared by.

        Raises
        ------
        ValueError
            If `x_bar` does not broadcast to the shape of x.

        Notes
        -----
        x is a piecewise smooth function of the arguments. Where a variable is at a
        bound and its multiplier is zero, x has one-sided derivatives only, and the
        result belongs to the side on which the variable stays at its bound. If the
        free columns are dependent, x is not unique, and the result belongs to the
        change of x of least norm, with columns of unit size. Where two bounds are
        equal, each has half of the gradient. A system without a solution has gradients
        of zero.

        Examples
        --------
        >>> import gpusolve
        >>> result = gpusolve.nnls([[2, 0], [0, 1]], [3, -1])
        >>> gradients = result.vjp([1, 1])
        >>> gradients.b
        array([0.5, 0. ])
        >>> gradients.A
        array([[-0.75,  0.  ],
               [-0.25,  0.  ]])
        """
        x = computed(plain(self.x))
        with current_device(x):
            x_bar = namespace(x).asarray(plain(x_bar))
            try:
                x_bar = namespace(x).broadcast_to(x_bar, x.shape)
            except ValueError as error:
                raise ValueError(
                    f"x_bar must broadcast to shape {x.shape}, got {x_bar.shape}"
                ) from error
            found: Gradients[ArrayT] = interruptible(
                self._work, pull_back, self._given, x, x_bar, self._duals
            )
        return found


NNLSResult.__module__ = "gpusolve"  # pickles stay valid if the class moves


def make_result(
    solution: Solution, given: dict[str, Any], labels: Labels | None
) -> NNLSResult[Any]:
    """The result of a solution, with labels on its fields.

    NumPy's arrays without axes become scalars.
    """
    found = [field if field is None or field.ndim else field[()] for field in solution]
    result: NNLSResult[Any] = NNLSResult.__new__(NNLSResult)
    # The constructor of a frozen data class takes longer: it sets one field at a time.
    result.__dict__.update(zip(SOLUTION_FIELDS, found, strict=True), _given=given)
    if labels is None:
        return result
    named = {name: label(labels, v, name) for name, v in result._asdict().items()}
    return replace(result, **named, _labels=labels)


def computed(x: Array) -> Array:
    """The array. TypeError for a dask array."""
    if is_dask(x):
        raise TypeError(
            "residual, seminorm, covariance and vjp need a result of NumPy or CuPy "
            "arrays, got dask arrays: call dask.compute(result) first"
        )
    return x
