"""Every PTX instruction that kernels use, against exact arithmetic.

A kernel of one instruction runs on a row of values for each operand. The oracles are
Python's integers and fractions, which are rounded here once, as PTX's manual says.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusolve
from gpusolve import _emulator
from gpusolve._emulator import KernelError
from gpusolve._emulator._memory import Memory
from gpusolve._emulator.machine import launch
from gpusolve._emulator.module import Module, PtxError

pytestmark = pytest.mark.skipif(
    not list((Path(gpusolve.__file__).parent / "_objects").glob("machine-*")),
    reason="the emulator's machine is not built, which `make test` does",
)

Array = np.ndarray[Any, Any]

DTYPES = {
    "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "b32": "u4",
    "u32": "u4", "s32": "i4", "b64": "u8", "u64": "u8", "s64": "i8", "f16": "f2",
    "f32": "f4", "f64": "f8", "pred": "u4", "f16x2": "u4", "bf16x2": "u4", "bf16": "u2",
}  # fmt: skip
"""The dtype of an array for each type; a predicate is 0 or 1."""


def bits_of(type: str) -> int:
    return 8 * np.dtype(DTYPES[type]).itemsize


def register(type: str) -> str:
    return "pred" if type == "pred" else f"b{max(16, bits_of(type))}"


def module_of(body: str, parameters: int, before: str = "") -> Module:
    """A module with the kernel `k` of pointers p0, p1, ...; %t is the thread."""
    named = ", ".join(f".param .u64 p{number}" for number in range(parameters))
    pointers = "".join(f"ld.param.u64 %a{k}, [p{k}];\n" for k in range(parameters))
    return Module(f"""
.version 8.7
.target sm_90
.address_size 64
{before}
.visible .entry k({named}) {{
    .reg .b32 %t;
    .reg .b64 %a<{parameters + 1}>, %o;
    {pointers}
    mov.u32 %t, %tid.x;
    {body}
    ret;
}}""")


def run_body(
    body: str,
    arrays: Sequence[Array],
    threads: int = 32,
    before: str = "",
    blocks: int = 1,
) -> None:
    """Run a body with these arrays as parameters."""
    memory = Memory()
    for number, array in enumerate(arrays):
        memory.add_array(f"p{number}", array)
    packed = b"".join(int(a.ctypes.data).to_bytes(8, "little") for a in arrays)
    module = module_of(body, len(arrays), before)
    launch(module, "k", (blocks,), (threads,), packed, memory=memory)


def execute(instruction: str, result: str, *operands: tuple[str, Array]) -> Array:
    """The results of an instruction; its operands are %x0, %x1, ..., its result %d."""
    count = len(operands[0][1])
    arrays = [np.ascontiguousarray(v, DTYPES[type]) for type, v in operands]
    output = np.zeros(count, DTYPES[result])
    lines = [f".reg .{register(result)} %d;"]
    for k, (type, _) in enumerate(operands):
        size = arrays[k].itemsize
        bits = 8 * size
        lines += [
            f".reg .{register(type)} %x{k};",
            f"mad.wide.u32 %o, %t, {size}, %a{k};",
        ]
        if type == "pred":
            lines += [f".reg .b32 %v{k};", f"ld.global.u32 %v{k}, [%o];"]
            lines += [f"setp.ne.u32 %x{k}, %v{k}, 0;"]
        else:
            lines.append(f"ld.global.b{bits} %x{k}, [%o];")
    lines += [instruction, f"mad.wide.u32 %o, %t, {output.itemsize}, %a{len(arrays)};"]
    if result == "pred":
        lines += [".reg .b32 %r;", "selp.u32 %r, 1, 0, %d;", "st.global.u32 [%o], %r;"]
    else:
        lines.append(f"st.global.b{8 * output.itemsize} [%o], %d;")
    run_body("\n".join(lines), [*arrays, output], count)
    return output


def integers(type: str) -> list[int]:
    """Edges of a type, and random values."""
    info = np.iinfo(DTYPES[type])
    rng = np.random.default_rng(bits_of(type))
    found = rng.integers(info.min, info.max, 6, info.dtype, endpoint=True)
    edges = [0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 3]
    return [*edges, *map(int, found)]


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


def check_integers(
    opcode: str, result: str, types: Sequence[str], function: Callable[..., int]
) -> None:
    rows = list(itertools.product(*map(integers, types)))
    if opcode.startswith(("div", "rem")):
        rows = [row for row in rows if row[1]]
    rng = np.random.default_rng(0)
    if len(rows) > 1024:
        rows = [rows[k] for k in rng.choice(len(rows), 1024, replace=False)]
    columns = [
        (type, np.array(column, object).astype(DTYPES[type]))
        for type, column in zip(types, zip(*rows, strict=True), strict=True)
    ]
    found = execute(statement(opcode, len(types)), result, *columns)
    for row, value in zip(rows, found.tolist(), strict=True):
        assert value == wrapped(function(*row), result), (opcode, row)


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
    bits, start, length = bits_of(type), start & 255, length & 255
    if not length:
        return 0
    shifted = wrapped(value, type) >> min(start, 512)
    if type.startswith("s"):
        last = min(start + length - 1, bits - 1)
        sign = wrapped(value, type) >> last & 1
        kept = shifted & ((1 << min(length, max(0, bits - start))) - 1)
        have = min(length, max(0, bits - start))
        return kept | (-(1 << have) if sign else 0)
    return shifted & ((1 << length) - 1)


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

PLACES: dict[str, Callable[[int, int], int]] = {
    "f4e": lambda n, k: n + k, "b4e": lambda n, k: n - k, "rc8": lambda n, _: n,
    "ecl": lambda n, k: max(n, k), "ecr": lambda n, k: min(n, k),
    "rc16": lambda n, k: (n & 1) * 2 + (k & 1),
}  # fmt: skip
"""The byte that prmt takes, by the selector and the byte's number."""


ALL = ("u16", "s16", "u32", "s32", "u64", "s64")
SHORT, SIGNED = ("u16", "s16", "u32", "s32"), ("s16", "s32", "s64")
PAIRS, WORDS, SIZES = ("u32", "s32"), ("u32", "s32", "u64", "s64"), (16, 32, 64)
B32 = (32,)
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}

Case = tuple[str, str, tuple[str, ...], Callable[..., int]]


def cases(
    opcode: str, types: Sequence[str | int], shape: str, function: Callable[..., Any]
) -> list[Case]:
    """An instruction with each of the types; a number is a number of bits.

    The shape has a letter for the result and each operand: T is the type, W the type of
    twice its size, n is u32 and s is s32. A function of `t` gives the function.
    """
    found = []
    for type in types:
        own = type if isinstance(type, str) else f"u{type}"
        letters = {"T": own, "W": WIDE.get(own, ""), "n": "u32", "s": "s32"}
        result, *operands = (letters[letter] for letter in shape)
        suffix = type if isinstance(type, str) else f"b{type}"
        needs_type = function.__code__.co_varnames[:1] == ("t",)
        oracle = function(own) if needs_type else function
        found.append((opcode.format(suffix), result, tuple(operands), oracle))
    return found


def limited(x: int) -> int:
    return int(np.clip(x, -(2**31), 2**31 - 1))


INTEGER: list[Case] = [
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


INTEGER += [*cases_of_parts(), *cases_of_words()]


@pytest.mark.parametrize("case", INTEGER, ids=lambda case: case[0])
def test_integers(case: Any) -> None:
    check_integers(*case)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("type", [*ALL, "f32", "f64"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(type: str, name: str) -> None:
    values = integers(type) if type in ALL else SPECIAL
    rows = list(itertools.product(values, repeat=2))
    columns = [
        (type, np.array(c, object).astype(DTYPES[type]))
        for c in zip(*rows, strict=True)
    ]
    expected = [
        COMPARISONS[name](a, b) and not (type[0] == "f" and (a != a or b != b))
        for a, b in rows
    ]
    found = execute(f"setp.{name}.{type} %d, %x0, %x1;", "pred", *columns)
    assert found.tolist() == expected
    if type[0] == "f":
        unordered = [
            e or a != a or b != b for e, (a, b) in zip(expected, rows, strict=True)
        ]
        found = execute(f"setp.{name}u.{type} %d, %x0, %x1;", "pred", *columns)
        assert found.tolist() == unordered


@pytest.mark.parametrize("join", ["and", "or", "xor"])
def test_comparison_with_a_predicate(join: str) -> None:
    a, b, c = (
        np.array(x)
        for x in zip(*itertools.product((1, 2), (1, 2), (0, 1)), strict=True)
    )
    operands = ("u32", a), ("u32", b), ("pred", c)
    less, given = a < b, c.astype(bool)
    both = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[join]
    same = f".reg .pred %q; setp.lt.{join}.u32 %d|%x2, %x0, %x1, %x2;"
    np.testing.assert_array_equal(execute(same, "pred", *operands), both(less, given))
    text = f".reg .pred %q; setp.lt.{join}.u32 {{}}, %x0, %x1, {{}}%x2;"
    for pair, sign, p in (
        ("%d|%q", "", both(less, given)),
        ("%q|%d", "", both(~less, given)),
        ("%d", "!", both(less, ~given)),
    ):
        np.testing.assert_array_equal(
            execute(text.format(pair, sign), "pred", *operands), p
        )


def test_comparisons_of_pairs() -> None:
    """Of each half: a predicate, 1.0 or a mask of 16 bits."""
    a = np.array([[1, 5], [2, 1], [math.nan, 3], [0, 9]], "f2")
    b = np.array([[2, 4], [2, 2], [1, math.nan], [1, 10]], "f2")
    less = a < b
    pairs = [("u32", x.view("u4").ravel()) for x in (a, b)]
    ones = execute("set.lt.f16x2.f16x2 %d, %x0, %x1;", "u32", *pairs).view("f2")
    np.testing.assert_array_equal(ones.reshape(-1, 2), less)
    masks = execute("set.lt.u32.f16x2 %d, %x0, %x1;", "u32", *pairs).view("u2")
    np.testing.assert_array_equal(masks.reshape(-1, 2), 0xFFFF * less)
    for results, expected in (("%d|%q", less[:, 0]), ("%q|%d", less[:, 1])):
        text = f".reg .pred %q; setp.lt.f16x2 {results}, %x0, %x1;"
        np.testing.assert_array_equal(execute(text, "pred", *pairs), expected)


def test_predicates_and_selections() -> None:
    p, q = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    pair = ("pred", p), ("pred", q)
    for name, expected in (("and", p & q), ("or", p | q), ("xor", p ^ q)):
        found = execute(f"{name}.pred %d, %x0, %x1;", "pred", *pair)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(execute("not.pred %d, %x0;", "pred", pair[0]), 1 - p)
    for type in ("b16", "b32", "b64"):
        found = execute(
            f"selp.{type} %d, %x0, %x1, %x2;", type,
            (type, [1, 2, 3, 4]), (type, [5, 6, 7, 8]), pair[0],
        )  # fmt: skip
        assert found.tolist() == [5, 6, 3, 4]


# ---- floating point ------------------------------------------------------------------

FORMATS = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
}
"""Bits of the significand, and the least and the largest exponent."""

SPECIAL = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 2.0**-140, 3e38, -1e-39]


def rounded(x: Fraction, type: str, mode: str = "rn") -> float:
    """The nearest number of a type, or the next in a direction."""
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


EXACT: dict[str, tuple[int, Callable[..., Fraction]]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "div": (2, lambda a, b: a / b),
    "fma": (3, lambda a, b, c: a * b + c),
}


MODES = ("rn", "rz", "rm", "rp")
ARITHMETIC = [
    *itertools.product(EXACT, MODES, ("f32", "f64")),
    *itertools.product(("add", "sub", "mul", "fma"), ("rn",), ("f16", "bf16")),
]


@pytest.mark.parametrize(("name", "mode", "type"), ARITHMETIC)
def test_arithmetic_is_rounded_once(name: str, mode: str, type: str) -> None:
    count, function = EXACT[name]
    rng = np.random.default_rng(7)
    columns = [numbers(type, 256, rng) for _ in range(count)]
    if name == "div":
        columns[1][columns[1] == 0] = 1
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


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_roots_are_rounded_once(mode: str, type: str) -> None:
    x = abs(numbers(type, 256, np.random.default_rng(8)))
    found = execute(f"sqrt.{mode}.{type} %d, %x0;", type, (type, x))
    for value, root in zip(x.tolist(), found.tolist(), strict=True):
        scaled = Fraction(value) * 4**1200
        whole = math.isqrt(int(scaled))
        # A part below the last bit, if the root is not exact.
        exact = Fraction(2 * whole + (whole * whole != scaled), 2 * 2**1200)
        assert root == rounded(exact, type, mode), value


def test_float32_has_a_single_nan() -> None:
    """Without a sign, so that it is printed as nan."""
    inf, zero, nan = np.array([[math.inf], [0], [math.nan]], "f4")
    nan.view("u4")[0] = 0xFFC00001
    for text, *values in (
        ("sub.f32", inf, inf), ("mul.ftz.f32", zero, inf), ("add.f32", nan, zero),
        ("fma.rn.f32", inf, zero, zero), ("div.rn.f32", zero, zero),
        ("sqrt.rn.f32", -inf), ("lg2.approx.f32", -inf), ("rsqrt.approx.f32", -inf),
        ("sin.approx.f32", inf), ("ex2.approx.f32", nan), ("min.f32", nan, nan),
        ("add.rz.f32", -inf, inf),
    ):  # fmt: skip
        operands = [("f32", x) for x in values]
        found = execute(statement(text, len(values)), "f32", *operands)
        assert found.view("u4")[0] == 0x7FFFFFFF, text
    found = execute("cvt.rn.f32.f64 %d, %x0;", "f32", ("f64", nan))
    assert found.view("u4")[0] == 0x7FFFFFFF


def test_ftz_makes_denormal_operands_and_results_zero() -> None:
    tiny = np.array([2.0**-126, -(2.0**-130), 1.5 * 2.0**-126, -(2.0**-126)], "f4")
    half = np.full(4, 0.5, "f4")
    operands = ("f32", tiny), ("f32", half)
    kept = execute("mul.f32 %d, %x0, %x1;", "f32", *operands)
    np.testing.assert_array_equal(kept, tiny * half)
    for name in ("mul.ftz.f32", "mul.rz.ftz.f32"):
        found = execute(f"{name} %d, %x0, %x1;", "f32", *operands)
        np.testing.assert_array_equal(found, np.array([0, -0.0, 0, -0.0], "f4"))
        assert np.signbit(found).tolist() == [False, True, False, True]
    found = execute("add.ftz.f32 %d, %x0, %x0;", "f32", ("f32", tiny))
    np.testing.assert_array_equal(found, [2.0**-125, 0, 3 * 2.0**-126, -(2.0**-125)])
    found = execute("setp.eq.ftz.f32 %d, %x0, 0f00000000;", "pred", ("f32", tiny))
    assert found.tolist() == [0, 1, 0, 0]


def test_sat_is_between_0_and_1_and_0_for_nan() -> None:
    x = np.array([-1, 0.25, 3, math.nan, math.inf, -math.inf], "f4")
    expected = [0, 0.25, 1, 0, 1, 0]
    zero = ("f32", np.zeros(6, "f4"))
    found = execute("add.sat.f32 %d, %x0, %x1;", "f32", ("f32", x), zero)
    np.testing.assert_array_equal(found, np.array(expected, "f4"))
    found = execute("cvt.sat.f32.f32 %d, %x0;", "f32", ("f32", x))
    np.testing.assert_array_equal(found, np.array(expected, "f4"))


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_minimum_and_maximum(type: str) -> None:
    """The other operand of a NaN, or NaN with .NaN; -0 is below 0."""
    rows = list(itertools.product(SPECIAL, repeat=2))
    columns = [(type, np.array(c, DTYPES[type])) for c in zip(*rows, strict=True)]
    a, b = (c for _, c in columns)
    for name, choose in (("min", np.fmin), ("max", np.fmax)):
        found = execute(f"{name}.{type} %d, %x0, %x1;", type, *columns)
        np.testing.assert_array_equal(found, choose(a, b))
        zeros = (a == 0) & (b == 0)
        signs = (
            np.signbit(a) | np.signbit(b)
            if name == "min"
            else np.signbit(a) & np.signbit(b)
        )
        np.testing.assert_array_equal(np.signbit(found)[zeros], signs[zeros])
        if type == "f32":
            found = execute(f"{name}.NaN.f32 %d, %x0, %x1;", type, *columns)
            strict = np.minimum(a, b) if name == "min" else np.maximum(a, b)
            np.testing.assert_array_equal(found, strict)


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_signs_and_classes(type: str) -> None:
    x = np.array(SPECIAL, DTYPES[type])
    operand = (type, x)
    for name, expected in (("neg", -x), ("abs", abs(x))):
        found = execute(f"{name}.{type} %d, %x0;", type, operand)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    found = execute(f"copysign.{type} %d, %x0, %x1;", type, operand, (type, x[::-1]))
    np.testing.assert_array_equal(found, np.copysign(x[::-1], x))
    normal = abs(x) >= np.finfo(x.dtype).smallest_normal
    for name, classes in {
        "finite": np.isfinite(x), "infinite": np.isinf(x), "number": ~np.isnan(x),
        "notanumber": np.isnan(x), "normal": np.isfinite(x) & normal,
        "subnormal": ~normal & (x != 0) & ~np.isnan(x),
    }.items():  # fmt: skip
        found = execute(f"testp.{name}.{type} %d, %x0;", "pred", operand)
        np.testing.assert_array_equal(found, classes)


@pytest.mark.parametrize(
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


def test_the_reciprocal_of_float64_has_the_upper_half() -> None:
    x = np.array([3.0, -7.5, 1e-300, 0.0, math.inf])
    upper = (x.view("u8") >> 32 << 32).view("f8")
    with np.errstate(divide="ignore"):
        expected = (1 / upper).view("u8") >> 32 << 32
    found = execute("rcp.approx.ftz.f64 %d, %x0;", "f64", ("f64", x))
    np.testing.assert_array_equal(found.view("u8"), expected)


# ---- conversions ---------------------------------------------------------------------

ROUND_INTEGER = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", ROUND_INTEGER)
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_conversion_to_an_integer(target: str, source: str, mode: str) -> None:
    """Values out of range become the nearest limit; NaN 0, or 2^63 for 64 bits."""
    values = [0.5, 1.5, 2.5, -0.5, -1.5, -2.7, 1e5, -1e5, 3e9, -3e9, 1e19, -1e19, 1e30]
    x = np.array([*values, math.inf, -math.inf, math.nan], DTYPES[source])
    found = execute(f"cvt.{mode}.{target}.{source} %d, %x0;", target, (source, x))
    info = np.iinfo(DTYPES[target])
    for value, integer in zip(x.tolist(), found.tolist(), strict=True):
        if math.isnan(value):
            expected = wrapped(1 << 63, target) if info.bits == 64 else 0
        elif math.isinf(value):
            expected = info.max if value > 0 else info.min
        else:
            expected = min(max(ROUND_INTEGER[mode](value), info.min), info.max)
        assert integer == expected, value


def near_the_middle(target: str, source: str) -> Array:
    """Values of a source: numbers of a target, and near the middle of two."""
    if source[0] != "f":
        info = np.iinfo(DTYPES[source])
        more = [2**24 + 1, 2**30 + 1, 2**60 + 2**52 + 1, -(2**60) - 2**52 + 1]
        more += [2049, -2051, 65519, 65520]
        x = [v for v in integers(source) + more if info.min <= v <= info.max]
        return np.array(x, object).astype(DTYPES[source])
    rng = np.random.default_rng(5)
    values = numbers(target, 240, rng)
    digits = FORMATS[target][0]
    whole = floats_of(values, target).astype(DTYPES[source])
    between = whole * (1 + whole.dtype.type(2) ** -digits)
    rest = [between * (1 + 2.0**-22), rng.normal(size=240), [65519, 65520, 1e9, 1e-41]]
    x = np.concatenate([whole, between, *rest]).astype(whole.dtype)
    return x[np.isfinite(x)]


FLOAT_SOURCES = [("f32", "f64"), ("f16", "f32"), ("f16", "f64"), ("bf16", "f32")]
INTEGER_SOURCES = ("s8", "u16", "s32", "u32", "s64", "u64")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("target", "source"), [*FLOAT_SOURCES, *itertools.product(FORMATS, INTEGER_SOURCES)]
)
def test_conversion_is_rounded_once(target: str, source: str, mode: str) -> None:
    """Halfway cases, denormal numbers and overflow among them."""
    x = near_the_middle(target, source)
    found = execute(f"cvt.{mode}.{target}.{source} %d, %x0;", target, (source, x))
    expected = [rounded(Fraction(v), target, mode) for v in x.tolist()]
    assert floats_of(found, target).tolist() == expected
    if target == "f16":
        back = execute("cvt.f32.f16 %d, %x0;", "f32", ("f16", found))
        np.testing.assert_array_equal(back, found.astype("f4"))


@pytest.mark.parametrize("source", ["s8", "u8", "s16", "u16", "s32", "u32", "s64"])
@pytest.mark.parametrize(
    "target", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
)
@pytest.mark.parametrize("saturates", [False, True])
def test_conversion_between_integers(source: str, target: str, saturates: bool) -> None:
    """Results of 8 bits are extended to the register."""
    x = integers(source)
    wide = "s16" if bits_of(target) == 8 else target
    sat = ".sat" * saturates
    info = np.iinfo(DTYPES[target])
    found = execute(
        f"cvt{sat}.{target}.{source} %d, %x0;",
        wide,
        (source, np.array(x, object).astype(DTYPES[source])),
    )
    for value, integer in zip(x, found.tolist(), strict=True):
        expected = (
            min(max(value, info.min), info.max) if saturates else wrapped(value, target)
        )
        assert wrapped(integer, target) == expected
        assert bits_of(target) > 8 or integer == expected


# ---- memory --------------------------------------------------------------------------


EXTENDED = [
    (type, bits)
    for type in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "f32", "f64")
    for bits in (16, 32, 64)
    if bits == bits_of(type) or (bits > bits_of(type) and type[0] != "f")
]


@pytest.mark.parametrize(("type", "register_bits"), EXTENDED)
def test_loads_extend_to_the_register(type: str, register_bits: int) -> None:
    x = (
        np.random.default_rng(0)
        .integers(0, 256, 32 * 8, np.uint8)
        .view(DTYPES[type])[:32]
    )
    y = np.zeros(32, f"i{register_bits // 8}")
    run_body(
        f".reg .b{register_bits} %v; mad.wide.u32 %o, %t, {x.itemsize}, %a0;"
        f"ld.global.{type} %v, [%o]; mad.wide.u32 %o, %t, {y.itemsize}, %a1;"
        f"st.global.b{register_bits} [%o], %v;", [x, y],
    )  # fmt: skip
    expected = x.view(f"i{x.itemsize}") if type[0] == "f" else x
    np.testing.assert_array_equal(y, expected.astype(y.dtype))


@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
def test_vectors_are_stored_and_loaded(space: str) -> None:
    x, y = np.arange(128, dtype="u4"), np.zeros(128, "u4")
    place = {
        "global": "ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%o];",
        "generic": "ld.v4.u32 {%v0, %v1, %v2, %v3}, [%o];",
        "shared": ".shared .align 16 .b8 s[512]; .reg .b32 %s; mov.u32 %s, s; "
        "mad.lo.u32 %s, %t, 16, %s; ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%o];"
        "st.shared.v4.u32 [%s], {%v3, %v2, %v1, %v0};"
        "ld.shared.v4.u32 {%v3, %v2, %v1, %v0}, [%s];",
        "local": ".local .align 16 .b8 l[16];"
        "ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%o];"
        "st.local.v2.u32 [l], {%v0, %v1}; st.local.u32 [l+8], %v2; mov.u32 %v0, 0;"
        "ld.local.v2.u32 {%v0, %v1}, [l]; ld.local.u32 %v2, [l+8];",
    }[space]
    run_body(
        f".reg .b32 %v<4>; mad.wide.u32 %o, %t, 16, %a0; {place}"
        "mad.wide.u32 %o, %t, 16, %a1; st.global.v4.u32 [%o], {%v0, %v1, %v2, %v3};",
        [x, y],
    )  # fmt: skip
    np.testing.assert_array_equal(y, x)


PATTERNS: dict[str, Callable[[Array], Array]] = {
    "same": lambda t: 0 * t + 5, "neighbours": lambda t: t + 32,
    "rows of 16": lambda t: t % 16, "columns of 16": lambda t: t // 16 * 40,
    "halves": lambda t: t ^ 16, "reversed": lambda t: 31 - t,
    "strided": lambda t: 2 * t,
}  # fmt: skip
"""The elements that the lanes of a warp access."""


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_a_whole_warp(name: str, space: str) -> None:
    """A store and a load; of lanes with the same element, the last one counts."""
    index = PATTERNS[name](np.arange(32)).astype("u4")
    x, y = np.zeros(64, "f8"), np.zeros(32, "f8")
    address = "mad.wide.u32 %o, %i, 8, %a1;"
    place, suffix = "[%o]", "" if space == "generic" else f".{space}"
    if space == "shared":
        address = "mov.u32 %s, m; mad.lo.u32 %s, %i, 8, %s;"
        place = "[%s]"
    run_body(
        ".shared .align 8 .b8 m[512]; .reg .b32 %i, %s; .reg .f64 %v;"
        "mad.wide.u32 %o, %t, 4, %a0; ld.global.u32 %i, [%o]; cvt.rn.f64.u32 %v, %t;"
        f"{address} st{suffix}.f64 {place}, %v; bar.sync 0; ld{suffix}.f64 %v, {place};"
        "mad.wide.u32 %o, %t, 8, %a2; st.global.f64 [%o], %v;", [index, x, y],
    )  # fmt: skip
    expected = np.zeros(64)
    for lane, element in enumerate(index):
        expected[element] = lane
    np.testing.assert_array_equal(y, expected[index])
    assert space == "shared" or x.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "access", ["ld.global.u32 %v, [%o];", "st.global.u32 [%o], %v;"]
)
@pytest.mark.parametrize(
    ("size", "step", "shift", "message"),
    [
        (31, 4, 0, "thread .31, .* element 31 of p0"), (32, 4, -4, "element -1 of p0"),
        (32, 4, 2, "thread .0, .* bytes after a multiple of 4"), (1, 0, 4, "element 1"),
    ],
)  # fmt: skip
def test_a_whole_warp_stays_in_its_array(
    access: str, size: int, step: int, shift: int, message: str
) -> None:
    body = f".reg .b32 %v; mov.u32 %v, 0; mad.wide.u32 %o, %t, {step}, %a0; "
    with pytest.raises(KernelError, match=message):
        run_body(f"{body} add.s64 %o, %o, {shift}; {access}", [np.zeros(size, "u4")])
    x = np.zeros(32, "u4")
    x.flags.writeable = False
    error = pytest.raises(KernelError, match="is read-only")
    with error if access.startswith("st") else contextlib.nullcontext():
        run_body(f"{body} {access}", [x])


ATOMIC: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add.u32": ("u4", lambda x, y: x + y),
    "min.s32": ("i4", min), "max.u64": ("u8", max),
    "and.b32": ("u4", lambda x, y: x & y), "or.b64": ("u8", lambda x, y: x | y),
    "xor.b32": ("u4", lambda x, y: x ^ y), "exch.b32": ("u4", lambda _, y: y),
    "inc.u32": ("u4", lambda x, y: 0 if x >= y else x + 1),
    "dec.u32": ("u4", lambda x, y: y if x == 0 or x > y else x - 1),
    "add.f64": ("f8", lambda x, y: x + y), "add.f32": ("f4", lambda x, y: x + y),
}  # fmt: skip


@pytest.mark.parametrize("name", ATOMIC)
def test_atomics_of_a_warp_follow_each_other(name: str) -> None:
    dtype, function = ATOMIC[name]
    values = np.random.default_rng(1).integers(0, 20, 32).astype(dtype)
    x, old = np.full(1, 7, dtype), np.zeros(32, dtype)
    bits = 8 * x.itemsize
    run_body(
        f".reg .b{bits} %v, %w; mad.wide.u32 %o, %t, {x.itemsize}, %a1;"
        f"ld.global.b{bits} %v, [%o]; atom.global.{name} %w, [%a0], %v;"
        f"mad.wide.u32 %o, %t, {x.itemsize}, %a2; st.global.b{bits} [%o], %w;",
        [x, values, old],
    )  # fmt: skip
    state = np.dtype(dtype).type(7).item()
    for lane in range(32):
        assert old[lane] == state
        state = function(state, values[lane].item())
    assert x[0] == state


def test_atomic_sums_flush_denormal_numbers_in_global_memory() -> None:
    x, y = np.full((2, 1), 2.0**-130, "f4")
    run_body(
        ".shared .b32 s; .reg .f32 %v; ld.global.f32 %v, [%a0]; st.shared.f32 [s], %v;"
        "atom.global.add.f32 %v, [%a0], %v; ld.shared.f32 %v, [s];"
        "atom.shared.add.f32 %v, [s], %v; ld.shared.f32 %v, [s];"
        "st.global.f32 [%a1], %v;", [x, y], 1,
    )  # fmt: skip
    assert (x[0], y[0]) == (0, 2.0**-129)


def test_compare_and_swap() -> None:
    x, old = np.zeros(1, "u4"), np.zeros(32, "u4")
    run_body(
        ".reg .b32 %v; add.u32 %v, %t, 1; atom.global.cas.b32 %v, [%a0], %t, %v;"
        "mad.wide.u32 %o, %t, 4, %a1; st.global.u32 [%o], %v;", [x, old],
    )  # fmt: skip
    assert x[0] == 32
    np.testing.assert_array_equal(old, np.arange(32))


# ---- warps ---------------------------------------------------------------------------


def warp(body: str, extra: str = "") -> Array:
    """What a body puts into %d, for each lane."""
    y = np.zeros(32, "u4")
    run_body(
        f".reg .b32 %d, %v<4>; .reg .pred %p, %q; {extra} {body}"
        "mad.wide.u32 %o, %t, 4, %a0; st.global.u32 [%o], %d;", [y],
    )  # fmt: skip
    return y


@pytest.fixture(params=["forward", "reverse", "random"])
def order(request: pytest.FixtureRequest) -> Iterator[None]:
    """The lanes come together, or one by one."""
    with _emulator.schedule(request.param, seed=3):
        yield


@pytest.mark.usefixtures("order")
def test_shuffles() -> None:
    lane = np.arange(32)
    for segment in (32, 8):
        first = lane // segment * segment
        c = (32 - segment) << 8
        for mode, n, source, valid in (
            ("idx", 5, first + 5 % segment, np.ones(32, bool)),
            ("up", 3, lane - 3, lane - 3 >= first),
            ("down", 3, lane + 3, lane + 3 < first + segment),
            ("bfly", 5, lane ^ 5, np.ones(32, bool)),
        ):
            clamp = c if mode == "up" else c | 31
            text = (
                f"shfl.sync.{mode}.b32 %d|%p, %t, {n}, {clamp}, -1;"
                "selp.u32 %v0, 100, 0, %p; add.u32 %d, %d, %v0;"
            )
            np.testing.assert_array_equal(
                warp(text),
                np.where(valid, source, lane) + 100 * valid,
                f"{mode} {segment}",
            )


@pytest.mark.usefixtures("order")
def test_votes_matches_and_reductions() -> None:
    lane = np.arange(32)
    odd = 0xAAAAAAAA
    head = "and.b32 %v0, %t, 1; setp.ne.u32 %p, %v0, 0;"
    assert (warp(f"{head} vote.sync.ballot.b32 %d, %p, -1;") == odd).all()
    chosen = warp(
        "elect.sync %v0|%p, -1; selp.u32 %d, 100, 7, %p; add.u32 %d, %d, %v0;"
    )
    np.testing.assert_array_equal(chosen, np.where(lane == 0, 100, 7))
    for mode, expected in (("any", 1), ("all", 0), ("uni", 0)):
        text = f"{head} vote.sync.{mode}.pred %q, %p, -1; selp.u32 %d, 1, 0, %q;"
        assert (warp(text) == expected).all()
    found = warp("and.b32 %v0, %t, 3; match.any.sync.b32 %d, %v0, -1;")
    np.testing.assert_array_equal(found, 0x11111111 << (lane % 4))
    for value, expected in (("7", 0xFFFFFFFF), ("%t", 0)):
        text = f"mov.u32 %v0, {value}; match.all.sync.b32 %d|%p, %v0, -1;"
        assert (warp(text) == expected).all()
    values = (lane * 7919 % 31).astype("i4") - 9
    for mode, type, expected in (
        ("add", "s32", values.sum()), ("min", "s32", values.min()),
        ("max", "s32", values.max()), ("and", "b32", np.bitwise_and.reduce(values)),
        ("or", "b32", np.bitwise_or.reduce(values)),
        ("xor", "b32", np.bitwise_xor.reduce(values)),
    ):  # fmt: skip
        head = "mul.lo.u32 %v0, %t, 7919; rem.u32 %v0, %v0, 31; sub.s32 %v0, %v0, 9;"
        found = warp(f"{head} redux.sync.{mode}.{type} %d, %v0, -1;")
        assert (found.view("i4") == expected).all()


def test_special_registers_in_registers_of_other_sizes() -> None:
    text = (
        ".reg .b16 %h; .reg .b64 %l; mov.u16 %h, %tid.x; mov.u64 %l, %ntid.x;"
        "cvt.u32.u64 %v0, %l; cvt.u32.u16 %d, %h; mad.lo.u32 %d, %v0, 100, %d;"
        "cvt.u64.u32 %l, %laneid; cvt.u32.u64 %v0, %l; add.u32 %d, %d, %v0;"
    )
    np.testing.assert_array_equal(warp(text), 3200 + 2 * np.arange(32))


def test_lanes_of_a_branch() -> None:
    text = (
        "mov.u32 %d, 0; setp.lt.u32 %p, %t, 5; @!%p bra L; activemask.b32 %d;"
        "vote.sync.ballot.b32 %v0, %p, 31; add.u32 %d, %d, %v0; L: bar.warp.sync -1;"
    )
    np.testing.assert_array_equal(warp(text), np.where(np.arange(32) < 5, 62, 0))


@pytest.mark.parametrize("never", ["", "setp.eq.u32 %q, %v1, 9; @%q mov.u32 %v0, 5;"])
def test_registers_keep_their_values_in_a_loop(never: str) -> None:
    """%v0 is needed in each turn, so %v2 must not take its place."""
    text = (
        f"mov.u32 %v0, 3; mov.u32 %v1, 4; mov.u32 %d, 0; L: {never}"
        "add.u32 %d, %d, %v0;"
        "mul.lo.u32 %v2, %t, 7; sub.u32 %v1, %v1, 1; setp.ne.u32 %p, %v1, 0;"
        "@%p bra L; add.u32 %d, %d, %v2;"
    )
    np.testing.assert_array_equal(warp(text), 4 * 3 + 7 * np.arange(32))


def test_barrier_with_a_reduction() -> None:
    for mode, expected in (("popc.u32", 16), ("and.pred", 0), ("or.pred", 1)):
        head = "and.b32 %v0, %t, 1; setp.ne.u32 %p, %v0, 0;"
        if mode == "popc.u32":
            text = f"{head} bar.red.{mode} %d, 0, %p;"
        else:
            text = f"{head} bar.red.{mode} %q, 0, %p; selp.u32 %d, 1, 0, %q;"
        assert (warp(text) == expected).all()


def test_a_barrier_of_some_threads() -> None:
    """Barrier 1 has the threads of warps 0 and 1; warp 2 waits in barrier 0."""
    y = np.zeros(96, "u4")
    run_body(
        ".shared .align 4 .b8 s[256]; .reg .b32 %s, %d; .reg .pred %p;"
        "mov.u32 %d, 7; setp.ge.u32 %p, %t, 64; @%p bra END;"
        "mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s; st.shared.u32 [%s], %t;"
        "bar.sync 1, 64; mov.u32 %s, s; xor.b32 %d, %t, 32; mad.lo.u32 %s, %d, 4, %s;"
        "ld.shared.u32 %d, [%s];"
        "END: bar.sync 0; mad.wide.u32 %o, %t, 4, %a0; st.global.u32 [%o], %d;",
        [y], 96,
    )  # fmt: skip
    np.testing.assert_array_equal(y, [*(np.arange(64) ^ 32), *[7] * 32])


def test_a_table_of_branches() -> None:
    text = (
        "rem.u32 %v0, %t, 3; T: .branchtargets A, B, C; brx.idx %v0, T;"
        "A: mov.u32 %d, 10; bra.uni E; B: mov.u32 %d, 20; bra.uni E;"
        "C: mov.u32 %d, 30; E:"
    )
    np.testing.assert_array_equal(warp(text), 10 * (1 + np.arange(32) % 3))


def test_calls_by_name_and_by_address() -> None:
    functions = """
.func (.param .b32 r) twice(.param .b32 a) {
    .reg .b32 %x; ld.param.b32 %x, [a]; add.u32 %x, %x, %x; st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) factorial(.param .b32 a) {
    .reg .b32 %x, %y; .reg .pred %p;
    ld.param.b32 %x, [a]; setp.le.u32 %p, %x, 1; @%p bra ONE;
    { .param .b32 n; .param .b32 m; sub.u32 %y, %x, 1; st.param.b32 [n], %y;
      call.uni (m), factorial, (n); ld.param.b32 %y, [m]; }
    mul.lo.u32 %x, %x, %y;
    ONE: st.param.b32 [r], %x; ret;
}
"""
    y, together = np.zeros((2, 32), "u4")
    run_body(
        """.reg .b32 %d, %v; .reg .b64 %f; .reg .pred %p;
        P: .callprototype (.param .b32 _) _ (.param .b32 _);
        rem.u32 %v, %t, 9; max.u32 %v, %v, 1; setp.lt.u32 %p, %t, 16;
        mov.u64 %f, twice; @%p bra G; mov.u64 %f, factorial;
        G: { .param .b32 n; .param .b32 m; st.param.b32 [n], %v;
          call (m), %f, (n), P; ld.param.b32 %d, [m]; }
        mad.wide.u32 %o, %t, 4, %a0; st.global.u32 [%o], %d; activemask.b32 %v;
        mad.wide.u32 %o, %t, 4, %a1; st.global.u32 [%o], %v;""",
        [y, together], before=functions,
    )  # fmt: skip
    assert (together == 2**32 - 1).all(), "the lanes meet after the calls"
    n = [max(1, t % 9) for t in range(32)]
    assert y.tolist() == [
        2 * k if t < 16 else math.factorial(k) for t, k in enumerate(n)
    ]


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 40])
def test_the_nth_bit_that_is_set(n: int) -> None:
    mask, start = 0b1011_0000_0000_0000_0000_0000_1000_0110, np.arange(32)
    found = execute(
        "fns.b32 %d, %x0, %x1, %x2;", "u32",
        ("u32", np.full(32, mask)), ("u32", start), ("s32", np.full(32, n)),
    )  # fmt: skip
    places = [k for k in range(32) if mask >> k & 1]
    for first, position in zip(start, found.tolist(), strict=True):
        if n >= 0:
            after = [k for k in places if k >= first]
            expected = (
                after[max(n, 1) - 1 :][:1] if n else [k for k in places if k == first]
            )
        else:
            expected = [k for k in reversed(places) if k <= first][-n - 1 :][:1]
        assert position == (expected or [2**32 - 1])[0]


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


@pytest.mark.parametrize(("type", "exponent_bits"), [("e4m3x2", 4), ("e5m2x2", 5)])
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


def test_tf32_has_ten_bits_of_the_fraction() -> None:
    x = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-12, -1.5], "f4")
    for mode, expected in (
        ("rna", [1 + 2.0**-10, 1 + 2.0**-9, 1, -1.5]),
        ("rn", [1, 1 + 2.0**-9, 1, -1.5]),
    ):  # fmt: skip
        found = execute(f"cvt.{mode}.tf32.f32 %d, %x0;", "u32", ("u32", x.view("u4")))
        np.testing.assert_array_equal(found.view("f4"), np.array(expected, "f4"))


def test_extremes_with_the_product_of_the_signs() -> None:
    a, b = np.array([1, -2, -3], "f4"), np.array([-4, 1, -9], "f4")
    found = execute("min.xorsign.abs.f32 %d, %x0, %x1;", "f32", ("f32", a), ("f32", b))
    np.testing.assert_array_equal(found, [-1, -1, 3])


# ---- matrices ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "type", "sum_type", "k", "words"),
    [("m16n8k16", "f16", "f32", 16, (4, 2, 4)), ("m16n8k8", "f16", "f32", 8, (2, 1, 4)),
     ("m16n8k16", "f16", "f16", 16, (4, 2, 2)),
     ("m16n8k8", "tf32", "f32", 8, (4, 2, 4)),
     ("m16n8k32", "s8", "s32", 32, (4, 2, 4)), ("m8n8k4", "f64", "f64", 4, (1, 1, 2))],
)  # fmt: skip
def test_products_of_matrices(
    shape: str, type: str, sum_type: str, k: int, words: tuple[int, int, int]
) -> None:
    """The elements of each lane are placed as the figures of the manual say."""
    element, sum_dtype = DTYPES.get(type, "f4"), DTYPES[sum_type]
    rows = 8 if type == "f64" else 16
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-8, 9, size) for size in ((rows, k), (k, 8), (rows, 8)))
    a, b, c = a.astype(element), b.astype(element), c.astype(sum_dtype)
    word = 8 if type == "f64" else 4
    each, each_sum = word // a.itemsize, max(1, word // c.itemsize)
    group, lane = np.arange(32) // 4, np.arange(32) % 4
    halves = rows // 8

    def of_a(r: int, e: int) -> tuple[Array, Array]:
        return group + 8 * (r % halves), each * lane + e + 4 * each * (r // halves)

    def of_c(r: int, e: int) -> tuple[Array, Array]:
        if each_sum == 2:
            return group + 8 * r, 2 * lane + e
        return group + 8 * (r // 2), 2 * lane + r % 2

    parts_a = np.stack(
        [np.stack([a[of_a(r, e)] for e in range(each)], 1) for r in range(words[0])]
    )
    parts_b = np.stack([
        np.stack([b[each * lane + e + 4 * each * r, group] for e in range(each)], 1)
        for r in range(words[1])
    ])  # fmt: skip
    parts_c = np.stack([
        np.stack([c[of_c(r, e)] for e in range(each_sum)], 1) for r in range(words[2])
    ])  # fmt: skip
    if type == "tf32":
        parts_a.view("u4")[:] |= 0x1FFF  # bits that do not count
    out = np.zeros_like(parts_c)
    bits, offset = 8 * word, 32 * word
    lines = [f".reg .b{bits} %ma<4>, %mb<2>, %mc<4>; mad.wide.u32 %o, %t, {word}, 0;"]
    lines.append(".reg .b64 %q;")
    for number, (name, count) in enumerate(zip("abc", words, strict=True)):
        lines.append(f"add.u64 %q, %o, %a{number};")
        lines += [
            f"ld.global.b{bits} %m{name}{r}, [%q+{offset * r}];" for r in range(count)
        ]

    def vector(name: str, count: int) -> str:
        return "{" + ", ".join(f"%m{name}{r}" for r in range(count)) + "}"

    sums = vector("c", words[2])
    lines.append(
        f"mma.sync.aligned.{shape}.row.col.{sum_type}.{type}.{type}.{sum_type} "
        f"{sums}, {vector('a', words[0])}, {vector('b', words[1])}, {sums};"
    )
    lines.append("add.u64 %q, %o, %a3;")
    lines += [f"st.global.b{bits} [%q+{offset * r}], %mc{r};" for r in range(words[2])]
    run_body("\n".join(lines), [parts_a, parts_b, parts_c, out])
    expected = a.astype(float) @ b.astype(float) + c
    for r in range(words[2]):
        for e in range(each_sum):
            np.testing.assert_array_equal(out[r, :, e], expected[of_c(r, e)])


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_from_shared_memory(transposed: bool) -> None:
    x, y = np.arange(128, dtype="u2"), np.zeros((32, 2), "u4")
    run_body(
        ".shared .align 16 .b8 s[256]; .reg .b32 %s, %r<2>; .reg .b64 %v;"
        "mad.wide.u32 %o, %t, 8, %a0; ld.global.b64 %v, [%o]; mov.u32 %s, s;"
        "mad.lo.u32 %s, %t, 8, %s; st.shared.b64 [%s], %v; bar.sync 0; mov.u32 %s, s;"
        ".reg .b32 %l; and.b32 %l, %t, 15; mad.lo.u32 %s, %l, 16, %s;"
        f"ldmatrix.sync.aligned.m8n8.x2{'.trans' * transposed}.shared.b16 "
        "{%r0, %r1}, [%s];"
        "mad.wide.u32 %o, %t, 8, %a1; st.global.v2.u32 [%o], {%r0, %r1};", [x, y],
    )  # fmt: skip
    matrices = x.reshape(2, 8, 8)
    if transposed:
        matrices = matrices.transpose(0, 2, 1)
    expected = matrices.reshape(2, 32, 2).transpose(1, 0, 2)
    np.testing.assert_array_equal(y.view("u2").reshape(32, 2, 2), expected)


# ---- textures ------------------------------------------------------------------------

TEXTURE = np.dtype([
    ("address", "u8"), ("pitch", "u8"), ("slice", "u8"), ("size", "u4", 3),
    ("channels", "u1"), ("bits", "u1"), ("kind", "u1"), ("reads_normalized", "u1"),
    ("is_linear", "u1"), ("is_normalized", "u1"), ("modes", "u1", 3),
    ("unused", "u1", 3), ("border", "f4", 4),
], align=True)  # fmt: skip
"""``Texture`` in ``machine/texture.h``."""

WRAP, CLAMP, MIRROR, BORDER = range(4)


def texture_of(texels: Array, **options: Any) -> Array:
    """A texture of two dimensions."""
    made = np.zeros(1, TEXTURE)
    height, width = texels.shape
    kind = "iuf".index(texels.dtype.kind)
    made["address"], made["pitch"] = texels.ctypes.data, texels.strides[0]
    made["size"], made["channels"] = (width, height, 1), 1
    made["bits"], made["kind"] = 8 * texels.itemsize, kind
    for name, value in options.items():
        made[name] = value
    return made


def fetched(
    texture: Array, texels: Array, points: Array, opcode: str = "tex.2d.v4.f32.f32"
) -> Array:
    """The first channel at points, or all of a gather."""
    out = np.zeros((len(points), 4), "f4")
    run_body(
        ".reg .f32 %v<4>, %x, %y; mad.wide.u32 %o, %t, 8, %a1;"
        "ld.global.v2.f32 {%x, %y}, [%o];"
        f"{opcode} {{%v0, %v1, %v2, %v3}}, [%a0, {{%x, %y}}];"
        "mad.wide.u32 %o, %t, 16, %a2; st.global.v4.f32 [%o], {%v0, %v1, %v2, %v3};",
        [texture, points.astype("f4"), out, texels], len(points),
    )  # fmt: skip
    return out


def test_textures_at_points() -> None:
    texels = np.arange(12, dtype="f4").reshape(3, 4)
    points = np.array(
        [[x + 0.3, y + 0.7] for y in range(-4, 7) for x in range(-5, 8)][:96]
    )
    x, y = np.floor(points).astype(int).T
    for mode, place in (
        (CLAMP, lambda k, n: np.clip(k, 0, n - 1)), (WRAP, lambda k, n: k % n),
        (MIRROR, lambda k, n: np.minimum(k % (2 * n), 2 * n - 1 - k % (2 * n))),
    ):  # fmt: skip
        normalized = mode != CLAMP
        texture = texture_of(texels, modes=[mode] * 3, is_normalized=normalized)
        scaled = points / (4, 3) if normalized else points
        found = fetched(texture, texels, scaled)[:, 0]
        np.testing.assert_array_equal(found, texels[place(y, 3), place(x, 4)])
    border = texture_of(texels, modes=[BORDER] * 3, border=[9.5, 0, 0, 0])
    inside = (x >= 0) & (x < 4) & (y >= 0) & (y < 3)
    expected = np.where(inside, texels[y.clip(0, 2), x.clip(0, 3)], 9.5)
    np.testing.assert_array_equal(fetched(border, texels, points)[:, 0], expected)


def test_textures_between_points() -> None:
    """Weights are rounded to 8 bits."""
    rng = np.random.default_rng(0)
    texels = rng.integers(0, 256, (5, 6), np.uint8)
    points = rng.integers(1024, 4096, (32, 2)) / 1024
    texture = texture_of(texels, modes=[CLAMP] * 3, is_linear=1, reads_normalized=1)
    whole = np.floor(points - 0.5).astype(int)
    (u, v), (x, y) = np.rint(256 * (points - 0.5 - whole)).T / 256, whole.T
    value = texels / 255
    expected = (
        (1 - u) * (1 - v) * value[y, x] + u * (1 - v) * value[y, x + 1]
        + (1 - u) * v * value[y + 1, x] + u * v * value[y + 1, x + 1]
    )  # fmt: skip
    np.testing.assert_allclose(
        fetched(texture, texels, points)[:, 0], expected, rtol=1e-6
    )
    gathered = fetched(texture, texels, points, "tld4.r.2d.v4.f32.f32")
    corners = [value[y + 1, x], value[y + 1, x + 1], value[y, x + 1], value[y, x]]
    np.testing.assert_allclose(gathered, np.stack(corners, 1), rtol=1e-6)


@pytest.mark.parametrize("outside", ["trap", "clamp", "zero"])
def test_surfaces(outside: str) -> None:
    texels, out = np.arange(32, dtype="u4").reshape(4, 8), np.zeros(32, "u4")
    body = (
        ".reg .b32 %v, %x, %w; shl.b32 %x, %t, 2; sub.u32 %x, %x, 8;"
        f"suld.b.2d.b32.{outside} {{%v}}, [%a0, {{%x, 1}}];"
        "mad.wide.u32 %o, %t, 4, %a1; st.global.u32 [%o], %v; add.u32 %w, %v, 100;"
        f"sust.b.2d.b32.{outside} [%a0, {{%x, 2}}], {{%w}};"
    )
    texture = texture_of(texels)
    if outside == "trap":
        with pytest.raises(
            KernelError, match="surface outside of its size, at byte -8"
        ):
            run_body(body, [texture, out, texels])
        return
    run_body(body, [texture, out, texels], 10)
    first = 8 if outside == "clamp" else 0
    assert out[:10].tolist() == [first, first, *range(8, 16)]
    assert texels[2].tolist() == [*range(108, 116)]


# ---- checks --------------------------------------------------------------------------

COPY = (
    ".shared .align 16 .b8 s[128]; .reg .b32 %s, %v; mov.u32 %s, s;"
    "mad.lo.u32 %s, %t, 4, %s; mad.wide.u32 %o, %t, 4, %a0;"
    "cp.async.ca.shared.global [%s], [%o], 4; cp.async.commit_group; {wait}"
    "ld.shared.u32 %v, [%s]; mad.wide.u32 %o, %t, 4, %a1; st.global.u32 [%o], %v;"
)


@pytest.mark.parametrize("wait", ["cp.async.wait_group 0;", "cp.async.wait_all;"])
def test_copies_are_complete_after_waiting(wait: str) -> None:
    x, y = np.arange(32, dtype="u4"), np.zeros(32, "u4")
    with _emulator.races(), _emulator.memcheck():
        run_body(COPY.replace("{wait}", wait), [x, y])
    np.testing.assert_array_equal(y, x)


def test_copies_fill_the_rest_with_zeros() -> None:
    x, y = np.full(32, 0x01020304, "u4"), np.zeros(32, "u4")
    body = COPY.replace("{wait}", "cp.async.wait_all;").replace(
        "cp.async.ca.shared.global [%s], [%o], 4;",
        "and.b32 %v, %t, 3; cp.async.ca.shared.global [%s], [%o], 4, %v;",
    )
    run_body(body, [x, y])
    np.testing.assert_array_equal(y, [0, 0x04, 0x0304, 0x020304] * 8)


@pytest.mark.parametrize("wait", ["", "cp.async.wait_group 1;"])
def test_copies_without_waiting_are_reported(wait: str) -> None:
    x, y = np.arange(32, dtype="u4"), np.zeros(32, "u4")
    body = COPY.replace("{wait}", wait)
    run_body(body, [x, y])
    assert (y != x).any()
    for check in (_emulator.races, _emulator.memcheck):
        with check(), pytest.raises(KernelError, match="wait for the copy"):
            run_body(body, [x, y])


def test_memory_that_nothing_has_written() -> None:
    """The last thread has not written its element, or each thread has."""
    x = np.zeros(32, "u4")
    store = "mov.u32 %v, 5; @%p st.global.u32 [%o], %v;"
    body = (
        ".reg .b32 %v; .reg .pred %p; setp.lt.u32 %p, %t, 31;"
        "mad.wide.u32 %o, %t, 4, %a0; {} {} ld.global.u32 %v, [%o];"
    )
    address = int(x.ctypes.data)
    for guard, fails in (("setp.lt.u32 %p, %t, 32;", False), ("", True)):
        memory = Memory()
        memory.add(address, x.nbytes, "x", written=False, is_variable=True)
        module = module_of(body.format(guard, store), 1)
        arguments = (module, "k", (1,), (32,), address.to_bytes(8, "little"))
        error = pytest.raises(KernelError, match=r"element 31 .* nothing has written")
        with _emulator.memcheck(), error if fails else contextlib.nullcontext():
            launch(*arguments, memory=memory)


def test_atomics_of_a_block_order_nothing_between_blocks() -> None:
    for scope, fails in (("cta", True), ("gpu", False)):
        x = np.zeros(1, "u4")
        body = f".reg .b32 %v; atom.global.{scope}.add.u32 %v, [%a0], 1;"
        with _emulator.races():
            if fails:
                with pytest.raises(KernelError, match=r"atomicAdd_block\(\), and"):
                    run_body(body, [x], blocks=2)
            else:
                run_body(body, [x], blocks=2)
                assert x[0] == 64


# ---- faults --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("frobnicate.b32 %t, %t;", r"line \d+: .* does not know .* frobnicate"),
        ("add.u64 %t, %t, 1;", "register of the wrong size, %t"),
        ("bra NOWHERE;", "unknown label, NOWHERE"),
        ("mov.u32 %t, %clusterid.q;", "does not know"),
        ("add.u32 %t, %unknown, 1;", "does not know %unknown"),
        (".local .b8 large[600000];", "600000 bytes of local memory for each thread"),
        ("{ .param .b32 p; call vprintf, (p); }", "does not have the function vprintf"),
    ],
)
def test_unknown_ptx_is_refused_when_it_is_loaded(body: str, message: str) -> None:
    module = module_of(body, 0)
    with pytest.raises(PtxError, match=message):
        module.kernel("k")


HEAD = ".target sm_90\n.address_size 64\n"


def test_declarations_of_a_program() -> None:
    module = Module(
        HEAD
        + """// a comment with a brace {
.visible .global .align 4 .b8 s[6] = {72, 105, 0x21, -1};
.global .align 8 .u64 p[3] = {generic(s)+2, f, 5};
.const .align 4 .f32 c[2] = {0f3F800000, 0f40000000};
.func (.param .b32 r) f(.param .b32 a);
.func (.param .b32 r) f(.param .b32 a) { st.param.b32 [r], 1; ret; }
.visible .entry k(.param .u64 a, .param .align 8 .b8 b[20], .param .u16 c,
.param .u32 d)
.maxntid 32, 1, 1 { { ret; } }
"""
    )
    assert module.entries == ["k"]
    kernel = module.kernel("k")
    assert kernel.parameters == [[0, 8], [8, 20], [28, 2], [32, 4]]
    assert kernel.parameter_bytes == 36
    s, p, c = module.variables.values()
    assert bytes(s) == b"Hi!\xff\0\0"
    assert p.view("u8").tolist() == [s.ctypes.data + 2, 4 << 48, 5]
    assert c.view("f4").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not PTX", r"PTX must have a \.target"),
        (HEAD + ".entry k() { ret;", "line 3: a { that is never closed"),
        (HEAD + ".entry () { ret; }", "line 3: a function without a name"),
        (HEAD + "\n.global foo;", "line 4: a declaration without a type: foo"),
    ],
)
def test_wrong_declarations_are_refused(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        Module(text)


def test_clusters_of_several_blocks_are_refused() -> None:
    for blocks, fails in ((1, False), (2, True)):
        directives = f".explicitcluster .reqnctapercluster {blocks}, 1, 1"
        text = f"{HEAD}.entry k() {directives} {{ ret; }}"
        error = pytest.raises(PtxError, match="clusters of 2 blocks, but the emulator")
        with error if fails else contextlib.nullcontext():
            Module(text).kernel("k")


def test_an_array_begins_at_a_multiple_of_256_on_the_device() -> None:
    memory = bytearray(64)
    start = 8 - np.frombuffer(memory, "u1").ctypes.data % 16
    x = np.frombuffer(memory, "u4", 8, offset=start % 16)
    body = (
        ".reg .b32 %v<4>; ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%a0];"
        "add.u32 %v3, %v3, 1; st.global.v4.u32 [%a0], {%v0, %v1, %v2, %v3};"
    )
    run_body(body, [x], 1)
    assert x.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert x[2:].ctypes.data % 16 == 0
    with pytest.raises(KernelError, match="8 bytes after a multiple of 16"):
        run_body(body, [x[2:]], 1)
