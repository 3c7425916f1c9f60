"""Functions that Numba compiles, and the machine code that it keeps on disk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from gpusolve._device import compiled  # noqa: E402
from gpusolve._nnls import nnls_gram_numba  # noqa: E402


def doubling(sources: int) -> Callable[[float], float]:
    @compiled.compiled
    def double(x: float) -> float:
        _ = sources
        return 2 * x

    return double


def test_machine_code_is_renewed_when_the_sources_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    stats = []
    for sources in (1, 1, 2):
        double: Any = doubling(sources)
        assert double(3.0) == 6.0
        stats.append((len(double.stats.cache_hits), len(double.stats.cache_misses)))
    assert stats == [(0, 1), (1, 0), (0, 1)]


def test_a_fingerprint_covers_the_files_with_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_sources"
    package.mkdir()
    for name in ("__init__.py", "part_a.py", "part_b.py", "other.py"):
        (package / name).write_text("A = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = [compiled.fingerprint("some_sources", "part_")]
    for name in ("other.py", "part_a.py", "part_b.py"):
        (package / name).write_text("A = 2\n")
        found.append(compiled.fingerprint("some_sources", "part_"))
    assert found[0] == found[1]
    assert len(set(found)) == 3
    monkeypatch.delitem(sys.modules, "some_sources")


def test_the_solver_is_compiled_from_files_with_the_prefix() -> None:
    """A function of another file would not be in the fingerprint."""
    package = nnls_gram_numba.__name__.rpartition(".")[0]
    known = (f"{package}.numba_", nnls_gram_numba.__name__, compiled.__name__)
    modules = [sys.modules[name] for name in sys.modules if name.startswith(known[:2])]
    functions = [
        value.py_func
        for module in modules
        for value in vars(module).values()
        if hasattr(value, "py_func")
    ]
    assert len(functions) > 10
    assert all(one.__module__.startswith(known) for one in functions)


def test_undocumented_options_are_used_where_numba_has_them() -> None:
    assert not compiled.has_option("_no_such_option")
    assert ("_nrt" in compiled.OPTIONS) == compiled.has_option("_nrt")


def test_sums_in_any_order(rng: np.random.Generator) -> None:
    """Not the bits of the sum from left to right, but those of each call."""

    @compiled.reordered
    def total(values: Any) -> float:
        found = 0.0
        for i in range(len(values)):
            found += values[i]
        return found

    @compiled.compiled
    def twice(values: Any) -> tuple[float, float]:
        return total(values), total(values)

    values = rng.random(1001)
    first, second = twice(values)
    assert first == second == pytest.approx(values.sum(), rel=1e-14)
