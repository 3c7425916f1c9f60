"""The table of mutations is about texts that exist; `make mutations` applies them."""

from __future__ import annotations

from mutations import ROOT, mutations


def test_each_old_text_stands_in_its_file_once() -> None:
    table = mutations()
    assert len(table) >= 50
    for row in table:
        assert (ROOT / row.file).read_text().count(row.old) == 1, row
        assert list((ROOT / "tests" / row.room).glob("test_*.py")), row
