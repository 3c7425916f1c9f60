"""Every kernel compiles for every architecture, without spills, without a GPU."""

from __future__ import annotations

from difflib import unified_diff

import pytest

pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")

from kernel_resources import (
    ARCHITECTURES,
    TABLE,
    CompileError,
    Source,
    compile_source,
    registers,
    resources_on,
    written_registers,
)

from gpusolve._kernels import source_directory
from gpusolve._nnls_kernel import MAX_THREADS, STATIC_SHARED_MEMORY

QUICK = 90
"""The architecture whose column of the table `make test` compiles."""

STATIC_LIMIT = 48 * 1024
"""The static shared memory that a block may have on any architecture."""


@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(one, marks=[] if one == QUICK else [pytest.mark.slow])
        for one in ARCHITECTURES
    ],
)
def test_resources_are_as_checked_in(architecture: int) -> None:
    rows = resources_on(architecture)
    for row in rows:
        assert row.spilled_bytes == 0, row
        assert row.stack_bytes == 0, row
        assert row.registers * MAX_THREADS <= 65536, row
        limit = STATIC_SHARED_MEMORY if "nnls" in row.instance else STATIC_LIMIT
        assert row.shared_bytes <= limit, row
    written, found = written_registers(architecture), registers(rows)
    changed = "\n".join(
        unified_diff(written, found, TABLE.name, "NVRTC", lineterm="", n=0)
    )
    assert not changed, f"renew the table with: make resources\n{changed}"


def test_an_error_is_reported() -> None:
    broken = Source("", "scatter", "", ("scatter<Nowhere>",))
    with pytest.raises(CompileError, match="Nowhere"):
        compile_source(broken, 90)


def test_host_and_kernel_agree_on_the_largest_block() -> None:
    source = (source_directory() / "nnls_qr.cu").read_text()
    assert f"constexpr int nnls_max_threads = {MAX_THREADS};" in source
