"""A fitted model as one Python file that needs NumPy only."""

from __future__ import annotations

import os
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

from .._terms import predictor
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
"""The response in ``predictor.py`` for what the additive predictor is."""


def write_python(model: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write a model as a Python module; see `BoostedGAM.to_python`."""
    source = Path(predictor.__file__).read_text(encoding="utf-8")
    values = pformat(plain_model(model), width=88, compact=True, sort_dicts=False)
    text = f"{source}\n\nMODEL = {values}\n"
    Path(path).write_text(text, encoding="utf-8")


def plain_model(model: FittedModel) -> dict[str, Any]:
    """The model as ``predictor.py`` reads it: the learners that have an effect.

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
                "design": model.terms_[j].exported(),
                "coef": coef[:, j, : model.terms_[j].functions].tolist(),
            }
            for j in used
        ],
    }
