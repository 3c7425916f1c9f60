"""Every kernel compiles for every architecture without spills, to the machine code of
the table. No GPU is needed.
"""

from __future__ import annotations

import re
from difflib import unified_diff

import pytest
from together import together

pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")

from kernel_code import changed_code, has_disassembler, written_code
from kernel_resources import (
    ARCHITECTURES,
    TABLE,
    CompileError,
    Resources,
    Source,
    all_sources,
    compile_source,
    registers,
    resources_of,
    resources_on,
    some_sources,
    written_registers,
)

from gpusolve._device.kernels import source_directory
from gpusolve._nnls import (
    nnls_constrained_kernel,
    nnls_gram_kernel,
    nnls_qr_kernel,
)
from gpusolve.studies import _nnls_mgs_kernel

needs_disassembler = pytest.mark.skipif(
    not has_disassembler(), reason="needs nvdisasm, from nvidia-cuda-nvdisasm"
)


def limits_of(instance: str) -> tuple[int, int]:
    """Resident threads, and a limit on a block's static shared memory."""
    if instance.startswith("nnls_qr"):
        return nnls_qr_kernel.MAX_THREADS, nnls_qr_kernel.STATIC_SHARED_MEMORY
    if instance.startswith("nnls_constrained"):
        blocks = nnls_constrained_kernel.BLOCKS
        threads = blocks * nnls_constrained_kernel.MAX_THREADS
        return threads, nnls_constrained_kernel.STATIC_SHARED_MEMORY
    if instance.startswith("nnls_mgs"):
        return _nnls_mgs_kernel.THREADS, _nnls_mgs_kernel.STATIC_SHARED_MEMORY
    if instance.startswith("nnls_gram"):
        blocks = 2 if "BlockTeam" in instance else 1
        threads = blocks * nnls_gram_kernel.BLOCK_THREADS
        return threads, nnls_gram_kernel.STATIC_SHARED_MEMORY
    # Any architecture has that much shared memory.
    of_512 = "reduce512" in instance or "as_published" in instance
    return 512 if of_512 else 256, 48 * 1024


def check(rows: list[Resources]) -> None:
    """No kernel spills, and registers and shared memory are within the limits.

    `as_solved` has the addresses of its arrays on a stack, where a profile of shared
    memory does not count them. `nnls_constrained` calls functions that change a few
    numbers of a system; they would be too much code if they were inlined.
    """
    stacks = "as_solved", "nnls_constrained"
    for row in rows:
        assert row.spilled_bytes == 0, row
        assert row.stack_bytes == 0 or row.instance.startswith(stacks), row
        threads, shared_bytes = limits_of(row.instance)
        assert row.registers * threads <= 65536, row
        assert row.shared_bytes <= shared_bytes, row


SOLVERS = {
    "nnls_constrained",
    "nnls_gram",
    "nnls_qr",
    "nnls_mgs",
    "qr_steps",
    "stacked",
    "boosting",
}
"""Files of kernels that take more than a second to compile, which a slow test does."""


@pytest.mark.parametrize(
    "source",
    [one for one in some_sources() if one.file not in SOLVERS],
    ids=lambda one: one.file,
)
def test_resources_of_some_kernels_are_those_of_the_table(source: Source) -> None:
    rows = resources_on(90, [source])
    check(rows)
    changed = set(registers(rows)) - set(written_registers(90))
    assert not changed, "update the table with: make tables"


def changed_resources(architecture: int, rows: list[Resources]) -> str:
    """Lines of the table and of the rows that differ."""
    written, found = written_registers(architecture), registers(rows)
    return "\n".join(
        unified_diff(written, found, TABLE.name, "NVRTC", lineterm="", n=0)
    )


@needs_disassembler
@pytest.mark.slow
def test_all_kernels_are_those_of_the_tables() -> None:
    """Each source is compiled once, for its resources and for its code."""
    rows, code = [], []
    for source in all_sources():
        rows += resources_of(source, 90)
        code += changed_code([source])
    check(rows)
    changed = changed_resources(90, rows) + "\n".join(code)
    assert not changed, f"update the tables with: make tables\n{changed}"


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("architecture", sorted({*ARCHITECTURES} - {90}))
def test_resources_on_other_architectures(architecture: int) -> None:
    rows = resources_on(architecture, all_sources())
    check(rows)
    changed = changed_resources(architecture, rows)
    assert not changed, f"update the table with: make tables\n{changed}"


def test_the_table_of_code_has_all_kernels() -> None:
    assert list(written_code()) == [
        (source.operators, instance)
        for source in all_sources()
        for instance in source.instances
    ]


def test_a_compile_error_is_reported() -> None:
    broken = Source("", "scatter", "", ("scatter<Nowhere>",))
    with pytest.raises(CompileError, match="Nowhere"):
        compile_source(broken, 90)


def test_launcher_and_kernel_have_the_same_block_limit() -> None:
    source = (source_directory() / "nnls_qr.cu").read_text()
    limit = nnls_qr_kernel.MAX_THREADS
    assert f"constexpr int nnls_max_threads = {limit};" in source
    source = (source_directory() / "published_qr.cuh").read_text()
    limit = _nnls_mgs_kernel.THREADS
    assert f"constexpr int published_threads = {limit};" in source


@together("size", [(3, 3), (30, 10), (400, 400), (2000, 2000)])
def test_teams_of_launcher_and_kernel_have_the_same_threads(
    size: tuple[int, int],
) -> None:
    source = (source_directory() / "device_teams.cuh").read_text()
    teams = nnls_gram_kernel.teams_for(nnls_gram_kernel.Size(*size), 1)
    for team in teams:
        name, _, lanes = team.name.partition("<")
        # A far block has the threads of a block.
        name = name.removeprefix("Far")
        found = re.search(rf" {name} {{.*?threads = (\d+)", source, re.DOTALL)
        assert found is not None
        assert team.threads <= int(found[1])
        if team.is_small:
            assert team.threads == team.teams * int(lanes.partition(",")[0])
            assert team.threads == int(found[1])
