"""A model as one file: JSON, or a Python module that needs NumPy only."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data.conventions import Estimator
from .._terms import predictor
from .fitted import FittedModel

FORMAT = "gpusolve.gam"
"""What a file says that it contains: the package of all stored classes."""

VERSION = 1
"""The version of the format. A file of a later version cannot be read."""

ARRAY_KINDS = "biufUO"
"""Booleans, integers, floating-point numbers, strings and objects."""

LONG = np.dtype(np.longdouble)
"""Numbers more precise than Python's, such as patsy's sums, are written as strings."""


def save(model: Estimator, path: str | os.PathLike[str]) -> None:
    """Write a model to a JSON file, which `load` reads on any machine.

    Parameters
    ----------
    model : BoostedGAM or BoostedGAMClassifier
        Fitted or not, and on any device.
    path : str or path-like

    Raises
    ------
    TypeError
        If the model contains a function, such as the gradient of a family of your own,
        or another value that is not plain data. Nothing is written then. Such a model
        can be pickled.

    See Also
    --------
    load

    Notes
    -----
    Numbers are written with all their digits: the loaded model is equal in every bit.
    scikit-learn's metadata requests are not written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, load, save
    >>> X = np.random.default_rng(0).random((100, 2))
    >>> model = BoostedGAM().fit(X, X[:, 0])
    >>> path = Path(mkdtemp()) / "model.json"
    >>> save(model, path)
    >>> np.array_equal(load(path).predict(X), model.predict(X))
    True
    """
    from ... import __version__

    if not isinstance(model, Estimator):
        raise TypeError(f"model must be an estimator of gpusolve.gam, got {model!r}")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "package": __version__,
        "model": to_plain(model, "model"),
    }
    text = json.dumps(document, allow_nan=False, ensure_ascii=False)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model from a file that `save` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    BoostedGAM or BoostedGAMClassifier

    Raises
    ------
    ValueError
        If the file has another content, or was written by a later version.

    See Also
    --------
    save

    Notes
    -----
    The transformations of a formula are Python expressions, which `predict` evaluates.
    Load only files that you trust.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, load, save
    >>> X = np.random.default_rng(0).random((100, 2))
    >>> path = Path(mkdtemp()) / "model.json"
    >>> save(BoostedGAM(max_iter=10).fit(X, X[:, 0]), path)
    >>> load(path).n_iter_
    10
    """
    with open(path, encoding="utf-8") as file:
        try:
            document = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} must be a JSON file, but {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path} must be a file that gpusolve.gam.save wrote")
    if document["version"] > VERSION:
        raise ValueError(
            f"{path} must have version {VERSION} of the format, got "
            f"{document['version']}; it was written by gpusolve {document['package']}"
        )
    return from_plain(document["model"])


def to_plain(value: Any, where: str) -> Any:
    """A value in the types of JSON; `where` names it in errors.

    Lists are lists. Whatever else JSON lacks becomes an object whose "class" names it.
    """
    if isinstance(value, np.generic):
        value = np.asarray(value) if value.dtype.char == LONG.char else value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        is_finite = math.isfinite(value)
        return value if is_finite else {"class": "float", "value": str(value)}
    if isinstance(value, list):
        return _items(value, where)
    if isinstance(value, dict):
        pairs = [
            [to_plain(key, where), to_plain(item, f"{where}[{key!r}]")]
            for key, item in value.items()
        ]
        return {"class": "dict", "items": pairs}
    if isinstance(value, np.ndarray):
        return _array_to_plain(value, where)
    if type(value) is tuple:
        return {"class": "tuple", "items": _items(value, where)}
    cls = type(value)  # public classes name public modules
    tagged = {"class": f"{cls.__module__}.{cls.__name__}".removeprefix(f"{FORMAT}.")}
    if isinstance(value, Estimator):
        parameters = _attributes(value.get_params(deep=False), where)
        found = {  # by scikit-learn's convention, their names end with _
            name: own
            for name, own in vars(value).items()
            if name.endswith("_") and not name.startswith("_")
        }
        fitted = _attributes(found, where)
        return tagged | {"parameters": parameters, "fitted": fitted}
    names = _fields(cls)
    if names is not None:
        fields = {name: getattr(value, name) for name in names}
        return tagged | _attributes(fields, where)
    raise TypeError(
        f"{where} must be plain data to be saved as JSON, got {value!r}; "
        "a pickle can contain it"
    )


def from_plain(plain: Any) -> Any:
    """The value of which `to_plain` made this."""
    if isinstance(plain, list):
        return list(map(from_plain, plain))
    if not isinstance(plain, dict):
        return plain
    fields = {name: from_plain(value) for name, value in plain.items()}
    name = fields.pop("class", None)
    if name is None:  # the parameters or the fitted attributes of an estimator
        return fields
    if name in BUILDERS:
        return BUILDERS[name](**fields)
    cls = _class_of(name)
    if not issubclass(cls, Estimator):
        return cls(**fields)
    estimator = cls(**fields["parameters"])
    vars(estimator).update(fields["fitted"])
    return estimator


def _array_to_plain(array: NDArray[Any], where: str) -> dict[str, Any]:
    """The elements of an array in a row, its shape and its dtype."""
    if array.dtype.kind not in ARRAY_KINDS:
        raise TypeError(
            f"{where} must be plain data to be saved as JSON, got an array of "
            f"{array.dtype}; a pickle can contain it"
        )
    named = {"O": "object", LONG.char: "longdouble"}.get(array.dtype.char)
    return {
        "class": "array",
        "dtype": named or array.dtype.str,
        "shape": list(array.shape),
        "items": _elements(array.ravel(), where),
    }


def _elements(array: NDArray[Any], where: str) -> list[Any]:
    """The elements of a vector; at once if JSON has all of them."""
    if array.dtype.char == LONG.char:
        return list(map(str, array.tolist()))
    ready = array.dtype.kind == "f" and np.isfinite(array).all()
    if ready or array.dtype.kind in "biuU":
        return list(array.tolist())
    return _items(array.tolist(), where)


def _array(dtype: str, shape: list[int], items: list[Any]) -> NDArray[Any]:
    array = np.empty(len(items), dtype)
    array[:] = [*map(np.longdouble, items)] if dtype == "longdouble" else items
    return array.reshape(shape)


BUILDERS: dict[str, Callable[..., Any]] = {
    "array": _array,
    "dict": lambda items: dict(items),
    "float": lambda value: float(value),
    "tuple": lambda items: tuple(items),
}
"""The functions that make the values that JSON lacks, by their class."""


def _items(values: Any, where: str) -> list[Any]:
    return [to_plain(item, f"{where}[{index}]") for index, item in enumerate(values)]


def _attributes(values: dict[str, Any], where: str) -> dict[str, Any]:
    return {name: to_plain(value, f"{where}.{name}") for name, value in values.items()}


def _fields(cls: type[Any]) -> tuple[str, ...] | None:
    """The fields of a data class or a named tuple of this package; None for others."""
    if not cls.__module__.startswith(FORMAT):
        return None
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls) if field.init)
    return getattr(cls, "_fields", None)


def _class_of(name: str) -> type[Any]:
    """The class of this name; ValueError if this package has no such class."""
    module, _, last = f"{FORMAT}.{name}".rpartition(".")
    try:
        cls = getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError):
        cls = None
    if isinstance(cls, type) and (
        issubclass(cls, Estimator) or _fields(cls) is not None
    ):
        return cls
    raise ValueError(f"class must be one of gpusolve.gam, got {name!r}")


# ---- a Python module -----------------------------------------------------------------


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
