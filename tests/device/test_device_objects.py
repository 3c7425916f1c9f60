"""The compiled object of the CPU solver: which is loaded, and which are refused."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from compilers import cpp_compiler

import gpusolve

# A user sees the object through `show_config` alone.
from gpusolve._device import object_files, objects
from gpusolve._device.kernels import source_directory

BUILD = "build it with `python setup.py build_ext --inplace`"
FOLDER = Path(gpusolve.__file__).parent / object_files.FOLDER

V3_FLAGS = {"abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
"""x86-64-v3, as Linux names the instructions of a CPU."""

OBJECT = """
extern "C" {{
int gpusolve_interface() {{ return {interface}; }}
int gpusolve_supports() {{ return {supports}; }}
const char* gpusolve_instruction_set() {{ return "any"; }}
const char* gpusolve_sources() {{ return "none"; }}
}}
"""

IN_A_FORK = """
import os
from gpusolve._device import objects
{before}
if (child := os.fork()) == 0:
    library = objects.load()
    os._exit(0 if library is not None and library.gpusolve_supports() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


Choose = Callable[[str], None]


@pytest.fixture(autouse=True)
def choose(monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Chooses an object by the environment, which chooses nothing before."""
    monkeypatch.delenv("GPUSOLVE_OBJECT", raising=False)
    return partial(monkeypatch.setenv, "GPUSOLVE_OBJECT")


@pytest.fixture
def built() -> Path:
    """The object in use, which ``make test`` builds."""
    if cpp_compiler() is None:
        pytest.skip("no C++ compiler")
    path = objects.chosen().path
    assert path is not None, f"{objects.chosen().reason}; {BUILD}"
    return path


def compiled(
    folder: Path, interface: int = objects.INTERFACE, supports: int = 1
) -> str:
    """Compile an object that says this about itself."""
    compiler = cpp_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, path = folder / "object.cpp", folder / f"object{object_files.SUFFIX}"
    source.write_text(OBJECT.format(interface=interface, supports=supports))
    subprocess.run(
        [*shlex.split(compiler), "-shared", "-fPIC", str(source), "-o", str(path)],
        check=True,
    )
    return str(path)


# ---- the built objects ---------------------------------------------------------------


def test_the_object_is_built_from_these_sources(built: Path) -> None:
    library = objects.load()
    assert library is not None
    assert objects.sources(library) == object_files.fingerprint(source_directory()), (
        BUILD
    )


@pytest.mark.skipif(
    object_files.machine() != "x86-64" or not Path("/proc/cpuinfo").exists(),
    reason="reads the features of an x86-64 CPU from Linux",
)
def test_the_instruction_set_is_the_best_one_of_this_cpu(built: Path) -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(set(line.split()) for line in lines if line.startswith("flags"))
    best = "x86-64-v3" if flags >= V3_FLAGS else "x86-64"
    assert built == FOLDER / object_files.file_name(best)


@pytest.mark.skipif(
    len(object_files.instruction_sets()) < 2, reason="one instruction set"
)
def test_the_next_object_is_used_if_the_best_one_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "FOLDER", tmp_path)
    names = map(object_files.file_name, object_files.instruction_sets())
    best, other = (tmp_path / name for name in names)
    found = objects.choose("")
    assert found.library is None
    assert best.name in found.reason
    assert other.name in found.reason
    Path(compiled(tmp_path)).rename(other)
    best.write_bytes(other.read_bytes()[:1000])
    assert objects.choose("")[1:] == (other, "")


def test_importing_the_package_loads_no_object() -> None:
    script = "from gpusolve._device import objects; print(objects._choices)"
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "{}"


# ---- what is refused -----------------------------------------------------------------


def test_the_environment_chooses_the_object(
    tmp_path: Path, choose: Choose, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = compiled(tmp_path)
    choose(path)
    assert objects.chosen().path == Path(path)
    assert objects.load() is objects.load()
    monkeypatch.chdir(tmp_path)
    choose(Path(path).name)
    assert objects.load() is not None
    choose("none")
    assert objects.load() is None
    assert objects.chosen().reason == "GPUSOLVE_OBJECT is none"


def test_an_object_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    """Linux would kill the process; all of its segments are in a file that loads."""
    whole = Path(compiled(tmp_path)).read_bytes()
    loads = []
    for length in range(0, len(whole), 331):
        path = tmp_path / f"cut-{length}"
        path.write_bytes(whole[:length])
        loads.append(objects.choose(str(path)).library is not None)
    assert not any(loads[: len(loads) // 2])
    assert loads == sorted(loads)
    machine = 0x12  # of the header of an ELF object
    for content in (
        b"This is a file, but not an object.\n" * 100,
        whole[:machine] + b"\xf3\x00" + whole[machine + 2 :],
        b"\0" * 64 + whole[64:],
        whole[:32] + b"\xff" * 8 + whole[40:],
    ):
        (tmp_path / "wrong").write_bytes(content)
        found = objects.choose(str(tmp_path / "wrong"))
        assert (found.library, found.path) == (None, None)
        assert found.reason.startswith("wrong")
    assert "is missing" in objects.choose(str(tmp_path / "missing")).reason
    assert objects.choose(str(tmp_path)).library is None


# ---- threads and processes -----------------------------------------------------------


def test_all_threads_get_the_same_object(tmp_path: Path, choose: Choose) -> None:
    path, threads = Path(compiled(tmp_path)), 8
    for k in range(20):
        copy = shutil.copy(path, tmp_path / f"copy-{k}{path.suffix}")
        choose(str(copy))
        together = Barrier(threads)

        def load(_: int, together: Barrier = together) -> ctypes.CDLL | None:
            together.wait()
            return objects.load()

        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(load, range(threads)))
        assert found[0] is not None
        assert len(set(map(id, found))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("before", ["", "objects.load()"], ids=["after", "before"])
def test_a_forked_process_has_the_object(tmp_path: Path, before: str) -> None:
    environment = {**os.environ, "GPUSOLVE_OBJECT": compiled(tmp_path)}
    script = IN_A_FORK.format(before=before)
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


# ---- the configuration ---------------------------------------------------------------


def test_show_config_names_the_object_or_says_why_there_is_none(
    built: Path, choose: Choose, capsys: pytest.CaptureFixture[str]
) -> None:
    gpusolve.show_config()
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "object" in line[:6]]
    assert line.endswith(f"{built.stem.removeprefix('gpusolve-')}, {built}")
    choose("none")
    gpusolve.show_config()
    found = capsys.readouterr().out
    assert "(GPUSOLVE_OBJECT is none)" in found
    assert "--no-binary" not in found


# ---- the hash of the sources ---------------------------------------------------------


def test_the_hash_covers_the_files_that_are_included(tmp_path: Path) -> None:
    files = {
        "cpu/a.cpp": '#include "b.h"\n#include <cmath>\n',
        "cpu/b.h": '#pragma once\n  #  include "../c.cuh"\n',
        "c.cuh": '#include "d.cuh"\n',
        "d.cuh": '#include "c.cuh"\n#include "missing.h"\n',
        "e.cuh": "",
        "f.cu": '#include "c.cuh"\n',
    }
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = object_files.fingerprint(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}// changed\n")
        changed = object_files.fingerprint(tmp_path) != before
        assert changed == (name not in ("e.cuh", "f.cu")), name
        (tmp_path / name).write_bytes(text.replace("\n", "\r\n").encode())
        assert object_files.fingerprint(tmp_path) == before, name
