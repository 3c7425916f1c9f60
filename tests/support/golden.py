"""Outputs of least squares, stored before a change and compared after it.

    python tests/support/golden.py BEFORE.npz               # in the checkout before
    python tests/support/golden.py AFTER.npz --than BEFORE.npz
    GPUSOLVE_EMULATE=1 python tests/support/golden.py BEFORE.npz --systems 500

The calls are every public solver, on the families of the tests, with the options of
each. A line of the comparison is a family. Status 0 before and another status after is
"worse". "moved" counts certified systems whose residual norm has changed by more than
the certificates of both allow; `bits` are those of which x has other bits.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from bounded_systems import random_systems
from constrained_systems import random_constrained
from degenerate_systems import batches
from every_option import DTYPES, KINDS, METHODS, problem
from quadratic_programs import random_programs

import gpusolve

Array = np.ndarray[Any, Any]
Outputs = dict[str, Array]

SHAPES = (8, 3), (5, 9), (70, 40)
CONSTRAINED = "normal", "integers", "any", "deficient", "scaled", "redundant"
CONSTRAINED += "penalties", "weights"
EACH = "x", "rnorm", "dual", "kkt", "status"
"""The outputs of every call."""


def results(systems: int) -> Iterator[tuple[str, Any]]:
    """The name of a call, family first, and its result."""
    every = list(itertools.product(DTYPES, METHODS))
    for k, (family, A, b) in enumerate(batches(systems)):
        for dtype, method in every:
            name = f"nnls, {family}; {k} {dtype.__name__} {method}"
            yield name, gpusolve.nnls(A.astype(dtype), b.astype(dtype), method=method)
    for kind, shape, (dtype, method) in itertools.product(KINDS, SHAPES, every):
        given = problem(kind, shape, dtype)
        name = f"option, {kind}; {shape} {dtype.__name__} {method}"
        yield name, gpusolve.lsq_linear(**given, method=method)
    for k in range(systems // 200):
        family, bounded = random_systems(k, systems=200)
        dtype, method = every[k % len(every)]
        given = bounded.astype(dtype)
        name = f"bounds, {family}; {k} {dtype.__name__} {method}"
        solve = functools.partial(gpusolve.lsq_linear, given.A, given.b)
        yield name, solve(**given.options(), method=method)
        if bounded.sum_to is None:
            sparse = [scipy.sparse.csr_array(A) for A in given.A[:20]]
            options = bounded.take(slice(20)).astype(dtype).options()
            yield f"sparse; {k}", gpusolve.lsq_linear(sparse, given.b[:20], **options)
    for k, kind in itertools.product(range(systems // 400), CONSTRAINED):
        rng = np.random.default_rng([7, k])
        dtype, method = every[k % len(every)]
        constrained = random_constrained(rng, 50, 2 + k % 5, kind)
        given = type(constrained)(*[value.astype(dtype) for value in constrained])
        name = f"constraints, {kind}; {k} {dtype.__name__} {method}"
        options = given.options() | {"method": method}
        yield name, gpusolve.lsq_linear(given.A, given.b, **options)
    for k in range(systems // 200):
        family, program = random_programs(k, systems=200)
        dtype, method = every[k % len(every)]
        name = f"bounded_qp, {family}; {k} {dtype.__name__} {method}"
        yield name, program.astype(dtype).solve(gpusolve.bounded_qp, method=method)


def outputs(systems: int) -> Outputs:
    """The arrays of all calls by name; gradients and variances where they exist."""
    found = {}
    for name, result in results(systems):
        fields = {field: getattr(result, field) for field in EACH}
        if name.startswith("option"):
            gradients = result.vjp(np.ones_like(result.x))
            fields |= {f"vjp {field}": getattr(gradients, field) for field in "Ab"}
            fields["variance"] = result.variance(1.0)
        found |= {f"{name}/{field}": array for field, array in fields.items()}
    return found


def compare(before: Outputs, after: Outputs) -> Iterator[str]:
    """A line for each family whose outputs differ."""
    counts: dict[str, collections.Counter[str]] = {}
    for call in dict.fromkeys(name.rpartition("/")[0] for name in before):
        old, new = (
            {field: all_of[f"{call}/{field}"] for field in EACH}
            for all_of in (before, after)
        )
        certified = (old["status"] == 0) & (new["status"] == 0)
        allowed = 4 * (old["kkt"] + new["kkt"]) + 1e3 * np.finfo(old["x"].dtype).eps
        size = np.maximum(old["rnorm"], np.abs(old["x"]).max(axis=-1, initial=1))
        change = np.abs(new["rnorm"] - old["rnorm"])
        same = (old["x"] == new["x"]) | np.isnan(old["x"]) & np.isnan(new["x"])
        each = counts.setdefault(call.partition(";")[0], collections.Counter())
        each["systems"] += old["status"].size
        each["worse"] += int(((old["status"] == 0) & (new["status"] != 0)).sum())
        each["better"] += int(((old["status"] != 0) & (new["status"] == 0)).sum())
        each["other status"] += int((old["status"] != new["status"]).sum())
        each["moved"] += int((certified & (change > allowed * size)).sum())
        each["bits"] += int((~same.all(axis=-1)).sum())
        for name in before:
            if name.startswith(f"{call}/v"):
                close = np.isclose(before[name], after[name], 1e-6, 1e-9, True)
                each["derivatives"] += int((~close).sum())
    for family, each in counts.items():
        differs = {name: count for name, count in each.items() if count}
        if len(differs) > 1:
            yield f"{family}: {', '.join(f'{k} {v}' for k, v in differs.items())}"
    yield f"{sum(each['systems'] for each in counts.values())} systems"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--systems", type=int, default=20_000)
    parser.add_argument("--than", type=Path, help="the outputs before the change")
    asked = parser.parse_args()
    written = outputs(asked.systems)
    np.savez_compressed(asked.file, **written)
    if asked.than:
        with np.load(asked.than) as file:
            print(*compare(dict(file), written), sep="\n")
