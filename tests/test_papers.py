"""docs/papers.md: its files and names exist, and no cell is empty."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpusolve
from gpusolve._blocks.reduce import VARIANTS as REDUCTIONS
from gpusolve._nnls.methods import COMPARED

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "papers.md"

COLUMNS = ["part", "what", "code", "test", "shown in", "known"]
KNOWN = re.compile(r"(tested|counted|predicted|measured)(, |$)")
TOKEN = re.compile(r"`([^`]+/[^`]+)`")

NAMES = {
    "MGS update": "gpusolve",
    "Givens downdate": "gpusolve",
    "reordered list": "gpusolve",
    "version 1": "cuda_src",
    "version 2": "cuda_src",
    "reduce512": "cuda_src",
    "mkFlagArray": "gpusolve",
    "partition2": "gpusolve",
}
"""What the papers call their parts, and the folder where a reader searches for it."""


def rows() -> list[list[str]]:
    """The cells of all rows, without the heads of the tables."""
    lines = [line for line in MAP.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("part", "---")]


def test_every_table_has_the_same_columns() -> None:
    heads = re.findall(r"^\| part .*\|$", MAP.read_text(), re.MULTILINE)
    assert len(heads) == 4
    for head in heads:
        assert [cell.strip() for cell in head[1:-1].split("|")] == COLUMNS


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} {row[1][:30]}")
def test_a_row_is_complete_and_names_what_exists(row: list[str]) -> None:
    assert len(row) == len(COLUMNS)
    assert all(row)
    _, _, code, test, shown, known = row
    assert known.startswith("text: ") or KNOWN.sub("", known) == ""
    for cell in (code, test, shown):
        assert TOKEN.search(cell)
        for token in TOKEN.findall(cell):
            path, _, name = token.partition("::")
            assert (ROOT / path).is_file(), token
            text = (ROOT / path).read_text()
            assert re.search(rf"\b{re.escape(name)}\b", text), token
    assert all(token.startswith("tests/test_") for token in TOKEN.findall(test))


@pytest.mark.parametrize(("name", "folder"), NAMES.items())
def test_the_papers_names_are_found_in_the_tree(name: str, folder: str) -> None:
    files = [
        file
        for end in ("py", "cu", "cuh")
        for file in ROOT.glob(f"{folder}/**/*.{end}")
    ]
    assert any(name.lower() in file.read_text().lower() for file in files)


FUNCTIONS = (
    gpusolve.nnls,
    gpusolve.reduce,
    gpusolve.maximum_segment_sum,
    gpusolve.scan,
    gpusolve.segmented_scan,
    gpusolve.stable_partition,
    gpusolve.gemv,
    gpusolve.gam.boost,
    gpusolve.sparse.multiply,
    gpusolve.sparse.spmv,
)
CHOICES = re.compile(r"^ *(?:variant|method) : \{(.*?)\}", re.MULTILINE)


def test_a_page_lists_every_variant_in_one_table() -> None:
    """The choices are those of the docstrings, and of lists that are too long there."""
    page = (ROOT / "docs" / "variants.md").read_text()
    listed = set(re.findall(r'^\|[^|]*\| `"(\w+)"` \|', page, re.MULTILINE))
    found = {"auto", *COMPARED, *REDUCTIONS}
    for function in FUNCTIONS:
        for choices in CHOICES.findall(function.__doc__ or ""):
            found |= set(re.findall(r'"(\w+)"', choices))
    assert listed == found
