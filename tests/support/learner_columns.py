"""Dense columns of learners, which the public functions do not show."""

from __future__ import annotations

from typing import Any

import numpy as np
from backends import on_host
from numpy.typing import NDArray

from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.terms import Term

Floats = NDArray[np.float64]


def learn(term: Term, data: Any) -> Any:
    """The term with the ranges and levels of the data."""
    return term.learn(Frame.of(data))


def columns_at(learned: Term, data: Any, **options: Any) -> Floats:
    """The columns of a term that has learned, at any data: (n, columns)."""
    functions = on_host(learned.rows(Frame.of(data), **options).dense())
    assert functions.shape[1] == learned.functions
    T = learned.transform()
    return np.asarray(functions if T is None else functions @ T)


def design(term: Term, data: Any, **options: Any) -> Floats:
    """The columns of a term that learns from the data."""
    return columns_at(learn(term, data), data, **options)
