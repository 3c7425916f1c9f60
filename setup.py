"""Compiles the CPU solver and, on Linux, the emulator's machine ahead of time.

Most of the rest is in ``setup.cfg``. The files of ``cuda_src/cpu/`` and of
``gpusolve/_emulator/machine/`` become shared objects with a C interface, one for each
instruction set, in ``gpusolve/_objects/``. They know nothing of Python, so a wheel is
for a platform and for every Python. Without a compiler there are no objects, and the
wheel is for every platform: an installation never fails.

An editable installation is for one machine, so it has the best object for its CPU only.
``python setup.py build_ext --inplace`` compiles all objects of the solver in a
checkout. With ``GPUSOLVE_BUILD=gpusolve`` the emulator's machine is left out; with
``GPUSOLVE_BUILD=none`` nothing is compiled.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
KERNELS = ROOT / "cuda_src"
OBJECTS = runpy.run_path(str(ROOT / "gpusolve" / "_device" / "object_files.py"))

COMPILERS = {"win32": ("clang-cl", "clang++", "g++")}.get(
    sys.platform, ("c++", "g++", "clang++")
)

FLAGS = (
    "-O3",
    # Fused operations only where the source has them: others break sums in twice the
    # precision, and would give other bits on other machines.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
)
SHARED = ("-fPIC", "-fvisibility=hidden")


class Part(NamedTuple):
    """Sources that become an object for each instruction set."""

    name: str
    title: str
    folder: Path
    flags: tuple[str, ...]


SOLVER = Part("gpusolve", "the solver", KERNELS / "cpu", ("-std=c++17",))
MACHINE = Part(
    "machine",
    "the emulator's machine",
    ROOT / "gpusolve" / "_emulator" / "machine",
    # Signed integers wrap on overflow, as on a GPU.
    ("-std=c++20", "-fwrapv", "-fno-strict-aliasing", "-pthread"),
)
NAMES = os.environ.get("GPUSOLVE_BUILD", "gpusolve machine").split()
PARTS = tuple(
    part
    for part in ((SOLVER, MACHINE) if sys.platform == "linux" else (SOLVER,))
    if part.name in NAMES
)
"""The parts that are built; the machine is for Linux."""

FOR_EVERY_CPU = "object.cpp"
"""The file that tells whether a CPU has the instruction set of the object."""


class FailedError(Exception):
    """A command of the compiler failed."""


def compiler() -> list[str]:
    """``$CXX``, else a compiler on the path; empty if there is none."""
    user = shlex.split(os.environ.get("CXX", ""))
    for command in [user] if user else [[name] for name in COMPILERS]:
        if path := shutil.which(command[0]):
            return [path, *command[1:]]
    return []


def like_msvc(command: Sequence[str]) -> bool:
    """Whether a compiler takes the options of Microsoft's: clang-cl does."""
    return any(Path(part).stem.lower() == "clang-cl" for part in command)


def for_msvc(options: Sequence[str]) -> list[str]:
    """Options of clang as clang-cl takes them."""
    return [f"/clang:{option}" for option in options]


def options_of(instruction_set: str) -> list[str]:
    """Compiler options for an instruction set."""
    if instruction_set == "x86-64-v3":
        return ["-march=x86-64-v3"]
    return []


def architecture() -> list[str]:
    """Compiler options that choose the CPU for which this Python runs, on macOS."""
    return ["-arch", platform.machine()] if sys.platform == "darwin" else []


def compile_one(
    command: Sequence[str], part: Part, source: Path, instruction_set: str, out: Path
) -> None:
    """Compile one source file of a part to `out`."""
    own = [] if source.name == FOR_EVERY_CPU else options_of(instruction_set)
    name = instruction_set.upper().replace("-", "_")
    defined = [
        f'-DGPUSOLVE_SOURCES="{OBJECTS["fingerprint"](KERNELS)}"',
        f'-DGPUSOLVE_INSTRUCTION_SET="{instruction_set}"',
        f"-DGPUSOLVE_{name}",
        f"-I{KERNELS}",
    ]
    if like_msvc(command):
        options = ["/std:c++17", "/EHsc", "/MD", *for_msvc([*FLAGS, *own]), *defined]
        run([*command, "/nologo", "/c", *options, str(source), f"/Fo{out}"])
    else:
        options = [*part.flags, *FLAGS, *SHARED, *architecture(), *own, *defined]
        run([*command, "-c", *options, str(source), "-o", str(out)])


def link(command: Sequence[str], parts: Sequence[Path], out: Path) -> None:
    """Link compiled files to the shared object `out`."""
    files = [str(part) for part in parts]
    if like_msvc(command):
        run([*command, "/nologo", "/LD", *files, f"/Fe{out}"])
        return
    run([*command, "-shared", "-pthread", *architecture(), *files, "-o", str(out)])


def run(command: Sequence[str]) -> None:
    """Run a command; `FailedError` has what it printed."""
    found = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if found.returncode:
        raise FailedError(f"{shlex.join(command)}\n{found.stdout}")


def build(
    command: Sequence[str], part: Part, instruction_set: str, folder: Path
) -> Path:
    """Build the object of a part for an instruction set.

    It is put in its place when it is complete: a process that has loaded an object of
    before keeps it.
    """
    target = folder / str(OBJECTS["file_name"](instruction_set, part.name))
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        ThreadPoolExecutor() as pool,
    ):
        sources = sorted(part.folder.glob("*.cpp"))
        compiled = [Path(scratch, f"{source.stem}.o") for source in sources]
        waiting = [
            pool.submit(compile_one, command, part, source, instruction_set, out)
            for source, out in zip(sources, compiled, strict=True)
        ]
        for one in waiting:
            one.result()
        link(command, compiled, built := Path(scratch, target.name))
        os.replace(built, target)
    return target


def build_all(folder: Path, for_this_cpu: Sequence[Part] = ()) -> None:
    """Build the objects of the parts in a folder, which has no others afterwards.

    Some parts are built for this CPU only: the first object that it can run.
    """
    command, built = compiler(), []
    folder.mkdir(parents=True, exist_ok=True)
    if not command:
        warn("no C++ compiler was found")
    for part in PARTS if command else ():
        if not any(part.folder.glob("*.cpp")):
            continue
        for name in OBJECTS["instruction_sets"]():
            try:
                built.append(path := build(command, part, name, folder))
                own = part in for_this_cpu
                if own and ctypes.CDLL(str(path)).gpusolve_supports():
                    break
            except (FailedError, OSError) as error:
                warn(f"{part.title} for {name} was not compiled:\n{error}")
    for part in PARTS:
        for file in {*folder.glob(f"{part.name}-*{OBJECTS['SUFFIX']}")} - {*built}:
            file.unlink()


def warn(reason: str) -> None:
    """Print why least squares on the CPU will be slow, or kernels cannot run there."""
    print(
        f"warning: {reason}\n"
        "gpusolve works without the compiled solver: SciPy and NumPy take its place; "
        "the emulator does not work without its machine.",
        file=sys.stderr,
    )


class BuildObjects(build_ext):
    """Builds the objects in the package: of the checkout, or of the build folder."""

    def run(self) -> None:
        try:
            machine = (MACHINE,) if self.inplace else ()
            build_all(self.folder, PARTS if self.editable_mode else machine)
        except (OSError, ValueError) as error:
            warn(f"the solver was not compiled: {error}")

    @property
    def folder(self) -> Path:
        """The folder of the objects."""
        inside = self.inplace or self.editable_mode
        return Path(ROOT if inside else self.build_lib) / "gpusolve" / OBJECTS["FOLDER"]

    def get_outputs(self) -> list[str]:
        return sorted(map(str, self.folder.glob(f"*{OBJECTS['SUFFIX']}")))

    def get_output_mapping(self) -> dict[str, str]:
        return {}


commands: dict[str, Any] = {"build_ext": BuildObjects}

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1, which can build in a checkout
    pass
else:

    class Wheel(bdist_wheel):
        """A wheel for a platform if it has objects, else for every platform."""

        def run(self) -> None:
            self.run_command("build_ext")
            if not self.get_finalized_command("build_ext").get_outputs():
                self.distribution.ext_modules = []
                self.reinitialize_command("build", reinit_subcommands=True)
                self.root_is_pure = True
            super().run()

        def get_tag(self) -> tuple[str, str, str]:
            name = super().get_tag()[2]
            # The objects are for one CPU, even if Python is for both of a Mac's.
            return "py3", "none", name.replace("universal2", platform.machine())

    commands["bdist_wheel"] = Wheel


def long_description() -> str:
    """The README with absolute links, for a package index.

    They lead to the URL of the source in ``setup.cfg``. Without it they become text.
    """
    named = re.search(r"^ +Source = (\S+)", (ROOT / "setup.cfg").read_text(), re.M)

    def absolute(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        folder = "raw" if image else "blob"
        return f"{image}[{text}]({named[1]}/{folder}/HEAD/{target})" if named else text

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(!?)\[([^]]*)\]\((?!https?:|#)([^)]*)\)", absolute, readme)


setup(
    cmdclass=commands,
    long_description=long_description(),
    packages=[*find_packages(include=["gpusolve*"]), "gpusolve.cuda_src"],
    ext_modules=[
        Extension(
            f"gpusolve.{OBJECTS['FOLDER']}",
            sources=[
                path.relative_to(ROOT).as_posix()
                for path in sorted((KERNELS / "cpu").glob("*.cpp"))
            ],
            optional=True,
        )
    ],
)
