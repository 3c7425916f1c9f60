"""Semirings: two operators, and the dtypes of their operands and results."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from .._blocks.operators import operators
from .._device.kernels import CUDA_TYPES
from .._device.launch import CACHED
from ..monoid import Monoid, as_monoid


class Semiring(NamedTuple):
    """Two operators, and the dtypes that they work on.

    Attributes
    ----------
    add, multiply : Monoid
        Operators of numbers.
    factor, result : dtype
        The dtypes of the factors and of the sums.
    """

    add: Monoid
    multiply: Monoid
    factor: np.dtype[Any]
    result: np.dtype[Any]

    @property
    def definitions(self) -> str:
        """C++ source that defines the operators as Sum and Product."""
        return _definitions(self)


@functools.lru_cache(CACHED)
def _definitions(of: Semiring) -> str:
    sum = operators(of.add, of.result, name="Sum")
    product = operators(of.multiply, of.factor, name="Product")
    return sum.definitions + product.definitions


def number_operator(op: str | Monoid, name: str) -> Monoid:
    """The operator; TypeError or ValueError unless its elements are numbers."""
    monoid = as_monoid(op)
    if monoid.element_shape:
        raise ValueError(
            f"{name} must be an operator of numbers, got {monoid.name}, whose elements "
            f"have shape {monoid.element_shape}"
        )
    return monoid


@functools.lru_cache(CACHED)
def semiring(
    add: Monoid, multiply: Monoid, entry: np.dtype[Any], number: np.dtype[Any]
) -> Semiring:
    """The semiring for the dtypes of a matrix and of vectors.

    Both are converted to their NumPy result type first.

    Raises
    ------
    TypeError
        If an operator does not accept its operands, or returns an unsupported dtype.
    """
    given = np.result_type(entry, number)
    _check_accepts(multiply, given)
    factor = multiply.dtype_of(given)
    _check_accepts(add, factor)
    result = add.dtype_of(factor)
    if result not in CUDA_TYPES:
        raise TypeError(
            f"add must return a dtype that kernels support, got {result} from "
            f"{add.name}"
        )
    return Semiring(add, multiply, factor, result)


def _check_accepts(monoid: Monoid, dtype: np.dtype[Any]) -> None:
    if dtype not in CUDA_TYPES or dtype.kind not in monoid.kinds:
        raise TypeError(f"{monoid.name} does not accept dtype {dtype}")
