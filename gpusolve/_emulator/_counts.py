"""What a launch costs: the counts of the machine as `KernelCosts`."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ._costs import SECTOR_BYTES, ArrayCosts, KernelCosts, LineCosts, Spread
from ._lines import UNKNOWN_LINE, SourceLine
from ._memory import Memory
from .machine import Counted
from .module import LoadedKernel, library
from .nvrtc import KernelSource

PER_BLOCK = (
    "barriers",
    "warp_barriers",
    "shuffles",
    "votes",
    "atomics",
    "fences",
    "global_sectors",
    "shared_wavefronts",
    "load_intervals",
    "global_loads",
    "global_stores",
)
"""The counters of a block, in the order of ``Counter`` in ``machine/counts.cpp``."""

WORK_CLOCKS = {
    "global_sectors": SECTOR_BYTES / 64,
    "shared_wavefronts": 1.0,
    "shuffles": 1.0,
    "votes": 1.0,
}
"""Clocks of a multiprocessor for each unit of a block's work. Shared memory sends one
wavefront per clock, and it shuffles 4 bytes of 32 lanes, as in NVIDIA's programming
guide. That the L2 cache sends it 64 bytes, and that votes take as long as shuffles, is
assumed."""

GRID_BARRIER_FILE = "grid.cuh"
"""Its only atomic operation is the arrival of a block at a barrier of the grid."""

SITES, BLOCKS, ACCESSES, ARRAYS, ATOMICS, REUSE, ISSUED = range(7)
"""The tables of ``machine_counts``."""

WIDTHS = {SITES: 2, BLOCKS: len(PER_BLOCK), ACCESSES: 10, ARRAYS: 5, ATOMICS: 2}
WIDTHS |= {REUSE: 2, ISSUED: 1}
SHARED_MEMORY = 2**64 - 1

_ARITHMETIC = {
    "add": "add",
    "sub": "add",
    "mul": "multiply",
    "fma": "fused",
    "mad": "fused",
    "div": "divide",
    "sqrt": "square root",
}
"""The names of floating-point operations, by opcode."""

_INTEGER = frozenset(
    ("add", "sub", "mul", "mad", "div", "rem", "and", "or", "xor", "not", "shl", "shr")
    + ("neg", "abs", "min", "max", "bfe", "bfi", "bfind", "popc", "clz", "brev", "prmt")
    + ("shf", "lop3", "mul24", "mad24", "sad", "dp4a", "addc", "subc", "madc", "selp")
    + ("slct", "cnot")
)
_SPECIAL = frozenset(("rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"))

_EXPANDED: dict[str, dict[str, int]] = {
    "integer divide": {"integer": 14, "special": 3},
    "long divide": {"integer": 18, "special": 3, "compare": 1, "branch": 2},
    "float32 divide": {"float32": 6, "special": 1, "branch": 1},
    "float64 divide": {"float64": 9, "special": 1, "compare": 1, "branch": 1},
    "float32 square root": {"float32": 5, "special": 1, "branch": 1},
    "float64 square root": {"float64": 9, "special": 1, "compare": 1, "branch": 1},
}
"""PTX instructions that ptxas replaces by several, as its code for sm_90 has them."""

_STATEMENT = re.compile(r"^\s*(?:[\w$]+:\s*)?\{?\s*(?:@!?%?[\w$]+\s+)?([a-z][\w.:]*)")


Tables = dict[int, npt.NDArray[np.uint64]]


def _read(counts: ctypes.c_void_p) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """The tables of a launch, which the machine then deletes."""
    length = ctypes.c_uint64()
    library().machine_counts.restype = ctypes.POINTER(ctypes.c_uint64)
    for which, width in WIDTHS.items():
        found = library().machine_counts(counts, which, ctypes.byref(length))
        rows = np.zeros((length.value // width, width), np.uint64)
        if length.value:
            rows[:] = np.ctypeslib.as_array(found, rows.shape)
        yield which, rows
    library().machine_delete_counts(counts)


def costs_of_launch(
    counted: Counted,
    kernel: LoadedKernel,
    name: str,
    source: KernelSource | None,
    *,
    threads: int,
    shared_bytes: int,
    blocks: int,
) -> KernelCosts:
    """The counts of a launch.

    Parameters
    ----------
    counted : Counted
    kernel : LoadedKernel
    name : str
    source : KernelSource or None
        None for a program of PTX.
    threads, shared_bytes : int
        Of a block.
    blocks : int
        Of the launch; fewer may have run.
    """
    tables = dict(_read(counted.counts))
    rows = tables[BLOCKS].astype(np.float64)
    sampled = len(rows)
    costs = KernelCosts(
        name,
        launches=1,
        blocks=sampled,
        threads=sampled * threads,
        shared_bytes=shared_bytes,
        source=source,
    )
    by_name = dict(zip(PER_BLOCK, rows.T, strict=True))
    for key in PER_BLOCK:
        if key not in ("global_sectors", "shared_wavefronts"):
            setattr(costs, key, int(by_name[key].sum()))
    work = sum(clocks * by_name[key] for key, clocks in WORK_CLOCKS.items())
    by_name["work"] = np.asarray(work)
    opcodes = _Opcodes(kernel)
    _add_instructions(costs, tables, opcodes)
    sizes = _add_accesses(costs, tables, opcodes, counted.memory)
    total = sum(costs.instructions.values()) / max(1, sampled)
    by_name["instructions"] = np.full(sampled, total)
    _add_chains(by_name, tables, max(1, -(-threads // 32)))
    costs.reuse.update(dict(tables[REUSE].tolist()))
    costs.first_loads = int(tables[ISSUED][-1, 0])
    costs.per_block = {
        key: Spread(values.min().item(), values.mean().item(), values.max().item())
        for key, values in by_name.items()
    }
    costs.extrapolate(blocks, sizes)
    return costs


def _add_chains(
    by_name: dict[str, npt.NDArray[np.float64]], tables: Tables, warps: int
) -> None:
    """What a warp executes one after the other, for predictions.

    The instructions are those of the block's longest warp, other operations the mean of
    its warps. Loads wait for each other as often as barriers separate them; what
    instructions wait for each other's results is not counted.
    """
    chain = {
        "issued": tables[ISSUED][:-1, 0].astype(np.float64),
        "waits": np.zeros_like(by_name["barriers"]),
        "shuffles": by_name["shuffles"] / warps,
        "votes": by_name["votes"] / warps,
        "global_trips": by_name["load_intervals"],
        "global_intervals": by_name["load_intervals"],
        "shared_trips": by_name["barriers"],
        "shared_intervals": by_name["barriers"],
    }
    by_name.update({f"chain_{name}": values for name, values in chain.items()})


class _Opcodes:
    """The opcode and the source line of each instruction."""

    def __init__(self, kernel: LoadedKernel) -> None:
        self._sites = kernel.sites
        self._files = kernel.module.program.files
        self._text = kernel.module.program.lines()

    def opcode(self, site: int) -> str:
        line = self._sites[site].ptx_line
        found = _STATEMENT.match(self._text[line - 1])
        return found[1] if found else ""

    def line(self, site: int) -> SourceLine:
        row = self._sites[site]
        if not row.line or row.file not in self._files:
            return UNKNOWN_LINE
        return SourceLine(Path(self._files[row.file]), row.line)


def kinds_of(opcode: str) -> tuple[str, str]:
    """The kind of an instruction, and its name among the arithmetic; empty if none.

    Examples
    --------
    >>> kinds_of("fma.rn.f64"), kinds_of("setp.lt.s32"), kinds_of("mov.u32")
    (('float', 'float64 fused'), ('compare', ''), ('', ''))
    """
    name, _, rest = opcode.partition(".")
    type = rest.rpartition(".")[2]
    if name == "setp" or name == "set":
        return "compare", ""
    if name == "bra" or name == "brx":
        return "branch", ""
    if type in ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2") and name != "cvt":
        kind = "float64" if type == "f64" else "float32"
        if name in _ARITHMETIC:
            return "float", f"{kind} {_ARITHMETIC[name]}"
        if name in _SPECIAL:
            return "special", ""
        return ("float", "") if name in ("neg", "abs", "min", "max") else ("", "")
    return ("integer", "") if name in _INTEGER and type != "pred" else ("", "")


def _gpu_instructions(opcode: str) -> dict[str, int]:
    """The instructions of a GPU for an instruction of PTX, by kind."""
    kind, arithmetic = kinds_of(opcode)
    if arithmetic in _EXPANDED and "approx" not in opcode:
        return _EXPANDED[arithmetic]
    name, type = opcode.partition(".")[0], opcode.rpartition(".")[2]
    if name in ("div", "rem") and kind == "integer":
        return _EXPANDED["long divide" if type.endswith("64") else "integer divide"]
    if kind == "float":
        return {"float64" if opcode.endswith("f64") else "float32": 1}
    return {kind: 1} if kind else {}


def _add_instructions(costs: KernelCosts, tables: Tables, opcodes: _Opcodes) -> None:
    found: Counter[str] = Counter()
    for site, (warps, lanes) in enumerate(tables[SITES].tolist()):
        if not warps:
            continue
        opcode = opcodes.opcode(site)
        kind, arithmetic = kinds_of(opcode)
        for name, count in _gpu_instructions(opcode).items():
            costs.warp_instructions[name] += count * warps
        if not kind:
            continue
        by_line = costs.by_line.setdefault(opcodes.line(site), LineCosts())
        by_line.instructions += lanes
        by_line.warp_instructions += warps
        found[kind] += lanes
        if arithmetic:
            costs.arithmetic[arithmetic] += lanes
    costs.instructions.update(found)


def _add_accesses(
    costs: KernelCosts, tables: Tables, opcodes: _Opcodes, memory: Memory
) -> dict[str, int]:
    """Add the accesses to memory; the sizes of the arrays."""
    names, sizes = memory.names_of_regions()
    arrivals = 0
    for site, number, requests, lanes, size, sectors, fewest, *rest in tables[
        ACCESSES
    ].tolist():
        wavefronts, fewest_wavefronts, lines = rest
        line, opcode = opcodes.line(site), opcodes.opcode(site)
        name = opcode.partition(".")[0]
        access = {"st": "store", "atom": "atomic", "red": "atomic"}.get(name, "load")
        by_line = costs.by_line.setdefault(line, LineCosts())
        by_line.instructions += lanes
        by_line.warp_instructions += requests
        costs.instructions[access] += lanes
        if access == "atomic":
            by_line.atomics += lanes
        if number == SHARED_MEMORY:
            by_line.shared_requests += requests
            by_line.shared_lanes += lanes
            by_line.shared_wavefronts += wavefronts
            by_line.fewest_wavefronts += fewest_wavefronts
            continue
        by_line.sectors += sectors
        by_line.fewest_sectors += fewest
        array = costs.arrays.setdefault(names[number], ArrayCosts())
        array.requests += requests
        array.lanes += lanes
        array.bytes += size
        array.sectors += sectors
        array.fewest_sectors += fewest
        array.lines += lines
        if access != "load":
            array.stored_sectors += sectors
        if access == "atomic" and line.file.name == GRID_BARRIER_FILE:
            arrivals += lanes
    costs.grid_barriers = arrivals // max(1, costs.blocks)
    for number, *distinct in tables[ARRAYS].tolist():
        array = costs.arrays[names[number]]
        (
            array.distinct_bytes,
            array.distinct_sectors,
            array.loaded_sectors,
            array.written_sectors,
        ) = distinct
    ((costs.atomic_requests, costs.atomic_lanes),) = tables[ATOMICS].tolist()
    return sizes
