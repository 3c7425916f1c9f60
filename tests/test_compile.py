"""Every kernel compiles for every architecture, without spills, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip(
    "cupy.cuda.nvrtc", reason="NVRTC comes with CuPy", exc_type=ImportError
)

from kernel_resources import CompileError, all_resources, compile_file, table

from gpusolve._kernels import source_directory
from gpusolve._nnls_kernel import MAX_THREADS, STATIC_SHARED_MEMORY

TABLE = Path(__file__).with_name("kernel_resources.md")


def test_resources_are_as_checked_in() -> None:
    rows = all_resources()
    for row in rows:
        assert row.spilled_bytes == 0, row
        assert row.stack_bytes == 0, row
        assert row.registers * MAX_THREADS <= 65536, row
        assert row.shared_bytes <= STATIC_SHARED_MEMORY, row
    assert table(rows) == TABLE.read_text(), "renew the table with: make resources"


def test_an_error_is_reported() -> None:
    broken = "template <class T> __global__ void broken(T* x) { x = nowhere; }"
    with pytest.raises(CompileError, match="nowhere"):
        compile_file(broken, ("broken<float>",), 90)


def test_host_and_kernel_agree_on_the_largest_block() -> None:
    source = (source_directory() / "nnls_qr.cu").read_text()
    assert f"constexpr int nnls_max_threads = {MAX_THREADS};" in source
