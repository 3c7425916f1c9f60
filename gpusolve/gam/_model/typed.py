"""The types of methods whose result is on the device of their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray

from .fitted import CudaColumns

P = ParamSpec("P")


class TypedByDevice(Protocol[P]):
    """A method of `X` and other arguments: the type of the result depends on `X`."""

    @overload
    def __call__(self, X: CudaColumns, *args: P.args, **options: P.kwargs) -> Any: ...
    @overload
    def __call__(
        self, X: Any, *args: P.args, **options: P.kwargs
    ) -> NDArray[np.float64]: ...


def typed_by_device(
    method: Callable[Concatenate[Any, Any, P], Any],
) -> TypedByDevice[P]:
    """The method itself: it returns a NumPy array unless `X` may be on a GPU."""
    return cast("TypedByDevice[P]", method)
