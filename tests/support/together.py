"""One test for a table of arguments, whose failure names the row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import wraps
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

FEW, ALL = "few", "all"

Test = Callable[..., None]
Ids = Iterable[str] | Callable[[Any], Any] | None


class Row(NamedTuple):
    """Values of some arguments, and what a failure calls them."""

    values: dict[str, Any]
    label: str


def together(
    names: str | Sequence[str], values: Iterable[Any], ids: Ids = None
) -> Callable[[Test], Any]:
    """Run a test with each of the values, as one test.

    The arguments are the same as in `pytest.mark.parametrize`. With several tables
    `make test` has every row of each table, and a slow test has all combinations.
    """
    keys = (
        [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    )
    rows = list(table(keys, values, ids))

    def decorate(test: Test) -> Any:
        run = test if hasattr(test, "tables") else runner(test)
        run.tables.append(rows)
        rest = run.__signature__.parameters.copy()
        for name in keys:
            del rest[name]
        if len(run.tables) == 2:
            rest["combinations"] = COMBINATIONS
            run = pytest.mark.parametrize("combinations", [FEW, ALL])(run)
        run.__signature__ = inspect.Signature(list(rest.values()))
        return run

    return decorate


COMBINATIONS = inspect.Parameter("combinations", inspect.Parameter.KEYWORD_ONLY)


def table(names: Sequence[str], values: Iterable[Any], ids: Ids) -> Iterator[Row]:
    """The rows of a table, labelled as `parametrize` would."""
    labels = iter(ids if isinstance(ids, Iterable) else ())
    for value in values:
        row = dict(zip(names, [value] if len(names) == 1 else value, strict=True))
        if isinstance(ids, Iterable):
            yield Row(row, next(labels))
        else:
            shown = {
                key: (ids and ids(value)) or repr(value) for key, value in row.items()
            }
            yield Row(row, " ".join(f"{key}={value}" for key, value in shown.items()))


def runner(test: Test) -> Any:
    """A test that runs another with the rows of its tables."""

    @wraps(test)
    def run(combinations: str = FEW, **fixtures: Any) -> None:
        __tracebackhide__ = True
        chosen = list(product(*run.tables) if combinations == ALL else few(run.tables))
        skipped = [rows for rows in chosen if is_skipped(test, rows, fixtures)]
        if len(skipped) == len(chosen):
            pytest.skip("in each case")

    run.tables = []
    run.__signature__ = inspect.signature(test)
    return run


def is_skipped(test: Test, rows: tuple[Row, ...], fixtures: dict[str, Any]) -> bool:
    """Run a case, and name it if it fails; whether it was skipped."""
    __tracebackhide__ = True
    with pytest.MonkeyPatch.context() as patch:
        given = {name: unused(value, patch) for name, value in fixtures.items()}
        for row in rows:
            given |= row.values
        try:
            test(**given)
        except pytest.skip.Exception:
            return True
        except BaseException as error:
            error.add_note("in the case " + ", ".join(row.label for row in rows))
            raise
    return False


def few(tables: list[list[Row]]) -> Iterator[tuple[Row, ...]]:
    """Combinations that have each row of each table."""
    for i in range(max(map(len, tables))):
        yield tuple(rows[(i + i // len(rows)) % len(rows)] for rows in tables)


def unused(fixture: Any, patch: pytest.MonkeyPatch) -> Any:
    """What a case does not share: random numbers from their beginning, and patches."""
    if isinstance(fixture, pytest.MonkeyPatch):
        return patch
    return deepcopy(fixture) if isinstance(fixture, np.random.Generator) else fixture
