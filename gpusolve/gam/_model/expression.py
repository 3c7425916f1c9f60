"""Columns that patsy computes from the data, such as ``log(t)`` or ``center(x)``.

patsy imports pandas. Therefore it is imported when a formula is first used.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import as_array
from ..._device.frames import wrapped
from .._data.inputs import unmasked
from .._families.survival import survival_times
from .._terms.frame import numbers_of

if TYPE_CHECKING:
    import patsy

COMMON = ("cos", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sqrt", "tan")

FUNCTIONS: dict[str, Any] = {
    "np": np,
    "Surv": survival_times,
    **{name: getattr(np, name) for name in COMMON},
}
"""What an expression may use besides the caller's names, patsy's and Python's."""


CENTER = "_patsy_stobj0__center__"
"""patsy's name of the transform in ``center(x)``."""


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
    if plain := PLAIN.fullmatch(code):
        used = {"center": plain[1], "Q": plain[3], plain[2] or plain[3]: True}
        return {name for name, is_used in used.items() if is_used}
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


PLAIN = re.compile(r"(center\()?(?:([^\W\d]\w*)|Q\('([^'\\]*)'\))(?(1)\))")
"""A column or its ``center(..)``, which need no patsy: a name, or a quoted name."""


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
        names = names_in(code)
        others = [name for name in sorted(names) if name not in data]
        if len(others) == len(names):
            raise ValueError(f"{code} must use a column of the data; {_listed(data)}")
        found = {name: env.namespace[name] for name in others if name in env.namespace}
        return cls(code, *_separate(found), {}).learned_from(data)

    def learned_from(self, data: Any) -> Expression:
        """The same expression, whose stateful transforms learn from other data."""
        plain = self._plain_column(data)
        if plain is not None:
            column, is_centred = plain
            if not is_centred:
                return replace(self, memory={})
            total = np.sum(column[:, None], axis=0, dtype=np.longdouble)
            memory = {CENTER: {"_sum": total, "_count": len(column)}}
            return replace(self, memory=memory)
        factor, state, passes = _factor(self)
        with _naming(self.code, data):
            columns = self._columns_of(data)
            for number in range(passes):
                factor.memorize_chunk(state, number, columns)
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
        column_names(data)
        plain = self._plain_column(data)
        if plain is not None:
            column, is_centred = plain
            return centred(column, self.memory[CENTER]) if is_centred else column
        factor, state, _ = _factor(self)
        for name, transform in state["transforms"].items():
            vars(transform).update(self.memory[name])
        with _naming(self.code, data):
            return factor.eval(state, self._columns_of(data))

    def _columns_of(self, data: Any) -> dict[str, Any]:
        """The columns that the expression uses, as patsy computes with them."""
        used = names_in(self.code)
        return {name: computable(data[name]) for name in used if name in data}

    def _plain_column(self, data: Any) -> tuple[Any, bool] | None:
        """The column of a plain expression, and whether it is centred.

        None if the expression must be evaluated: patsy centres other columns than
        arrays of numbers, and says what is missing.
        """
        plain = PLAIN.fullmatch(self.code)
        if plain is None or self.values.keys() & {"Q", "center"}:
            return None
        is_centred, name = plain[1] is not None, plain[2] or plain[3]
        if name not in data:
            return None
        column = data[name]
        if is_centred:
            column = computable(column)
            column = getattr(column, "to_numpy", lambda: column)()
            is_vector = isinstance(column, np.ndarray) and column.ndim == 1
            if not (is_vector and column.dtype.kind in "fi"):
                return None
        return column, is_centred


def computable(column: Any) -> Any:
    """A list, a masked array or a column of polars or pyarrow as an array.

    Decimals become numbers. Other columns are as they are.
    """
    is_plain = isinstance(column, list | np.ma.MaskedArray)
    if is_plain or not (hasattr(column, "iloc") or wrapped(column) is None):
        column = as_array(unmasked(column), "a column")
    dtype = getattr(column, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind != "O":
        return column
    numbers = numbers_of(np.asarray(column))
    return column if numbers is None else numbers


def centred(column: NDArray[Any], memory: dict[str, Any]) -> NDArray[Any]:
    """The column less the mean that ``center`` keeps."""
    dtype = column.dtype if column.dtype.kind == "f" else np.float64
    mean = np.asarray(memory["_sum"] / memory["_count"], dtype)
    return np.asarray(column - mean)


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


@cache
def known_names() -> dict[str, Any]:
    """The values of the names that every expression has."""
    import patsy

    known: dict[str, Any] = vars(patsy.builtins) | FUNCTIONS
    return known


def _separate(found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The caller's values and modules, without the names that every expression has."""
    known = known_names()
    own = {name: found[name] for name in found if found[name] is not known.get(name)}
    modules = {
        name: value.__name__
        for name, value in own.items()
        if isinstance(value, ModuleType)
    }
    values = {name: value for name, value in own.items() if name not in modules}
    return values, modules


def _listed(data: Any) -> str:
    return f"the columns are {', '.join(map(str, column_names(data)))}"


@contextmanager
def _naming(code: str, data: Any) -> Iterator[None]:
    """An error while an expression is computed names it, and the columns."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{code} cannot be computed from the data: {error.__cause__ or error}; "
            f"{_listed(data)}"
        ) from error
