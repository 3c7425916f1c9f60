"""The counts of machine code agree with small kernels that were counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_code import (
    Code,
    changes,
    code_of,
    has_disassembler,
)
from kernel_resources import Source
from together import together

FILE = Path(__file__).parents[1] / "kernels" / "machine_code"

KERNELS = {
    "generic_load": (1, 0),
    "generic_store": (1, 0),
    **{
        f"division_{place}<{number}>": (0, count)
        for place, count in (("before", 0), ("inside", 1))
        for number in ("float", "double", "unsigned", "long long")
    },
    "division_by_constants": (0, 0),
    "division_between": (0, 0),
    "root_inside": (0, 1),
    "called_inside": (0, 1),
    "called_outside": (0, 0),
}
"""Generic accesses, and divisions in loops, of the kernels in the file."""


@pytest.mark.skipif(
    not has_disassembler(), reason="needs nvdisasm, from nvidia-cuda-nvdisasm"
)
def test_counts_of_kernels_that_were_counted_by_hand() -> None:
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    codes = code_of(Source("", str(FILE), "", tuple(KERNELS)))
    found = [(code.generic_accesses, code.divisions_in_loops) for code in codes]
    assert dict(zip(KERNELS, found, strict=True)) == KERNELS


@together(
    ("found", "reported"),
    [
        (Code(1000, 16000, 2, 1), []),
        (Code(1020, 16320, 2, 1), []),
        (Code(1021, 16000, 2, 1), ["instructions from 1000 to 1021"]),
        (Code(1000, 16384, 2, 1), ["bytes from 16000 to 16384"]),
        (Code(900, 14400, 2, 1), []),
        (Code(899, 14400, 2, 1), ["instructions from 1000 to 899"]),
        (Code(1000, 16000, 3, 1), ["generic accesses from 2 to 3"]),
        (Code(1000, 16000, 2, 0), ["divisions in loops from 1 to 0"]),
    ],
)
def test_changes_of_the_code(found: Code, reported: list[str]) -> None:
    assert changes(Code(1000, 16000, 2, 1), found) == reported
