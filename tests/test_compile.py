"""Every kernel compiles for every architecture, without spills, without a GPU."""

from __future__ import annotations

from difflib import unified_diff

import pytest

pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")

from kernel_resources import TABLE, CompileError, all_resources, compile_file, table

from gpusolve._kernels import source_directory
from gpusolve._nnls_kernel import MAX_THREADS, STATIC_SHARED_MEMORY


def test_resources_are_as_checked_in() -> None:
    rows = all_resources()
    for row in rows:
        assert row.spilled_bytes == 0, row
        assert row.stack_bytes == 0, row
        assert row.registers * MAX_THREADS <= 65536, row
        assert row.shared_bytes <= STATIC_SHARED_MEMORY, row
    written, found = TABLE.read_text().splitlines(), table(rows).splitlines()
    changed = "\n".join(
        unified_diff(written, found, TABLE.name, "NVRTC", lineterm="", n=0)
    )
    assert not changed, f"renew the table with: make resources\n{changed}"


def test_an_error_is_reported() -> None:
    broken = "template <class T> __global__ void broken(T* x) { x = nowhere; }"
    with pytest.raises(CompileError, match="nowhere"):
        compile_file(broken, ("broken<float>",), 90)


def test_host_and_kernel_agree_on_the_largest_block() -> None:
    source = (source_directory() / "nnls_qr.cu").read_text()
    assert f"constexpr int nnls_max_threads = {MAX_THREADS};" in source
