"""Kernels that are written in PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusolve.emulator import RawKernel, RawModule

HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"

Array = np.ndarray[Any, Any]

DTYPES = {
    "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "b32": "u4",
    "u32": "u4", "s32": "i4", "b64": "u8", "u64": "u8", "s64": "i8", "f16": "f2",
    "f32": "f4", "f64": "f8", "pred": "u4", "f16x2": "u4", "bf16x2": "u4", "bf16": "u2",
}  # fmt: skip
"""The dtype of an array for each type; a predicate is 0 or 1."""


def bits_of(type: str) -> int:
    return 8 * np.dtype(DTYPES[type]).itemsize


def kernel_of(body: str, pointers: int, before: str = "") -> RawKernel:
    """A kernel whose arguments are pointers; it has them in %a0, %a1 and so on.

    %t is the thread, and %o a register for addresses.
    """
    named = ", ".join(f".param .u64 p{number}" for number in range(pointers))
    loaded = "".join(f"ld.param.u64 %a{k}, [p{k}];\n" for k in range(pointers))
    module = RawModule(
        ptx=f"""{HEAD}{before}
.visible .entry k({named}) {{
    .reg .b32 %t;
    .reg .b64 %a<{pointers + 1}>, %o;
    {loaded}
    mov.u32 %t, %tid.x;
    {body}
    ret;
}}"""
    )
    return module.get_function("k")


def run_body(
    body: str, arrays: Sequence[Any], threads: int = 32, before: str = ""
) -> None:
    """Run a kernel of one block on arrays."""
    kernel_of(body, len(arrays), before)((1,), (threads,), arrays)


def execute(
    text: str,
    result: str,
    *operands: tuple[str, Any],
    memory: Sequence[Array] = (),
    threads: int = 32,
    before: str = "",
) -> Array:
    """The results of instructions, one for each thread, in %d.

    They have the operands of the thread, pairs of a type and values, in %x0, %x1 and so
    on, and the addresses of `memory` in %a0, %a1 and so on.
    """
    count, first = len(operands[0][1]) if operands else threads, len(memory)
    arrays = [np.ascontiguousarray(values, DTYPES[type]) for type, values in operands]
    output = np.zeros(count, DTYPES[result])
    lines = []
    for name, type in (
        ("d", result),
        *((f"x{k}", o[0]) for k, o in enumerate(operands)),
    ):
        size = "pred" if type == "pred" else f"b{max(16, bits_of(type))}"
        lines.append(f".reg .{size} %{name}; .reg .b32 %word{name};")
    for k, (type, _) in enumerate(operands):
        is_mask, bits = type == "pred", bits_of(type)
        to = f"%wordx{k}" if is_mask else f"%x{k}"
        lines.append(f"mad.wide.u32 %o, %t, {bits // 8}, %a{first + k};")
        lines.append(f"ld.global.b{bits} {to}, [%o];")
        lines += [f"setp.ne.u32 %x{k}, {to}, 0;"] * is_mask
    lines.append(text)
    lines += ["selp.u32 %wordd, 1, 0, %d;"] * (result == "pred")
    found = "%wordd" if result == "pred" else "%d"
    lines.append(f"mad.wide.u32 %o, %t, {output.itemsize}, %a{first + len(arrays)};")
    lines.append(f"st.global.b{bits_of(result)} [%o], {found};")
    run_body("\n".join(lines), [*memory, *arrays, output], count, before)
    return output
