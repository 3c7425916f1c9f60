"""Every outcome of a small program that the memory model of PTX allows.

The model is the axiomatic model of the PTX ISA, section "Memory Consistency Model", and
of D. Lustig, S. Sahasrabuddhe & O. Giroux, "A Formal Analysis of the NVIDIA PTX Memory
Consistency Model" (ASPLOS 2019), for loads, stores, atomic additions, fences and block
barriers of one kernel on one GPU. It has no caches and no clocks: an execution is
allowed unless it breaks an axiom.

A program is a list of blocks, a block a list of threads, and a thread a generator that
yields `load`, `store`, `add`, `fence` and `barrier`, and gets the value that it loads:

>>> def writer():
...     yield store("data", 1)
...     yield fence()
...     yield store("flag", 1, strong=True)
>>> def reader():
...     flag = yield load("flag", strong=True)
...     yield fence()
...     data = yield load("data")
...     return flag, data
>>> sorted(outcomes([[writer], [reader]]))
[((0, 0),), ((0, 1),), ((1, 1),)]

The axiom against values out of thin air is left out, as it needs the dependencies
between instructions. So outcomes may be too many, never too few.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Relation = NDArray[np.bool_]
"""Whether event i is related to event j, (n, n)."""


class Operation(NamedTuple):
    """An instruction of a thread.

    Attributes
    ----------
    kind : {"load", "store", "add", "fence", "barrier"}
    place : str
        The address; every place is 0 at first.
    value : int
        The value that is stored or added.
    strong : bool
        Whether it is volatile, and so at least relaxed; plain accesses are weak.
    order : {"", "acquire", "release"}
        What an access that is stronger than relaxed does itself.
    """

    kind: str
    place: str = ""
    value: int = 0
    strong: bool = False
    order: str = ""

    @property
    def is_strong(self) -> bool:
        """Atomics, fences, and accesses that acquire or release are strong, too."""
        return self.strong or self.order != "" or self.kind in ("add", "fence")


load, store, add, fence, barrier = (
    partial(Operation, kind) for kind in ("load", "store", "add", "fence", "barrier")
)
"""A load or store, volatile if it is strong: ``ld.volatile`` is ``ld.relaxed.sys``.
``atomicAdd`` in device scope, which gets the old value. ``__threadfence()``, which is
sequentially consistent in PTX: a proof that needs only acquire and release is stronger,
so the model has no more. ``__syncthreads()``."""


Thread = Callable[[], Generator[Operation, int, Any]]
"""Yields operations, gets the values that it loads, returns its outcome."""


class StillWaitsError(Exception):
    """Raised by a thread whose loop has not ended: the execution does not count."""


class Event(NamedTuple):
    """An execution of an operation; an addition has two, a barrier two.

    Attributes
    ----------
    kind : {"read", "write", "fence", "arrive", "leave"}
    place : str
    value : int
        The value that is read or written; for barriers, how many the thread had before.
    operation : Operation
    thread, block : int
    """

    kind: str
    place: str
    value: int
    operation: Operation
    thread: int
    block: int


class Run(NamedTuple):
    """The events of a thread that gets certain values, and its outcome."""

    events: list[Event]
    outcome: Any


def outcomes(
    blocks: Sequence[Sequence[Thread]],
    values: Mapping[str, Sequence[int]] | None = None,
) -> set[tuple[Any, ...]]:
    """What the threads that return something return together, in all executions.

    Parameters
    ----------
    blocks : sequence of sequence of generator functions
    values : mapping of str to sequence of int, optional
        The values that loads of a place may get; 0 and 1 for other places.
    """
    placed = [(block, one) for block, members in enumerate(blocks) for one in members]
    threads = [
        list(_runs(thread, number, block, values or {}))
        for number, (block, thread) in enumerate(placed)
    ]
    found = set()
    for runs in itertools.product(*threads):
        outcome = tuple(run.outcome for run in runs if run.outcome is not None)
        events = [event for run in runs for event in run.events]
        if outcome not in found and _is_possible(events):
            found.add(outcome)
    return found


def _is_possible(events: Sequence[Event]) -> bool:
    """Whether the reads can have got their values in an allowed execution."""
    sources = list(_sources(events))
    return bool(sources) and any(map(_Execution(events).is_allowed, sources))


def _runs(
    thread: Thread, number: int, block: int, values: Mapping[str, Sequence[int]]
) -> Iterator[Run]:
    """The runs of a thread for all values that its loads may get."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        given = pending.pop()
        step = _replay(thread, number, block, given)
        if isinstance(step, Run):
            yield step
        elif step is not None:
            pending += [(*given, value) for value in values.get(step, (0, 1))]


def _replay(
    thread: Thread, number: int, block: int, given: Sequence[int]
) -> Run | str | None:
    """The run with these values; the place of the next load if they do not suffice."""
    events: list[Event] = []
    left, running, barriers = list(given), thread(), 0
    try:
        operation = next(running)
        while True:
            loaded, kinds = 0, _EVENTS[operation.kind]
            if "read" in kinds:
                if not left:
                    return operation.place
                loaded = left.pop(0)
            for kind in kinds:
                written = operation.value + loaded
                value = {"read": loaded, "write": written}.get(kind, barriers)
                of = operation, number, block
                events.append(Event(kind, operation.place, value, *of))
            barriers += operation.kind == "barrier"
            operation = running.send(loaded)
    except StillWaitsError:
        return None
    except StopIteration as end:
        return Run(events, end.value)


_EVENTS = {
    "load": ("read",),
    "store": ("write",),
    "add": ("read", "write"),
    "fence": ("fence",),
    "barrier": ("arrive", "leave"),
}


def _sources(events: Sequence[Event]) -> Iterator[dict[int, int | None]]:
    """For each read an event that wrote its value; None for the initial zero."""
    reads = [i for i, event in enumerate(events) if event.kind == "read"]
    choices = []
    for i in reads:
        read = events[i]
        writers: list[int | None] = [
            j
            for j, event in enumerate(events)
            if event.kind == "write"
            and (event.place, event.value) == (read.place, read.value)
            # An addition does not read its own write, the event that follows.
            and not (read.operation.kind == "add" and j == i + 1)
        ]
        choices.append(writers + ([None] if read.value == 0 else []))
    for chosen in itertools.product(*choices):
        yield dict(zip(reads, chosen, strict=True))


class _Execution:
    """Events, and the relations that do not depend on what the reads read."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        kind, place, value, operation, thread, block = (
            np.fromiter(column, object) for column in zip(*events, strict=True)
        )

        def same(x: NDArray[Any]) -> Relation:
            return (x[:, None] == x).astype(bool)

        def of(each: Callable[[Operation], bool]) -> Relation:
            return np.array([each(one) for one in operation], bool)

        other = ~np.eye(len(events), dtype=bool)
        placed, strong = place != "", of(lambda one: one.is_strong)
        read, fence, self.writes = kind == "read", kind == "fence", kind == "write"
        self.order = np.triu(same(thread) & other)
        self.same_place = same(place) & placed & other
        comparable = self.same_place | ~(placed[:, None] & placed)
        both = self.order | self.order.T | strong[:, None] & strong
        self.morally_strong = both & comparable & other
        meet = (kind == "arrive")[:, None] & (kind == "leave")
        self.barriers = meet & same(value) & same(block)
        adds = of(lambda one: one.kind == "add") & read
        self.updates = np.diag(adds[:-1], 1)
        # A fence and a strong access, in the order of the thread; an access that
        # acquires or releases itself is both.
        own = of(lambda one: one.order == "release") & self.writes
        pairs = self.order & fence[:, None] & (self.writes & strong)
        self.releases = pairs | np.diag(own)
        own = of(lambda one: one.order == "acquire") & read
        self.acquires = self.order & (read & strong)[:, None] & fence | np.diag(own)

    def is_allowed(self, sources: Mapping[int, int | None]) -> bool:
        """Whether the reads can read from these writes, in some order of writes."""
        reads_from = np.zeros_like(self.order)
        for read, write in sources.items():
            if write is not None:
                reads_from[write, read] = True
        observed = self._observation(reads_from)
        synchronized = self.morally_strong & _then(
            self.releases, observed, self.acquires
        )
        before = _closure(self.order | synchronized | self.barriers)
        cause = before | _then(observed, before)
        return not cause.diagonal().any() and any(
            self._holds(sources, reads_from, coherence, cause)
            for coherence in self._coherence(cause)
        )

    def _observation(self, reads_from: Relation) -> Relation:
        """Writes that a read observes, directly or through additions."""
        direct = self.morally_strong & reads_from
        chain = _closure(_then(direct, self.updates))
        return direct | _then(chain, direct)

    def _coherence(self, cause: Relation) -> Iterator[Relation]:
        """The orders of the writes of each place.

        Strong writes are in a total order. Other writes are ordered by their causes
        alone: each further pair would only forbid more.
        """
        caused = cause & self.same_place & self.writes[:, None] & self.writes
        strong: dict[str, list[int]] = {}
        for i, event in enumerate(self.events):
            if event.kind == "write" and event.operation.is_strong:
                strong.setdefault(event.place, []).append(i)
        for orders in itertools.product(*map(itertools.permutations, strong.values())):
            coherence = caused.copy()
            for order in orders:
                for pair in itertools.combinations(order, 2):
                    coherence[pair] = True
            coherence = _closure(coherence)
            if not coherence.diagonal().any():
                yield coherence

    def _holds(
        self,
        sources: Mapping[int, int | None],
        reads_from: Relation,
        coherence: Relation,
        cause: Relation,
    ) -> bool:
        """Atomicity, sequential consistency of each place, and causality."""
        from_reads = _then(reads_from.T, coherence)
        for read, write in sources.items():
            if write is None:
                from_reads[read] |= self.same_place[read] & self.writes
        # An addition writes after its own read.
        strong = self.morally_strong
        torn = _then(strong & from_reads, strong & coherence) & self.updates
        communication = strong & (reads_from | coherence | from_reads)
        place_order = _closure(communication | (self.order & self.same_place))
        contradicts = (reads_from | from_reads) & cause.T
        return not (torn.any() or place_order.diagonal().any() or contradicts.any())


def _then(*relations: Relation) -> Relation:
    """The composition of relations."""
    return reduce(lambda a, b: (a.astype(np.uint8) @ b.astype(np.uint8)) > 0, relations)


def _closure(relation: Relation) -> Relation:
    """The transitive closure."""
    while True:
        longer = relation | _then(relation, relation)
        if (longer == relation).all():
            return longer
        relation = longer
