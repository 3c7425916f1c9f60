"""PTX instructions of one thread, against exact arithmetic.

A kernel of one instruction runs on all combinations of the edges of its operands. The
oracles are Python's integers and fractions and NumPy's scalars.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator
from ptx_kernels import DTYPES, Array, bits_of, execute
from together import together

pytestmark = needs_emulator

# ---- one table of instructions -------------------------------------------------------

SIGNS, NAN = ("neg", "abs", "copysign"), 0x7FFFFFFF
"""Instructions of float32 other than these have a single NaN."""

SPECIAL = [
    0.0, -0.0, 1.0, 0.5, -1.5, 2.0**-126, 2.0**-140, -1e-39, 5e-324, 3e38,
    math.inf, -math.inf, math.nan,
]  # fmt: skip
"""Floating-point operands: denormal numbers of float32 and float64 among them."""


def edges(type: str) -> list[Any]:
    """The values of a type that an instruction gets."""
    if type == "pred":
        return [False, True]
    if type[0] == "f":
        return list(np.array(SPECIAL).astype(DTYPES[type]))
    info = np.iinfo(DTYPES[type])
    rng = np.random.default_rng(bits_of(type))
    found = rng.integers(info.min, info.max, 6, info.dtype, endpoint=True)
    limits = [0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 3]
    return [*limits, *map(int, found)]


def wrapped(value: int, type: str) -> int:
    """The value modulo the size of a type."""
    bits = bits_of(type)
    value %= 1 << bits
    signed = type.startswith("s") and value >> (bits - 1)
    return value - (1 << bits) if signed else value


def statement(opcode: str, operands: int) -> str:
    """An instruction with its operands, unless the text has them."""
    names = ", ".join(f"%x{k}" for k in range(operands))
    return opcode if "%d" in opcode else f"{opcode} %d, {names};"


Operand = str | tuple[str, Sequence[Any]]
"""A type, perhaps with its values."""

Case = tuple[str, str, tuple[Operand, ...], Callable[..., Any]]
"""An instruction, the type of its result, its operands and the exact function."""


def assert_case(
    opcode: str,
    result: str,
    operands: Sequence[Operand],
    function: Callable[..., Any],
) -> None:
    pairs = [(o, edges(o)) if isinstance(o, str) else o for o in operands]
    rows = list(itertools.product(*(values for _, values in pairs)))
    if opcode.startswith(("div.u", "div.s", "rem")):
        rows = [row for row in rows if row[1]]
    if len(rows) > 1024:
        chosen = np.random.default_rng(0).choice(len(rows), 1024, replace=False)
        rows = [rows[k] for k in chosen]
    columns = [
        (type, np.array(column, object).astype(DTYPES[type]))
        for (type, _), column in zip(pairs, zip(*rows, strict=True), strict=True)
    ]
    found = execute(statement(opcode, len(columns)), result, *columns)
    expected = [function(*row) for row in rows]
    if result[0] == "f":
        right = np.array(expected, DTYPES[result])
        np.testing.assert_array_equal(found, right, opcode)
        is_nan = np.isnan(right)
        signs = np.signbit([found[~is_nan], right[~is_nan]])
        np.testing.assert_array_equal(*signs, opcode)
        if result == "f32" and not opcode.startswith(SIGNS):
            assert (found.view("u4")[is_nan] == NAN).all(), opcode
    elif result == "pred":
        assert found.tolist() == list(map(bool, expected)), opcode
    else:
        for row, value, right in zip(rows, found.tolist(), expected, strict=True):
            assert value == wrapped(right, result), (opcode, row)


def quotient(a: int, b: int) -> int:
    """Towards zero."""
    return int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))


def reversed_bits(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def part(low: int, high: int, right: int) -> int:
    return (high << 32 | low) >> right


def find(value: int, type: str, shift: bool) -> int:
    bits = bits_of(type)
    top = (~value if value < 0 else value).bit_length() - 1
    return -1 if top < 0 else bits - 1 - top if shift else top


def field(value: int, start: int, length: int, type: str) -> int:
    """The bits of a number that has its sign for ever, or zeros."""
    start, length = start & 255, length & 255
    found = value >> start & (1 << length) - 1
    sign = (1 << length >> 1) * type.startswith("s")
    return (found ^ sign) - sign


def insert(a: int, b: int, start: int, length: int, bits: int) -> int:
    start, length = start & 255, length & 255
    mask = ((1 << length) - 1) << start & ((1 << bits) - 1)
    return (b & ~mask) | (a << start & mask)


def permuted(a: int, b: int, selector: int) -> int:
    source = (b << 32 | a).to_bytes(8, "little")
    found = []
    for k in range(4):
        one = selector >> 4 * k & 15
        byte = source[one & 7]
        found.append((255 if byte & 128 else 0) if one & 8 else byte)
    return int.from_bytes(bytes(found), "little")


def product24(a: int, b: int, type: str, shift: int = 0) -> int:
    def lower(x: int) -> int:
        x &= 0xFFFFFF
        return x - (1 << 24) if type == "s32" and x >> 23 else x

    return lower(a) * lower(b) >> shift


def parts_of(word: int, dtype: str) -> list[int]:
    """The bytes or the halves of a word, the lowest first."""
    return [int(x) for x in np.array([word], "u4").view(dtype)]


def product_of_parts(a: int, b: int, dtypes: Sequence[str], first: int = 0) -> int:
    """The sum of the products of the parts of two words."""
    x, y = parts_of(a, dtypes[0]), parts_of(b, dtypes[1])[first:]
    return sum(p * q for p, q in zip(x, y, strict=False))


def of_each_part(a: int, b: int, dtype: str, function: Any) -> list[int]:
    pairs = zip(parts_of(a, dtype), parts_of(b, dtype), strict=True)
    return [function(x, y) for x, y in pairs]


def joined(parts: Sequence[int], dtype: str) -> int:
    return int(np.array(parts).astype(dtype).view("u4")[0])


def looked_up(table: int, a: int, b: int, c: int) -> int:
    """Each bit of three words gives a bit of a table."""
    rows = ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1) for k in range(32))
    return sum((table >> row & 1) << k for k, row in enumerate(rows))


VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vmin": min, "vmax": max,
    "vabsdiff": lambda a, b: abs(a - b),
}  # fmt: skip

CARRIES: dict[str, tuple[str, Callable[..., int]]] = {
    "add": (
        "add.cc.{0} %l, %x0, %x1; addc.{0} %d, %x2, %x3;",
        lambda n, a, b, c, d: (c << n) + a + (d << n) + b,
    ),
    "sub": (
        "sub.cc.{0} %l, %x0, %x1; subc.{0} %d, %x2, %x3;",
        lambda n, a, b, c, d: (c << n) + a - (d << n) - b,
    ),
    "mad": (
        "mad.lo.cc.{0} %l, %x0, %x1, %x2; madc.hi.{0} %d, %x0, %x1, %x3;",
        lambda n, a, b, c, d: a * b + c + (d << n),
    ),
}
"""Operations on numbers of two words, whose upper word is checked."""


def nth_bit(mask: int, first: int, n: int) -> int:
    """The place of the n-th bit from the first place on, or before it if n < 0."""
    places = [k for k in range(32) if mask >> k & 1 and (k >= first or n <= 0)]
    if n < 0:
        places = [k for k in reversed(places) if k <= first]
    if n == 0:
        places = [k for k in places if k == first]
    return (places[max(abs(n), 1) - 1 :] or [-1])[0]


PLACES: dict[str, Callable[[int, int], int]] = {
    "f4e": lambda n, k: n + k, "b4e": lambda n, k: n - k, "rc8": lambda n, _: n,
    "ecl": lambda n, k: max(n, k), "ecr": lambda n, k: min(n, k),
    "rc16": lambda n, k: (n & 1) * 2 + (k & 1),
}  # fmt: skip
"""The byte that prmt takes, by the selector and the byte's number."""


FLOATS = ("f32", "f64")
ALL = ("u16", "s16", "u32", "s32", "u64", "s64")
SHORT, SIGNED = ("u16", "s16", "u32", "s32"), ("s16", "s32", "s64")
PAIRS, WORDS, SIZES = ("u32", "s32"), ("u32", "s32", "u64", "s64"), (16, 32, 64)
B32 = (32,)
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def cases(
    opcode: str, types: Sequence[str | int], shape: str, function: Callable[..., Any]
) -> list[Case]:
    """An instruction with each of the types; a number is a number of bits.

    The shape has a letter for the result and each operand: T is the type, W the type of
    twice its size, n is u32, s is s32 and p a predicate. A function of `t` gives the
    function.
    """
    found = []
    for type in types:
        own = type if isinstance(type, str) else f"u{type}"
        letters = {"T": own, "W": WIDE.get(own, ""), "n": "u32", "s": "s32"}
        result, *operands = (letters.get(letter, "pred") for letter in shape)
        suffix = type if isinstance(type, str) else f"b{type}"
        needs_type = function.__code__.co_varnames[:1] == ("t",)
        oracle = function(own) if needs_type else function
        found.append((opcode.format(suffix), result, tuple(operands), oracle))
    return found


def limited(x: int) -> int:
    return int(np.clip(x, -(2**31), 2**31 - 1))


INTEGERS: list[Case] = [
    *cases("add.{}", ALL, "TTT", lambda a, b: a + b),
    *cases("sub.{}", ALL, "TTT", lambda a, b: a - b),
    *cases("mul.lo.{}", ALL, "TTT", lambda a, b: a * b),
    *cases("mad.lo.{}", ALL, "TTTT", lambda a, b, c: a * b + c),
    *cases("mul.hi.{}", ALL, "TTT", lambda t: lambda a, b: a * b >> bits_of(t)),
    *cases(
        "mad.hi.{}", ("u32", "s32", "u64"), "TTTT",
        lambda t: lambda a, b, c: (a * b >> bits_of(t)) + c,
    ),
    *cases("div.{}", ALL, "TTT", lambda a, b: quotient(a, b)),
    *cases("rem.{}", ALL, "TTT", lambda a, b: a - quotient(a, b) * b),
    *cases("mul.wide.{}", SHORT, "WTT", lambda a, b: a * b),
    *cases("mad.wide.{}", SHORT, "WTTW", lambda a, b, c: a * b + c),
    *cases("min.{}", ALL, "TTT", lambda a, b: min(a, b)),
    *cases("max.{}", ALL, "TTT", lambda a, b: max(a, b)),
    *cases("sad.{}", ALL, "TTTT", lambda a, b, c: abs(a - b) + c),
    *cases("neg.{}", SIGNED, "TT", lambda a: -a),
    *cases("abs.{}", SIGNED, "TT", lambda a: abs(a)),
    *cases("and.{}", SIZES, "TTT", lambda a, b: a & b),
    *cases("or.{}", SIZES, "TTT", lambda a, b: a | b),
    *cases("xor.{}", SIZES, "TTT", lambda a, b: a ^ b),
    *cases("not.{}", SIZES, "TT", lambda a: ~a),
    *cases("cnot.{}", B32, "TT", lambda a: int(a == 0)),
    *cases("shl.{}", SIZES, "TTn", lambda a, n: a << min(n, 99)),
    *cases("shr.{}", ALL, "TTn", lambda a, n: a >> min(n, 99)),
    *cases("popc.{}", (32, 64), "nT", lambda a: a.bit_count()),
    *cases("clz.{}", (32, 64), "nT", lambda t: lambda a: bits_of(t) - a.bit_length()),
    *cases("brev.{}", (32, 64), "TT", lambda t: lambda a: reversed_bits(a, bits_of(t))),
    *cases("bfind.{}", WORDS, "nT", lambda t: lambda a: find(a, t, False)),
    *cases("bfind.shiftamt.{}", WORDS, "nT", lambda t: lambda a: find(a, t, True)),
    *cases("bfe.{}", WORDS, "TTnn", lambda t: lambda a, s, n: field(a, s, n, t)),
    *cases(
        "bfi.{}", (32, 64), "TTTnn",
        lambda t: lambda a, b, s, n: insert(a, b, s, n, bits_of(t)),
    ),
    *cases("shf.l.wrap.{}", B32, "TTTn", lambda a, b, n: part(a, b, 32 - (n & 31))),
    *cases("shf.r.wrap.{}", B32, "TTTn", lambda a, b, n: part(a, b, n & 31)),
    *cases("shf.l.clamp.{}", B32, "TTTn", lambda a, b, n: part(a, b, 32 - min(n, 32))),
    *cases("shf.r.clamp.{}", B32, "TTTn", lambda a, b, n: part(a, b, min(n, 32))),
    *cases("add.sat.{}", ("s32",), "TTT", lambda a, b: limited(a + b)),
    *cases("sub.sat.{}", ("s32",), "TTT", lambda a, b: limited(a - b)),
    *cases("mul24.lo.{}", PAIRS, "TTT", lambda t: lambda a, b: product24(a, b, t)),
    *cases("mul24.hi.{}", PAIRS, "TTT", lambda t: lambda a, b: product24(a, b, t, 16)),
    *cases(
        "mad24.lo.{}", PAIRS, "TTTT",
        lambda t: lambda a, b, c: product24(a, b, t) + c,
    ),
    *cases(
        "szext.wrap.{}", PAIRS, "TTn", lambda t: lambda a, n: field(a, 0, n & 31, t)
    ),
    *cases(
        "bmsk.clamp.{}", B32, "TTT",
        lambda a, n: ((1 << min(n & 255, 32)) - 1) << min(a, 32),
    ),
    *cases("prmt.b32", B32, "nnnn", permuted),
    *(
        (
            f"prmt.b32.{mode}", "u32", ("u32",) * 3,
            lambda a, b, n, f=f: permuted(
                a, b, sum((f(n & 3, k) & 7) << 4 * k for k in range(4))
            ),
        )
        for mode, f in PLACES.items()
    ),
    *cases("mov.{}", (*SIZES, *ALL), "TT", lambda a: a),
    *cases("mov.f32", B32, "TT", lambda a: a),
    *cases("mov.f64", (64,), "TT", lambda a: a),
    *cases("slct.{}.s32", (32, *PAIRS), "TTTs", lambda a, b, c: a if c >= 0 else b),
    *cases("slct.f32.s32", B32, "TTTs", lambda a, b, c: a if c >= 0 else b),
    (
        "cvt.pack.sat.u8.s32.b32", "u32", ("s32", "s32", "u32"),
        lambda a, b, c: c << 16 | min(max(a, 0), 255) << 8 | min(max(b, 0), 255),
    ),
    (
        "fns.b32", "u32",
        (("u32", [0, 0xB0000086]), ("u32", range(32)), ("s32", [-3, -1, 0, 1, 2, 40])),
        nth_bit,
    ),
    *cases("selp.{}", SIZES, "TTTp", lambda a, b, p: a if p else b),
    (
        "cvt.pack.sat.s16.s32", "u32", ("s32", "s32"),
        lambda a, b: joined([min(max(x, -(2**15)), 2**15 - 1) for x in (b, a)], "i2"),
    ),
]  # fmt: skip


def cases_of_parts() -> Iterator[Case]:
    """Sums of products of bytes and halves, and operations on each of them."""
    for a, b in itertools.product(PAIRS, repeat=2):
        for name, size, first in (("dp4a", 1, 0), ("dp2a.lo", 2, 0), ("dp2a.hi", 2, 2)):
            dtypes = [f"{a[0]}{size}".replace("s", "i"), f"{b[0]}1".replace("s", "i")]

            def product(
                x: int, y: int, c: int, types: Any = dtypes, k: int = first
            ) -> int:
                return product_of_parts(x, y, types, k) + c

            yield f"{name}.{a}.{b}", "s32", ("u32", "u32", "s32"), product
    for (name, function), part in itertools.product(
        VIDEO.items(), ("u1", "i1", "u2", "i2")
    ):
        type = "s32" if part[0] == "i" else "u32"
        opcode = f"{name}{4 // int(part[1])}.{type}.{type}.{type}"

        def each(
            a: int, b: int, _: int, part: str = part, function: Any = function
        ) -> int:
            return joined(of_each_part(a, b, part, function), part)

        def added(
            a: int, b: int, c: int, part: str = part, function: Any = function
        ) -> int:
            return sum(of_each_part(a, b, part, function)) + c

        yield opcode, "u32", ("u32",) * 3, each
        yield f"{opcode}.add", "u32", ("u32",) * 3, added


def cases_of_words() -> Iterator[Case]:
    """Tables of bits, and operations on numbers of two words."""
    for table in (0x96, 0xE8, 0x01, 0xFE, 0x1D):
        text = f"lop3.b32 %d, %x0, %x1, %x2, {table};"
        yield text, "u32", ("u32",) * 3, functools.partial(looked_up, table)
    for (text, function), bits in itertools.product(CARRIES.values(), (32, 64)):

        def upper(*words: int, function: Any = function, bits: int = bits) -> int:
            return int(function(bits, *words)) >> bits

        type = f"u{bits}"
        yield f".reg .b{bits} %l; {text.format(type)}", type, (type,) * 4, upper


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip

JOINS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def cases_of_predicates() -> Iterator[Case]:
    """Comparisons, ordered or not, and with a predicate."""
    for name, compare in COMPARISONS.items():

        def ordered(a: Any, b: Any, f: Any = compare) -> Any:
            return f(a, b) and a == a and b == b

        def unordered(a: Any, b: Any, f: Any = compare) -> Any:
            return f(a, b) or a != a or b != b

        yield from cases(f"setp.{name}.{{}}", (*ALL, *FLOATS), "pTT", ordered)
        yield from cases(f"setp.{name}u.{{}}", FLOATS, "pTT", unordered)
    yield "not.pred", "pred", ("pred",), operator.not_
    small = "u32", [1, 2]
    for name, join in JOINS.items():
        yield f"{name}.pred", "pred", ("pred", "pred"), join
        for results, given, function in (
            ("%d|%x2", "%x2", lambda a, b, c, f=join: f(a < b, c)),
            ("%d|%q", "%x2", lambda a, b, c, f=join: f(a < b, c)),
            ("%q|%d", "%x2", lambda a, b, c, f=join: f(a >= b, c)),
            ("%d", "!%x2", lambda a, b, c, f=join: f(a < b, not c)),
        ):
            text = f".reg .pred %q; setp.lt.{name}.u32 {results}, %x0, %x1, {given};"
            yield text, "pred", (small, small, "pred"), function


# ---- floating point ------------------------------------------------------------------

FORMATS = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
    "tf32": (11, -126, 127),
}
"""Bits of the significand, and the least and the largest exponent."""


def rounded(x: Fraction, type: str, mode: str = "rn") -> float:
    """The nearest number of a type, or the next in a direction; ties as "rna" away."""
    digits, least, largest = FORMATS[type]
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    whole = size // unit
    rest = size / unit - whole
    up = {
        "rna": rest >= Fraction(1, 2),
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rz": False,
        "rm": x < 0 and rest > 0,
        "rp": x > 0 and rest > 0,
    }[mode]
    value = (whole + up) * unit
    most = (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** largest
    if value > most:
        away = mode == "rn" or (mode == "rp" and x > 0) or (mode == "rm" and x < 0)
        value = math.inf if away else most
    return float(value) if x > 0 else -float(value)


def flushed(x: Any) -> Any:
    """Zero for a denormal number."""
    return x * 0 if abs(x) < 2.0**-126 else x


def saturated(x: Any) -> float:
    """Between 0 and 1, and 0 for NaN."""
    return float(x) if 0 < x < 1 else float(x >= 1)


def upper_half(x: Any) -> Any:
    """A float64 without its lower 32 bits."""
    return (np.array(x).view("u8") >> 32 << 32).view("f8")[()]


def is_normal(x: Any) -> bool:
    return bool(abs(x) >= np.finfo(x.dtype).smallest_normal)


def extreme(name: str, strict: bool) -> Callable[[Any, Any], Any]:
    """The minimum or maximum, where -0 is below 0; of a NaN and a number either."""
    choose = {
        "min": (np.fmin, np.minimum), "max": (np.fmax, np.maximum)
    }[name][strict]  # fmt: skip

    def chosen(a: Any, b: Any) -> Any:
        if a == b:
            return a if np.signbit(a) == (name == "min") else b
        return choose(a, b)

    return chosen


def tf32(x: float, mode: str) -> float:
    return rounded(Fraction(x), "tf32", mode)


def of_values(opcode: str, values: Any, function: Any, type: str = "f32") -> Case:
    """An instruction on these values for all of its operands."""
    count = function.__code__.co_argcount
    return opcode, type, ((type, values),) * count, function


TINY = [2.0**-126, -(2.0**-130), 1.5 * 2.0**-126, -(2.0**-126), 0.5]
FINITE = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-12, -1.5, -(2.0**-100), 3e38]

REALS: list[Case] = [
    *cases("add.{}", FLOATS, "TTT", lambda a, b: a + b),
    *cases("sub.{}", FLOATS, "TTT", lambda a, b: a - b),
    *cases("mul.{}", FLOATS, "TTT", lambda a, b: a * b),
    *cases("div.rn.{}", FLOATS, "TTT", lambda a, b: a / b),
    *cases("sqrt.rn.{}", FLOATS, "TT", lambda a: np.sqrt(a)),
    *cases(
        "fma.rn.{}", ("f32",), "TTTT",
        lambda a, b, c: np.float64(a) * np.float64(b) + np.float64(c),
    ),
    *cases("neg.{}", FLOATS, "TT", lambda a: -a),
    *cases("abs.{}", FLOATS, "TT", lambda a: abs(a)),
    *cases("copysign.{}", FLOATS, "TTT", lambda a, b: np.copysign(b, a)),
    *cases("min.{}", FLOATS, "TTT", extreme("min", strict=False)),
    *cases("max.{}", FLOATS, "TTT", extreme("max", strict=False)),
    *cases("min.NaN.{}", ("f32",), "TTT", extreme("min", strict=True)),
    *cases("max.NaN.{}", ("f32",), "TTT", extreme("max", strict=True)),
    *cases("testp.finite.{}", FLOATS, "pT", lambda a: np.isfinite(a)),
    *cases("testp.infinite.{}", FLOATS, "pT", lambda a: np.isinf(a)),
    *cases("testp.number.{}", FLOATS, "pT", lambda a: a == a),
    *cases("testp.notanumber.{}", FLOATS, "pT", lambda a: a != a),
    *cases("testp.normal.{}", FLOATS, "pT", lambda a: is_normal(a) and np.isfinite(a)),
    *cases(
        "testp.subnormal.{}", FLOATS, "pT",
        lambda a: a == a and a != 0 and not is_normal(a),
    ),
    *cases("add.sat.{}", ("f32",), "TTT", lambda a, b: saturated(a + b)),
    *cases("cvt.sat.f32.{}", ("f32",), "TT", lambda a: saturated(a)),
    *cases(
        "mul.ftz.{}", ("f32",), "TTT", lambda a, b: flushed(flushed(a) * flushed(b))
    ),
    *cases(
        "add.ftz.{}", ("f32",), "TTT", lambda a, b: flushed(flushed(a) + flushed(b))
    ),
    *cases("setp.eq.ftz.{}", ("f32",), "pTT", lambda a, b: flushed(a) == flushed(b)),
    ("cvt.rn.f32.f64", "f32", ("f64",), np.float32),
    # Of these products none is rounded.
    of_values("mul.rz.ftz.f32", TINY, lambda a, b: flushed(flushed(a) * flushed(b))),
    of_values("add.rz.f32", [math.inf, -math.inf], lambda a, b: a + b),
    of_values("lg2.approx.f32", [-math.inf], lambda a: math.nan),
    of_values("rsqrt.approx.f32", [-math.inf], lambda a: math.nan),
    of_values("sin.approx.f32", [math.inf], lambda a: math.nan),
    of_values("ex2.approx.f32", [math.nan], lambda a: math.nan),
    of_values("cvt.rna.tf32.f32", FINITE, lambda a: tf32(a, "rna")),
    of_values("cvt.rn.tf32.f32", FINITE, lambda a: tf32(a, "rn")),
    of_values(
        "min.xorsign.abs.f32", FINITE,
        lambda a, b: math.copysign(min(abs(a), abs(b)), a * b),
    ),
    of_values(
        "rcp.approx.ftz.f64", [3.0, -7.5, 1e-300, 0.0, math.inf],
        lambda a: upper_half(1 / np.float64(upper_half(a))), "f64",
    ),
]  # fmt: skip

# ---- conversions ---------------------------------------------------------------------

ROUND_INTEGER = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
BYTES = ("s8", "u8", *ALL)
NEAR_LIMITS = [
    0.5, 1.5, 2.5, -0.5, -1.5, -2.7, 1e5, -1e5, 3e9, -3e9, 1e19, -1e19, 1e30,
    math.inf, -math.inf, math.nan,
]  # fmt: skip


def within(value: Any, type: str) -> int:
    """The nearest value of an integer type."""
    info = np.iinfo(DTYPES[type])
    return int(min(max(value, info.min), info.max))


def converted(x: float, target: str, rounds: Callable[[float], int]) -> int:
    """The nearest integer of the type; for NaN 0, or 2^63 for 64 bits."""
    if math.isnan(x):
        return 1 << 63 if bits_of(target) == 64 else 0
    return within(x if math.isinf(x) else rounds(x), target)


def conversions() -> Iterator[Case]:
    """To integers. Results of 8 bits are extended to the register."""
    for (mode, rounds), target in itertools.product(ROUND_INTEGER.items(), ALL):
        function = functools.partial(converted, target=target, rounds=rounds)
        for source in FLOATS:
            opcode = f"cvt.{mode}.{target}.{source}"
            values = np.array(NEAR_LIMITS, DTYPES[source]).tolist()
            yield opcode, target, ((source, values),), function
    for source, target in itertools.product(BYTES, BYTES):
        wide = "s16" if bits_of(target) == 8 else target
        for sat, limit in (("", wrapped), (".sat", within)):
            function = functools.partial(limit, type=target)
            yield f"cvt{sat}.{target}.{source}", wide, (source,), function


TABLES = {
    "integers": INTEGERS, "parts": cases_of_parts(), "words": cases_of_words(),
    "predicates": cases_of_predicates(), "reals": REALS, "conversions": conversions(),
}  # fmt: skip


@pytest.mark.parametrize("cases", TABLES.values(), ids=TABLES)
def test_instructions(cases: Any) -> None:
    with np.errstate(all="ignore"):
        for case in cases:
            assert_case(*case)


# ---- rounding ------------------------------------------------------------------------


def floats_of(values: Array, type: str) -> Array:
    """The values of an array; bfloat16 is the upper half of a float32."""
    return (values.astype("u4") << 16).view("f4") if type == "bf16" else values


def numbers(type: str, count: int, rng: np.random.Generator) -> Array:
    """Finite numbers of all sizes, denormal numbers and numbers near 1 among them."""
    bits = rng.integers(0, 1 << bits_of(type), 3 * count, f"u{bits_of(type) // 8}")
    values = bits.view(DTYPES[type])
    values = values[np.isfinite(floats_of(values, type))][:count]
    if type == "bf16":
        near = rng.normal(size=count).astype("f4").view("u4") >> 16
    else:
        near = rng.normal(size=count)
    return np.where(rng.random(count) < 0.5, near.astype(values.dtype), values)


def root(x: Fraction) -> Fraction:
    """With a part below the last bit, if the root is not exact."""
    scaled = abs(x) * 4**1200
    whole = math.isqrt(int(scaled))
    return Fraction(2 * whole + (whole * whole != scaled), 2 * 2**1200)


EXACT: dict[str, tuple[int, Callable[..., Fraction]]] = {
    "add": (2, operator.add), "sub": (2, operator.sub), "mul": (2, operator.mul),
    "div": (2, operator.truediv), "fma": (3, lambda a, b, c: a * b + c),
    "sqrt": (1, root),
}  # fmt: skip
MODES = ("rn", "rz", "rm", "rp")
ARITHMETIC = [
    *itertools.product(EXACT, MODES, FLOATS),
    *itertools.product(("add", "sub", "mul", "fma"), ("rn",), ("f16", "bf16")),
]


@together(("name", "mode", "type"), ARITHMETIC)
def test_arithmetic_is_rounded_once(name: str, mode: str, type: str) -> None:
    count, function = EXACT[name]
    rng = np.random.default_rng(7)
    columns = [numbers(type, 256, rng) for _ in range(count)]
    if name == "div":
        columns[1][columns[1] == 0] = 1
    if name == "sqrt":
        columns = [abs(c) for c in columns]
    text = statement(f"{name}.{mode}.{type}", count)
    found = execute(text, type, *((type, c) for c in columns))
    expected = [
        rounded(function(*map(Fraction, row)), type, mode)
        for row in zip(*(floats_of(c, type).tolist() for c in columns), strict=True)
    ]
    assert floats_of(found, type).tolist() == expected
    if bits_of(type) == 16:
        pairs = [(f"{type}x2", c.view("u4")) for c in columns]
        both = execute(text.replace(type, f"{type}x2"), f"{type}x2", *pairs)
        np.testing.assert_array_equal(both, found.view("u4"))


@together(
    ("name", "function", "units"),
    [("ex2.approx", np.exp2, 2), ("lg2.approx", np.log2, 2), ("sin.approx", np.sin, 2),
     ("cos.approx", np.cos, 2), ("rcp.approx", lambda x: 1 / x, 1),
     ("rsqrt.approx", lambda x: 1 / np.sqrt(x), 2), ("sqrt.approx", np.sqrt, 1),
     ("tanh.approx", np.tanh, 2)],
)  # fmt: skip
def test_approximations(name: str, function: Any, units: int) -> None:
    """Within the errors that PTX's manual allows, which are larger."""
    x = np.random.default_rng(2).uniform(0.1, 3, 200).astype("f4")
    found = execute(f"{name}.f32 %d, %x0;", "f32", ("f32", x)).astype(float)
    expected = function(x.astype(float))
    np.testing.assert_allclose(
        found, expected, rtol=units * 2.0**-23, atol=units * 2.0**-24
    )


def near_the_middle(target: str, source: str) -> Array:
    """Values of a source: numbers of a target, and near the middle of two."""
    if source[0] != "f":
        info = np.iinfo(DTYPES[source])
        more = [2**24 + 1, 2**30 + 1, 2**60 + 2**52 + 1, -(2**60) - 2**52 + 1]
        more += [2049, -2051, 65519, 65520]
        x = [v for v in [*edges(source), *more] if info.min <= v <= info.max]
        return np.array(x, object).astype(DTYPES[source])
    rng = np.random.default_rng(5)
    values = numbers(target, 240, rng)
    digits = FORMATS[target][0]
    whole = floats_of(values, target).astype(DTYPES[source])
    between = whole * (1 + whole.dtype.type(2) ** -digits)
    rest = [between * (1 + 2.0**-22), rng.normal(size=240), [65519, 65520, 1e9, 1e-41]]
    x = np.concatenate([whole, between, *rest]).astype(whole.dtype)
    return x[np.isfinite(x)]


INTEGER_SOURCES = ("s8", "u16", "s32", "u32", "s64", "u64")
ROUNDED = [
    *(("f32", "f64"), ("f16", "f32"), ("f16", "f64"), ("bf16", "f32")),
    *itertools.product(("f16", "bf16", "f32", "f64"), INTEGER_SOURCES),
]
"""The target and the source of a conversion that rounds."""


@together("mode", MODES)
@together(("target", "source"), ROUNDED)
def test_conversion_is_rounded_once(target: str, source: str, mode: str) -> None:
    """Halfway cases, denormal numbers and overflow among them."""
    x = near_the_middle(target, source)
    found = execute(f"cvt.{mode}.{target}.{source} %d, %x0;", target, (source, x))
    expected = [rounded(Fraction(v), target, mode) for v in x.tolist()]
    assert floats_of(found, target).tolist() == expected
    if target == "f16":
        back = execute("cvt.f32.f16 %d, %x0;", "f32", ("f16", found))
        np.testing.assert_array_equal(back, found.astype("f4"))


def eight_bits(code: int, exponent_bits: int) -> float:
    """A floating-point number of 8 bits, by its definition."""
    fraction_bits, bias = 7 - exponent_bits, 2 ** (exponent_bits - 1) - 1
    exponent, fraction = (
        (code & 127) >> fraction_bits,
        code & ((1 << fraction_bits) - 1),
    )
    if exponent_bits == 4 and code & 127 == 127:
        return math.nan
    if exponent_bits == 5 and exponent == 31:
        return math.nan if fraction else math.copysign(math.inf, -(code >> 7) or 1)
    size = (fraction / 2**fraction_bits + (exponent > 0)) * 2.0 ** (
        max(exponent, 1) - bias
    )
    return -size if code >> 7 else size


@together(("type", "exponent_bits"), [("e4m3x2", 4), ("e5m2x2", 5)])
def test_numbers_of_eight_bits(type: str, exponent_bits: int) -> None:
    values = np.array([eight_bits(code, exponent_bits) for code in range(256)], "f4")
    pairs = execute(
        f"cvt.rn.f16x2.{type} %d, %x0;", "u32", ("u16", np.arange(256) * 257)
    )
    np.testing.assert_array_equal(pairs.view("f2"), np.repeat(values, 2))
    order = np.argsort(values[:128][np.isfinite(values[:128])])
    finite = values[order]
    x = np.concatenate(
        [finite, (finite[1:] + finite[:-1]) / 2, -finite, [1e9, -1e9]]
    ).astype("f4")
    found = execute(
        f"cvt.rn.satfinite.{type}.f32 %d, %x0, %x1;", "u16", ("f32", x), ("f32", -x)
    )
    for value, code in zip(x.tolist(), found.tolist(), strict=True):
        near = sorted(
            range(len(finite)), key=lambda k: (abs(finite[k] - abs(value)), k & 1)
        )[0]
        assert eight_bits(code >> 8, exponent_bits) == math.copysign(
            finite[near], value
        )
        assert eight_bits(code & 255, exponent_bits) == math.copysign(
            finite[near], -value
        )
