"""The declared types say what the functions do; ``typed_calls.py`` says what they are.

mypy compares neither names in a ``Literal`` nor the defaults of an overload.
"""

import ast
import inspect
from typing import get_args, get_overloads, get_type_hints

import numpy as np
import pytest
from together import together

import gpusolve
from gpusolve import gam, sparse

# The types of options, by which the package annotates its functions.
from gpusolve._nnls.arguments import (
    BoundedOptions,
    LeastSquaresOptions,
    QuadraticOptions,
)

OVERLOADED = [
    function
    for room in (gpusolve, sparse)
    for function in (getattr(room, name) for name in room.__all__)
    if inspect.isfunction(function) and get_overloads(function)
]


def literals(hint):
    """The values of all literals in a type."""
    found = {value for value in get_args(hint) if value is None or type(value) is str}
    return found.union(*map(literals, get_args(hint)))


def declared(function, parameter):
    """The names that the types of a parameter have, in all overloads."""
    overloads = get_overloads(function) or [function]
    hints = [get_type_hints(overload).get(parameter) for overload in overloads]
    return set().union(*map(literals, hints))


def refusing(call, *given, **options):
    """The names that an error lists."""
    with pytest.raises(ValueError, match="must be one of") as error:
        call(*given, **options)
    names = str(error.value).partition("must be one of ")[2].partition(", got")[0]
    return set(ast.literal_eval(names))


X, y = np.arange(10.0)[:, None], np.arange(10.0)


@together(
    ("function", "parameter", "given"),
    [
        (gpusolve.reduce, "op", (y,)),
        (gpusolve.reduce, "variant", (y,)),
        (gpusolve.scan, "variant", (y,)),
        (gpusolve.nnls, "method", (X, y)),
        (gpusolve.gemv, "variant", (X, y[:1])),
        (gam.bmono, "constraint", ("x",)),
    ],
)
def test_names(function, parameter, given):
    """The declared names are the names that an error lists."""
    found = refusing(function, *given, **{parameter: "nonsense"})
    assert declared(function, parameter) - {None} == found - {None}


def test_parameters_of_models():
    hints = get_type_hints(gam.BoostedGAM.__init__)
    chosen = {name: literals(hint) for name, hint in hints.items()}
    chosen = {name: names for name, names in chosen.items() if len(names) > 1}
    assert len(chosen) >= 8
    for name, names in chosen.items():
        found = refusing(gam.BoostedGAM(**{name: "nonsense"}).fit, X, y)
        assert found - {None} == names - {None}, name


def test_overloaded():
    assert {"nnls", "lsq_linear", "reduce", "scan", "gemv", "spmv"} <= {
        function.__name__ for function in OVERLOADED
    }


@together("function", OVERLOADED, ids=lambda f: f.__name__)
def test_defaults_of_overloads(function):
    whole = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
    }
    for overload in get_overloads(function):
        for name, parameter in inspect.signature(overload).parameters.items():
            if parameter.default is not parameter.empty:
                assert whole[name] == parameter.default


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (gpusolve.nnls, LeastSquaresOptions),
        (gpusolve.lsq_linear, BoundedOptions),
        (gpusolve.bounded_qp, QuadraticOptions),
    ],
)
def test_options(function, options):
    _, _, *names = inspect.signature(function).parameters
    assert set(names) - {"bounds", "method"} == options.__annotations__.keys()
