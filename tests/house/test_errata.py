"""docs/errata.md: each entry has an example or a test; ``test_docs.py`` runs examples.

The tests here are about faults that concern this package.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gpusolve

# Users get degrees of freedom of models, not of matrices.
from gpusolve.gam._boosting.smoothing import smoothing_parameters
from gpusolve.reference._boosting import degrees_of_freedom
from gpusolve.studies import qr_updating

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errata.md").read_text()

ENTRY = re.compile(r"^### (\w+ \d+)\.[^\n]*(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/\w+/test_\w+\.py)::(test_\w+)`")
KIND = re.compile(
    r"\s*\*(Wrong result|Wrong number|Contradiction|Less stable|Limit|Typographical)"
)


# ---- the page ------------------------------------------------------------------------


def test_every_entry_has_a_number_a_kind_and_a_proof() -> None:
    entries = dict(ENTRY.findall(PAGE))
    assert len(entries) == PAGE.count("\n### ") - PAGE.count(": typographical\n")
    for text in entries.values():
        assert KIND.match(text)
        assert "Here: `" in text or "Here: [" in text
        tests = TEST.findall(text)
        assert tests or "\n```python\n" in text
        for file, name in tests:
            assert f"\ndef {name}(" in (ROOT / file).read_text(), name
    for document, count in (("Luo", 12), ("Sieminski", 5), ("Cupp", 3), ("Oancea", 8)):
        found = [title for title in entries if title.startswith(document)]
        assert found == [f"{document} {k}" for k in range(1, count + 1)]


def test_code_that_the_page_names_exists() -> None:
    for path, name in re.findall(r"`([\w/]+\.\w+)(?:::(\w+))?`", PAGE):
        if "/" in path:
            assert name in (ROOT / path).read_text()


# ---- Luo and Duraiswami --------------------------------------------------------------


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


# ---- Oancea and Henriksen ------------------------------------------------------------


def test_empty_arrays() -> None:
    """Where the listings read element -1."""
    empty = np.zeros(0, int)
    count, partitioned = gpusolve.stable_partition(empty, np.zeros(0, bool))
    assert (int(count), len(partitioned)) == (0, 0)
    assert len(gpusolve.segment_flags(empty)) == 0
    sparse = pytest.importorskip("scipy.sparse")
    assert len(gpusolve.sparse.spmv(sparse.csr_array((0, 5)), np.ones(5))) == 0
