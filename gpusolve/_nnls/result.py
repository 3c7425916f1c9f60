"""The result of batched least squares within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .._device.arrays import Array


@dataclass(frozen=True)
class NNLSResult:
    """Solutions of a batch of systems; unpacks as ``x, rnorm = result``.

    It is returned by `nnls`, `lsq_linear` and `bounded_qp`. The arrays are on the
    device of the inputs. ``...`` stands for the batch axes. A and b are the given ones,
    with rows multiplied by the square roots of the weights.

    Attributes
    ----------
    x : (..., n) array
        The solutions, within the bounds.
    rnorm : (...,) array
        ``|b - A x|``, the 2-norm of the residual of the returned x. Where terms cancel,
        the residual is computed in twice the working precision.
    dual : (..., n) array
        The negative gradient ``A^T (b - A x) - l1 - l2 x``. Up to rounding it is 0
        where x is between its bounds, at most 0 where x is at its lower bound, and at
        least 0 where x is at its upper bound. With `sum_to` the multiplier of the sum
        has been subtracted. It belongs to x before x was rounded to its dtype; a row of
        A with a large weight may magnify the difference.
    kkt : (...,) array
        The certificate: an upper bound on how far ``|b - A x|`` is above the minimum,
        relative to B. For every feasible x' (without penalties, to first order)

            ``|b - A x| <= |b - A x'| + kkt (B + sum_k |a_k| |x'_k - p_k|)``.

        Here p_k is the bound next to x_k (x_k itself if it has none), and B is |b| plus
        ``sum_k |a_k z_k|`` for the feasible z next to 0. For ``x >= 0`` p_k is 0, and B
        is |b|. It is computed from A, b, x and a witness: a vector that bounds all
        residuals from below. It is never divided by x. An optimal x has a `kkt` of a
        few eps, or more where x is so large that rounding x changes ``A x``: by up to
        ``eps sum_k |a_k x_k|``.
    nit : (...,) int32 array
        Number of least-squares solutions that were computed, one for each passive set.
    status : (...,) int32 array
        0: converged and certified. `kkt` is at most 1e-10 (float32: 1e-4), or at most
        `tol` if that is larger. Rounding in x may add up to
        ``8 eps sum_k |a_k x_k| / B``.
        1: stopped at `maxiter`; x is the best feasible point so far.
        2: A, b or an option contains NaN or infinity (bounds may be infinite), or a
        weight or penalty is negative; all floating-point fields are NaN.
        3: not certified; x is the best point found. Either `kkt` shows how far x may
        be from the optimum; or x is so large that rounding it changes ``b - A x`` by
        more than 1e-6 B (float32: 1e-3), as with nearly dependent columns.
        4: there is no solution: the bounds contradict each other or the sum, or all
        weights are zero. All floating-point fields are NaN.
    n_updates, n_downdates : (...,) int32 array
        Number of columns that entered and that left the passive set.
    repaired : (...,) bool array
        Whether the system was solved a second time, because the first solution was not
        certified: by ``"qr"`` after ``"gram"``, or with a larger threshold for
        dependent columns.
    method : (...,) uint8 array
        The method that found x: 0 for ``"gram"``, 1 for ``"qr"``.
    """

    x: Array
    rnorm: Array
    dual: Array
    kkt: Array
    nit: Array
    status: Array
    n_updates: Array
    n_downdates: Array
    repaired: Array
    method: Array
    _given: dict[str, Any] = field(repr=False, compare=False)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.x, self.rnorm))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int | slice) -> Any:
        return (self.x, self.rnorm)[index]
