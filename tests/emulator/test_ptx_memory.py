"""Memory, warps, matrices, textures and faults of PTX.

The expected values are NumPy's, by the definition of each instruction.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator
from ptx_kernels import HEAD, Array, execute, kernel_of, run_body
from scipy.ndimage import map_coordinates
from together import together

from gpusolve.emulator import (
    CompileError,
    KernelError,
    RawModule,
    memcheck,
    races,
    schedule,
)

pytestmark = needs_emulator

# ---- memory --------------------------------------------------------------------------

EXTENDED = [
    (dtype, bits)
    for dtype in map(np.dtype, ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "f4", "f8"))
    for bits in (16, 32, 64)
    if bits == 8 * dtype.itemsize or (bits > 8 * dtype.itemsize and dtype.kind != "f")
]


@together(("dtype", "bits"), EXTENDED)
def test_loads_extend_to_the_register(dtype: Any, bits: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, 256, np.uint8).view(dtype)[:32]
    type = f"{'s' if dtype.kind == 'i' else dtype.kind}{8 * x.itemsize}"
    text = f"mad.wide.u32 %o, %t, {x.itemsize}, %a0; ld.global.{type} %d, [%o];"
    found = execute(text, f"s{bits}", memory=[x])
    expected = x.view(f"i{x.itemsize}") if dtype.kind == "f" else x
    np.testing.assert_array_equal(found, expected.astype(found.dtype))


@together("space", ["global", "shared", "local", "generic"])
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


@together("space", ["global", "shared", "generic"])
@together("name", PATTERNS)
def test_patterns_of_a_whole_warp(name: str, space: str) -> None:
    """A store and a load; of lanes with the same element, the last one counts."""
    index, x = PATTERNS[name](np.arange(32)), np.zeros(64, "f8")
    address, suffix = "%o", "" if space == "generic" else f".{space}"
    text = "mad.wide.u32 %o, %x0, 8, %a0;"
    if space == "shared":
        address = "%s"
        text = ".shared .align 8 .b8 m[512]; .reg .b32 %s; mov.u32 %s, m;"
        text += "mad.lo.u32 %s, %x0, 8, %s;"
    text += f"cvt.rn.f64.u32 %d, %t; st{suffix}.f64 [{address}], %d; bar.sync 0;"
    text += f"ld{suffix}.f64 %d, [{address}];"
    found = execute(text, "f64", ("u32", index), memory=[x])
    expected = np.zeros(64)
    for lane, element in enumerate(index):
        expected[element] = lane
    np.testing.assert_array_equal(found, expected[index])
    assert space == "shared" or x.tolist() == expected.tolist()


@together("access", ["ld.global.u32 %v, [%o];", "st.global.u32 [%o], %v;"])
@together(
    ("size", "step", "shift", "message"),
    [
        (31, 4, 0, "thread .31, .* element 31 of arg"), (32, 4, -4, "element -1 of"),
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


ATOMIC: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda x, y: x + y, "min.s32": min, "max.u64": max,
    "and.b32": lambda x, y: x & y, "or.b64": lambda x, y: x | y,
    "xor.b32": lambda x, y: x ^ y, "exch.b32": lambda _, y: y,
    "inc.u32": lambda x, y: 0 if x >= y else x + 1,
    "dec.u32": lambda x, y: y if x == 0 or x > y else x - 1,
    "add.f64": lambda x, y: x + y, "add.f32": lambda x, y: x + y,
}  # fmt: skip


@together("name", ATOMIC)
def test_atomics_of_a_warp_follow_each_other(name: str) -> None:
    values, type = np.random.default_rng(1).integers(0, 20, 32), name.split(".")[1]
    x = np.full(
        1, 7, f"{type[0].replace('s', 'i').replace('b', 'u')}{int(type[1:]) // 8}"
    )
    text = f"atom.global.{name} %d, [%a0], %x0;"
    old = execute(text, type, (type, values), memory=[x])
    state = itertools.accumulate(values.tolist(), ATOMIC[name], initial=7)
    assert [*old, x[0]] == list(state)


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
    x = np.zeros(1, "u4")
    text = "add.u32 %d, %t, 1; atom.global.cas.b32 %d, [%a0], %t, %d;"
    old = execute(text, "u32", memory=[x])
    assert [*old, x[0]] == list(range(33))


# ---- warps ---------------------------------------------------------------------------

LANE = np.arange(32)
ODD = "and.b32 %v0, %t, 1; setp.ne.u32 %p, %v0, 0;"
VALUES = (LANE * 7919 % 31).astype("i4") - 9
MIXED = "mul.lo.u32 %v0, %t, 7919; rem.u32 %v0, %v0, 31; sub.s32 %v0, %v0, 9;"
LOOP = (
    "mov.u32 %v0, 3; mov.u32 %v1, 4; mov.u32 %d, 0; L: {} add.u32 %d, %d, %v0;"
    "mul.lo.u32 %v2, %t, 7; sub.u32 %v1, %v1, 1; setp.ne.u32 %p, %v1, 0;"
    "@%p bra L; add.u32 %d, %d, %v2;"
)


def shuffles() -> Iterator[tuple[str, Any]]:
    """Each mode for segments of 32 and 8; 100 is added if the predicate is true."""
    for segment in (32, 8):
        first = LANE // segment * segment
        c = (32 - segment) << 8
        for mode, n, source, valid in (
            ("idx", 5, first + 5 % segment, LANE >= 0),
            ("up", 3, LANE - 3, first <= LANE - 3),
            ("down", 3, LANE + 3, first + segment > LANE + 3),
            ("bfly", 5, LANE ^ 5, LANE >= 0),
        ):
            clamp = c if mode == "up" else c | 31
            text = (
                f"shfl.sync.{mode}.b32 %d|%p, %t, {n}, {clamp}, -1;"
                "selp.u32 %v0, 100, 0, %p; add.u32 %d, %d, %v0;"
            )
            yield text, np.where(valid, source, LANE) + 100 * valid


WARP = [
    *shuffles(),
    (f"{ODD} vote.sync.ballot.b32 %d, %p, -1;", 0xAAAAAAAA),
    *(
        (f"{ODD} vote.sync.{mode}.pred %q, %p, -1; selp.u32 %d, 1, 0, %q;", expected)
        for mode, expected in (("any", 1), ("all", 0), ("uni", 0))
    ),
    (
        "elect.sync %v0|%p, -1; selp.u32 %d, 100, 7, %p; add.u32 %d, %d, %v0;",
        np.where(LANE == 0, 100, 7),
    ),
    ("and.b32 %v0, %t, 3; match.any.sync.b32 %d, %v0, -1;", 0x11111111 << (LANE % 4)),
    *(
        (f"mov.u32 %v0, {value}; match.all.sync.b32 %d|%p, %v0, -1;", expected)
        for value, expected in (("7", 0xFFFFFFFF), ("%t", 0))
    ),
    *(
        (f"{MIXED} redux.sync.{mode} %d, %v0, -1;", int(function.reduce(VALUES)))
        for mode, function in (
            ("add.s32", np.add), ("min.s32", np.minimum), ("max.s32", np.maximum),
            ("and.b32", np.bitwise_and), ("or.b32", np.bitwise_or),
            ("xor.b32", np.bitwise_xor),
        )
    ),
    *(
        (f"{ODD} bar.red.{mode}.pred %q, 0, %p; selp.u32 %d, 1, 0, %q;", expected)
        for mode, expected in (("and", 0), ("or", 1))
    ),
    (f"{ODD} bar.red.popc.u32 %d, 0, %p;", 16),
    (  # special registers in registers of other sizes
        ".reg .b16 %h; .reg .b64 %l; mov.u16 %h, %tid.x; mov.u64 %l, %ntid.x;"
        "cvt.u32.u64 %v0, %l; cvt.u32.u16 %d, %h; mad.lo.u32 %d, %v0, 100, %d;"
        "cvt.u64.u32 %l, %laneid; cvt.u32.u64 %v0, %l; add.u32 %d, %d, %v0;",
        3200 + 2 * LANE,
    ),
    (  # lanes of a branch
        "mov.u32 %d, 0; setp.lt.u32 %p, %t, 5; @!%p bra L;"
        "vote.sync.ballot.b32 %d, %p, 31; L: bar.warp.sync -1;",
        np.where(LANE < 5, 31, 0),
    ),
    (  # a table of branches
        "rem.u32 %v0, %t, 3; T: .branchtargets A, B, C; brx.idx %v0, T;"
        "A: mov.u32 %d, 10; bra.uni E; B: mov.u32 %d, 20; bra.uni E;"
        "C: mov.u32 %d, 30; E:",
        10 * (1 + LANE % 3),
    ),
    # %v0 is needed in each turn, so %v2 must not take its place.
    (LOOP.format(""), 12 + 7 * LANE),
    (LOOP.format("setp.eq.u32 %q, %v1, 9; @%q mov.u32 %v0, 5;"), 12 + 7 * LANE),
]  # fmt: skip
"""What puts into %d which values, of all lanes or of each lane."""


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@together(("text", "expected"), WARP)
def test_lanes_of_a_warp(order: Any, text: str, expected: Any) -> None:
    with schedule(order, seed=3):
        found = execute(f".reg .b32 %v<4>; .reg .pred %p, %q; {text}", "u32")
    np.testing.assert_array_equal(found, np.broadcast_to(expected, 32) & 0xFFFFFFFF)


def test_a_barrier_of_some_threads() -> None:
    """Barrier 1 has the threads of warps 0 and 1; warp 2 waits in barrier 0."""
    found = execute(
        ".shared .align 4 .b8 s[256]; .reg .b32 %s; .reg .pred %p;"
        "mov.u32 %d, 7; setp.ge.u32 %p, %t, 64; @%p bra END;"
        "mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s; st.shared.u32 [%s], %t;"
        "bar.sync 1, 64; mov.u32 %s, s; xor.b32 %d, %t, 32; mad.lo.u32 %s, %d, 4, %s;"
        "ld.shared.u32 %d, [%s]; END: bar.sync 0;",
        "u32", threads=96,
    )  # fmt: skip
    np.testing.assert_array_equal(found, [*(np.arange(64) ^ 32), *[7] * 32])


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
    where = np.zeros(32, "u4")
    found = execute(
        """.reg .b32 %v; .reg .b64 %f; .reg .pred %p;
        P: .callprototype (.param .b32 _) _ (.param .b32 _);
        rem.u32 %v, %t, 9; max.u32 %v, %v, 1; setp.lt.u32 %p, %t, 16;
        mov.u64 %f, twice; @%p bra G; mov.u64 %f, factorial;
        G: { .param .b32 n; .param .b32 m; st.param.b32 [n], %v;
          call (m), %f, (n), P; ld.param.b32 %d, [m]; }
        mad.wide.u32 %o, %t, 4, %a0; activemask.b32 %v; st.global.u32 [%o], %v;""",
        "u32", memory=[where], before=functions,
    )  # fmt: skip
    assert (where == 2**32 - 1).all(), "the lanes meet after the calls"
    n = [max(1, t % 9) for t in range(32)]
    expected = [2 * k if t < 16 else math.factorial(k) for t, k in enumerate(n)]
    assert found.tolist() == expected


# ---- matrices ------------------------------------------------------------------------


@together(
    ("shape", "types", "dtypes", "words"),
    [("m16n8k16", "f32.f16.f16.f32", ("f2", "f4"), (4, 2, 4)),
     ("m16n8k8", "f32.f16.f16.f32", ("f2", "f4"), (2, 1, 4)),
     ("m16n8k16", "f16.f16.f16.f16", ("f2", "f2"), (4, 2, 2)),
     ("m16n8k8", "f32.tf32.tf32.f32", ("f4", "f4"), (4, 2, 4)),
     ("m16n8k32", "s32.s8.s8.s32", ("i1", "i4"), (4, 2, 4)),
     ("m8n8k4", "f64.f64.f64.f64", ("f8", "f8"), (1, 1, 2))],
)  # fmt: skip
def test_products_of_matrices(
    shape: str, types: str, dtypes: tuple[str, str], words: tuple[int, int, int]
) -> None:
    """The elements of each lane are placed as the figures of the manual say."""
    rows, k = (int(size) for size in shape[1:].split("n8k"))
    rng = np.random.default_rng(4)
    a, b, c = (
        rng.integers(-8, 9, size).astype(dtype)
        for size, dtype in zip(
            ((rows, k), (k, 8), (rows, 8)), (dtypes[0], *dtypes), strict=True
        )
    )
    word = max(4, a.itemsize)
    each, halves = word // a.itemsize, rows // 8
    group, part = np.divmod(np.arange(32)[:, None], 4)

    def places(count: int, each: int) -> tuple[Array, Array]:
        """Registers and elements in them; a lane has each of them."""
        return np.arange(count)[:, None, None], np.arange(each)

    r, e = places(words[0], each)
    columns = each * part + e + 4 * each * (r // halves)
    parts_a = a[group + 8 * (r % halves), columns]
    r, e = places(words[1], each)
    parts_b = b[each * part + e + 4 * each * r, group]
    r, e = places(words[2], word // c.itemsize)
    place = r * e.size + e
    of_c = group + 8 * (place // 2), 2 * part + place % 2
    if "tf32" in types:
        parts_a.view("u4")[:] |= 0x1FFF  # bits that do not count
    arrays = [np.ascontiguousarray(x) for x in (parts_a, parts_b, c[of_c])]
    out, bits = np.zeros_like(arrays[2]), 8 * word
    names = [[f"%m{x}{r}" for r in range(n)] for x, n in zip("abc", words, strict=True)]

    def moved(opcode: str, k: int, registers: list[str]) -> str:
        places = [f"[%q+{32 * word * r}]" for r in range(len(registers))]
        pairs = zip(registers, places, strict=True)
        moves = [", ".join(pair if opcode == "ld" else pair[::-1]) for pair in pairs]
        lines = "".join(f"{opcode}.global.b{bits} {move};" for move in moves)
        return f"add.u64 %q, %o, %a{k}; {lines}"

    given, by, sums = ("{" + ", ".join(registers) + "}" for registers in names)
    body = f".reg .b{bits} %ma<4>, %mb<2>, %mc<4>; mad.wide.u32 %o, %t, {word}, 0;"
    body += ".reg .b64 %q;" + "".join(moved("ld", k, x) for k, x in enumerate(names))
    body += f"mma.sync.aligned.{shape}.row.col.{types} {sums}, {given}, {by}, {sums};"
    run_body(body + moved("st", 3, names[2]), [*arrays, out])
    expected = a.astype(float) @ b.astype(float) + c
    np.testing.assert_array_equal(out, expected[of_c])


@together("transposed", [False, True])
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


OUTSIDE = {
    "clamp": (CLAMP, "nearest"),
    "wrap": (WRAP, "grid-wrap"),
    "mirror": (MIRROR, "reflect"),
    "border": (BORDER, "grid-constant"),
}
"""The modes of textures, and their names in SciPy."""


@together("linear", [False, True])
@together("outside", OUTSIDE)
def test_samples_of_a_texture(outside: str, linear: bool) -> None:
    """Weights have 8 bits, so points are at multiples of 1/256."""
    mode, name = OUTSIDE[outside]
    texels = np.random.default_rng(0).integers(0, 99, (4, 8)).astype("f4")
    points = np.random.default_rng(1).integers(-1300, 2500, (96, 2)) * 2 + 1
    points = points / 512 if not linear else points // 2 / 256
    options = {"modes": [mode] * 3, "is_linear": linear, "border": [9.5, 0, 0, 0]}
    is_normalized = outside in ("wrap", "mirror")
    texture = texture_of(texels, is_normalized=is_normalized, **options)
    given = points / (8, 4) if is_normalized else points
    expected = map_coordinates(
        texels, (points - 0.5).T[::-1], order=int(linear), mode=name, cval=9.5
    )
    found = fetched(texture, texels, given)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_a_gather_has_four_texels() -> None:
    """Bytes are read as numbers from 0 to 1."""
    texels = np.random.default_rng(0).integers(0, 256, (5, 6), np.uint8)
    points = np.random.default_rng(0).integers(1024, 4096, (32, 2)) / 1024
    x, y = np.floor(points - 0.5).astype(int).T
    texture = texture_of(texels, modes=[CLAMP] * 3, is_linear=1, reads_normalized=1)
    found = fetched(texture, texels, points, "tld4.r.2d.v4.f32.f32")
    corners = [texels[y + 1, x], texels[y + 1, x + 1], texels[y, x + 1], texels[y, x]]
    np.testing.assert_allclose(found, np.stack(corners, 1) / 255, rtol=1e-6)


@together("outside", ["trap", "clamp", "zero"])
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


def copied(x: Array, wait: str, size: str = "") -> Array:
    """Copies through shared memory."""
    return execute(
        ".shared .align 16 .b8 s[128]; .reg .b32 %s, %v; mov.u32 %s, s;"
        "mad.lo.u32 %s, %t, 4, %s; mad.wide.u32 %o, %t, 4, %a0; and.b32 %v, %t, 3;"
        f"cp.async.ca.shared.global [%s], [%o], 4{size}; cp.async.commit_group; {wait}"
        "ld.shared.u32 %d, [%s];", "u32", memory=[x],
    )  # fmt: skip


def test_copies_are_complete_after_waiting() -> None:
    x = np.arange(32, dtype="u4") + 7
    for wait in "cp.async.wait_group 0;", "cp.async.wait_all;":
        with races(), memcheck():
            np.testing.assert_array_equal(copied(x, wait), x)
    for wait in "", "cp.async.wait_group 1;":
        assert (copied(x, wait) != x).any()
        for check in (races, memcheck):
            with check(), pytest.raises(KernelError, match="wait for the copy"):
                copied(x, wait)


def test_copies_fill_the_rest_with_zeros() -> None:
    found = copied(np.full(32, 0x01020304, "u4"), "cp.async.wait_all;", ", %v")
    np.testing.assert_array_equal(found, [0, 0x04, 0x0304, 0x020304] * 8)


def test_atomics_of_a_block_order_nothing_between_blocks() -> None:
    for scope, fails in (("cta", True), ("gpu", False)):
        add = kernel_of(f".reg .b32 %v; atom.global.{scope}.add.u32 %v, [%a0], 1;", 1)
        error = pytest.raises(KernelError, match=r"atomicAdd_block\(\), and")
        x = np.zeros(1, "u4")
        with races(), error if fails else contextlib.nullcontext():
            add((2,), (32,), (x,))
        assert x[0] == (0 if fails else 64)


# ---- faults --------------------------------------------------------------------------


@together(
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
    with pytest.raises(CompileError, match=message):
        kernel_of(body, 0)


def test_declarations_of_a_program() -> None:
    module = RawModule(
        ptx=HEAD
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
    s, p, c = map(module.get_global, "spc")
    assert bytes(s) == b"Hi!\xff\0\0"
    assert p.view("u8").tolist() == [s.ctypes.data + 2, 4 << 48, 5]
    assert c.view("f4").tolist() == [1, 2]
    record, short, word = np.zeros((), "V20")[()], np.uint16(1), np.uint32(1)
    module.get_function("k")((1,), (1,), (None, record, short, word))


CLUSTER = ".entry k() .explicitcluster .reqnctapercluster {}, 1, 1 {{ ret; }}"


@together(
    ("text", "message"),
    [
        ("not PTX", r"PTX must have a \.target"),
        (HEAD + ".entry k() { ret;", "line 4: a { that is never closed"),
        (HEAD + ".entry () { ret; }", "line 4: a function without a name"),
        (HEAD + "\n.global foo;", "line 5: a declaration without a type: foo"),
        (HEAD + CLUSTER.format(2), "clusters of 2 blocks, but the emulator"),
    ],
)
def test_wrong_programs_are_refused(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        RawModule(ptx=text).get_function("k")


def test_a_cluster_of_one_block_is_a_block() -> None:
    RawModule(ptx=HEAD + CLUSTER.format(1)).get_function("k")((1,), (1,), ())


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
