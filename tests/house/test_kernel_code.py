"""The counts of machine code agree with small kernels that were counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_code import Code, changes, code_of, has_disassembler
from kernel_resources import Source
from together import together

FILE = Path(__file__).parents[1] / "kernels" / "machine_code"


@pytest.mark.skipif(
    not has_disassembler(), reason="needs nvdisasm, from nvidia-cuda-nvdisasm"
)
def test_counts_of_kernels_that_were_counted_by_hand() -> None:
    """A generic load and a generic store; other accesses are shared or global."""
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    for code in code_of(Source("", str(FILE), "", ("generic_load", "generic_store"))):
        assert code.generic_accesses == 1
        assert 10 < code.instructions < 50


@together(
    ("found", "reported"),
    [
        (Code(1000, 2), []),
        (Code(1020, 2), []),
        (Code(1021, 2), ["instructions from 1000 to 1021"]),
        (Code(900, 2), []),
        (Code(899, 2), ["instructions from 1000 to 899"]),
        (Code(1000, 3), ["generic accesses from 2 to 3"]),
    ],
)
def test_changes_of_the_code(found: Code, reported: list[str]) -> None:
    assert changes(Code(1000, 2), found) == reported
