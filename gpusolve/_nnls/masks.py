"""Masked arrays of NumPy: what is masked has weight 0."""

from __future__ import annotations

from typing import Any

import numpy as np

Masked = np.ma.MaskedArray


def without_masks(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``lsq_linear``, where A and b are without masks.

    A row has weight 0 where its element of b or any element of A is masked.

    Examples
    --------
    >>> b = np.ma.masked_values([1.0, -9.0, 2.0], -9.0)
    >>> without_masks({"A": np.ones((3, 1)), "b": b, "weights": None})["weights"]
    array([1., 0., 1.])
    """
    A, b, weights = given["A"], given["b"], given["weights"]
    hidden: Any = False
    if isinstance(A, Masked):
        hidden, A = np.ma.getmaskarray(A).any(axis=-1), A.filled(0)
    if isinstance(b, Masked):
        hidden, b = joined(hidden, np.ma.getmaskarray(b)), b.filled(0)
    if hidden is not False:
        weights = np.where(hidden, 0, 1.0 if weights is None else weights)
    return {**given, "A": A, "b": b, "weights": weights}


def joined(rows: Any, elements: Any) -> Any:
    """Where either is masked. ValueError if the shapes do not broadcast."""
    try:
        return rows | elements
    except ValueError as error:
        raise ValueError(
            f"the masks of the rows of A and of b must broadcast, got shapes "
            f"{rows.shape} and {elements.shape}"
        ) from error
