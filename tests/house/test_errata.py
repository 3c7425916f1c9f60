"""docs/errata.md: each entry has a test, and what the page says holds in general.

The functions of the page's examples are tested here with other inputs. The examples
themselves are run by ``test_docs.py``.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusolve
from gpusolve.gam._boosting.smoothing import smoothing_parameters
from gpusolve.reference._boosting import degrees_of_freedom
from gpusolve.studies import qr_updating
from gpusolve.studies.experiments import gaussian_columns

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errata.md").read_text()

ENTRY = re.compile(r"^### (\w+ \d+)\.[^\n]*(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/\w+/test_\w+\.py)::(test_\w+)`")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

KINDS = (
    "Wrong result",
    "Wrong number",
    "Contradiction",
    "Less stable",
    "Limit",
    "Typographical",
)


def example(name: str) -> Any:
    """A function of the page's examples."""
    statements = (
        statement
        for text in EXAMPLE.findall(PAGE)
        for statement in ast.parse(text).body
    )
    (function,) = (
        statement
        for statement in statements
        if isinstance(statement, ast.FunctionDef) and statement.name == name
    )
    names = {"np": np}
    exec(ast.unparse(function), names)
    return names[name]


# ---- the page ------------------------------------------------------------------------


def test_every_entry_has_a_kind_and_a_test() -> None:
    entries = dict(ENTRY.findall(PAGE))
    assert len(entries) == PAGE.count("\n### ") - PAGE.count(": typographical\n")
    for text in entries.values():
        assert text.strip().startswith(tuple(f"*{kind}" for kind in KINDS))
        assert "Here: `" in text or "Here: [" in text
        tests = TEST.findall(text)
        assert tests
        for file, name in tests:
            assert f"\ndef {name}(" in (ROOT / file).read_text(), name


def test_the_entries_are_numbered() -> None:
    numbers: dict[str, list[int]] = {}
    for title, _ in ENTRY.findall(PAGE):
        document, number = title.split()
        numbers.setdefault(document, []).append(int(number))
    assert list(numbers) == ["Luo", "Sieminski", "Cupp", "Oancea"]
    for found in numbers.values():
        assert found == list(range(1, len(found) + 1))


def test_code_that_the_page_names_exists() -> None:
    for path, name in re.findall(r"`([\w/]+\.\w+)(?:::(\w+))?`", PAGE):
        if "/" in path:
            assert name in (ROOT / path).read_text()


# ---- Luo and Duraiswami --------------------------------------------------------------


@pytest.mark.paper(
    "Luo, Algorithm 1",
    "The printed step leads from (1, 2, 3) to (4, -7, 6) if y is (2, -1, 4), with the "
    "sign corrected to (-2, 11, 0), with the restriction, too, to (5/3, 0, 11/3)",
)
def test_the_step_of_algorithm_1() -> None:
    x, y = np.array([1.0, 2, 3]), np.array([2.0, -1, 4])
    ratios = x / (x - y)

    def step(alpha: float) -> Any:
        return x + alpha * (y - x)

    np.testing.assert_allclose(step(-ratios.min()), [4, -7, 6])
    np.testing.assert_allclose(step(ratios.min()), [-2, 11, 0], atol=1e-15)
    right = step(ratios[y <= 0].min())
    np.testing.assert_allclose(right, [5 / 3, 0, 11 / 3], atol=1e-15)


@pytest.mark.parametrize("method", ["gram", "qr"])
def test_a_variable_that_leaves_is_zero(method: str) -> None:
    """Line 11 leaves rounding errors of 0, of both signs."""
    random = np.random.default_rng(1)
    x, y = random.random(1000), -random.random(1000)
    left = x + x / (x - y) * (y - x)
    assert (left > 0).any()
    assert (left < 0).any()
    A, b = random.random((100, 30, 20)), random.random((100, 30))
    found = gpusolve.nnls(A, b, method=method)
    assert found.n_downdates.sum() > 10
    assert (found.x >= 0).all()
    assert (found.x[found.x > 0] > 1e-10).all()


@pytest.mark.paper(
    "Luo, 3.1, Algorithm 2",
    "For Gaussians of condition 1e7, the largest element of QR - A is below 3e-15; "
    "with R as printed, above 1e-13",
)
def test_line_4_of_algorithm_2() -> None:
    """Measured: 3e-16 and 2e-12. Both lose the same orthogonality."""
    assert 1e7 < np.linalg.cond(gaussian_columns()) < 2e7
    assert example("product_error")(True) > 1e-13
    assert example("product_error")(False) < 3e-15


@pytest.mark.paper(
    "Luo, 5.3", "A downdate rotates elements of Q^T b, so threads exchange them"
)
def test_a_downdate_mixes_q_t_b() -> None:
    """No new element is a function of the old element at its place alone."""
    random = np.random.default_rng(2)
    b = random.random(9)
    factorisation = qr_updating(random.random((9, 4)), "MGS")
    for variable in range(4):
        factorisation.update(variable)
    before = factorisation.factors()[0].T @ b
    factorisation.downdate(0)
    after = factorisation.factors()[0].T @ b
    assert np.abs(np.abs(after[:, None]) - np.abs(before)).min() > 1e-3
    assert np.linalg.norm(after) < np.linalg.norm(before)


def last_six_additions(sums: list[int], in_lockstep: bool) -> int:
    """Of 32 threads, which read all before they write, or run one after another."""
    distances = (32, 16, 8, 4, 2, 1)
    if in_lockstep:
        for distance in distances:
            read = [sums[thread + distance] for thread in range(32)]
            for thread, value in enumerate(read):
                sums[thread] += value
    else:
        for thread in range(32):
            for distance in distances:
                sums[thread] += sums[thread + distance]
    return sums[0]


@pytest.mark.paper(
    "Luo, Algorithm 4",
    "If the threads of a warp run one after another, the sum of 512 times 1 is 56",
)
def test_a_warp_that_does_not_run_in_lockstep() -> None:
    """The barriers before leave 64 sums of 8."""
    assert last_six_additions(64 * [8], in_lockstep=True) == 512
    assert last_six_additions(64 * [8], in_lockstep=False) == 56


# ---- Sieminski and Lee ---------------------------------------------------------------


@pytest.mark.paper(
    "Sieminski, 2.1.2, Appendix A",
    "For 20 eigenvalues of 1/20, tr(H) is 1, tr(H'H) 0.05 and tr(2H - H'H) 1.95",
)
def test_definitions_of_the_degrees_of_freedom() -> None:
    """They order as H'H, H, 2H - H'H, and are equal for projections only."""
    B, ones, penalty = np.eye(20), np.ones(20), np.eye(20)
    trace = degrees_of_freedom(B, ones, penalty, 19.0, "trace")
    twice = degrees_of_freedom(B, ones, penalty, 19.0, "2S-SS")
    assert trace == pytest.approx(20 * (1 / 20)) == pytest.approx(1)
    assert 2 * trace - twice == pytest.approx(0.05)
    assert twice == pytest.approx(1.95)
    for definition, expected in (
        ("trace", 19.0),
        ("2S-SS", 1 / (1 - np.sqrt(0.95)) - 1),
    ):
        gram, rank = np.eye(20)[None], np.array([20])
        found = smoothing_parameters(gram, penalty, 0, 1.0, definition, rank)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_degrees_of_freedom_of_a_singular_basis() -> None:
    """The solver has the limit of ``sum s^2 / (s^2 + lambda)``, and no inverse of R."""
    random = np.random.default_rng(3)
    B = np.zeros((30, 6))
    B[:, :5] = random.random((30, 5))
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(np.linalg.qr(B, mode="r"))
    gram, rank = (B.T @ B)[None], np.array([5])
    (found,) = smoothing_parameters(gram, np.eye(6), 0, 2.5, "trace", rank)
    s = np.linalg.svd(B, compute_uv=False)
    assert (s**2 / (s**2 + found)).sum() == pytest.approx(2.5, rel=1e-6)


@pytest.mark.paper(
    "Sieminski, 2.1.2, Appendix A",
    "With weights, tr(H) is the sum of 1 / (1 + lambda Lambda), where Lambda are the "
    "eigenvalues of (R R')^-1",
)
def test_the_trace_by_appendix_a() -> None:
    """``Q Q' U U'``, as printed, is a product of matrices that do not fit."""
    random = np.random.default_rng(8)
    B, weights, lambda_ = random.random((30, 6)), random.random(30) + 0.1, 0.7
    Q, R = np.linalg.qr(np.sqrt(weights)[:, None] * B)
    eigenvalues, U = np.linalg.eigh(np.linalg.inv(R @ R.T))
    trace = (1 / (1 + lambda_ * eigenvalues)).sum()
    expected = degrees_of_freedom(B, weights, np.eye(6), lambda_, "trace")
    assert trace == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=1e-14)
    with pytest.raises(ValueError, match="mismatch"):
        Q @ Q.T @ U @ U.T


@pytest.mark.paper("Sieminski, 2.2", "2 (y - mu) is the gradient with a minus")
def test_the_gradient_of_the_squared_error() -> None:
    y, mu, h = 3.0, 1.0, 1e-6
    gradient = ((y - mu - h) ** 2 - (y - mu + h) ** 2) / (2 * h)
    assert gradient == pytest.approx(-2 * (y - mu), rel=1e-6)


@pytest.mark.paper(
    "Sieminski, 3.2.2, (4), Figure 2",
    "(4) as printed gives one number, 114, for the product [28, 92, 156] of a matrix "
    "of 3 x 8 by 4 threads of 2 columns",
)
def test_equation_4() -> None:
    A, x, rows = np.arange(24.0).reshape(3, 8), np.ones(8), range(3)
    P, p = 4, 2
    ends = range(p, P + 1, p)
    printed = sum(A[i, j] * x[j] for end in ends for i in rows for j in range(end)[-p:])
    assert printed == 114
    np.testing.assert_array_equal(A @ x, [28, 92, 156])
    segments = range(0, 8, p)
    right = [sum(A[i, j : j + p] @ x[j : j + p] for j in segments) for i in rows]
    np.testing.assert_array_equal(right, A @ x)
    assert len(segments) == P


def halved(work: list[float]) -> float:
    """The loop of Appendix B for a row of threads."""
    columns, work = len(work), work.copy()
    while columns > 1:
        columns >>= 1
        for j in range(columns):
            work[j] += work[j + columns]
    return work[0]


@pytest.mark.paper(
    "Sieminski, Appendix B", "Of columns 1 to 16, only 1, 2, 4, 8 and 16 are all added"
)
def test_halving_needs_a_power_of_two() -> None:
    complete = [n for n in range(1, 17) if halved(n * [1.0]) == n]
    assert complete == [1, 2, 4, 8, 16]


@pytest.mark.paper(
    "Sieminski, 4.1", "bs of patsy has its 4 inner knots at quantiles if it has df = 8"
)
def test_knots_of_patsy_are_quantiles() -> None:
    """Four of the functions make a cubic without inner knots."""
    patsy = pytest.importorskip("patsy")
    x = np.random.default_rng(4).random(300) ** 3

    def basis(arguments: str, knots: Any = None) -> Any:
        data = {"x": x, "inner": knots}
        return np.asarray(
            patsy.dmatrix(f"bs(x, {arguments}, include_intercept=True) - 1", data)
        )

    found = basis("df=8")
    assert found.shape[1] - 4 == 4
    np.testing.assert_allclose(
        found, basis("knots=inner", np.quantile(x, np.arange(1, 5) / 5)), atol=1e-12
    )
    equidistant = x.min() + np.ptp(x) * np.arange(1, 5) / 5
    assert np.abs(found - basis("knots=inner", equidistant)).max() > 0.1


# ---- Cupp ----------------------------------------------------------------------------


@pytest.mark.paper(
    "Cupp, 5.1, absolute index",
    "row n + col exceeds 31 bits from 46341 x 46341 on, and 32 bits give 2 places the "
    "same index from 65537 x 65537 on",
)
def test_32_bits_are_too_few_for_the_absolute_index() -> None:
    largest = {n: (n - 1) * n + n - 1 for n in (46340, 46341, 65536, 65537)}
    assert largest[46340] < 2**31 <= largest[46341]
    assert largest[65536] < 2**32 <= largest[65537]
    row, column, n = 65535, 1, 65537
    assert (row * n + column) % 2**32 == 0
    assert (row, column) != (0, 0)
    pairs = np.array([0, row]), np.array([0, column])
    sparse = pytest.importorskip("scipy.sparse")
    A = sparse.coo_array((np.array([2.0, 3.0]), pairs), shape=(n, n))
    B = sparse.coo_array((np.array([5.0]), ([row], [column])), shape=(n, n))
    found = gpusolve.sparse.multiply(A, B)
    assert (found.nnz, found.data[0]) == (1, 15.0)


@pytest.mark.paper(
    "Cupp, 2.2, random matrices",
    "Matrices of 128 x 128 drawn as described have over 220 places in common, uniform "
    "matrices 164",
)
def test_the_matrices_of_the_document_have_more_in_common() -> None:
    """Means of 60 pairs; a pair of either kind scatters by 12."""
    random = np.random.default_rng(5)

    def mean(draw: Any) -> float:
        return float(np.mean([(draw() & draw()).sum() for _ in range(60)]))

    def uniform() -> Any:
        A = gpusolve.sparse.random_coo((128, 128), 0.1, rng=random, dtype=bool)
        return A.toarray()

    drawn = example("drawn")
    assert mean(lambda: drawn(random)) > 220
    assert mean(uniform) == pytest.approx(164, abs=8)
    assert drawn(random).sum() == round(0.1 * 128**2)


# ---- Oancea and Henriksen ------------------------------------------------------------


@pytest.mark.paper(
    "Oancea, Segmented sweeps",
    "With the line that is missing, and what is before first, any word and any flags "
    "give the exclusive scan; as printed, elements at even places keep their input",
)
def test_sweeps_agree_with_the_definition() -> None:
    """Flags need not be cleared, as line 19 does."""
    random = np.random.default_rng(6)
    segmented_scan = example("segmented_scan")
    for _ in range(200):
        n = 2 ** int(random.integers(1, 6))
        word = [chr(97 + letter) for letter in random.integers(26, size=n)]
        flags = [int(flag) for flag in random.random(n) < 0.3]
        expected, before = [], ""
        for flag, letter in zip(flags, word, strict=True):
            before = "" if flag else before
            expected.append(before)
            before += letter
        assert segmented_scan(flags, word, "", printed=False) == expected
        assert segmented_scan(flags, word, "", printed=True)[::2] == word[::2]


def scan_of_a_wave(x: list[int], reads_first: bool) -> list[int]:
    """The listing, whose elements are added at once, or one after another."""
    B, h = x.copy(), 1
    while h < len(B):
        read = B.copy() if reads_first else B
        for i in range(h, len(B)):
            B[i] = read[i - h] + B[i]
        h *= 2
    return B


@pytest.mark.paper(
    "Oancea, Exercise 2",
    "In place it needs all reads before a write: [1, 1, 1, 1] becomes [1, 2, 4, 6] if "
    "the 4 threads run one after another",
)
def test_scan_of_a_wave_reads_before_it_writes() -> None:
    assert scan_of_a_wave([1, 1, 1, 1], reads_first=False) == [1, 2, 4, 6]
    x = list(range(32))
    assert scan_of_a_wave(x, reads_first=True) == np.cumsum(x).tolist()


@pytest.mark.paper(
    "Oancea, Exercise 4", "An element of 0.5 is not truncated to 0, as by int mat_elm"
)
def test_real_elements_are_not_truncated() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    A = sparse.csr_array(np.array([[0.5, -1.5]]))
    x = np.array([4.0, 2.0])
    truncated = sum(int(value) * x[j] for j, value in enumerate(A.data))
    assert (truncated, gpusolve.sparse.spmv(A, x)[0]) == (-2.0, 0.5 * 4 - 1.5 * 2)
    assert int(0.5) == 0


@pytest.mark.paper(
    "Oancea, Exercise 4", "[0..num_rows] of 3 rows has 4 elements, [0, 2, 5, 6]"
)
def test_the_first_entries_of_the_rows() -> None:
    shpscn, num_rows = [2, 5, 6], 3
    with_both_ends = [0 if i == 0 else shpscn[i - 1] for i in range(num_rows + 1)]
    assert (with_both_ends, len(with_both_ends)) == ([0, 2, 5, 6], 4)
    flags = gpusolve.segment_flags(np.array([2, 3, 1]))
    assert np.flatnonzero(flags).tolist() == with_both_ends[:-1]


@pytest.mark.paper(
    "Oancea, Exercise 4",
    "Rows of lengths 0, 2, 0, 1 and values 1, 2, 5 have the sums 0, 3, 0, 5; as listed "
    "5, 3, 3, 5",
)
def test_empty_rows_are_zero() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    values, indptr = np.array([1.0, 2.0, 5.0]), np.cumsum([0, 0, 2, 0, 1])
    A = sparse.csr_array((values, [0, 1, 2], indptr), shape=(4, 3))
    assert gpusolve.sparse.spmv(A, np.ones(3)).tolist() == [0, 3, 0, 5]
    last_elements = example("last_elements")
    assert last_elements([0, 2, 0, 1], values) == [5, 3, 3, 5]
    lengths = np.random.default_rng(7).integers(1, 5, size=9)
    x = np.arange(lengths.sum())
    expected = np.add.reduceat(x, np.cumsum(lengths) - lengths)
    assert last_elements(lengths, x) == expected.tolist()


def test_empty_arrays() -> None:
    """Where the listings read element -1."""
    empty = np.zeros(0, int)
    count, partitioned = gpusolve.stable_partition(empty, np.zeros(0, bool))
    assert (int(count), len(partitioned)) == (0, 0)
    assert len(gpusolve.segment_flags(empty)) == 0
    sparse = pytest.importorskip("scipy.sparse")
    assert len(gpusolve.sparse.spmv(sparse.csr_array((0, 5)), np.ones(5))) == 0
