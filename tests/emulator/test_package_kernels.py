"""The machine knows the instructions of all kernels of the package."""

from __future__ import annotations

import pytest
from backends import needs_emulator
from kernel_resources import ARCHITECTURES
from kernel_sources import Source, all_sources, some_sources

from gpusolve._device.kernels import source_directory, source_of
from gpusolve._emulator.module import Module
from gpusolve._emulator.nvrtc import OPTIONS, compile_ptx

pytestmark = needs_emulator


def load(source: Source, architecture: int) -> None:
    """Compile a source to PTX, and load its kernels: an unknown instruction fails."""
    options = f"-I{source_directory()}", f"-arch=compute_{architecture}"
    text = source_of(source.file, source.definitions)
    name, instances = f"{source.file}.cu", source.instances
    compiled = compile_ptx(text, name, instances, (*OPTIONS, *options))
    module = Module(compiled.ptx)
    assert f".target sm_{architecture}" in compiled.ptx
    for symbol in compiled.symbols:
        assert module.kernel(symbol).sites


@pytest.mark.slow
def test_some_kernels_load_for_the_oldest_architecture() -> None:
    for source in some_sources():
        load(source, ARCHITECTURES[0])


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_kernels_load(architecture: int) -> None:
    for source in all_sources():
        load(source, architecture)
