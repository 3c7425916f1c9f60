"""Every kernel compiles for every architecture without spills, to the machine code of
the table. No GPU is needed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from together import together

pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")

from kernel_costs import FALL, GROWTH
from kernel_resources import (
    ARCHITECTURES,
    DISASSEMBLED,
    CompileError,
    code_of,
    compile_source,
    current_rows,
    fingerprint,
    has_disassembler,
    is_within_limits,
    resources_of,
    written_rows,
)
from kernel_sources import Source, all_sources, some_sources

from gpusolve._device.kernels import source_directory

# Limits of launchers that their kernels must have, too.
from gpusolve._nnls import nnls_gram_kernel, nnls_qr_kernel
from gpusolve.studies import _nnls_mgs_kernel

needs_disassembler = pytest.mark.skipif(
    not has_disassembler(), reason="needs nvdisasm, from nvidia-cuda-nvdisasm"
)

SOLVERS = "nnls_constrained", "nnls_gram", "nnls_qr", "nnls_mgs", "qr_steps", "stacked"
"""Files of kernels that take more than a second to compile, which a slow test does."""


def assert_is_in_the_table(source: Source, architecture: int) -> None:
    """Sizes of code may differ as counts of `kernel_costs` may."""
    compiled = compile_source(source, architecture)
    rows = [written_rows()[source.operators, one] for one in source.instances]
    written = [row.resources[architecture] for row in rows]
    assert resources_of(source, compiled) == written, "make tables"
    if architecture == DISASSEMBLED and has_disassembler():
        for row, found in zip(rows, code_of(compiled), strict=True):
            size = row.code.instructions
            assert FALL * size <= found.instructions <= GROWTH * size, "make tables"
            assert found.generic_accesses == row.code.generic_accesses, "make tables"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(one, marks=[pytest.mark.slow] * (one.file in SOLVERS))
        for one in some_sources()
    ],
    ids=lambda one: one.file,
)
def test_a_kernel_of_each_file_is_that_of_the_table(source: Source) -> None:
    """The compiler has made the table: the fingerprints tell the rest."""
    first = source._replace(instances=source.instances[:1])
    assert_is_in_the_table(first, DISASSEMBLED)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_kernels_are_those_of_the_table(architecture: int) -> None:
    for source in all_sources():
        assert_is_in_the_table(source, architecture)


def test_the_table_is_of_the_present_kernels() -> None:
    """By fingerprints, so that only kernels are compiled that have changed."""
    rows = current_rows()
    assert [file for file in rows if rows[file] is None] == [], "make tables"
    found = [row for of_file in rows.values() for row in of_file or []]
    assert found == list(written_rows().values())
    for row in found:
        for resources in row.resources.values():
            assert is_within_limits(row.instance, resources), row


def test_a_fingerprint_is_of_code_and_rows_but_not_of_comments(
    copied_sources: Path,
) -> None:
    rows = [row for row in written_rows().values() if row.instance.startswith("scan<")]
    made = fingerprint("scan", rows)
    assert fingerprint("scan", rows[1:]) != made
    assert fingerprint("map", rows) != made
    changed = rows[0]._replace(resources={**rows[0].resources, 90: "1 + 2"})
    assert fingerprint("scan", [changed, *rows[1:]]) != made
    header = copied_sources / "look_back.cuh"
    text = header.read_text()
    header.write_text(f"// A comment.\n\n{text}")
    assert fingerprint("scan", rows) == made
    header.write_text(text.replace("{", "{ ;", 1))
    assert fingerprint("scan", rows) != made


@needs_disassembler
def test_counts_of_kernels_that_were_counted_by_hand() -> None:
    """A generic load and a generic store; other accesses are shared or global."""
    file = Path(__file__).parents[1] / "kernels" / "machine_code"
    source = Source("", str(file), "", ("generic_load", "generic_store"))
    for code in code_of(compile_source(source, DISASSEMBLED)):
        assert code.generic_accesses == 1
        assert 10 < code.instructions < 50


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
    teams = nnls_gram_kernel.teams_for(nnls_gram_kernel.Size(*size), True, True)
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
