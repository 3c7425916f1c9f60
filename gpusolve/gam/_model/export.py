"""A fitted model as one Python file that needs NumPy only."""

from __future__ import annotations

import os
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

from .. import _predictor
from .._terms.frame import Name
from .._terms.linear import Linear
from .._terms.region import Region
from .._terms.spline import Spline
from .._terms.stump import Stump
from .._terms.term import Product, Single, Sum, Term
from .._terms.user import User
from .fitted import FittedModel

RESPONSES = {
    "the mean": "identity",
    "the median": "identity",
    "the quantile": "identity",
    "the expectile": "identity",
    "the location": "identity",
    "the log mean": "exp",
    "the half logit": "half logit",
    "the logit": "logit",
    "the log odds": "log odds",
}
"""The response in ``_predictor.py`` for what the additive predictor is."""


def write_python(model: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write a model as a Python module; see `BoostedGAM.to_python`."""
    source = Path(_predictor.__file__).read_text(encoding="utf-8")
    values = pformat(plain_model(model), width=88, compact=True, sort_dicts=False)
    text = f"{source}\n\nMODEL = {values}\n"
    Path(path).write_text(text, encoding="utf-8")


def plain_model(model: FittedModel) -> dict[str, Any]:
    """The model as ``_predictor.py`` reads it: the learners that have an effect.

    TypeError or ValueError for a family or a learner that the file does not have.
    """
    coef = model._coefficients(None)
    classes = getattr(model, "classes_", None)
    response = RESPONSES.get(model.family_.effect_on)
    if response is None or (len(coef) > 1 and classes is None):
        raise ValueError(
            f"family must predict one of {list(RESPONSES)} to be exported, got "
            f"{model.family_!r}"
        )
    used = np.flatnonzero(coef.any(axis=(0, 2))).tolist()
    return {
        "intercepts": model._intercepts().tolist(),
        "classes": None if classes is None else classes.tolist(),
        "response": response,
        "columns": [*model.columns_],
        "outside": model.outside,
        "unknown": model.unknown,
        "missing": model.missing,
        "has_offset": model.has_offset_,
        "learners": [
            {
                "name": model.terms_[j].label,
                "design": plain_design(model.terms_[j]),
                "coef": coef[:, j, : model.terms_[j].functions].tolist(),
            }
            for j in used
        ],
    }


def plain_design(term: Term) -> dict[str, Any]:
    """The design of a learner; TypeError for a learner that cannot be exported."""
    if isinstance(term, Sum | Product):
        kind = "sum" if isinstance(term, Sum) else "product"
        both = [plain_design(term.left), plain_design(term.right)]
        return {"kind": kind, "parts": both}
    read: dict[type, Any] = {
        Linear: plain_linear,
        Region: plain_linear,
        Spline: plain_spline,
        Stump: plain_stump,
        User: plain_user,
    }
    if type(term) not in read or not isinstance(term, Single):
        raise TypeError(
            "learners must be splines, lines, factors, stumps, or their combinations "
            f"to be exported, got {term.label}"
        )
    design: dict[str, Any] = read[type(term)](term)
    if term.by is None:
        return design
    by = plain_numbers(term.by)
    if term.by_levels is not None:
        by = plain_factor(term.by, term.by_levels, skipped=1)
    return {"kind": "product", "parts": [by, design]}


def plain_linear(term: Linear | Region) -> dict[str, Any]:
    """Numeric columns, or the levels of a factor."""
    if isinstance(term, Linear) and term.found_levels is None:
        return plain_numbers(*term.covariates, intercept=term.intercept)
    return plain_factor(term.covariates[0], term.covariate_levels or (), skipped=0)


def plain_stump(term: Stump) -> dict[str, Any]:
    """The bins of a column."""
    return {"kind": "bins", "column": term.covariates[0], "cuts": [*term.cuts]}


def plain_user(term: User) -> dict[str, Any]:
    """Numeric columns; TypeError for a function of the user."""
    if term.design is not None:
        raise TypeError(f"design of {term.label} must not be given to be exported")
    return plain_numbers(*term.covariates)


def plain_numbers(*names: Name, intercept: bool = False) -> dict[str, Any]:
    """Numeric columns."""
    return {"kind": "numbers", "columns": [*names], "intercept": intercept}


def plain_factor(name: Name, levels: tuple[Any, ...], skipped: int) -> dict[str, Any]:
    """The levels of a factor; the first levels may have no function."""
    for level in levels:
        if not isinstance(level, str | int | float):
            raise TypeError(
                f"levels of {name} must be strings or numbers to be exported, got "
                f"{level!r}"
            )
    return {
        "kind": "factor",
        "column": name,
        "levels": [*levels],
        "skipped": skipped,
    }


def plain_spline(term: Spline) -> dict[str, Any]:
    """The B-splines of a column, or the products of the B-splines of two."""
    margins = [
        {
            "kind": "spline",
            "column": name,
            "lower": knots.lower,
            "upper": knots.upper,
            "cells": knots.cells,
            "degree": knots.degree,
            "cyclic": knots.cyclic,
            "knots": None if knots.are_uniform else knots.positions().tolist(),
            "scores": None if term.scores is None else term.scores[j],
        }
        for j, (name, knots) in enumerate(
            zip(term.covariates, term._margins, strict=True)
        )
    ]
    return margins[0] if len(margins) == 1 else {"kind": "product", "parts": margins}
