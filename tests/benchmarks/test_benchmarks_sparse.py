"""The benchmark of the sparse products, at its smallest size."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from benchmark_runs import number, report, tables
from together import together

from benchmarks import coo_paper, sparse_matrices, sparse_products
from benchmarks.harness import Machine, wall_clock

KINDS = ["uniform", "banded", "power law", "one heavy row"]


@pytest.mark.slow
def test_emulator_report_is_printed_and_written(tmp_path: Path) -> None:
    written = tmp_path / "made" / "sparse.md"
    options = ("--emulate", "--sizes", "100", "--longer", "30", "--repeats", "1")
    printed = report("sparse_products.py", *options, "--output", str(written))
    assert written.read_text() == printed
    assert "no figure here says anything about a GPU" in printed.split("\n\n")[1]
    multiply, lengths, spmv = tables(printed)
    methods = ["merge µs", "gallop µs", "binary µs", "linear µs"]
    assert multiply[0][3:8] == ["gpusolve µs", *methods]
    assert [cells[0] for cells in multiply[1:]] == KINDS
    assert all(number(cell) > 0 for cells in multiply[1:] for cell in cells[2:8])
    assert [cells[:2] for cells in lengths[1:]] == [
        *(["1", "30"], ["2", "15"], ["4", "7"], ["8", "3"], ["16", "1"])
    ]
    assert 'auto" uses it above' in printed
    assert [cells[0] for cells in spmv[1:]] == KINDS
    assert all(number(cell) > 0 for cells in spmv[1:] for cell in cells[2:5])


@pytest.mark.slow
def test_cpu_report_has_all_sizes_in_order() -> None:
    options = ("--sizes", "1e3", "100", "--longer", "100", "--repeats", "1")
    printed = report("sparse_products.py", "--cpu", *options)
    assert "CPU path: **no figure here says anything about a GPU" in printed
    multiply, lengths, spmv = tables(printed)
    assert lengths[0] == ["ratio", "shorter", "gpusolve µs", "SciPy µs"]
    for table in (multiply, spmv):
        assert [cells[0] for cells in table[1:]] == KINDS * 2
        assert [cells[1] for cells in table[1:]] == ["10^2"] * 4 + ["10^3"] * 4
    assert "uses it above" not in printed


def test_gpu_tables_have_columns_for_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: SciPy is imported in the place of CuPy's sparse matrices."""
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", scipy.sparse)
    machine = Machine("cuda", np, wall_clock, 1)
    monkeypatch.setitem(sparse_products.MOST_COMPARISONS, "cuda", 10**5)
    multiply, lengths, spmv = (
        tables("\n".join(lines))[0]
        for lines in (
            sparse_products.multiply_table(machine, [100, 1000]),
            sparse_products.crossover_table(machine, 100),
            sparse_products.spmv_table(machine, [100]),
        )
    )
    assert multiply[0][-2:] == lengths[0][-2:] == ["CuPy µs", "SciPy µs"]
    assert spmv[0][-2:] == ["cuSPARSE µs", "SciPy µs"]
    assert [cells[7] == "" for cells in multiply[1:]] == [False] * 4 + [True] * 4
    assert all(number(cell) > 0 for cells in multiply[1:] for cell in cells[-2:])


@together("kind", KINDS)
@together("entries", [100, 1000, 30_000])
def test_matrices_are_canonical(kind: str, entries: int) -> None:
    A = sparse_matrices.matrix(kind, entries, seed=0)
    keys = A.row.astype(np.int64) * A.shape[1] + A.col
    assert (np.diff(keys) > 0).all()
    assert A.shape[0] == A.shape[1] == sparse_matrices.side_of(entries)
    assert A.data.dtype == np.float32
    assert A.row.dtype == A.col.dtype == np.int32
    assert set(A.data) == {1, 2}
    if entries > 1000:
        assert A.nnz == pytest.approx(entries, rel=0.01)


def test_row_lengths_match_the_kind() -> None:
    lengths = {
        kind: np.diff(sparse_matrices.matrix(kind, 100_000, seed=0).tocsr().indptr)
        for kind in KINDS
    }
    side = sparse_matrices.side_of(100_000)
    assert lengths["uniform"].max() < 50
    assert lengths["banded"].max() == 16
    assert lengths["one heavy row"].max() == side
    assert np.sort(lengths["one heavy row"])[-2] < 50
    assert lengths["power law"][0] > side / 4
    thousandth = lengths["power law"][800:1200].mean()
    assert lengths["power law"][100:150].mean() == pytest.approx(
        8 ** (2 / 3) * thousandth, rel=0.15
    )


def test_bytes_moved() -> None:
    A, B = (scipy.sparse.coo_array(rows) for rows in ([[1, 2, 0]], [[0, 3, 4]]))
    assert sparse_products.pair(A, B).bytes_moved == 12 * (2 + 2) + 12 * 1
    assert sparse_products.Product(A.tocsr(), np.ones(3)).bytes_moved == 8 * 2 + 4 * (
        2 + 3 + 1
    )


def test_check_rejects_a_different_product() -> None:
    A = scipy.sparse.coo_array([[1, 2]])
    sparse_products.check("right", A, A.tocsr())
    with pytest.raises(RuntimeError, match="wrong does not agree with SciPy"):
        sparse_products.check("wrong", A, 2 * A.tocsr())


@together(
    ("gallop", "found"),
    [
        ([2, 2, 2, 2], "not faster at the largest ratio"),
        ([2, 0, 2, 0], "faster from ratio 8 on"),
        ([2, 2, 0, 0], "faster from ratio 4 on"),
        ([0, 0, 0, 2], "not faster at the largest ratio"),
    ],
)
def test_crossover_of_merge_and_gallop(gallop: list[float], found: str) -> None:
    measured = [
        (ratio, {"merge": 1.0, "gallop": seconds})
        for ratio, seconds in zip((1, 2, 4, 8), gallop, strict=True)
    ]
    assert f'"gallop" is {found};' in sparse_products.crossover(measured)


# ---- the figures of Cupp's document --------------------------------------------------


@pytest.mark.slow
def test_counts_of_the_document() -> None:
    versions, statistics = (
        tables("\n".join(lines))[0]
        for lines in (
            coo_paper.versions_table([8]),
            coo_paper.statistics_table(coo_paper.random_pair((8, 8), 0.75)),
        )
    )
    assert versions[0][2:] == [cells[0] for cells in statistics[1:]]
    totals = [sum(map(number, cells[1:8])) for cells in statistics[1:]]
    assert [number(cell) for cell in versions[1][2:]] == totals
    products = number(versions[1][1])
    assert all(number(cells[7]) == products for cells in statistics[1:])


def test_tiles_of_the_document() -> None:
    lines = coo_paper.tiles_table(coo_paper.pair_of_232(), "even", [4, 128])
    (table,) = tables("\n".join(lines))
    assert [cells[0] for cells in table[1:]] == ["4", "128"]
    assert [cells[6] for cells in table[1:]] == ["232", "232"]
    assert [number(cells[8]) for cells in table[1:]] == [1, 1.1]


@pytest.mark.slow
def test_times_of_the_document_without_counts() -> None:
    options = ("--emulate", "--times", "--sizes", "6", "--repeats", "1")
    (table,) = tables(report("coo_paper.py", *options))
    measured = [f"{method}, measured µs" for method in coo_paper.METHODS]
    assert table[0] == ["matrices", "entries", "products", *measured]
    assert [cells[1] for cells in table[1:]] == ["27", "1,000", "1,638"]


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_times_at_the_document_s_sizes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU: SciPy is imported in the place of CuPy's sparse matrices."""
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", scipy.sparse)
    machine = Machine(name, np, wall_clock, 1)
    inputs = [*coo_paper.document_sizes([6, 40])]
    assert [pair.A.nnz for _, pair in inputs] == [27, 1200, 1000, 1638]
    (table,) = tables("\n".join(coo_paper.times_table(machine, inputs[:1], ["even"])))
    assert table[1][:2] == ["6 x 6, 75 %", "27"]
    assert len(table[0]) == 3 + (1 if name == "cpu" else 5) + 1
    assert all(number(cell) > 0 for cell in table[1][3:])
