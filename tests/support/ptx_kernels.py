"""Kernels of PTX that a test writes around a few instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusolve.emulator import RawKernel, RawModule

HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"


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
