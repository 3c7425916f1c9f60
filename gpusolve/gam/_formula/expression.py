"""Columns that patsy computes from the data, such as ``log(t)`` or ``center(x)``.

patsy imports pandas. Therefore it is imported when a formula is first used.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .._families.survival import survival_times

if TYPE_CHECKING:
    import patsy

COMMON = ("cos", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sqrt", "tan")

FUNCTIONS: dict[str, Any] = {
    "np": np,
    "Surv": survival_times,
    **{name: getattr(np, name) for name in COMMON},
}
"""What an expression may use besides the caller's names, patsy's and Python's."""


def column_names(data: Any) -> list[Any]:
    """The names of the columns of a data frame or a mapping; TypeError for others."""
    if not (isinstance(data, Mapping) or hasattr(data, "columns")):
        raise TypeError(
            f"data must be a data frame or a mapping of columns, got "
            f"{type(data).__name__}"
        )
    return list(getattr(data, "columns", data))


def names_in(code: str) -> set[str]:
    """The names in an expression, also names that it quotes by ``Q("a name")``."""
    nodes = list(ast.walk(ast.parse(code, mode="eval")))
    quoted = (quoted_name(node) for node in nodes)
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        name for name in quoted if name is not None
    }


def quoted_name(node: ast.AST) -> str | None:
    """The name in ``Q("a name")``; None for anything else."""
    match node:
        case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))]):
            return name
    return None


@dataclass(frozen=True, eq=False)
class Expression:
    """A Python expression of columns, with what it needs to be computed again.

    Attributes
    ----------
    code : str
    values : dict
        The caller's values that it uses, by name.
    modules : dict
        The caller's modules that it uses: their names in `code`, and their own.
    memory : dict
        The attributes of each stateful transform, such as the mean in ``center(x)``,
        from the data from which the expression was learned.
    """

    code: str
    values: dict[str, Any]
    modules: dict[str, str]
    memory: dict[str, dict[str, Any]]

    @classmethod
    def learn(cls, code: str, data: Any, env: patsy.EvalEnvironment) -> Expression:
        """The expression as it is computed from the columns of `data`.

        ValueError if it uses no column, or cannot be computed.
        """
        columns = column_names(data)
        names = names_in(code)
        others = [name for name in sorted(names) if name not in data]
        if len(others) == len(names):
            raise ValueError(
                f"{code} must use a column of the data; {_listed(columns)}"
            )
        found = {name: env.namespace[name] for name in others if name in env.namespace}
        return cls(code, *_separate(found), {}).learned_from(data)

    def learned_from(self, data: Any) -> Expression:
        """The same expression, whose stateful transforms learn from other data."""
        factor, state, passes = _factor(self)
        with _naming(self.code, column_names(data)):
            for number in range(passes):
                factor.memorize_chunk(state, number, data)
                factor.memorize_finish(state, number)
        memory = {
            name: dict(vars(transform))
            for name, transform in state["transforms"].items()
        }
        return replace(self, memory=memory)

    def evaluate(self, data: Any) -> Any:
        """The column, in the form that the expression returns.

        TypeError if the data have no named columns, ValueError if the expression cannot
        be computed.
        """
        factor, state, _ = _factor(self)
        for name, transform in state["transforms"].items():
            vars(transform).update(self.memory[name])
        with _naming(self.code, column_names(data)):
            return factor.eval(state, data)


def _factor(expression: Expression) -> tuple[patsy.EvalFactor, dict[str, Any], int]:
    """The factor of patsy, its state, and the number of passes over the data."""
    import patsy

    modules = expression.modules.items()
    caller = expression.values | {
        name: importlib.import_module(module) for name, module in modules
    }
    factor = patsy.EvalFactor(expression.code)
    state: dict[str, Any] = {}
    env = patsy.EvalEnvironment([caller, FUNCTIONS])
    return factor, state, factor.memorize_passes_needed(state, env)


def _separate(found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The caller's values and modules, without the names that every expression has."""
    import patsy

    known = vars(patsy.builtins) | FUNCTIONS
    own = {name: found[name] for name in found if found[name] is not known.get(name)}
    modules = {
        name: value.__name__
        for name, value in own.items()
        if isinstance(value, ModuleType)
    }
    values = {name: value for name, value in own.items() if name not in modules}
    return values, modules


def _listed(columns: Iterable[Any]) -> str:
    return f"the columns are {', '.join(map(str, columns))}"


@contextmanager
def _naming(code: str, columns: list[Any]) -> Iterator[None]:
    """An error while an expression is computed names it, and the columns."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{code} cannot be computed from the data: {error.__cause__ or error}; "
            f"{_listed(columns)}"
        ) from error
