"""Clocks of the trips around a loop, on the shortest and on the longest path."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from functools import reduce

from control_codes import NONE, SCOREBOARDS, decode
from kernel_code import Instruction, Listing
from machine_loops import Graph, Loop, calls_slow_path
from warp_clocks import BLOCKED, START, Clocks, advance, join

TRIPS = 8
"""Trips that are followed; the clocks are the mean of the last half."""

MOST_CASES = 32
"""Cases that are followed apart; the others are one case of unknown predicates."""

RETURN = -1
"""Where a function returns to."""

ENDS = {"EXIT", "RET"}

LOADS = {"LDG", "LD"}

GUARD = re.compile(r"@(!?)(U?P\d)")
"""The predicate in front of an instruction; ``PT`` is always true."""

PREDICATE = re.compile(r"U?P(\d|T)$")

Case = frozenset[tuple[str, bool]]
"""Known values of predicates."""

Cases = dict[Case, Clocks]


class WarpPaths:
    """A warp on all paths at once: the shortest with `min`, the longest with `max`.

    Where the value of a predicate decides, its two cases are followed apart until the
    predicate is written again. So instructions of opposite predicates are not both on.

    `spent` has the clocks of each instruction in the last trip, with its waits.
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
        """The most bytes that a thread has loaded and not waited for, in code order."""
        most, loaded = 0, [0] * SCOREBOARDS
        for i in 2 * sorted(loop.members, key=lambda i: self.graph.rank[i]):
            control = self.controls[i]
            for scoreboard in control.waits_for():
                loaded[scoreboard] = 0
            if self.code[i].name in LOADS:
                loaded[control.written] += loaded_bytes(self.code[i])
                most = max(most, sum(loaded))
        return most

    def follow(
        self, start: int, cases: Cases, end: int, members: frozenset[int] | None = None
    ) -> Cases:
        """The cases in which paths from `start`, inside `members`, arrive at `end`."""
        ahead, rank, _ = self.graph
        at = {start: cases}
        waiting = [(rank[start], start)]
        arrived: Cases = {}
        while waiting:
            _, i = heapq.heappop(waiting)
            for case, now in at.pop(i).items():
                for j, known, after in self.step(i, case, now):
                    if j == end:
                        self.add(arrived, known, after)
                    elif j in ahead[i] and (members is None or j in members):
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
        for is_on, known in self.values(i, case):
            after = advance(now, one.name, self.controls[i], is_on)
            self.spent[i] = max(self.spent.get(i, 0), after.ready - now.ready)
            known = forget(known, one)
            if is_on and one.is_call:
                for last, clocks in self.call(one, {known: after}).items():
                    yield i + 1, last, clocks
            elif is_on and one.is_jump:
                yield self.labels[one.target], known, after
                if not one.operands.startswith("`"):  # another predicate decides
                    yield i + 1, known, after
            elif is_on and one.name in ENDS:
                yield RETURN, known, after
            else:
                yield i + 1, known, after

    def call(self, one: Instruction, cases: Cases) -> Cases:
        """The cases after the function that an instruction calls."""
        if calls_slow_path(one):
            return {}
        return self.follow(self.labels[one.target], cases, RETURN)

    def values(self, i: int, case: Case) -> Iterator[tuple[bool, Case]]:
        """Whether an instruction is on: both, if that decides and is not known."""
        guard = GUARD.match(self.code[i].predicate)
        if guard is None or not self.decides(i):
            yield not self.code[i].predicate.startswith("@!"), case
            return
        name, on = guard[2], not guard[1]
        for value in (True, False):
            if (name, not value) not in case:
                yield value == on, case | {(name, value)}

    def decides(self, i: int) -> bool:
        """Whether clocks or the path depend on the predicate of an instruction."""
        one, control = self.code[i], self.controls[i]
        has_scoreboard = control.written != NONE or control.read != NONE
        leaves = one.is_jump or one.is_call or one.name in ENDS
        return has_scoreboard or leaves or one.name in BLOCKED


def loaded_bytes(one: Instruction) -> int:
    """The bytes that a thread loads."""
    for part in one.opcode.split("."):
        if found := re.fullmatch(r"[US]?(8|16|64|128)", part):
            return int(found[1]) // 8
    return 4


def forget(case: Case, one: Instruction) -> Case:
    """What is known of the predicates that an instruction does not write."""
    written = set(written_predicates(one))
    return frozenset(item for item in case if item[0] not in written)


def written_predicates(one: Instruction) -> Iterator[str]:
    """Those before the first register that is read, and sometimes one that is read."""
    for position, operand in enumerate(one.operands.split(", ")):
        if PREDICATE.match(operand):
            yield operand
        elif position > 0:
            break
