"""Runs every kernel of ``cuda_src/`` on small inputs, on the emulator.

Together the runs reach every barrier, which ``test_barriers.py`` checks; the tests of
the rooms check the results. A caller sets ``GPUSOLVE_EMULATE=1``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse
from kernel_calls import Settings, copied, named_calls
from kernel_resources import included
from own_kernels import FOLDER, empty, own_kernel

import gpusolve
from gpusolve._blocks.reduce import VARIANTS
from gpusolve._device import kernels
from gpusolve._nnls import nnls_gram_kernel
from gpusolve._nnls.nnls_gram_kernel import Team
from gpusolve.gam import (
    BoostedGAM,
    BSplines,
    bbs,
    bmono,
    brandom,
    btree,
    distributions,
)
from gpusolve.gam._boosting import gram_kernel
from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.problem import designs_of, prepare
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam._terms.rules import Cone
from gpusolve.gam.families import family_of
from gpusolve.sparse import multiply
from gpusolve.studies._qr_steps_kernel import DOWNDATE, ROWS, UPDATE, QRSteps, qr_steps

PRIMITIVES = FOLDER / "kernels" / "block_primitives.cu"


def rng() -> np.random.Generator:
    return np.random.default_rng(20261122)


# ---- blocks --------------------------------------------------------------------------


def block_primitive(name: str, threads: int, *options: Any, results: int = 1) -> None:
    values = rng().integers(0, 9, threads).astype(np.float32)
    made = [empty(threads, np.float32) for _ in range(results)]
    kernel = own_kernel("kernels/block_primitives.cu", name, np.float32)
    kernel((1,), (threads,), (values, *options, *made))


def calls(*names: str) -> list[Callable[[], object]]:
    """Runs of calls of `kernel_calls`."""
    return [partial(run_call, name) for name in names]


CALLS = dict(named_calls())
ON_EMULATOR = Settings(None, small=True)


def run_call(name: str) -> object:
    call = CALLS[name](ON_EMULATOR)
    return call.on([*map(copied, call.given)])


# ---- sparse products -----------------------------------------------------------------


def random_matrix(entries: int, width: int, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    columns = np.sort(generator.choice(width, entries, replace=False))
    rows, values = np.zeros(entries, int), generator.integers(1, 9, entries)
    return scipy.sparse.coo_array((values * 1.0, (rows, columns)), shape=(1, width))


def multiply_sparse(method: str, entries: int, **options: int) -> None:
    A, B = (random_matrix(entries, 4000, seed) for seed in (1, 2))
    multiply(A, B, method=method, **options)


# ---- boosting ------------------------------------------------------------------------


def evaluate_basis(rows: int, count: int) -> None:
    splines = BSplines(np.full(count, 0.1), np.full(count, 0.8), 6)
    splines.evaluate(rng().random((rows, count)))


few_rows_of_a_warp = mock.patch.object(gram_kernel, "ROWS_OF_A_WARP", 8)
"""Several blocks share the rows of a learner: they need 128 rows or more."""


@few_rows_of_a_warp
def boosted(rows: int, count: int) -> None:
    X = rng().random((rows, count))
    y = np.sin(6 * X[:, 1]) + X[:, 2]
    options = {"max_iter": 6, "learning_rate": 0.5, "method": "stacked"}
    BoostedGAM(n_basis=6, **options).fit(X, y)


RESPONSES: dict[str, Callable[[Any], Any]] = {
    "prop_odds": lambda y: np.digitize(y, [3.0, 8.0]) + 0.0,
    "coxph": lambda y: np.where(y % 3 == 0, -y, y),
}
"""The responses of families that are not for counts above zero."""


@few_rows_of_a_warp
def boosted_family(name: str, rows: int, fits: int = 2) -> None:
    """Scaled steps of a spline with inequalities, a spline, a factor and stumps.

    The inequalities are random, so that some stop to bind.
    """
    generator = rng()
    data = {"x": generator.random(rows), "z": generator.random(rows)}
    data["g"] = generator.integers(0, 3, rows).astype(np.float64)
    terms = [bmono("x", knots=9), bbs("z", knots=5), brandom("g", df=2)]
    terms += [btree("z", bins=9)]
    if name == "distribution":  # several blocks then share the rows of the learner
        terms = terms[1:2]
    frame = Frame.of(data)
    wave = 2 * np.sin(15 * data["x"])
    y = 1.0 + generator.poisson(np.exp(1 + wave + np.sin(6 * data["z"])))
    y = RESPONSES.get(name, np.asarray)(y)
    family: Any = distributions.NegativeBinomial()
    if name != "distribution":
        family = family_of(name)
    weights = generator.integers(1, 3, (fits, rows)).astype(np.float64)
    weights = np.repeat(weights, family.predictors, axis=0)
    problem = prepare(designs_of([term.learn(frame) for term in terms], frame), weights)
    rules = [
        replace(rule, constraint=generator.standard_normal((18, 13)))
        if isinstance(rule, Cone)
        else rule
        for rule in problem.rules
    ]
    start = np.linspace(0.1, 0.4, len(weights))[:, None]
    problem = replace(problem, rules=tuple(rules))
    units = np.ones(len(weights))
    given = Fits(problem, family, y, start, out_of_bag=weights, units=units)
    boost_family(given, steps=4)


# ---- least squares -------------------------------------------------------------------


def nnls(
    systems: int,
    m: int,
    n: int,
    *,
    order: str = "C",
    warm: bool = False,
    **options: Any,
) -> None:
    """Systems that append and remove columns; some have nearly equal columns."""
    generator = rng()
    A = generator.random((systems, m, n))
    A[1, :, 1] = A[1, :, 0] + 1e-9 * generator.random(m)
    b = (A @ generator.random((systems, n, 1)))[..., 0]
    b += 0.1 * generator.standard_normal(b.shape)
    if order == "F":
        A = np.ascontiguousarray(A.swapaxes(1, 2)).swapaxes(1, 2)
    if warm:
        options["warm_start"] = np.ones((systems, n))
    gpusolve.nnls(A, b, method="qr", **options)


def nnls_mgs(m: int, n: int, **options: Any) -> None:
    """Systems that remove variables, and a system with NaN."""
    generator = rng()
    A, b = generator.random((3, m, n)) - 0.2, generator.standard_normal((3, m))
    b[1, 0] = np.nan
    gpusolve.nnls(A, b, method="mgs", **options)


def nnls_within_bounds(
    m: int, n: int, *, has_sum: bool = False, warm: bool = False, **options: Any
) -> None:
    """Systems with their own bounds, weights and penalties; one system has NaN."""
    generator = rng()
    A = generator.standard_normal((3, n, m)).swapaxes(1, 2)
    b = generator.standard_normal((3, m))
    lower = generator.random((3, n)) - 0.7
    upper = np.where(generator.random(n) < 0.2, np.inf, lower + 0.4)
    l2 = generator.random((3, n))
    l2[1, 0] = np.nan
    given = {
        "bounds": (lower, upper),
        "weights": generator.random((3, m)),
        "l1": 0.1 * generator.random(n),
        "l2": l2,
        **options,
    }
    if has_sum:
        given["sum_to"] = np.clip(0.1, lower, upper).sum(axis=-1)
    if warm:
        given["warm_start"] = lower + 0.5 * generator.random((3, n))
    gpusolve.lsq_linear(A, b, method="qr", **given)


def nnls_constrained(
    m: int, n: int, rows: int, *, dtype: Any = np.float64, **options: Any
) -> None:
    """Three systems with bounds and rows, and quadratic programs with the same rows."""
    generator = rng()
    A = generator.standard_normal((3, m, n)).astype(dtype)
    b = 4 * generator.standard_normal((3, m)).astype(dtype)
    C = generator.standard_normal((2, rows, n)).astype(dtype)
    given: dict[str, Any] = {
        "bounds": (-0.5, 0.5),
        "A_ub": C[0],
        "b_ub": np.full(rows, 0.125, dtype),
        "A_eq": np.ones((1, n), dtype) * (1 + np.arange(n, dtype=dtype)),
        "b_eq": np.ones(1, dtype),
        **options,
    }
    gpusolve.lsq_linear(A, b, **given)
    G = np.swapaxes(A, 1, 2) @ A + np.eye(n, dtype=dtype)
    gpusolve.bounded_qp(G, (b[:, None] @ A)[:, 0], **given)


def nnls_in_attempts() -> None:
    """Columns that differ by rounding errors only, and one system with NaN."""
    generator = rng()
    A = generator.standard_normal((6, 5, 3)) @ generator.standard_normal((6, 3, 7))
    A[:, :, 4:] = 1e-13 * generator.standard_normal((6, 5, 3)) - A[:, :, 1:4]
    b = generator.standard_normal((6, 5))
    b[2, 0] = np.nan
    gpusolve.nnls(A, b, method="qr")


def by_gram(
    team: Team,
    *args: Any,
    solver: Callable[..., object] = gpusolve.lsq_linear,
    **options: Any,
) -> None:
    """The Gram method by this team.

    Shared memory holds 32 rows of the columns that are scaled. `choose` would remember
    the team of an earlier run.
    """
    choose = nnls_gram_kernel.choose.__wrapped__
    with (
        mock.patch.object(nnls_gram_kernel, "teams_for", return_value=[team]),
        mock.patch.object(nnls_gram_kernel, "choose", choose),
        mock.patch.object(nnls_gram_kernel, "HELD_ROWS", 32),
    ):
        solver(*args, method="gram", **options)


def nnls_gram(
    team: Team,
    m: int,
    n: int,
    *,
    shared: bool = False,
    warm: bool = False,
    **options: Any,
) -> None:
    """Systems that remove variables, and a system with NaN."""
    generator = rng()
    A = generator.random((1 if shared else 3, m, n)) - 0.2
    b = generator.random((3, m))
    b[1, 0] = np.nan
    if warm:
        options["warm_start"] = np.ones((3, n))
    by_gram(team, A, b, solver=gpusolve.nnls, **options)


def nnls_gram_within_bounds(
    team: Team, m: int, n: int, *, shared: bool = False, fixed_sum: bool = False
) -> None:
    """Bounds, weights, penalties and a start for each system; perhaps a fixed sum."""
    generator = rng()
    A = generator.random((1 if shared else 3, m, n)) - 0.5
    b = 2 * generator.standard_normal((3, m))
    lower = generator.random((3, n)) - 0.8
    upper = lower + 0.5
    by_gram(
        team,
        A,
        b,
        bounds=(lower, upper),
        weights=generator.random((3, m)),
        l1=0.1 * generator.random((3, n)),
        l2=0.1 * generator.random((3, n)),
        warm_start=lower + generator.choice([0, 0.2, 0.5], (3, n)),
        sum_to=(0.5 * (lower + upper)).sum(axis=1) if fixed_sum else None,
    )


def nnls_along_dependences(solver: Callable[..., object]) -> None:
    """Penalties on dependent columns: x moves along the dependences to bounds."""
    generator = rng()
    A, b = generator.standard_normal((2, 4, 9)), generator.standard_normal((2, 4))
    options = {"bounds": (-0.3, 0.5), "l1": generator.random((2, 9))}
    for sum_to in (None, 0.3):
        solver(A, b, sum_to=sum_to, **options)


def nnls_gram_of_similar_columns(team: Team) -> None:
    """Columns that differ by 1e-3: the first solution is not certified.

    The gradient is corrected, and H is recomputed: more than 20 variables stay.
    """
    generator = rng()
    A = generator.random((3, 50, 1)) + 1e-3 * generator.random((3, 50, 20))
    b = (A @ generator.random((3, 20, 1)))[..., 0]
    b += 1e-4 * generator.standard_normal(b.shape)
    by_gram(team, A, b, solver=gpusolve.nnls)


def change_factorisation(name: str, change: int) -> None:
    """Append the last of 40 columns to a QR factorisation, or remove one of 39."""
    A = rng().standard_normal((ROWS, 40)).astype(np.float32)
    Q, R = np.linalg.qr(A[:, :-1])
    given = QRSteps(A, np.pad(Q, ((0, 0), (0, 1))), np.pad(R, ((0, 1), (0, 1))))
    qr_steps(name, given, kernels.EmulatedDevice(), change, position=3)


LANES = Team("LaneTeam<4, 2>", 128, 32)
WARP = Team("LaneTeam<32, 1>", 128, 4)
BLOCK = Team("BlockTeam", 96)
GRID = Team("GridTeam", 64)

RUNS: dict[str, list[Callable[[], object]]] = {
    "block_primitives.cu": [
        partial(block_primitive, "sum_by_reduce512", 512),
        partial(block_primitive, "sum_and_maximum", 96, np.int32(3), results=2),
    ],
    "basis.cu": [partial(evaluate_basis, 700, 1), partial(evaluate_basis, 60, 40)],
    "coo_multiply.cu": calls("sparse.multiply, merge", "sparse.multiply, gallop"),
    "coo_versions.cu": [
        partial(multiply_sparse, "linear", 300),
        partial(multiply_sparse, "scratchpad", 300),
        partial(multiply_sparse, "binary", 300),
        partial(multiply_sparse, "even", 300),
        partial(multiply_sparse, "linear", 30, blocks=7, threads=1),
        partial(multiply_sparse, "scratchpad", 30, blocks=2, threads=1),
    ],
    "gemv.cu": calls(
        *(f"gemv, {one}" for one in ("naive", "threads_per_dot", "threads_per_row")),
        *(f"gemv, {one}" for one in ("a warp for a row", "blocks for a row")),
        *(f"gemv, {one}" for one in ("rows of columns", "long columns")),
    ),
    "gram.cu": [partial(boosted, 300, 3), partial(boosted, 60, 15)],
    "map.cu": calls("map", "zip", "unzip"),
    "nnls_gram.cu": [
        partial(nnls_gram, LANES, 7, 6),
        partial(nnls_gram, WARP, 16, 12),
        partial(nnls_gram, WARP, 16, 12, shared=True, warm=True, l2=0.1),
        partial(nnls_gram, BLOCK, 50, 40),
        partial(nnls_gram, BLOCK, 40, 50, shared=True, warm=True, l2=0.1),
        partial(nnls_gram_of_similar_columns, BLOCK),
        partial(nnls_gram, GRID, 16, 24),
        partial(nnls_gram_within_bounds, LANES, 7, 6),
        partial(nnls_gram_within_bounds, LANES, 7, 6, fixed_sum=True),
        partial(nnls_gram_within_bounds, WARP, 16, 12),
        partial(nnls_gram_within_bounds, WARP, 16, 12, shared=True, fixed_sum=True),
        partial(nnls_gram_within_bounds, BLOCK, 50, 40),
        partial(nnls_gram_within_bounds, BLOCK, 50, 40, fixed_sum=True),
        partial(nnls_gram_within_bounds, GRID, 16, 24, shared=True, fixed_sum=True),
        partial(nnls_along_dependences, partial(by_gram, WARP)),
        partial(nnls_along_dependences, partial(by_gram, BLOCK)),
    ],
    "nnls_qr.cu": [
        partial(nnls, 3, 16, 24),
        partial(nnls, 3, 16, 24, order="F"),
        partial(nnls, 3, 16, 24, l2=0.1, warm=True),
        partial(nnls, 3, 16, 24, order="F", maxiter=9),
        partial(nnls, 60, 10, 12, order="F"),
        partial(nnls, 3, 16, 24, warm=True, maxiter=0),
        partial(nnls, 2, 140, 60, warm=True),
        nnls_in_attempts,
        partial(nnls_along_dependences, partial(gpusolve.lsq_linear, method="qr")),
        partial(nnls_within_bounds, 16, 24),
        partial(nnls_within_bounds, 16, 24, warm=True),
        partial(nnls_within_bounds, 16, 24, has_sum=True),
        partial(nnls_within_bounds, 40, 24, has_sum=True, warm=True),
        partial(nnls_within_bounds, 5, 3, has_sum=True, warm=True),
        partial(nnls_within_bounds, 100, 30, has_sum=True, warm=True, maxiter=5),
    ],
    "nnls_constrained.cu": [
        partial(nnls_constrained, 9, 4, 6),
        partial(nnls_constrained, 40, 24, 40, l1=0.1, l2=0.1, sum_to=0.25),
        partial(nnls_constrained, 24, 40, 36, dtype=np.float32),
    ],
    "nnls_mgs.cu": [
        partial(nnls_mgs, 16, 24, warm_start=np.arange(24) % 2.0),
        partial(nnls_mgs, 8, 10, warm_start=np.ones(10)),
        partial(nnls_mgs, 12, 10, l1=0.1, l2=0.1, warm_start=np.ones(10), maxiter=9),
        partial(nnls_mgs, 520, 6, warm_start=np.ones(6)),
    ],
    "qr_steps.cu": [
        partial(change_factorisation, name, change)
        for name in ("as_published", "as_solved")
        for change in (UPDATE, DOWNDATE)
    ],
    "partition.cu": calls("stable_partition, mask"),
    "reduce.cu": calls(
        *(f"reduce, {variant}" for variant in VARIANTS),
        *(f"reduce, {one}" for one in ("many short rows", "one long row")),
        "reduce, map of two arrays",
    ),
    "scan.cu": calls(
        *(f"scan, {size}-byte elements" for size in (4, 8, 32)),
        *("segmented_scan, bytes", "scan, map of two arrays"),
    ),
    "scan_textbook.cu": calls(
        *(f"scan, {variant}" for variant in ("hierarchical", "sweep", "warp")),
        *("scan, sweep, exclusive", "segmented_scan, sweep"),
    ),
    "scatter.cu": calls("scatter", "stable_partition, two scans"),
    "segments.cu": calls("segmented_reduce, int32"),
    "spmv.cu": calls("sparse.spmv, csr", "sparse.SpMVPlan, many vectors"),
    "stacked.cu": [
        partial(boosted, 300, 3),
        partial(boosted, 60, 15),
        partial(boosted_family, "huber", 300),
        partial(boosted_family, "gamma", 60),
        partial(boosted_family, "gamma", 60, 20),
        partial(boosted_family, "negative_binomial", 100),
        partial(boosted_family, "prop_odds", 60),
        partial(boosted_family, "coxph", 100),
        partial(boosted_family, "distribution", 300, 1),
    ],
}
"""The runs for each file of kernels."""


def runs_of(name: str) -> list[Callable[[], object]]:
    """The runs of all kernels that use a file of ``cuda_src/``."""
    directory = kernels.source_directory()
    files = {file: directory / file for file in RUNS} | {PRIMITIVES.name: PRIMITIVES}
    users = [f for f, p in files.items() if name in {f} | included(p.read_text())]
    return [run for user in users for run in RUNS[user]]
