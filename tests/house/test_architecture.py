"""The rules of ARCHITECTURE.md about rooms, imports and names."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import importlib.util
import inspect
import pickle
import pickletools
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from together import together

import gpusolve
from gpusolve import gam, sparse

PACKAGE = Path(gpusolve.__file__).parent

ROOMS = {
    "_emulator": set[str](),
    "emulator": {"_emulator"},
    "_device": {"_emulator"},
    "_numerics": set[str](),
    "monoid": {"_device"},
    "reference": {"_numerics", "monoid"},
    "_blocks": {"_device", "monoid", "reference"},
    "_gemv": {"_device", "reference"},
    "_nnls": {"_device", "_numerics", "reference"},
    "jax": {"_nnls"},
    "torch": {"_nnls"},
    "sparse": {"_blocks", "_device", "monoid", "reference"},
    "gam": {"_device"},
    "studies": {
        "_blocks",
        "_device",
        "_gemv",
        "_nnls",
        "_numerics",
        "emulator",
        "monoid",
        "reference",
        "sparse",
    },
}
"""Each room and the rooms that it may import, from the ground floor up."""

ASKING_FOR_STUDIES = {
    "gpusolve._blocks.scan",
    "gpusolve._nnls.dense",
    "gpusolve.sparse._coo_multiply",
}
"""Modules that import a study, inside a function, if its method or variant is given."""

PUBLIC_MODULES = (gpusolve, gam, sparse)
PUBLIC_CLASSES = [
    (module, public)
    for module in PUBLIC_MODULES
    for name in module.__all__
    if inspect.isclass(public := getattr(module, name))
]


def modules() -> dict[str, Path]:
    """The modules of the package and their files."""
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
        for path in sorted(PACKAGE.rglob("*.py"))
        if "cuda_src" not in path.parts
    }


def room_of(module: str) -> str:
    """The first part of a module's name below the package."""
    return (module.split(".") + [""])[1]


MODULES = {name.removesuffix(".__init__"): path for name, path in modules().items()}
KERNEL_MODULES = [
    name
    for name in MODULES
    if name.endswith("_kernel") and room_of(name) != "_emulator"
]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


@functools.cache
def imports(name: str) -> frozenset[str]:
    """The modules of the package that a module imports, also inside functions.

    Imports for type annotations count too.
    """
    return frozenset(imported(name, nodes_of(MODULES[name])))


def imported(name: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The modules of the package that the import statements among the nodes name."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        if not isinstance(node, ast.ImportFrom):
            continue
        module = importlib.util.resolve_name(
            "." * node.level + (node.module or ""), package
        )
        for alias in node.names:
            target = f"{module}.{alias.name}"
            if target in MODULES:
                yield target
            elif module in MODULES and alias.name != "__version__":
                yield module


def test_rooms_import_only_rooms_below_them() -> None:
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for name in MODULES:
        if room_of(name):
            found[room_of(name)] |= {room_of(other) for other in imports(name)}
    assert {room: below - {room, "studies"} for room, below in found.items()} == ROOMS


def test_specifications_import_numpy_alone() -> None:
    found = {
        library.partition(".")[0]
        for name, path in MODULES.items()
        if room_of(name) in ("_numerics", "reference")
        for node in nodes_of(path)
        for library in libraries(node)
    }
    assert found - sys.stdlib_module_names == {"numpy"}


def libraries(node: ast.AST) -> Iterator[str]:
    """The modules of other packages that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        yield node.module or ""


def test_studies_are_imported_when_they_are_asked_for() -> None:
    """By the modules that choose a method or a variant, inside their functions."""
    asking = set()
    for name, path in MODULES.items():
        if room_of(name) not in ("", "studies"):
            assert "studies" not in map(room_of, imported(name, tree_of(path).body))
            asking |= {name} if "studies" in map(room_of, imports(name)) else set()
    assert asking == ASKING_FOR_STUDIES


def test_modules_import_each_other_in_no_circle() -> None:
    graph = {name: imports(name) - {name} for name in MODULES if room_of(name)}
    graphlib.TopologicalSorter(graph).prepare()


@together(
    "package",
    [
        name
        for name, path in MODULES.items()
        if path.name == "__init__.py" and room_of(name)
    ],
)
def test_folders_import_each_other_in_no_circle(package: str) -> None:
    """The modules and the folders of a package; a folder stands for all inside it."""

    def child(name: str) -> str:
        return name.removeprefix(f"{package}.").partition(".")[0]

    graph: dict[str, set[str]] = {}
    for name in MODULES:
        if name.startswith(f"{package}."):
            below = {
                other for other in imports(name) if other.startswith(f"{package}.")
            }
            found = {child(other) for other in below} - {child(name)}
            graph.setdefault(child(name), set()).update(found)
    graphlib.TopologicalSorter(graph).prepare()


def test_every_constant_is_used() -> None:
    """Constants of studies are for benchmarks and tests, too."""
    used, assigned = set(), set()
    for name, path in MODULES.items():
        for node in nodes_of(path):
            match node:
                case (
                    ast.Name(id=constant, ctx=ast.Load()) | ast.Attribute(attr=constant)
                ):
                    used.add(constant)
                case ast.ImportFrom(names=names):
                    used |= {alias.name for alias in names}
                case ast.Name(id=constant) if room_of(name) != "studies":
                    assigned.add(constant)
    assert not {name for name in assigned if name.isupper()} - used


@together("name", KERNEL_MODULES)
def test_kernel_modules_call_no_public_function_and_do_not_validate(name: str) -> None:
    values = {*filter(inspect.isfunction, vars(importlib.import_module(name)).values())}
    public = [
        getattr(module, key) for module in PUBLIC_MODULES for key in module.__all__
    ]
    raised = {
        node.exc.func.id
        for node in nodes_of(MODULES[name])
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
    }
    assert not raised & {"TypeError", "ValueError"}
    assert not values & {*filter(inspect.isfunction, public)}


def test_no_module_is_hidden_by_another_object() -> None:
    """A name that a package binds is not the name of another module in it."""
    for name, path in MODULES.items():
        for node in tree_of(path).body if path.name == "__init__.py" else ():
            bound = {getattr(node, "name", "")}
            if isinstance(node, ast.ImportFrom):
                bound = {one.asname or one.name for one in node.names}
            inside = {f"{name}.{one}" for one in bound} & MODULES.keys()
            assert inside <= set(imported(name, [node])), path


# ---- pickles -------------------------------------------------------------------------


@together(("module", "public"), PUBLIC_CLASSES)
def test_public_classes_name_their_public_module(
    module: ModuleType, public: type[Any]
) -> None:
    assert public.__module__ == module.__name__


def test_a_pickled_result_names_only_public_modules() -> None:
    result = gpusolve.nnls(np.eye(2), [[1.0, -2.0], [3.0, 4.0]])
    stored = pickle.dumps(result)
    names = {str(argument) for _, argument, _ in pickletools.genops(stored)}
    assert "gpusolve" in names
    assert not any(name.startswith("gpusolve.") for name in names)
    loaded = pickle.loads(stored)
    np.testing.assert_equal(vars(loaded), vars(result))


def test_tests_import_helpers_only() -> None:
    """Tests and helpers import helpers; only tests/benchmarks imports benchmarks."""
    tests = Path(__file__).parents[1]
    scripts = {path.stem for path in (tests.parent / "benchmarks").glob("*.py")}
    for path in tests.rglob("*.py"):
        names = set(re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.M))
        assert not {name for name in names if name.startswith("test_")}, path
        if path.parent.name != "benchmarks":
            assert not names & {"benchmarks", *scripts}, path
