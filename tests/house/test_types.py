"""The declared types say what the functions do; ``typed_calls.py`` says what they are.

mypy compares neither names in a ``Literal`` nor the defaults of an overload.
"""

import inspect
from typing import get_args, get_overloads, get_type_hints

import pytest
from together import together

import gpusolve
from gpusolve._blocks import reduce
from gpusolve._nnls.arguments import (
    NNLS_METHODS,
    BoundedOptions,
    LeastSquaresOptions,
    NNLSMethodName,
    QuadraticOptions,
)
from gpusolve.gam._boosting.smoothing import DEFINITIONS
from gpusolve.gam._model.specification import ALLOWED
from gpusolve.gam._terms.spline import CONSTRAINTS
from gpusolve.gam.families import FAMILIES, FamilyName
from gpusolve.gam.terms import Constraint
from gpusolve.monoid import BUILT_IN, OperatorName

OVERLOADED = [
    function
    for room in (gpusolve, gpusolve.sparse)
    for function in map(room.__dict__.get, room.__all__)
    if inspect.isfunction(function) and get_overloads(function)
]


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        (OperatorName, BUILT_IN),
        (NNLSMethodName, NNLS_METHODS),
        (reduce.Variant, ("auto", *reduce.VARIANTS)),
        (FamilyName, FAMILIES),
        (Constraint, CONSTRAINTS),
    ],
)
def test_names(declared, names):
    assert set(get_args(declared)) == set(names)


def test_parameters_of_models():
    declared = get_type_hints(gpusolve.gam.BoostedGAM.__init__)
    names = {"df_definition": DEFINITIONS, **ALLOWED}
    del names["penalty_order"]  # a number
    assert {name: get_args(declared[name]) for name in names} == names


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
