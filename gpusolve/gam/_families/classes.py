"""Families of classes: what `BoostedGAMClassifier` needs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from .._data.conventions import check_integer
from .family import Family


class ClassFamily(Family):
    """A family whose responses are classes."""

    is_ordered: ClassVar[bool] = False
    """Whether the order of the classes has a meaning."""

    def for_classes(self, count: int) -> Self:
        """The family for this number of classes; ValueError if it is for others."""
        return self

    def responses(self, codes: NDArray[np.intp], count: int) -> NDArray[np.float64]:
        """The responses of rows of the classes 0, .., count - 1: (n,), or (F, n)."""
        return codes.astype(np.float64)

    @abstractmethod
    def log_probabilities(self, f: Array, s: Array) -> Array:
        """The logarithms of the probabilities, (n, K), from the predictors (F, n).

        s is the parameter, of F fits if there are several.
        """

    def most_probable(self, f: Array, s: Array) -> NDArray[np.intp]:
        """The predicted class of each row, on the host; as `log_probabilities`."""
        return np.asarray(on_host(self.log_probabilities(f, s)).argmax(axis=1))


@dataclass(frozen=True)
class NumberedFamily(ClassFamily):
    """A family of K classes, whose responses are the numbers 0, .., K - 1."""

    classes: int = 2

    def __post_init__(self) -> None:
        check_integer("classes", self.classes)
        if self.classes < 2:
            raise ValueError(f"classes must be 2 or more, got {self.classes}")

    def for_classes(self, count: int) -> Self:
        return replace(self, classes=count)

    def check(self, y: Array) -> None:
        codes = (y >= 0) & (y < self.classes) & (y == namespace(y).rint(y))
        if not bool(codes.all()):
            raise ValueError(
                f"y of the {self.name} family must be 0 to {self.classes - 1}, got "
                f"{float(y[~codes][0])}"
            )
