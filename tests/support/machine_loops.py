"""Loops of machine code, and the clocks of their trips.

A loop is a set of instructions that reach each other; its head is the instruction where
it is entered. Inner loops are the loops that remain without the jumps to the head.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np
from control_codes import NONE, SCOREBOARDS, Control, decode
from kernel_code import LIBRARY, Instruction, Listing
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from warp_clocks import BLOCKED, START, Clocks, advance, join

TRIPS = 8
"""Trips that are followed; the clocks are the mean of the last half."""

MOST_CASES = 32
"""Cases that are followed apart; the others are one case of unknown predicates."""

RETURN = -1
"""Where a function returns to."""

SLOW_PATH = re.compile(r"slowpath|mediumpath|_f64_full")
"""Functions of the compiler for quotients and roots that are tiny or huge."""

ENDS = {"EXIT", "RET"}

LOADS = {"LDG", "LD"}

PREDICATE = re.compile(r"U?P(\d|T)$")

Edge = tuple[int, int]

Case = frozenset[tuple[str, bool]]
"""Known values of predicates."""

Cases = dict[Case, Clocks]


class Loop(NamedTuple):
    """The first and the last instruction of a trip, all instructions, and whether no
    loop is inside. A function that is called in a loop is inside.
    """

    head: int
    last: int
    members: frozenset[int]
    is_innermost: bool


class Graph(NamedTuple):
    """Where the instructions lead, without the jumps that close a loop."""

    ahead: list[list[int]]
    rank: list[int]
    loops: list[Loop]


def is_slow_path(one: Instruction) -> bool:
    """Calls of the compiler's functions for tiny, huge and other rare quotients."""
    return one.is_call and LIBRARY in one.target and bool(SLOW_PATH.search(one.target))


def graph_of(listing: Listing) -> Graph:
    """Slow paths lead nowhere, and lanes of a warp never part at a ``BRA.DIV``.

    The padding at the end of the code jumps to itself.
    """
    code, labels = listing
    edges = [
        (i, i + 1)
        for i, one in enumerate(code[:-1])
        if not one.is_last and (one.predicate or not is_slow_path(one))
    ]
    edges += [
        (i, labels[one.target])
        for i, one in enumerate(code)
        if one.is_jump and one.opcode != "BRA.DIV" and labels[one.target] != i
    ]
    loops = innermost_marked(listing, list(find_loops(edges, len(code))))
    closing = {(i, loop.head) for loop in loops for i in loop.members}
    ahead: list[list[int]] = [[] for _ in code]
    for i, j in edges:
        if (i, j) not in closing:
            ahead[i].append(j)
    return Graph(ahead, ranks(ahead), loops)


def innermost_marked(listing: Listing, loops: list[Loop]) -> list[Loop]:
    """The loops, where a loop that calls a function with a loop is not innermost."""
    code, labels = listing
    calls = [
        (i, code[labels[one.target]].function)
        for i, one in enumerate(code)
        if one.is_call
    ]
    looping = {code[loop.head].function for loop in loops}
    while (
        more := {code[i].function for i, called in calls if called in looping} - looping
    ):
        looping |= more
    outer = {i for i, called in calls if called in looping}
    return [
        loop._replace(is_innermost=loop.is_innermost and not loop.members & outer)
        for loop in loops
    ]


def find_loops(edges: list[Edge], nodes: int) -> Iterator[Loop]:
    """All loops of a graph, each before its inner loops."""
    sources: list[list[int]] = [[] for _ in range(nodes)]
    for i, j in edges:
        sources[j].append(i)
    left = [edges]
    while left:
        for members, inside in components(left.pop(), nodes):
            head = min(
                (j for j in members if any(i not in members for i in sources[j])),
                default=min(members),
            )
            inner = [(i, j) for i, j in inside if j != head]
            is_innermost = not any(True for _ in components(inner, nodes))
            last = max(i for i, j in inside if j == head)
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


def ranks(ahead: list[list[int]]) -> list[int]:
    """A number for each node of an acyclic graph; edges lead to higher numbers."""
    left = np.zeros(len(ahead), int)
    for targets in ahead:
        for j in targets:
            left[j] += 1
    ready = [i for i, count in enumerate(left) if count == 0]
    rank = [0] * len(ahead)
    for number in range(len(ahead)):
        i = ready.pop()
        rank[i] = number
        for j in ahead[i]:
            left[j] -= 1
            if left[j] == 0:
                ready.append(j)
    return rank


class Walk:
    """A warp on all paths at once: the shortest with `min`, the longest with `max`.

    Where the value of a predicate decides, its two cases are followed apart until the
    predicate is written again. So instructions of opposite predicates are not both on.

    `spent` has the clocks of each instruction of the last trip, with its waits.
    """

    def __init__(
        self, listing: Listing, graph: Graph, choose: Callable[[int, int], int]
    ) -> None:
        self.code, self.labels = listing
        self.controls = [decode(one.word) for one in self.code]
        self.graph = graph
        self.choose = choose
        self.spent: dict[int, int] = {}

    def clocks(self, loop: Loop) -> float | None:
        """Clocks of a trip, once trips repeat; none if only slow paths lead around."""
        cases: Cases = {frozenset(): START}
        times = []
        for _ in range(TRIPS):
            self.spent.clear()
            cases = self.follow(loop.head, cases, loop.head, loop.members)
            if not cases:
                return None
            times.append(reduce(self.choose, (now.ready for now in cases.values())))
        half = TRIPS // 2
        return (times[-1] - times[-1 - half]) / half

    def bytes_in_flight(self, loop: Loop) -> int:
        """The most bytes that a thread has loaded and not waited for, on all paths."""
        most, loaded = 0, [0] * SCOREBOARDS
        for i in 2 * sorted(loop.members, key=lambda i: self.graph.rank[i]):
            control = self.controls[i]
            for scoreboard in control.waits_for():
                loaded[scoreboard] = 0
            if self.code[i].opcode.split(".")[0] in LOADS:
                loaded[control.written] += loaded_bytes(self.code[i].opcode)
                most = max(most, sum(loaded))
        return most

    def follow(
        self, start: int, cases: Cases, end: int, members: frozenset[int] | None
    ) -> Cases:
        """The cases in which paths from `start` inside `members` arrive at `end`."""
        rank = self.graph.rank
        at = {start: cases}
        waiting = [(rank[start], start)]
        arrived: Cases = {}
        while waiting:
            _, i = heapq.heappop(waiting)
            for case, now in at.pop(i).items():
                for j, known, after in self.step(i, case, now):
                    if j == end:
                        self.add(arrived, known, after)
                    elif j in self.graph.ahead[i] and (members is None or j in members):
                        if j not in at:
                            at[j] = {}
                            heapq.heappush(waiting, (rank[j], j))
                        self.add(at[j], known, after)
        return arrived

    def add(self, cases: Cases, case: Case, now: Clocks) -> None:
        if case not in cases and len(cases) >= MOST_CASES:
            case = frozenset()
        cases[case] = join(cases[case], now, self.choose) if case in cases else now

    def step(
        self, i: int, case: Case, now: Clocks
    ) -> Iterator[tuple[int, Case, Clocks]]:
        """Where an instruction leads, for each value of its predicate."""
        one = self.code[i]
        for is_on, known in self.values(one, self.controls[i], case):
            after = advance(now, one.opcode, self.controls[i], is_on)
            self.spent[i] = max(self.spent.get(i, 0), after.ready - now.ready)
            known = forget(known, one)
            if is_on and one.is_call:
                if is_slow_path(one):
                    continue
                called = {known: after}
                entry = self.labels[one.target]
                for last, clocks in self.follow(entry, called, RETURN, None).items():
                    yield i + 1, last, clocks
            elif is_on and one.opcode.startswith("RET"):
                yield RETURN, known, after
            elif is_on and one.is_jump:
                yield self.labels[one.target], known, after
                if not one.operands.startswith("`"):
                    yield i + 1, known, after
            elif not (is_on and one.opcode.startswith("EXIT")):
                yield i + 1, known, after

    def values(
        self, one: Instruction, control: Control, case: Case
    ) -> Iterator[tuple[bool, Case]]:
        """Whether an instruction is on; both, if the predicate decides."""
        found = re.match(r"@(!?)(\w+)", one.predicate)
        if found is None:
            yield True, case
            return
        name, on = found[2], not found[1]
        decides = has_effect(one, control)
        for value in (True, False):
            is_known = name.endswith("T") or not decides
            if (name, not value) in case or (is_known and not value):
                continue
            yield value == on, case | {(name, value)} if decides else case


def loaded_bytes(opcode: str) -> int:
    """The bytes that a thread loads."""
    for part in opcode.split("."):
        if found := re.fullmatch(r"[US]?(8|16|64|128)", part):
            return int(found[1]) // 8
    return 4


def has_effect(one: Instruction, control: Control) -> bool:
    """Whether clocks or the path depend on the predicate of an instruction."""
    waits = control.written != NONE or control.read != NONE
    name = one.opcode.split(".")[0]
    return waits or name in BLOCKED or one.is_jump or one.is_call or name in ENDS


def forget(case: Case, one: Instruction) -> Case:
    """What is known of the predicates that an instruction does not write."""
    written = set(written_predicates(one))
    return frozenset(item for item in case if item[0] not in written)


def written_predicates(one: Instruction) -> Iterator[str]:
    """The leading predicates; in a few instructions also a predicate that is read."""
    for position, operand in enumerate(one.operands.split(", ")):
        if PREDICATE.match(operand):
            yield operand
        elif position > 0:
            break
