"""The two sides of a formula: its response, and the factors of each product.

patsy reads the operators. A sum of names and calls is read without patsy, which refuses
a sum of a thousand summands.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from keyword import iskeyword
from typing import Any

from .expression import names_in

ALL_OTHERS = "."
"""In a formula, all columns that it does not mention otherwise."""

Products = list[list[str]]


def read_sides(text: str, columns: list[Any]) -> tuple[str, Products]:
    """The response, and the factors of each product on the right side.

    ValueError if the formula is not valid, or has no response or no intercept. Columns
    whose names are keywords of Python are quoted.

    Examples
    --------
    >>> read_sides("y ~ bbs(x) + g:x + .", ["x", "y", "z"])
    ('y', [['bbs(x)'], ['g', 'x'], ['z']])
    """
    text = quote_keywords(text)
    response, products = sums_of_calls(text) or by_patsy(text)
    if [ALL_OTHERS] in products:
        at = products.index([ALL_OTHERS])
        products[at : at + 1] = others([[response], *products], columns)
    return response, products


def sums_of_calls(text: str) -> tuple[str, Products] | None:
    """The sides if both are sums of names and calls; None for other formulas.

    Examples
    --------
    >>> sums_of_calls("y ~ x + log( z ) + x")
    ('y', [['x'], ['log(z)']])
    >>> sums_of_calls("y ~ x * z") is None
    True
    """
    if text.count("~") != 1:
        return None
    try:
        (response,), codes = map(names_and_calls, text.split("~"))
    except (SyntaxError, tokenize.TokenError, ValueError):
        return None
    return response, [[code] for code in dict.fromkeys(codes)]


def names_and_calls(side: str) -> list[str]:
    """The summands of a sum, each a name or a call; else ValueError or SyntaxError."""
    depth, begin, summands = 0, 0, []
    side = " ".join(side.split())
    for token in tokenize.generate_tokens(io.StringIO(side).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == "+" and not depth:
                summands.append(side[begin : token.start[1]])
                begin = token.end[1]
    return [name_or_call(summand.strip()) for summand in (*summands, side[begin:])]


def name_or_call(summand: str) -> str:
    """The summand as Python writes it; else ValueError or SyntaxError."""
    if summand == ALL_OTHERS:
        return summand
    node = ast.parse(summand, mode="eval").body
    if not isinstance(node, ast.Name | ast.Call):
        raise ValueError(f"summands must be names or calls, got {summand!r}")
    return ast.unparse(node)


def by_patsy(text: str) -> tuple[str, Products]:
    """The sides as patsy reads them."""
    import patsy

    try:
        model = patsy.ModelDesc.from_formula(text)
    except patsy.PatsyError as error:
        raise ValueError(f"formula must be valid: {error}") from error
    except AssertionError as error:  # of patsy, for an operator that it does not know
        raise ValueError(
            "formula must have no operators but those of patsy and, in I(..), + and * "
            f"of learners, got {text!r}"
        ) from error
    left, right = (
        [[factor.code for factor in term.factors] for term in side]
        for side in (model.lhs_termlist, model.rhs_termlist)
    )
    if len(left) != 1 or len(left[0]) != 1:
        raise ValueError(
            f"formula must have one response, as in 'y ~ bbs(x)', got {text!r}"
        )
    if [] not in right:
        raise ValueError(
            f"formula must keep the intercept, where boosting starts, got {text!r}"
        )
    return left[0][0], [codes for codes in right if codes]


def others(products: Products, columns: list[Any]) -> Products:
    """The columns that no factor mentions, as products of one factor."""
    codes = [code for codes in products for code in codes if code != ALL_OTHERS]
    used = {name for code in codes for name in names_in(code)}
    return [
        [name if name.isidentifier() and not iskeyword(name) else f"Q({name!r})"]
        for name in map(str, columns)
        if name not in used
    ]


# ---- names of columns ----------------------------------------------------------------


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
