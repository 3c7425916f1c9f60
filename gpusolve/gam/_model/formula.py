"""Formulas such as ``y ~ bbs(age) + bols(sex)``, and their learners."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from keyword import iskeyword
from operator import add, mul
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._device.frames import named_columns
from .. import terms
from .._data.conventions import check_choice
from .._terms.frame import Factor, Frame, column_of
from .._terms.term import Term
from .expression import FUNCTIONS, Expression, column_names, names_in, quoted_name

if TYPE_CHECKING:
    import patsy

LEARNERS: dict[str, Callable[..., Term]] = {
    name: getattr(terms, name) for name in terms.__all__ if name.islower()
}
"""The functions of a formula that make learners."""

BASE_LEARNERS = ("bbs", "bols")
"""What a numeric column without a learner can become."""

ONES = "(Intercept)"
"""The name of the column of ones of a model matrix, as in R."""


@dataclass(frozen=True, eq=False, repr=False)
class Formula:
    """A formula that was read with some data, and applies to further data.

    Attributes
    ----------
    text : str
    target : Expression
        The left side.
    terms : tuple of Term
        The learners.
    covariates : dict of Expression
        The columns that the learners read, by name.
    offsets : tuple of Expression
        Their sum is the start of the boosting.
    """

    text: str
    target: Expression
    terms: tuple[Term, ...]
    covariates: dict[str, Expression]
    offsets: tuple[Expression, ...]

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    def learned_from(self, data: Any) -> Formula:
        """The same formula, whose transformations learn from other data."""
        return replace(
            self,
            covariates={
                name: expression.learned_from(data)
                for name, expression in self.covariates.items()
            },
            offsets=tuple(offset.learned_from(data) for offset in self.offsets),
        )

    def response(self, data: Any) -> Any:
        """The left side of the formula, one value per row."""
        return _column(self.target, data)

    def columns(self, data: Any) -> dict[str, Any]:
        """The columns that the learners read, by name: the X of `BoostedGAM`."""
        return {
            name: _column(expression, data)
            for name, expression in self.covariates.items()
        }

    def offset(self, data: Any) -> Any | None:
        """The sum of the offsets, one number per row; None without an offset."""
        columns = [_column(expression, data) for expression in self.offsets]
        return reduce(add, columns) if columns else None


def read_formula(
    text: str,
    data: Any,
    env: patsy.EvalEnvironment,
    reader: type[Reader],
    **options: Any,
) -> Formula:
    """Read a formula, and learn from the data the transformations in it.

    The arguments and the errors are as for `gamboost`; `env` has the names that are not
    columns. The reader, with its options, makes the learners.
    """
    if not isinstance(text, str):
        raise TypeError(f"formula must be a string, got {text!r}")
    data = named_columns(data)
    response, products = read_sides(text, column_names(data))
    reads = reader(data, env, **options)
    offsets = [reads.offset(codes) for codes in products if _has_offset(codes)]
    terms = reads.terms_of([codes for codes in products if not _has_offset(codes)])
    if not terms:
        raise ValueError(f"formula must have a learner or a column, got {text!r}")
    target = Expression.learn(response, data, env)
    return Formula(text, target, tuple(terms), reads.covariates, tuple(offsets))


def _has_offset(codes: list[str]) -> bool:
    return any(code.startswith("offset(") for code in codes)


@dataclass
class Reader(ABC):
    """Makes learners of the factors of a formula, and learns the columns they read."""

    data: Any
    env: patsy.EvalEnvironment
    covariates: dict[str, Expression] = field(default_factory=dict)

    @abstractmethod
    def terms_of(self, products: list[list[str]]) -> list[Term]:
        """The learners of products of factors."""

    def offset(self, codes: list[str]) -> Expression:
        """The argument of ``offset(...)``."""
        code = ":".join(codes)
        with _naming(code):
            match [ast.parse(factor, mode="eval").body for factor in codes]:
                case [ast.Call(args=[argument], keywords=[])]:
                    return Expression.learn(ast.unparse(argument), self.data, self.env)
            raise ValueError("offset must have one argument and stand alone")

    def column(self, node: ast.expr) -> str:
        """Learn a column that a learner reads, and return its name.

        A string is the name of a column, as in ``Q("a name")``.
        """
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.Call(ast.Name("Q"), [node], [])
        code = ast.unparse(node)
        name = quoted_name(node) or code
        self.covariates[name] = Expression.learn(code, self.data, self.env)
        return name


@dataclass
class LearnerReader(Reader):
    """Reads learners such as ``bbs(x)``, and columns without a learner.

    The options are the arguments of `bbs` for numeric columns without a learner;
    ValueError if there are options, but no such column.
    """

    baselearner: str = "bbs"
    options: Mapping[str, Any] = field(default_factory=dict)
    has_defaults: bool = False

    def __post_init__(self) -> None:
        check_choice("baselearner", self.baselearner, BASE_LEARNERS)

    def terms_of(self, products: list[list[str]]) -> list[Term]:
        made = [self.product(codes) for codes in products]
        if made and self.options and not self.has_defaults:
            raise ValueError(
                "parameters of the default splines must be left out, because the "
                "formula has no numeric column that becomes bbs, got "
                f"{' + '.join(':'.join(codes) for codes in products)!r}"
            )
        return made

    def product(self, codes: list[str]) -> Term:
        """The learner of factors that are joined by colons."""
        learners = []
        for code in codes:
            with _naming(code):
                learners.append(self.term(ast.parse(code, mode="eval").body))
        return reduce(mul, learners)

    def term(self, node: ast.expr) -> Term:
        """The learner of an expression."""
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in LEARNERS:
                return self.learner(name, node)
            case ast.Call(func=ast.Name(id="I"), args=[inner]) if _learners_in(inner):
                return self.term(inner)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.term(left) + self.term(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self.term(left) * self.term(right)
        return self.bare(node)

    def learner(self, name: str, call: ast.Call) -> Term:
        """A learner that is written as a call."""
        check_arguments(option.arg for option in call.keywords)
        covariates = [*map(self.column, call.args)]
        values = self.env.with_outer_namespace(FUNCTIONS)
        options = {
            str(option.arg): self.column(option.value)
            if option.arg == "by"
            else values.eval(ast.unparse(option.value))
            for option in call.keywords
        }
        return LEARNERS[name](*covariates, **options)

    def bare(self, node: ast.expr) -> Term:
        """The default learner of a column without a learner."""
        if found := _learners_in(node):
            raise ValueError(
                f"{found[0]} must be joined by + or * or stand alone, "
                f"got {ast.unparse(node)}"
            )
        name = self.column(node)
        column = column_of(_column(self.covariates[name], self.data), name)
        if isinstance(column, Factor) or self.baselearner != "bbs":
            return LEARNERS["bols"](name)
        self.has_defaults = True
        return LEARNERS["bbs"](name, **self.options)


@dataclass
class LineReader(Reader):
    """Makes a line without intercept of each column of the model matrix, as glmboost.

    The columns are ones, numeric columns, and an indicator of each level of a factor
    but the first; all but the ones may be centred.
    """

    center: bool = True

    def __post_init__(self) -> None:
        import patsy

        own = {"center": patsy.builtins.center}  # whatever the caller's center is
        self.env = patsy.EvalEnvironment([own, self.env.namespace])

    def terms_of(self, products: list[list[str]]) -> list[Term]:
        codes = [self.code_of(product) for product in products]
        names = [name for code in codes for name in self.names_of(code)]
        if not names:
            return []
        ones = f"np.ones_like({codes[0]}, dtype=float)"
        self.covariates[ONES] = Expression.learn(ones, self.data, self.env)
        return [terms.bols(name, intercept=False) for name in (ONES, *names)]

    def code_of(self, product: list[str]) -> str:
        """The expression of a column; ValueError for a product or a learner."""
        (code, *others) = product
        if others or _learners_in(ast.parse(code)):
            raise ValueError(
                f"{':'.join(product)} in the formula of lines must be a column, such "
                "as x, log(x) or I(x * z)"
            )
        return code

    def names_of(self, code: str) -> list[str]:
        """Learn the columns of an expression, and return their names."""
        with _naming(code):
            column = _column(Expression.learn(code, self.data, self.env), self.data)
            read = column_of(column, code)
            codes = [code]
            if isinstance(read, Factor):
                values = f"np.asarray({_argument_of_factor(code)})"
                codes = [f"({values} == {level!r}) * 1.0" for level in read.levels[1:]]
            if self.center:
                codes = [f"center({code})" for code in codes]
            return [self.column(ast.parse(code, mode="eval").body) for code in codes]


def _argument_of_factor(code: str) -> str:
    """The argument of ``C(...)``; other expressions as they are."""
    match ast.parse(code, mode="eval").body:
        case ast.Call(func=ast.Name(id="C"), args=[argument]):
            return ast.unparse(argument)
    return code


def _learners_in(node: ast.AST) -> list[str]:
    """The learners that are called in an expression."""
    return [
        call.func.id
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in LEARNERS
    ]


def _column(expression: Expression, data: Any) -> Any:
    """A column as `Frame` reads it.

    Sums of patsy are more precise than float64. Its ``C(x)`` becomes a factor.
    """
    column = expression.evaluate(data)
    if getattr(getattr(column, "dtype", None), "char", "") == "g":
        return column.astype(np.float64)
    if isinstance(column, np.ndarray):
        return column
    if not all(hasattr(column, name) for name in ("contrast", "levels", "data")):
        return column
    if column.contrast is not None:
        raise ValueError(
            f"{expression.code} must have no contrast: it is an argument of bols"
        )
    factor = Frame.of({expression.code: column.data}).factor(expression.code)
    if column.levels is None:
        return factor
    levels = tuple(column.levels)
    return Factor(factor.codes_in(levels), levels)


@contextmanager
def _naming(code: str) -> Iterator[None]:
    """Errors name the factor of the formula in which they arise."""
    try:
        yield
    except (KeyError, NameError, SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"{code} in the formula: {error}") from error


# ---- the two sides -------------------------------------------------------------------
# patsy reads the operators. A sum of names and calls is read without patsy, which
# refuses a sum of a thousand summands.

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
