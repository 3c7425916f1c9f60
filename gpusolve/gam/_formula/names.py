"""Names in formulas that Python does not read as R does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword
from typing import Any

OUR_NAMES = {
    "lambda": "lambda_=",
    "boundary.knots": "boundary=",
    "contrasts.arg": "contrasts=",
    "bnd": "neighbours=",
    "covFun": "kernel=",
    "mstop": "max_iter= of the model",
    "nu": "learning_rate= of the model",
    "weights": "sample_weight= of the model",
    "dfbase": "df= of the model",
    "control": "max_iter= and learning_rate= of the model",
}
"""What the arguments of mboost are called here, where the name is another one."""

NO_NAME = re.compile(r"(?<![\w.])(lambda|[^\W\d]\w*(?:\.\w+)+)\s*=(?!=)")
"""An argument of R whose name Python cannot read."""

OPERAND = re.compile(
    r"""((?:^|[^\w\s.)\]'"])\s*)([^\W\d]\w*)(?=\s*(?:$|==|[^\w\s.(\['"=]))"""
)
"""A name between operators, brackets or commas, with what is before it."""


def check_arguments(names: Iterable[Any]) -> None:
    """ValueError if an argument has R's name instead of ours."""
    for name in names:
        if name in OUR_NAMES:
            raise ValueError(f"R's {name}= must be written {OUR_NAMES[name]}")


def quote_keywords(text: str) -> str:
    """The formula with ``Q('as')`` for a column `as`, and for other keywords of Python.

    ValueError if it has an argument with a name of R that Python cannot read.

    Examples
    --------
    >>> quote_keywords("y ~ bbs(as) + x:class + I(x if x > 0 else 0)")
    "y ~ bbs(Q('as')) + x:Q('class') + I(x if x > 0 else 0)"
    """
    check_arguments(NO_NAME.findall(text))

    def quote(found: re.Match[str]) -> str:
        before, name = found.groups()
        is_column = iskeyword(name) and name not in ("True", "False", "None")
        return f"{before}Q({name!r})" if is_column else found[0]

    return OPERAND.sub(quote, text)
