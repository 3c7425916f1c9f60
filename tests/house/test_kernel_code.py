"""The counts of machine code agree with small kernels that were counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_code import (
    Code,
    changes,
    code_of,
    code_of_listing,
    has_disassembler,
    loop_mask,
    read_listing,
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


LISTING = """\
.text.kernel:
        /*0000*/                   BRA `(.start) ;
.rare:
        /*0010*/                   MUFU.RCP R0, R1 ;
        /*0020*/                   BRA `(.after) ;
.start:
        /*0030*/                   MUFU.RSQ R0, R1 ;
.loop:
        /*0040*/                   LD.E R0, desc[UR4][R2.64] ;
        /*0050*/              @!P1 BRA `(.rare) ;
        /*0060*/                   CALL.REL.NOINC `($called) ;
        /*0070*/               @P0 BRA `(.loop) ;
.after:
        /*0080*/                   MUFU.RCP R0, R1 ;
        /*0090*/                   CALL.REL.NOINC `($outside) ;
        /*00a0*/                   CALL.REL.NOINC `($__internal_0_$division) ;
        /*00b0*/               @P2 BRA P3, `(.start) ;
        /*00c0*/                   EXIT ;
$called:
        /*00d0*/                   MUFU.RCP64H R0, R1 ;
        /*00e0*/                   RET.REL.NODEC R4 `(kernel) ;
$outside:
        /*00f0*/                   LDG.E R0, desc[UR4][R2.64] ;
        /*0100*/                   RET.REL.NODEC R4 `(kernel) ;
$__internal_0_$division:
        /*0110*/                   MUFU.RCP R0, R1 ;
        /*0120*/                   RET.REL.NODEC R4 `(kernel) ;
.end:
        /*0130*/                   BRA `(.end);
        /*0140*/                   NOP;
"""

LAST_JUMP = "@P2 BRA P3, `(.start) ;"


def test_a_loop_is_found_by_its_jumps() -> None:
    """Code that is left for good is in no loop, wherever it stands."""
    text = LISTING.replace(LAST_JUMP, "MOV R0, R1 ;")
    listing = read_listing(text)["kernel"]
    addresses = [16 * i for i, inside in enumerate(loop_mask(listing)) if inside]
    assert addresses == [0x40, 0x50, 0x60, 0x70, 0xD0, 0xE0]
    assert code_of_listing(listing) == Code(20, 21 * 16, 1, 1)


def test_a_jump_with_two_predicates_closes_an_outer_loop() -> None:
    listing = read_listing(LISTING)["kernel"]
    outside = [16 * i for i, inside in enumerate(loop_mask(listing)) if not inside]
    assert outside == [0x00, 0xC0, 0x130, 0x140]
    assert code_of_listing(listing).divisions_in_loops == 4


def test_an_indirect_jump_is_an_error() -> None:
    listing = read_listing(LISTING.replace(LAST_JUMP, "BRX R2 -0x20 ;"))["kernel"]
    with pytest.raises(ValueError, match=r"the target must be a label, got .*BRX"):
        loop_mask(listing)


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
