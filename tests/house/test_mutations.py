"""The table of mutations is about texts that exist; `make mutations` applies them."""

from __future__ import annotations

from mutations import ROOT, mutations


def test_each_old_text_stands_in_its_file_once() -> None:
    table = mutations()
    assert len(table) >= 50
    for one in table:
        assert (ROOT / one.file).read_text().count(one.old) == 1, one
        assert list((ROOT / "tests" / one.room).glob("test_*.py")), one
