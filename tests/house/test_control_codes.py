"""Control codes are read from words made by hand, and agree with what the compiler must
guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from control_codes import NONE, Control, decode
from kernel_clocks import listings_of
from kernel_code import Instruction, Listing, has_disassembler
from kernel_resources import Source
from together import together

SOURCE = Source("", "gram", "", ("gram_matrices<double, 4, 256>",))


@together(
    ("bits", "control"),
    [
        ("0000 000000 111 111 0 0101", Control(5, 0, NONE, NONE, 0, 0)),
        ("0000 000000 111 010 1 0001", Control(1, 1, 2, NONE, 0, 0)),
        ("0001 000000 011 111 1 1111", Control(15, 1, NONE, 3, 0, 1)),
        ("1000 100001 111 000 0 1000", Control(8, 0, 0, NONE, 0b100001, 8)),
    ],
)
def test_the_fields_of_a_word(bits: str, control: Control) -> None:
    """Other bits of the word change nothing."""
    high, low = int(bits.replace(" ", ""), 2), (1 << 105) - 1
    for other in (0, low, 0b11 << 126):
        assert decode(high << 105 | other) == control


def test_the_scoreboards_of_a_mask() -> None:
    assert Control(1, 0, NONE, NONE, 0b100101, 0).waits_for() == [0, 2, 5]


def first_uses(listing: Listing) -> Iterator[tuple[Instruction, list[Instruction]]]:
    """Each instruction that releases a scoreboard with its result, and the instructions
    up to the first that names its register, without a jump or a label between them.
    """
    code, labels = listing
    for i, one in enumerate(code):
        result = re.match(r"(?:P\d, )?(R\d+)\b", one.operands)
        if result is None or decode(one.word).written == NONE:
            continue
        for k in range(i + 1, len(code)):
            if k in labels.values() or code[k - 1].is_jump or code[k - 1].is_call:
                break
            if re.search(rf"\b{result[1]}\b", code[k].operands):
                yield one, code[i + 1 : k + 1]
                break


@pytest.mark.skipif(
    not has_disassembler(), reason="needs nvdisasm, from nvidia-cuda-nvdisasm"
)
def test_the_first_use_of_a_result_waits_for_it() -> None:
    """Except if the user is off whenever the other instruction is on."""
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    uses = 0
    for listing in listings_of(SOURCE).values():
        for one, others in first_uses(listing):
            if others[-1].predicate == opposite(one):
                continue
            waits = {i for other in others for i in decode(other.word).waits_for()}
            assert decode(one.word).written in waits, (one, others[-1])
            uses += 1
    assert uses > 40


def opposite(one: Instruction) -> str:
    """The predicate that is true if an instruction is off."""
    predicate = one.predicate
    return predicate.replace("@!", "@") if "!" in predicate else f"@!{predicate[1:]}"
