"""Loops of machine code, and the order of its instructions.

A loop is a set of instructions that reach each other; its head is the instruction where
it is entered. Inner loops are the loops that remain without the jumps to the head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np
from kernel_code import LIBRARY, Instruction, Listing
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

SLOW_PATH = re.compile(r"slowpath|mediumpath|_f64_full")
"""Functions of the compiler for quotients and roots that are tiny or huge."""

Edge = tuple[int, int]


class Loop(NamedTuple):
    """The first and the last instruction of a trip, all instructions, and whether no
    loop is inside. A function that is called in a loop is inside.
    """

    head: int
    last: int
    members: frozenset[int]
    is_innermost: bool


class Graph(NamedTuple):
    """Where each instruction leads, without the jumps that close a loop.

    An instruction leads to instructions of higher rank.
    """

    ahead: list[list[int]]
    rank: list[int]
    loops: list[Loop]


def graph_of(listing: Listing) -> Graph:
    code = listing.code
    edges = edges_of(listing)
    loops = mark_outer(listing, list(find_loops(edges, len(code))))
    closing = {(i, loop.head) for loop in loops for i in loop.members}
    ahead: list[list[int]] = [[] for _ in code]
    for i, j in edges:
        if (i, j) not in closing:
            ahead[i].append(j)
    rank = [0] * len(code)
    behind = TopologicalSorter(dict(enumerate(ahead))).static_order()
    for position, i in enumerate(behind):
        rank[i] = len(code) - position
    return Graph(ahead, rank, loops)


def edges_of(listing: Listing) -> list[Edge]:
    """The steps from one instruction to another, inside a function.

    Slow paths lead nowhere, and the lanes of a warp never part at a ``BRA.DIV``. The
    padding at the end of the code, which jumps to itself, is not a loop.
    """
    code, labels = listing
    steps = [
        (i, i + 1)
        for i, one in enumerate(code[:-1])
        if not one.is_last and (one.predicate or not calls_slow_path(one))
    ]
    jumps = [
        (i, labels[one.target])
        for i, one in enumerate(code)
        if one.is_jump and one.opcode != "BRA.DIV"
    ]
    return steps + [(i, j) for i, j in jumps if i != j]


def calls_slow_path(one: Instruction) -> bool:
    return one.is_call and LIBRARY in one.target and bool(SLOW_PATH.search(one.target))


def find_loops(edges: list[Edge], nodes: int) -> Iterator[Loop]:
    """All loops of a graph, each before its inner loops."""
    sources: list[list[int]] = [[] for _ in range(nodes)]
    for i, j in edges:
        sources[j].append(i)
    left = [edges]
    while left:
        for members, inside in components(left.pop(), nodes):
            entries = [j for j in members if not members.issuperset(sources[j])]
            head = min(entries or members)
            last = max(i for i, j in inside if j == head)
            inner = [(i, j) for i, j in inside if j != head]
            is_innermost = next(components(inner, nodes), None) is None
            yield Loop(head, last, members, is_innermost)
            left.append(inner)


def components(
    edges: list[Edge], nodes: int
) -> Iterator[tuple[frozenset[int], list[Edge]]]:
    """The nodes that reach each other, and the edges between them."""
    if not edges:
        return
    graph = csr_array((np.ones(len(edges)), np.transpose(edges)), (nodes, nodes))
    _, component = connected_components(graph, connection="strong")
    inside: dict[int, list[Edge]] = {}
    for i, j in edges:
        if component[i] == component[j]:
            inside.setdefault(component[i], []).append((i, j))
    for some in inside.values():
        yield frozenset(i for edge in some for i in edge), some


def mark_outer(listing: Listing, loops: list[Loop]) -> list[Loop]:
    """The loops; a loop that calls a function with a loop is not innermost."""
    code, labels = listing
    calls = {
        i: code[labels[one.target]].function
        for i, one in enumerate(code)
        if one.is_call
    }
    looping = {code[loop.head].function for loop in loops}
    while more := {code[i].function for i in calls if calls[i] in looping} - looping:
        looping |= more
    outer = {i for i in calls if calls[i] in looping}
    return [
        loop._replace(is_innermost=loop.is_innermost and not loop.members & outer)
        for loop in loops
    ]
