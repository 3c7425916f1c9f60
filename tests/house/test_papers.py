"""docs/papers.md: its files and names exist, and tests hold its claims."""

from __future__ import annotations

import json
import re
from pathlib import Path

import paper_map
import pytest
from together import together

import gpusolve

ROOT = Path(__file__).parents[2]
KNOWN = re.compile(r"(tested|counted|predicted|measured)(, |$)")
TOKEN = re.compile(r"`([^`]+/[^`]+)`")

PAGE = paper_map.MAP.read_text()
ROWS = paper_map.rows(PAGE)


def test_every_table_has_the_same_columns() -> None:
    heads = re.findall(r"^\| part .*\|$", PAGE, re.MULTILINE)
    assert list(map(paper_map.cells_of, heads)) == 4 * [paper_map.COLUMNS]


@together("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_complete_and_names_what_exists(row: paper_map.Row) -> None:
    assert len(row.cells) == len(paper_map.COLUMNS)
    assert all(row.cells)
    _, _, code, _, shown, known = row.cells
    assert known.startswith("text: ") or KNOWN.sub("", known) == ""
    for cell in (code, shown):
        assert TOKEN.search(cell)
        for token in TOKEN.findall(cell):
            path, _, name = token.partition("::")
            assert (ROOT / path).is_file(), token
            if not path.startswith("notebooks/"):
                text = (ROOT / path).read_text()
                assert re.search(rf"\b{re.escape(name)}\b", text), token


@together("row", ROWS, ids=lambda row: row.name)
def test_a_cited_notebook_mentions_what_it_is_cited_for(row: paper_map.Row) -> None:
    """The map says by which words, as in ``notebooks/x.ipynb::words``."""
    for token in re.findall(r"`(notebooks/[^`]+)`", row.cells[4]):
        path, _, words = token.partition("::")
        cells = json.loads((ROOT / path).read_text())["cells"]
        text = " ".join("".join(cell["source"]) for cell in cells)
        assert words, token
        assert re.search(rf"\b{re.escape(words)}\b", " ".join(text.split())), token


def test_the_claims_are_those_of_the_tests() -> None:
    """``make tables`` writes the page."""
    assert paper_map.filled(PAGE, paper_map.markers()) == PAGE


@together("row", ROWS, ids=lambda row: row.name)
def test_a_test_holds_each_row_that_can_be_run(row: paper_map.Row) -> None:
    marked = any(marker.row == row.name for marker in paper_map.markers())
    assert marked != row.cells[-1].startswith("text: ")


def test_each_marker_has_one_row() -> None:
    names = [row.name for row in ROWS]
    assert [
        marker for marker in paper_map.markers() if names.count(marker.row) != 1
    ] == []


def test_a_test_names_the_numbers_of_its_claim() -> None:
    missing = [
        (marker, paper_map.missing_numbers(marker)) for marker in paper_map.markers()
    ]
    assert not [(marker.test, numbers) for marker, numbers in missing if numbers]


FUNCTIONS = (
    gpusolve.nnls,
    gpusolve.reduce,
    gpusolve.maximum_segment_sum,
    gpusolve.scan,
    gpusolve.segmented_scan,
    gpusolve.stable_partition,
    gpusolve.gemv,
    gpusolve.gam.BoostedGAM,
    gpusolve.sparse.multiply,
    gpusolve.sparse.spmv,
)
CHOICES = re.compile(r"^ *(?:variant|method) : \{(.*?)\}", re.MULTILINE)


def test_a_page_lists_every_variant_in_one_table() -> None:
    """The choices come from docstrings; from errors if they are too many for these."""
    page = (ROOT / "docs" / "variants.md").read_text()
    listed = set(re.findall(r'^\|[^|]*\| `"(\w+)"` \|', page, re.MULTILINE))
    found = set()
    for function in FUNCTIONS:
        for choices in CHOICES.findall(function.__doc__ or ""):
            found |= set(re.findall(r'"(\w+)"', choices))
    for function, name, given in (
        (gpusolve.nnls, "method", ([[1.0]], [1.0])),
        (gpusolve.reduce, "variant", ([1.0],)),
    ):
        with pytest.raises(ValueError, match="must be one of") as error:
            function(*given, **{name: "?"})
        found |= set(re.findall(r"'(\w+)'", str(error.value)))
    assert listed == found
