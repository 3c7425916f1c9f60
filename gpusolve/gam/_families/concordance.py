"""Harrell's concordance index in O(n log n)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import as_array, on_host


def concordance(time: Any, event: Any, risk: Any) -> float:
    """Harrell's concordance index of survival times and predicted risks.

    Parameters
    ----------
    time : (n,) array_like
    event : (n,) array_like of bool or of 0 and 1
        Whether the event was observed; else the row is censored.
    risk : (n,) array_like
        Larger for an earlier event.

    Returns
    -------
    float
        The share of the comparable pairs whose larger risk has the earlier event; equal
        risks count half. A pair is comparable if the earlier time is an event; of equal
        times, a row with an event is earlier than a censored row, and two events are
        not compared. So does scikit-survival. NaN without a comparable pair.

    Raises
    ------
    ValueError
        If the arrays are not vectors of the same length.

    See Also
    --------
    gpusolve.gam.families.CoxPH, gpusolve.gam.families.survival_times

    Examples
    --------
    >>> concordance([1.0, 2.0, 3.0, 4.0], [1, 0, 1, 1], [2.0, 5.0, 1.0, 1.0])
    0.625

    Notes
    -----
    The rows are read from the last time to the first. The later rows of smaller risk
    are counted for all events at once, by a wavelet matrix of the ranks of the risks.

    References
    ----------
    .. [1] F. E. Harrell et al., "Evaluating the yield of medical tests", JAMA 247
           (1982).
    .. [2] F. Claude, G. Navarro and A. Ordonez, "The wavelet matrix: An efficient
           wavelet tree for large alphabets", Information Systems 47 (2015).
    """
    columns = {"time": time, "event": event, "risk": risk}
    time, event, risk = (on_host(as_array(a, name)) for name, a in columns.items())
    if not (time.ndim == 1 and time.shape == event.shape == risk.shape):
        raise ValueError(
            "time, event and risk must have the same shape (n,), got "
            f"{time.shape}, {event.shape} and {risk.shape}"
        )
    event = event.astype(bool)
    order = np.lexsort((event, -time))  # of equal times, censored rows first
    time, event = time[order], event[order]
    ranks = np.unique(risk, return_inverse=True)[1][order]
    begins = np.ones(len(time), bool)
    begins[1:] = (time[1:] != time[:-1]) | (event[1:] != event[:-1])
    later = np.maximum.accumulate(np.where(begins, np.arange(len(time)), 0))[event]
    less, equal = count_smaller(ranks, later, ranks[event])
    pairs = later.sum()
    return float((less + 0.5 * equal) / pairs) if pairs else float("nan")


def count_smaller(
    values: NDArray[np.intp], ends: NDArray[np.intp], bounds: NDArray[np.intp]
) -> tuple[int, int]:
    """How many of ``values[:end]`` are less than a bound, and equal, over all pairs.

    A bit of all values is read at a time, the highest first. Values whose higher bits
    are equal follow each other; `first` and `ends` bound the values that have the bits
    of the bound.
    """
    first, less = np.zeros_like(ends), 0
    for bit in range(int(values.max(initial=0)).bit_length() - 1, -1, -1):
        is_one = (values >> bit & 1).astype(bool)
        zeros = np.concatenate([[0], np.cumsum(~is_one)])
        begins_with_one = (bounds >> bit & 1).astype(bool)
        below = zeros[ends] - zeros[first]
        less += int(below[begins_with_one].sum())
        first, ends = (
            np.where(begins_with_one, zeros[-1] + place - zeros[place], zeros[place])
            for place in (first, ends)
        )
        values = np.concatenate([values[~is_one], values[is_one]])
    return less, int((ends - first).sum())
