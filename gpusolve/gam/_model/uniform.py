"""Splines of equal shape and the squared error: the case with faster algorithms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._device.arrays import namespace
from .._stacked.batch import Settings, Training
from .._terms.spline import Spline
from .._terms.term import Reading
from ..basis import BSplines
from ..boosting import check_method
from ..families import Gaussian
from ..learners import Learners, _make
from ..penalty import null_dimension, penalty_matrix


def uniform_learners(
    settings: Settings, data: Training, method: str
) -> Learners | None:
    """The learners for `boost`; None if they or the family are of another kind.

    Raises
    ------
    ValueError
        If the method does not fit on the device.
    """
    if not isinstance(settings.family, Gaussian) or not are_equal_splines(settings):
        return None
    spline = settings.terms[0]
    assert isinstance(spline, Spline)
    ends = np.array([term.ends[0] for term in settings.terms])  # type: ignore[attr-defined]
    assert spline.interior is not None
    (knots,) = spline.interior
    assert isinstance(knots, int)
    n_basis = knots + spline.degree + 1
    check_method(method, len(ends), n_basis, data.device)
    read = Reading(data.frame, "linear", "error", settings.missing, settings.dtype)
    columns = [read.numeric(term.covariates[0]) for term in settings.terms]
    X = namespace(columns[0]).stack(columns, axis=1)
    basis = BSplines(ends[:, 0].copy(), ends[:, 1].copy(), n_basis, spline.degree)
    kind = "difference" if spline.differences else "ridge"
    penalty = n_basis, None if spline.df is None else kind, spline.differences
    return _make(
        basis._evaluate(X, "linear", settings.dtype),
        n_basis,
        penalty_matrix(*penalty),
        null_dimension(*penalty),
        df=1.0 if spline.df is None else spline.df,
        df_definition=settings.df_definition,
        weights=data.weights,
        device=data.device,
    )


def are_equal_splines(settings: Settings) -> bool:
    """Whether all learners are plain splines that differ in their ranges only."""
    first = settings.terms[0]
    if settings.missing != "error" or not isinstance(first, Spline):
        return False
    return all(
        isinstance(term, Spline)
        and len(term.covariates) == 1
        and term.by is None
        and term.lambda_ is None
        and not (term.center or term.cyclic or term.is_constrained)
        and not term.has_repeated_ends
        and isinstance((term.interior or ("",))[0], int)
        and replace(term, covariates=first.covariates, ends=first.ends) == first
        for term in settings.terms
    )
