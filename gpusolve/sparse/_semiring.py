"""What stands for addition and multiplication, and of which dtype its numbers are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._blocks.operators import operators
from .._device.kernels import CUDA_TYPES
from ..monoid import Monoid, as_monoid


class Semiring(NamedTuple):
    """Two operators, for factors of one dtype.

    Attributes
    ----------
    add, multiply : Monoid
        Of numbers.
    factor, result : dtype
        Of what is multiplied, and of what is added.
    """

    add: Monoid
    multiply: Monoid
    factor: np.dtype[Any]
    result: np.dtype[Any]

    @property
    def definitions(self) -> str:
        """C++ that defines the operators, as Sum and Product."""
        sum = operators(self.add, self.result, name="Sum")
        product = operators(self.multiply, self.factor, name="Product")
        return sum.definitions + product.definitions


def of_numbers(op: str | Monoid, name: str) -> Monoid:
    """The operator; TypeError, ValueError unless it is one of numbers."""
    monoid = as_monoid(op)
    if monoid.element_shape:
        raise ValueError(
            f"{name} is {monoid.name}, whose elements have shape "
            f"{monoid.element_shape}; an operator of numbers is wanted"
        )
    return monoid


def semiring(
    add: Monoid, multiply: Monoid, entry: np.dtype[Any], number: np.dtype[Any]
) -> Semiring:
    """Both operators for the dtypes of the matrix's entries and the vectors' numbers.

    These are converted first, to the dtype that NumPy gives both together.

    Raises
    ------
    TypeError
        If one of them does not take its operands, or gives what no device has.
    """
    given = np.result_type(entry, number)
    _check_taken(multiply, given)
    factor = multiply.dtype_of(given)
    _check_taken(add, factor)
    result = add.dtype_of(factor)
    if result not in CUDA_TYPES:
        raise TypeError(f"{add.name} gives {result}, which no device has")
    return Semiring(add, multiply, factor, result)


def _check_taken(monoid: Monoid, dtype: np.dtype[Any]) -> None:
    if dtype not in CUDA_TYPES or dtype.kind not in monoid.kinds:
        raise TypeError(f"{monoid.name} does not take {dtype}")
