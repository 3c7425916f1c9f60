"""The study of QR updating: errors after many edits, and costs as in Table 3.1."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from table_3_1 import TABLE, Change, cost, operations, spaced
from together import together

from gpusolve.studies import qr_updating

# The counted matrices of the study.
from gpusolve.studies._qr_updating import METHODS, Array, ChangingQR, Costs, Counted
from gpusolve.studies.experiments import gaussian_columns

EPS = np.finfo(float).eps

SIZES = [(9, 1), (9, 4), (20, 7), (17, 15)]
"""Rows, and passive columns before the change."""


def changes() -> list[Any]:
    return [(change, m, length) for change in TABLE.values() for m, length in SIZES]


def products() -> list[tuple[str, bool]]:
    return list(product(METHODS, (True, False)))


class Errors(NamedTuple):
    """The largest elements of ``Q^T Q - I`` and ``Q R - A[:, passive]``."""

    orthogonality_error: float
    product_error: float


def errors(changed: ChangingQR) -> Errors:
    Q, R = changed.factors()
    apart = (
        Q.T @ Q - np.eye(changed.length),
        Q @ R - changed.A.values[:, changed.passive],
    )
    return Errors(*(float(np.abs(part).max(initial=0)) for part in apart))


def edited(changed: ChangingQR, edits: int, seed: int = 0) -> Errors:
    """Insert or remove variables at random; the largest errors."""
    found = []
    for variable in np.random.default_rng(seed).integers(
        changed.A.values.shape[1], size=edits
    ):
        change = changed.downdate if variable in changed.passive else changed.update
        change(int(variable))
        found.append(errors(changed))
    return Errors(*map(max, zip(*found, strict=True)))


def random_columns() -> Array:
    return np.random.default_rng(1).standard_normal((48, 24))


# ---- the factorisations --------------------------------------------------------------


@pytest.mark.paper(
    "Luo, 3.2", "Inserted and removed columns leave the R of LAPACK, to 1e-13"
)
@pytest.mark.paper(
    "Luo, (3.2), 3.3", "With A^T before s, R is the R of LAPACK, to 1e-13"
)
@together(("method", "reordered"), products())
def test_random_edits_keep_the_factorisation(method: str, reordered: bool) -> None:
    """300 edits of columns whose condition number is about 6, each to its rounding."""
    A = random_columns()
    made = qr_updating(A, method, reordered=reordered)
    found = edited(made, 300)
    assert found.orthogonality_error <= 100 * EPS
    assert found.product_error <= 100 * EPS * np.linalg.norm(A, 2)
    assert 0 < made.length < A.shape[1]
    assert reordered == (made.passive != sorted(made.passive))
    expected = np.linalg.qr(A[:, made.passive], mode="r")
    found_r = made.factors()[1]
    assert_allclose(np.abs(found_r), np.abs(expected), atol=1e-13)
    if method == "Rot":  # a complete basis
        Q = made.Q.values
        assert_allclose(Q.T @ Q, np.eye(48), atol=1e-13)
        below = made.R.values[np.ix_(made.rows[made.length :], made.passive)]
        assert_allclose(below, 0, atol=1e-13)


@pytest.mark.paper("Luo, (3.2), 3.3")
def test_the_correction_of_the_semi_normal_equations_needs_the_transpose() -> None:
    """For Gaussians of condition 1e7, A^T before s makes z at least 5 times as
    accurate.

    As printed, s has m elements where l are needed. Measured: 14 to 22 times.
    """
    A = gaussian_columns()
    assert 1e7 < np.linalg.cond(A) < 2e7
    Q, R = np.linalg.qr(A)
    a = np.random.default_rng(0).random((len(A), 50))
    expected = np.linalg.solve(R, Q.T @ a)

    def solve(y: Array) -> Array:
        return np.asarray(np.linalg.solve(R, np.linalg.solve(R.T, y)))

    z = solve(A.T @ a)
    s = a - A @ z
    with pytest.raises(ValueError, match="mismatch"):
        solve(s)
    before, after = (np.linalg.norm(x - expected) for x in (z, z + solve(A.T @ s)))
    assert 5 * after < before


def test_gram_schmidt_loses_orthogonality_where_rotations_do_not() -> None:
    """The reason for the second pass of ``passive_qr.cuh``."""
    A = gaussian_columns()
    assert edited(qr_updating(A, "MGS"), 300).orthogonality_error > 1e-9
    assert edited(qr_updating(A, "Rot"), 300).orthogonality_error < 100 * EPS


# ---- Table 3.1 -----------------------------------------------------------------------


@pytest.mark.paper("Luo, Table 3.1")
@together(("change", "m", "length"), changes())
def test_counts_equal_the_formulas(change: Change, m: int, length: int) -> None:
    """The counts of all 7 changes equal the formulas called counted."""
    assert len(TABLE) == 7
    start = spaced(change.method, change.reordered, m, length)
    for i in change.positions(length):
        assert cost(change, start, i) == change.correct.at(m, length, i)


def algorithm_2(Q: Counted, R: Counted, a: Array, length: int) -> None:
    """Lines 1 to 7 of the listing, for the slots 0 to `length`."""
    u, column = a, np.zeros(length + 1)
    for k in range(length):
        q = Q.column(k)
        u = Q.add_multiple(u, -Q.dot(q, u), q)
        column[k] = Q.dot(a, q)
    column[length] = Q.norm(u)
    Q.write_column(length, Q.divide(u, column[length]))
    R.write_column(length, column)


def cost_of_algorithm_2(m: int, length: int) -> Costs:
    random = np.random.default_rng(0)
    q, _ = np.linalg.qr(random.standard_normal((m, length + 1)))
    Q, R = Counted(q), Counted(np.zeros((length + 1, length + 1)))
    algorithm_2(Q, R, random.standard_normal(m), length)
    return Costs(Q.accesses + R.accesses, Q.flops, R.flops)


@pytest.mark.paper("Luo, Table 3.1")
@together(("m", "length"), SIZES)
def test_the_first_row_is_algorithm_2_as_printed(m: int, length: int) -> None:
    """6 m l + 3 m + 1 operations and l + 2 accesses are exactly lines 1 to 7 of
    Algorithm 2; line 8 has 2 m operations more.
    """
    found = cost_of_algorithm_2(m, length)
    assert found == (length + 2, 6 * m * length + 3 * m + 1, 0)
    assert found == TABLE["MGS/up/reorder"].printed.at(m, length, length + 1)
    line_8 = Counted(np.ones((m, 1)))
    line_8.dot(line_8.values[:, 0], np.ones(m))
    assert line_8.flops == 2 * m, "line 8 is a scalar product"


@pytest.mark.paper("Luo, Table 3.1")
def test_six_rows_have_a_fault() -> None:
    """6 of its 7 rows have a fault.

    Each by what the printed formulas say of a case that is easily counted.
    """
    m, length = 20, 7

    def printed(name: str, length: int, i: int) -> Costs:
        return TABLE[name].printed.at(m, length, i)

    def rotated_pairs(name: str) -> int:
        """The last term of the operations on R at i = l, where it should be 6."""
        at = printed(name, length, length).flops_of_r
        return at - 2 * m**2 - 8 * (m - length)

    full, solves = m - 1, 4 * length
    faults = {
        # The first column is computed from nothing that was there.
        "MGS/up/unorder": printed("MGS/up/unorder", length, 1).accesses
        > sum(p - 1 + 2 for p in range(1, length + 2)) + length,
        # The product with Q^T reads m columns.
        "Rot/up/reorder": printed("Rot/up/reorder", full, m).accesses == 0,
        "Rot/up/unorder": printed("Rot/up/unorder", full, 1).accesses == 0
        and rotated_pairs("Rot/up/unorder") == -6,
        # Four triangular solves read l rows or columns of R each.
        "CSNE/up/reorder": printed("CSNE/up/reorder", length, length + 1).accesses
        < 3 * m + solves,
        "CSNE/up/unorder": printed("CSNE/up/unorder", length, length).accesses
        < 3 * m + solves,
        # The last column leaves without a rotation.
        "Rot/down/NA": printed("Rot/down/NA", length, length).flops_of_r == -6
        and printed("Rot/down/NA", length, length).flops_of_q > 0,
    }
    assert all(faults.values())
    assert len(faults) == 6
    assert len(TABLE) == 7


@pytest.mark.paper("Luo, Table 3.1")
def test_an_update_without_a_rotation() -> None:
    """Without a rotation, for m = 30 and l = 29, an update by rotations has m + 1 = 31
    accesses, not 3 m - 2 l + 1 = 33.
    """
    m, length = 30, 29
    change = TABLE["Rot/up/reorder"]
    found = cost(change, spaced("Rot", True, m, length), length + 1)
    formula = change.correct.at(m, length, length + 1)
    assert found.accesses == m + 1 == 31
    assert formula.accesses == 3 * m - 2 * length + 1 == 33
    assert found[1:] == formula[1:]


@pytest.mark.paper("Luo, Table 3.1")
def test_gram_schmidt_costs_least_only_for_few_columns() -> None:
    """Of m = 1,000 rows, MGS has the fewest operations up to about l = 800, and by the
    printed formulas up to about 667.

    Not for all l <= m, as the caption says.
    """
    m, printed_limit, counted_limit = 1000, 667, 800

    def fewest(length: int, printed: bool) -> str:
        names = "MGS/up/reorder", "Rot/up/reorder", "CSNE/up/reorder"
        formulas = {
            name: TABLE[name].printed if printed else TABLE[name].correct
            for name in names
        }
        costs = {
            name: operations(formula.at(m, length, length + 1))
            for name, formula in formulas.items()
        }
        return min(costs, key=lambda name: costs[name])

    for limit, printed in ((printed_limit, True), (counted_limit, False)):
        found = [fewest(length, printed)[:3] for length in (limit - 2, limit + 2)]
        assert found == ["MGS", "Rot"]
