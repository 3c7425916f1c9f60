"""What a launch costs: the counts of the machine as `KernelCosts`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from ._code import Code, gpu_instructions, kinds_of
from ._costs import SECTOR_BYTES, ArrayCosts, KernelCosts, LineCosts, Spread
from ._memory import Memory
from .machine import Counted
from .module import rows_of
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

SHARED_MEMORY = 2**64 - 1

Tables = dict[str, list[list[Any]]]


def costs_of_launch(counted: Counted, source: KernelSource | None) -> KernelCosts:
    """The counts of a launch; the source is None for a program of PTX."""
    tables = rows_of(counted.counts)
    rows = np.array(tables["block"], np.float64)
    issued = np.array(tables["issued"], np.float64).reshape(-1, 2).T
    sampled = len(rows)
    costs = KernelCosts(
        counted.name,
        launches=1,
        blocks=sampled,
        threads=sampled * counted.threads,
        shared_bytes=counted.shared_bytes,
        source=source,
    )
    by_name = dict(zip(PER_BLOCK, rows.T, strict=True))
    for key in PER_BLOCK:
        if key not in ("global_sectors", "shared_wavefronts"):
            setattr(costs, key, int(by_name[key].sum()))
    work = sum(clocks * by_name[key] for key, clocks in WORK_CLOCKS.items())
    by_name["work"] = np.asarray(work)
    code = Code(counted.kernel)
    _add_instructions(costs, tables, code)
    sizes = _add_accesses(costs, tables, code, counted.memory)
    by_name["warp_instructions"] = issued[0]
    _add_chains(by_name, issued[1], tables, code, max(1, -(-counted.threads // 32)))
    costs.reuse.update(dict(tables["reuse"]))
    costs.per_block = {
        key: Spread(values.min().item(), values.mean().item(), values.max().item())
        for key, values in by_name.items()
    }
    costs.extrapolate(counted.blocks, sizes)
    return costs


def _add_chains(
    by_name: dict[str, npt.NDArray[np.float64]],
    issued: npt.NDArray[np.float64],
    tables: Tables,
    code: Code,
    warps: int,
) -> None:
    """What a warp of a block does one after the other, for predictions.

    The instructions are those of the block's longest warp. It waits for results and
    loads as often for each instruction as the mean of all warps. Other operations are
    the mean of its warps.
    """
    executed = [warps for warps, _ in tables["site"]]
    waits, global_trips, shared_trips = 0.0, 0, 0
    for block in code.blocks:
        count = executed[block[0]]
        waits += count * code.waits(block)
        global_trips += count * code.loads(block, "global")
        shared_trips += count * code.loads(block, "shared")
    share = issued / max(1, sum(executed))
    chain = {
        "issued": issued,
        "waits": share * waits,
        "shuffles": by_name["shuffles"] / warps,
        "votes": by_name["votes"] / warps,
        "global_trips": share * global_trips,
        "global_intervals": by_name["load_intervals"],
        "shared_trips": share * shared_trips,
        "shared_intervals": by_name["barriers"],
    }
    by_name.update({f"chain_{name}": values for name, values in chain.items()})


def _add_instructions(costs: KernelCosts, tables: Tables, code: Code) -> None:
    found: Counter[str] = Counter()
    for site, (warps, lanes) in enumerate(tables["site"]):
        if not warps:
            continue
        opcode = code.opcodes[site]
        kind, arithmetic = kinds_of(opcode)
        for name, count in gpu_instructions(opcode).items():
            costs.warp_instructions[name] += count * warps
        if not kind:
            continue
        by_line = costs.by_line.setdefault(code.lines[site], LineCosts())
        by_line.instructions += lanes
        by_line.warp_instructions += warps
        found[kind] += lanes
        if arithmetic:
            costs.arithmetic[arithmetic] += lanes
    costs.instructions.update(found)


def _add_accesses(
    costs: KernelCosts, tables: Tables, code: Code, memory: Memory
) -> dict[str, int]:
    """Add the accesses to memory; the sizes of the arrays."""
    names, sizes = memory.names_of_regions()
    arrivals = 0
    for site, number, requests, lanes, size, sectors, fewest, *rest in tables["access"]:
        wavefronts, fewest_wavefronts, lines = rest
        line, opcode = code.lines[site], code.opcodes[site]
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
            if site in code.merged_loads:
                costs.merged_requests += requests
                costs.merged_wavefronts += wavefronts
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
    for number, *distinct in tables["array"]:
        array = costs.arrays[names[number]]
        (
            array.distinct_bytes,
            array.distinct_sectors,
            array.loaded_sectors,
            array.written_sectors,
        ) = distinct
    found = tables["launch"][0]
    costs.atomic_requests, costs.atomic_lanes, costs.first_loads = found
    return sizes
