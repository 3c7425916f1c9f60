"""B-splines on equidistant knots; only the nonzero values of each row are stored.

The range of a covariate is divided into ``n_basis - degree`` cells of equal width, and
the grid continues by `degree` cells beyond both ends. Within a cell, exactly
``degree + 1`` neighbouring functions are not zero, and they have the same shapes in
every cell. A row of the design matrix is therefore stored as an integer, the first of
these functions, and their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, contiguous, namespace, on_host, on_one_device
from ..._device.kernels import Device, current_device, device_of
from ..._device.launch import within
from ..._device.threads import workers
from .._data.conventions import check_choice
from . import basis_kernel
from .predictor import equidistant, unequal

OUTSIDE = ("linear", "clamp", "error")
"""Ways to evaluate an effect outside the range of the knots."""

OUT_OF_RANGE = "X must be within the range of the knots if outside='error'"

MAX_DEGREE = 5

BLOCK_NUMBERS = 2**14
"""Numbers that are evaluated at once on a host: temporary arrays stay in its cache."""


class CompactBasis(NamedTuple):
    """The nonzero values of K design matrices.

    Attributes
    ----------
    first : (K, n) int32 array
        The first function that is not zero in the row.
    values : (K, n, degree + 1) array
        The values of this function and of the next functions.

    See Also
    --------
    BSplines, penalty_matrix

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BSplines
    >>> basis = BSplines(np.array([0.0]), np.array([2.0]), n_basis=3, degree=1)
    >>> basis.evaluate(np.array([[1.5]])).values
    array([[[0.5, 0.5]]])
    """

    first: Array
    values: Array

    def dense(self, n_basis: int) -> Array:
        """The design matrices, (K, n, n_basis)."""
        xp = namespace(self.values)
        features, rows, width = self.values.shape
        with current_device(self.values):
            dense = xp.zeros((features, rows, n_basis), self.values.dtype)
            feature = xp.arange(features)[:, None, None]
            row = xp.arange(rows)[:, None]
            dense[feature, row, self.first[..., None] + xp.arange(width)] = self.values
            return dense


@dataclass(frozen=True)
class BSplines:
    """One B-spline basis for each of K covariates.

    Attributes
    ----------
    lower, upper : (K,) array
        The range of each covariate. If both ends are equal, all functions are zero.
    n_basis : int
        Number of functions of each basis, at least ``degree + 1``.
    degree : int
        Degree of the polynomials, 0 to 5.

    Raises
    ------
    ValueError
        If `degree` or `n_basis` is out of range, or the range of a covariate is not
        finite.

    See Also
    --------
    CompactBasis, bbs, penalty_matrix

    Notes
    -----
    The knots are mboost's: equidistant, and continued beyond the range instead of
    repeated at its ends.

    References
    ----------
    P. H. C. Eilers and B. D. Marx, "Flexible Smoothing with B-splines and Penalties",
    Statistical Science 11 (1996).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BSplines
    >>> basis = BSplines(np.array([0.0]), np.array([2.0]), n_basis=3, degree=1)
    >>> basis.evaluate(np.array([[0.0], [0.5], [2.0]])).dense(3)
    array([[[1. , 0. , 0. ],
            [0.5, 0.5, 0. ],
            [0. , 0. , 1. ]]])
    """

    lower: Array
    upper: Array
    n_basis: int
    degree: int = 3

    def __post_init__(self) -> None:
        check_degree(self.degree, self.n_basis)
        with np.errstate(over="ignore"):
            width = on_host(self.upper) - on_host(self.lower)
        if not (np.isfinite(width) & (width >= 0)).all():
            raise ValueError(
                "upper - lower must be finite and at least 0, got "
                f"{width.min()} to {width.max()}"
            )

    @classmethod
    def spanning(cls, X: Array, n_basis: int, degree: int = 3) -> BSplines:
        """The bases on the ranges of the columns of `X`, (n, K)."""
        with current_device(X):
            ends = X.min(axis=0), X.max(axis=0)
            lower, upper = (end.astype(np.float64) for end in ends)
        return cls(lower, upper, n_basis, degree)

    @property
    def cells(self) -> int:
        """Number of cells of the grid within the range of a covariate."""
        return self.n_basis - self.degree

    def evaluate(
        self, X: Array, *, outside: str = "linear", dtype: Any = np.float64
    ) -> CompactBasis:
        """Evaluate the functions of every covariate at every row.

        Parameters
        ----------
        X : (n, K) array
            Finite numbers, in any memory layout, on the device of `lower`.
        outside : {"linear", "clamp", "error"}, optional
            Outside the range, follow the tangent at its end, keep the value at its
            end, or raise.
        dtype : dtype, optional
            The dtype of the values. They are computed in float64 and then rounded.

        Raises
        ------
        ValueError
            If `outside` is unknown, if it is "error" and a value is outside the range,
            or if `X` is on another GPU.
        TypeError
            If `X` or the ranges, but not both, are on a GPU.
        """
        check_choice("outside", outside, OUTSIDE)
        X = on_one_device({"lower": self.lower, "upper": self.upper, "X": X})["X"]
        with current_device(X):
            return self._evaluate(X, outside, dtype)

    def _evaluate(self, X: Array, outside: str, dtype: Any) -> CompactBasis:
        """`evaluate` without checks. The ranges may be on the host."""
        device = device_of(X)
        if device is not None:
            return self._evaluate_on(device, X, outside, np.dtype(dtype))
        rows, columns = X.shape
        first = np.empty((columns, rows), np.int32)
        values = np.empty((columns, rows, self.degree + 1), dtype)

        def write(some: slice) -> None:
            for part in within(some, BLOCK_NUMBERS // max(1, columns)):
                x = np.ascontiguousarray(X[part].T)
                self._write(x, outside, first[:, part], values[:, part])

        with workers(rows, columns) as run:
            run(write)
        return CompactBasis(first, values)

    def _evaluate_on(
        self, device: Device, X: Array, outside: str, dtype: np.dtype[Any]
    ) -> CompactBasis:
        """`_evaluate` by a kernel. Only ``outside="error"`` synchronises."""
        ends = (namespace(X).asarray(end) for end in (self.lower, self.upper))
        first, values, is_outside = basis_kernel.evaluate_basis(
            X,
            *(contiguous(end, np.float64) for end in ends),
            cells=self.cells,
            degree=self.degree,
            outside=outside,
            dtype=dtype if dtype in basis_kernel.REALS else np.dtype(np.float64),
            device=device,
        )
        if is_outside is not None and bool(is_outside[0]):
            raise ValueError(OUT_OF_RANGE)
        return CompactBasis(first, values.astype(dtype, copy=False))

    def _write(self, x: Array, outside: str, first: Array, values: Array) -> None:
        """Write the nonzero values at `x`, (K, n), to `first` and `values`."""
        lower, upper = self.lower[:, None], self.upper[:, None]
        varies = (upper - lower) / self.cells > 0
        cell, splines, slopes, excess = equidistant(
            x, lower, upper, self.cells, self.degree
        )
        beyond = outside != "clamp" and bool(((x < lower) | (x > upper)).any())
        if beyond and outside == "error":
            raise ValueError(OUT_OF_RANGE)
        first[...] = cell
        for k, (spline, slope) in enumerate(zip(splines, slopes, strict=True)):
            value = spline + slope * excess if beyond else spline
            values[..., k] = value * varies


def check_degree(degree: int, n_basis: int) -> None:
    """ValueError for a degree out of range, or too few functions for the degree."""
    if not 0 <= degree <= MAX_DEGREE:
        raise ValueError(f"degree must be 0 to {MAX_DEGREE}, got {degree}")
    if n_basis <= degree:
        raise ValueError(
            f"n_basis must be at least degree + 1 = {degree + 1}, got {n_basis}"
        )


# ---- penalties -----------------------------------------------------------------------


Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

PENALTIES = ("difference", "ridge", "cyclic", None)


def differences(n_basis: int, order: int, *, cyclic: bool = False) -> Matrix:
    """The matrix that takes differences of neighbouring coefficients, `order` times.

    It has `order` rows less than columns; if cyclic, the last coefficient is a
    neighbour of the first, and the matrix is square.

    Examples
    --------
    >>> differences(4, 2)
    array([[ 1., -2.,  1.,  0.],
           [ 0.,  1., -2.,  1.]])
    """
    D = np.eye(n_basis)
    for _ in range(order):
        D = np.roll(D, -1, axis=0) - D if cyclic else np.diff(D, axis=0)
    return D


def penalty_matrix(n_basis: int, kind: str | None, order: int = 2) -> Matrix:
    """The matrix P of the penalty ``c' P c``.

    Parameters
    ----------
    n_basis : int
        Number of coefficients c of an effect.
    kind : {"difference", "ridge", "cyclic", None}
        What is penalised: differences of neighbouring coefficients, which gives
        P-splines; the coefficients themselves; differences around a ring, in which the
        last coefficient is a neighbour of the first; nothing.
    order : int, optional
        Order of the differences, 1 to 3.

    Returns
    -------
    (n_basis, n_basis) float64 array

    Raises
    ------
    ValueError
        If `kind` or `order` is unknown, or `n_basis` is too small for the order.

    See Also
    --------
    BSplines, bbs

    References
    ----------
    P. H. C. Eilers and B. D. Marx, "Flexible Smoothing with B-splines and Penalties",
    Statistical Science 11 (1996).

    Examples
    --------
    >>> penalty_matrix(3, "difference", order=1)
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    check_choice("penalty", kind, PENALTIES)
    if kind is None:
        return np.zeros((n_basis, n_basis))
    if kind == "ridge":
        return np.eye(n_basis)
    if order not in (1, 2, 3):
        raise ValueError(f"penalty_order must be 1, 2 or 3, got {order}")
    if n_basis <= order:
        raise ValueError(
            f"n_basis must be greater than penalty_order = {order}, got {n_basis}"
        )
    D = differences(n_basis, order, cyclic=kind == "cyclic")
    return D.T @ D


def kronecker_sum(a: Matrix, b: Matrix) -> Matrix:
    """``a (x) I + I (x) b``: the penalty of a row-wise Kronecker product.

    Examples
    --------
    >>> kronecker_sum(np.array([[1.0]]), np.array([[2.0, 0.0], [0.0, 3.0]]))
    array([[3., 0.],
           [0., 4.]])
    """
    return np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b)


# ---- any knots -----------------------------------------------------------------------


@dataclass(frozen=True)
class Knots:
    """The knots of a basis: some within a range, and `degree` beyond each of its ends.

    Attributes
    ----------
    lower, upper : float
        The range. If both ends are equal, all functions are zero.
    interior : int or tuple of float
        The number of knots within the range at equal distances, or their positions,
        ascending.
    degree : int
        Degree of the polynomials, 0 to 5.
    cyclic : bool
        Whether the knots beyond the range repeat the inner knots, with the range as
        period.
    repeated : bool
        Whether the knots beyond the range repeat its ends, as in patsy and R. Otherwise
        they continue at steps of the mean distance.

    Examples
    --------
    >>> Knots(0.0, 4.0, (1.0, 3.0), 1).positions()
    array([-1.33333333,  0.        ,  1.        ,  3.        ,  4.        ,
            5.33333333])
    """

    lower: float
    upper: float
    interior: int | tuple[float, ...]
    degree: int
    cyclic: bool = False
    repeated: bool = False

    @property
    def cells(self) -> int:
        """The number of intervals between the knots within the range."""
        inner = self.interior
        return (inner if isinstance(inner, int) else len(inner)) + 1

    @property
    def functions(self) -> int:
        """The number of basis functions, before `fold`."""
        return self.cells + self.degree

    @property
    def are_uniform(self) -> bool:
        """Whether all knots are equidistant, or the range is one number."""
        has_cells = self.lower < self.upper
        return isinstance(self.interior, int) and not (self.repeated and has_cells)

    def exported(self) -> dict[str, Any]:
        """The plain values from which ``predictor.py`` computes the basis."""
        return {
            "lower": self.lower,
            "upper": self.upper,
            "cells": self.cells,
            "degree": self.degree,
            "cyclic": self.cyclic,
            "knots": None if self.are_uniform else self.positions().tolist(),
        }

    def within(self) -> NDArray[np.float64]:
        """The knots within the range, (cells - 1,)."""
        knots = self.interior
        if isinstance(knots, int):
            return np.linspace(self.lower, self.upper, knots + 2)[1:-1]
        return np.array(knots)

    def positions(self) -> NDArray[np.float64]:
        """All knots, (cells + 1 + 2 * degree,)."""
        inner = np.array([self.lower, *self.within(), self.upper])
        if self.repeated:
            return np.pad(inner, self.degree, mode="edge")
        period, cells = self.upper - self.lower, self.cells
        steps = np.arange(1, self.degree + 1)
        index = np.concatenate([-steps[::-1], cells + steps])
        beyond = (
            inner[index % cells] + index // cells * period
            if self.cyclic
            else self.lower + index * (period / cells)
        )
        return np.concatenate([beyond[: self.degree], inner, beyond[self.degree :]])

    def evaluate(self, x: Array, outside: str, dtype: Any) -> CompactBasis:
        """The cells of `x`, (n,), and the values of their functions."""
        xp = namespace(x)
        t = xp.asarray(self.positions())
        cell, splines, slopes, excess = unequal(
            x, self.lower, self.upper, self.cells, self.degree, t
        )
        excess = excess * (outside == "linear")
        values = [s + slope * excess for s, slope in zip(splines, slopes, strict=True)]
        stacked = contiguous(xp.stack(values, axis=1), dtype)
        return CompactBasis(cell[None], stacked[None])

    def slope_matrix(self) -> Matrix:
        """The matrix from coefficients to multiples of the derivative's coefficients.

        The differences of neighbours; for unequal knots, divided by the distances of
        the functions' centres.
        """
        D = differences(self.functions, 1)
        if self.are_uniform:
            return D
        t, p = self.positions(), max(self.degree, 1)
        shift = min(self.degree, 1)
        centres = np.array(
            [t[i + shift : i + shift + p].mean() for i in range(self.functions)]
        )
        distance = np.diff(centres)
        return np.asarray(D / (distance / distance.mean())[:, None])

    def fold(self) -> Matrix | None:
        """The matrix that adds the functions a period apart; None unless cyclic."""
        if not self.cyclic:
            return None
        return np.eye(self.cells)[np.arange(self.functions) % self.cells]
