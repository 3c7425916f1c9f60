"""Least squares within bounds from Gram matrices: the CPU path, a batch in lockstep.

The method is that of the specification (`gpusolve.reference.nnls_gram`). Every *pass*
makes one pivot in each system, with NumPy looping over the systems. The Gram matrix
squares the condition number. To make up for that, when no variable enters,
``A^T (b - A x)`` replaces the gradient that was computed from the Gram matrix, and the
passes continue until the certificate holds. Systems that are too ill-conditioned for
this stay uncertified; the caller solves them by QR.

The bits of a solution do not depend on the other systems of the batch. Matrix products
are one BLAS call per system. Arrays over the passive set have the size that the largest
passive set of the batch needs; sums over it are computed panel by panel, and panels of
zeros do not change a sum.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress

import numpy as np

from .._numerics.certificate import (
    Certificate,
    certify,
    data_norm,
    gradient,
    is_convincing,
    missing_in_sum,
    norm,
    outcome,
    ratio,
    residual,
    size,
    size_to_b,
)
from .._numerics.scaling import Array, Indices, Mask, ScaledSystem
from .._numerics.solution import BY_GRAM, CONVERGED, ITERATION_LIMIT, Solution
from ..reference._nnls_gram import (
    CORRECTIONS,
    DRIFT,
    REFRESHES,
    RESOLVED,
    SLACK,
    fitted,
)
from .starting_point import starting_point

PANEL = 32
"""Slots that are summed at once, and by which storage for passive variables grows."""

GATHERED = 4096
"""Matrices with at most this many entries are gathered and multiplied in one call."""

MOST_BUSY = 0.75
"""Lanes of finished systems are dropped if at most this part of the lanes is busy."""

SMALL_BATCH = 2**16
"""A batch with at most this many variables is solved by one thread at a time."""

SMALL_BATCH_LOCK = threading.Lock()
"""Held by the thread that solves a small batch.

NumPy calls on a small batch take a few microseconds. Each releases the interpreter lock
and acquires it again. Several threads would spend more time on passing the lock than on
their work. The Gram matrices, which are most of the arithmetic, are computed before and
in parallel.
"""


def panels(capacity: int) -> Iterator[slice]:
    """Cut the slots into panels; their bounds do not depend on the capacity."""
    for first in range(0, capacity, PANEL):
        yield slice(first, first + PANEL)


def panel_product(weights: Array, vectors: Array) -> Array:
    """``sum_s weights[:, s] vectors[:, s]`` over the slots s, one panel after another.

    Parameters
    ----------
    weights : (lanes, capacity) array
    vectors : (lanes, capacity, k) array

    Returns
    -------
    (lanes, k) array
    """
    first, *others = panels(weights.shape[1])
    total = np.matmul(weights[:, None, first], vectors[:, first])
    for panel in others:
        total += np.matmul(weights[:, None, panel], vectors[:, panel])
    return np.asarray(total[:, 0])


def multiply(
    A: Array, systems: Indices, vectors: Array, transpose: bool = False
) -> Array:
    """``A[k] @ v``, or ``A[k].T @ v``, for each system k and its vector.

    Parameters
    ----------
    A : (m, n) or (N, m, n) array
    systems : (lanes,) array
    vectors : (lanes, n) or, transposed, (lanes, m) array
    """
    if A.ndim == 3 and A[0].size > GATHERED:
        pairs = zip(systems, vectors, strict=True)
        return np.stack([v @ A[k] if transpose else A[k] @ v for k, v in pairs])
    A = A if A.ndim == 2 else A[systems]
    if transpose:
        return np.asarray(np.matmul(vectors[:, None], A)[:, 0])
    return np.asarray(np.matmul(A, vectors[:, :, None])[:, :, 0])


def of_all(system: ScaledSystem, values: Array) -> Array:
    """Values by variable, which systems may share, as a view for all systems."""
    return np.broadcast_to(values, (len(system.b), values.shape[-1]))


class Gram:
    """Rows of ``G = A^T A + diag(damping)^2``.

    G is computed in advance, except if A has more than twice as many columns as rows.
    Then most rows of G are never used, and G may not fit into memory: each row is
    computed when it is needed.
    """

    def __init__(self, system: ScaledSystem) -> None:
        self.A = system.A
        self.has_ridge = system.has_ridge
        self.square = of_all(system, system.damping**2)
        self.G = None
        if 2 * self.A.shape[-2] >= self.A.shape[-1]:
            self.G = np.matmul(self.A.swapaxes(-1, -2), self.A)

    def rows(self, systems: Indices, variables: Indices) -> Array:
        """The row of one variable for each of some systems, as a (lanes, n) array."""
        at = (variables,) if self.A.ndim == 2 else (systems, variables)
        if self.G is not None:
            rows = self.G[at]
        else:
            columns = self.A.swapaxes(-1, -2)[at]
            rows = multiply(self.A, systems, columns, transpose=True)
        if self.has_ridge:
            rows[np.arange(len(rows)), variables] += self.square[systems, variables]
        return np.asarray(rows)


def directions(
    rest: Array, lower: Array, upper: Array, norm: Array
) -> tuple[Array, Mask]:
    """Where resting variables may move: `inward` and `inside` of :class:`Lanes`."""
    up, down = rest < upper, rest > lower
    return np.where(up, norm, np.where(down, -norm, np.inf)), up & down


class Lanes:
    """Unfinished systems, one per lane, each with its passive variables in *slots*.

    A free slot holds the variable n, which means none. Therefore arrays over variables
    have a column n. In ``w`` it holds the magnitude of the terms that cancel in
    ``b - A x``: the product that gives the gradient gives this as well.

    Attributes
    ----------
    system : (lanes,) array
        The index of the system in the batch.
    rest : (lanes, n + 1) array
        The values of the variables that are not passive; 0 for those that are.
    inward : (lanes, n) array
        Norms of the columns, negative if a resting variable may only decrease. It is
        infinite for a column of zeros and for a variable without an interval, which
        never enter.
    inside : (lanes, n) array
        Whether a resting variable may increase and decrease.
    c, w : (lanes, n + 1) array
        ``A^T (b - A rest) - penalty``, corrected by the true residual; the negative
        gradient ``w = c - G x``.
    variables, x : (lanes, capacity) array
        The variable in each slot and its value.
    lower, upper : (lanes, capacity) array
        The bounds of the variable in each slot; infinite at free slots.
    leaving : (lanes, capacity) array
        Whether the variable in each slot reached a bound, so that it leaves next.
    rows : (lanes, capacity, n + 1) array
        Rows of G of the passive variables.
    H : (lanes, capacity, capacity) array
        The inverse of G restricted to the passive variables; 0 at free slots.
    length : (lanes,) array
        The number of passive variables.
    closed : (lanes, n) array
        Variables that are passive, or could not enter the current passive set.
    waiting : (lanes, n) array
        Variables that start passive and have yet to enter.
    multiplier : (lanes,) array
        That of the fixed sum. It has been subtracted from c and w.
    busy, optimal, fresh, polish : (lanes,) array
        Whether the system is not finished; whether x minimises over the passive set;
        whether x has not moved since the last refresh, except to polish it; whether
        the refined x was not between its bounds, so that x needs another step.
    refreshes, best : (lanes,) array
        The number of refreshes, and the least `kkt` found in them.
    """

    def __init__(
        self, batch: ScaledSystem, rest: Array, waiting: Mask, capacity: int
    ) -> None:
        lanes, n = rest.shape
        self.system = np.arange(lanes)
        self.rest = np.concatenate([rest, np.zeros((lanes, 1))], axis=1)
        norm = np.where(batch.norm > 0, batch.norm, np.inf)
        self.inward, self.inside = directions(rest, batch.lower, batch.upper, norm)
        magnitude = batch.magnitude + size(batch, rest)
        c = gradient(batch, residual(batch, rest))
        self.c = np.concatenate([c, magnitude[:, None]], axis=1)
        self.w = self.c.copy()
        self.variables = np.full((lanes, capacity), n)
        self.x = np.zeros((lanes, capacity))
        self.lower = np.full((lanes, capacity), -np.inf)
        self.upper = np.full((lanes, capacity), np.inf)
        self.leaving = np.zeros((lanes, capacity), bool)
        self.rows = np.zeros((lanes, capacity, n + 1))
        self.H = np.zeros((lanes, capacity, capacity))
        self.length = np.zeros(lanes, np.intp)
        self.closed = np.zeros((lanes, n), bool)
        self.waiting = waiting
        self.multiplier = np.zeros(lanes)
        self.busy = np.ones(lanes, bool)
        self.optimal = ~waiting.any(axis=1)
        self.fresh, self.polish = np.zeros((2, lanes), bool)
        self.refreshes = np.zeros(lanes, np.intp)
        self.best = np.full(lanes, np.inf)

    def select(self, lanes: Mask) -> None:
        """Keep these lanes and drop the others."""
        for name, array in vars(self).items():
            setattr(self, name, array[lanes])

    def grow(self) -> None:
        """Add a panel of free slots."""
        n, more = self.inward.shape[1], ((0, 0), (0, PANEL))
        self.variables = np.pad(self.variables, more, constant_values=n)
        self.x = np.pad(self.x, more)
        self.lower = np.pad(self.lower, more, constant_values=-np.inf)
        self.upper = np.pad(self.upper, more, constant_values=np.inf)
        self.leaving = np.pad(self.leaving, more)
        self.rows = np.pad(self.rows, (*more, (0, 0)))
        self.H = np.pad(self.H, (*more, (0, PANEL)))

    def occupied(self) -> Mask:
        """The slots that are not free."""
        return np.asarray(self.variables < self.inward.shape[1])

    def passive_gradient(self) -> Array:
        """``w`` of the variable in each slot; arbitrary at free slots."""
        return np.asarray(self.w[np.arange(len(self.w))[:, None], self.variables])

    def slope(self) -> Array:
        """The magnitude of w over the norm where w points into the interval.

        Negative or 0 elsewhere; 0 for closed variables.
        """
        slope = np.where(self.closed, 0, self.w[:, :-1] / self.inward)
        np.abs(slope, out=slope, where=self.inside)
        return np.asarray(slope)

    def update_inverse(self, v: Array, sign: Array) -> None:
        """Add ``sign v v^T`` to H."""
        for panel in panels(v.shape[1]):
            self.H[:, panel] += (sign[:, None] * v[:, panel])[:, :, None] * v[:, None]

    def set_gradient(self, lanes: Indices, w: Array) -> None:
        """Change ``c`` of some lanes so that ``c - G x`` is `w`, (len(lanes), n)."""
        now = self.c[lanes] - panel_product(self.x[lanes], self.rows[lanes])
        self.c[lanes, :-1] += w - now[:, :-1]

    def invert(self, lane: int) -> None:
        """Recompute H of a lane from the rows of G in its occupied slots."""
        slots = np.flatnonzero(self.occupied()[lane])
        G = self.rows[lane][np.ix_(slots, self.variables[lane, slots])]
        with suppress(np.linalg.LinAlgError):
            self.H[lane][np.ix_(slots, slots)] = np.linalg.inv(G)

    def reopen(self, lanes: Indices) -> None:
        """Let all variables of some lanes that are not passive try to enter again."""
        passive = np.zeros((len(lanes), self.w.shape[1]), bool)
        passive[np.arange(len(lanes))[:, None], self.variables[lanes]] = True
        self.closed[lanes] = passive[:, :-1]

    def all_x(self, lanes: Indices) -> Array:
        """The values of all variables in some lanes."""
        x = self.rest[lanes]
        x[np.arange(len(lanes))[:, None], self.variables[lanes]] = self.x[lanes]
        return np.asarray(x[:, :-1])


class GramBatch:
    """The active-set method for a batch of scaled systems."""

    def __init__(
        self, system: ScaledSystem, start: Array, tol: float, maxiter: int
    ) -> None:
        (rows, n), systems = system.A.shape[-2:], len(start)
        self.system, self.tol, self.maxiter = system, tol, maxiter
        self.gram = Gram(system)
        self.capacity = n if system.has_ridge else min(rows, n)
        self.start, waiting = starting_point(system, start, self.capacity)
        leave_rest = waiting & (not system.has_sum)
        self.x: Array = np.where(leave_rest, system.rest, self.start)
        self.lanes = Lanes(system, self.x, waiting, max(1, min(self.capacity, PANEL)))
        self.lower = of_all(system, system.lower)
        self.upper = of_all(system, system.upper)
        self.signed = bool(np.any(system.lower < 0))
        r = self.residual(system, np.arange(systems), self.x)
        self.certificate = certify(system, self.x, r)
        self.status = np.full(systems, CONVERGED, np.int32)
        self.nit, self.n_updates, self.n_downdates = np.zeros((3, systems), np.int32)

    def solve(self) -> None:
        """Make passes until every system is finished, up to a limit on the passes."""
        for _ in range(4 * (self.maxiter + self.x.shape[1]) + 64):
            busy = np.count_nonzero(self.lanes.busy)
            if not busy:
                return
            if busy <= MOST_BUSY * len(self.lanes.busy):
                self.lanes.select(self.lanes.busy)
            self.make_pass()
        self.stop(self.lanes.busy, ITERATION_LIMIT)

    def make_pass(self) -> None:
        """Let at most one variable enter or leave each passive set, and move x."""
        lanes = self.lanes
        slots = lanes.x.shape[1]
        if slots < self.capacity and (lanes.length == slots).any():
            lanes.grow()
        lanes.w = self.gradient()
        waits = lanes.busy & lanes.waiting.any(axis=1)
        leaves = lanes.busy & ~waits & lanes.leaving.any(axis=1) & self.may_leave()
        settled = lanes.busy & lanes.optimal & ~waits & ~leaves
        variable, enters = self.entering()
        enters &= settled
        polish = settled & ~enters & lanes.polish
        idle = settled & ~enters & ~polish
        if waits.any():
            variable = np.where(waits, np.argmax(lanes.waiting, axis=1), variable)
        moves = lanes.busy & ~waits & ~settled & (lanes.leaving.sum(axis=1) <= 1)
        entered = self.pivot(variable, enters | waits, leaves)
        self.move(moves | (entered & ~waits), polish)
        if idle.any():
            self.refresh(np.flatnonzero(idle))

    def gradient(self) -> Array:
        """``c - G x``; in the last column, the rows of G have the sign of x."""
        lanes = self.lanes
        if self.signed:
            norms = lanes.rows[:, :, -1]
            np.copysign(norms, -lanes.x, out=norms)
        return np.asarray(lanes.c - panel_product(lanes.x, lanes.rows))

    def may_leave(self) -> Mask:
        """Lanes whose variables may leave; with a fixed sum, the last one stays."""
        return np.asarray(self.lanes.length > self.system.has_sum)

    def entering(self) -> tuple[Indices, Mask]:
        """The variable of steepest descent of each lane, and whether it may enter.

        The threshold is `tol` right after a refresh, and `SLACK` times `tol` otherwise.
        """
        lanes = self.lanes
        slope = lanes.slope()
        variable = np.argmax(slope, axis=1)
        steepest = slope[np.arange(len(slope)), variable]
        least = self.tol * lanes.w[:, -1] * np.where(lanes.fresh, 1, SLACK)
        return variable, steepest > least

    def pivot(self, variable: Indices, tried: Mask, leaves: Mask) -> Mask:
        """Append a variable to some passive sets, and remove one from others.

        Both are updates of H of rank one. Returns the lanes in which a variable
        entered.
        """
        lanes = self.lanes
        v, sign = np.zeros_like(lanes.x), np.zeros(len(lanes.x))
        entered = np.zeros(len(lanes.x), bool)
        if tried.any():
            entered = self.append(variable, tried, v)
            sign[entered] = 1
        if leaves.any():
            at = np.flatnonzero(leaves)
            slot = np.argmax(lanes.leaving[at], axis=1)
            column = lanes.H[at, slot]
            v[at] = column / np.sqrt(column[np.arange(len(at)), slot])[:, None]
            sign[at] = -1
        if tried.any() or leaves.any():
            lanes.update_inverse(v, sign)
        if leaves.any():
            self.clear(at, slot)
        return entered

    def append(self, variable: Indices, tried: Mask, v: Array) -> Mask:
        """Append a variable in the lanes where it is independent and descends.

        Writes to `v` the vector that updates H. Returns the lanes that it entered.
        """
        lanes, at = self.lanes, np.flatnonzero(tried)
        j, systems = variable[at], lanes.system[at]
        norm = np.abs(lanes.inward[at, j])
        row = np.concatenate([self.gram.rows(systems, j), -norm[:, None]], axis=1)
        u, square, descent = self.project(at, j, row)
        waits, fits = lanes.waiting[at, j], lanes.length[at] < self.capacity
        descends = descent > self.tol * lanes.w[at, -1] * np.sqrt(square)
        accepted = fits & (square > RESOLVED * norm**2) & (waits | descends)
        lanes.closed[at, j] = True
        lanes.waiting[at, j] = False
        at, j, root = at[accepted], j[accepted], np.sqrt(square[accepted])
        slot, systems = np.argmin(lanes.occupied()[at], axis=1), systems[accepted]
        v[at] = u[accepted] / root[:, None]
        v[at, slot] = -1 / root
        start = np.where(waits[accepted], self.start[systems, j], lanes.rest[at, j])
        lanes.variables[at, slot] = j
        lanes.lower[at, slot] = self.lower[systems, j]
        lanes.upper[at, slot] = self.upper[systems, j]
        lanes.rows[at, slot] = row[accepted]
        lanes.x[at, slot] = start
        lanes.length[at] += 1
        self.place(at, slot, np.zeros(len(at)))
        self.n_updates[systems] += 1
        entered = np.zeros_like(tried)
        entered[at] = True
        return entered

    def place(self, at: Indices, slot: Indices, value: Array) -> None:
        """Let the variable in a slot of some lanes rest at a value; 0 while passive."""
        lanes = self.lanes
        j = lanes.variables[at, slot]
        change = np.flatnonzero(value != lanes.rest[at, j])
        if not change.size:
            return
        at, slot, j, value = at[change], slot[change], j[change], value[change]
        row, before, systems = lanes.rows[at, slot], lanes.rest[at, j], lanes.system[at]
        norm = np.abs(row[:, -1])
        lanes.c[at, :-1] -= (value - before)[:, None] * row[:, :-1]
        lanes.c[at, -1] += (np.abs(value) - np.abs(before)) * norm
        lanes.rest[at, j] = value
        lanes.inward[at, j], lanes.inside[at, j] = directions(
            value, self.lower[systems, j], self.upper[systems, j], norm
        )

    def project(
        self, at: Indices, j: Indices, row: Array
    ) -> tuple[Array, Array, Array]:
        """Project column j of some lanes onto their passive columns.

        `row` is the row of G for j. Returns the coefficients by slot, the square norm
        of the part orthogonal to the passive columns, and the descent along this part
        when the variable moves inwards.
        """
        lanes = self.lanes
        g = np.zeros_like(lanes.x)
        g[at] = row[np.arange(len(at))[:, None], lanes.variables[at]]
        u = panel_product(g, lanes.H)
        both = np.stack([g, lanes.passive_gradient()], axis=-1)
        along = panel_product(u, both)[at]
        square = row[np.arange(len(at)), j] - along[:, 0]
        w = lanes.w[at, j]
        return u[at], square, np.sign(w) * (w - along[:, 1])

    def clear(self, at: Indices, slot: Indices) -> None:
        """Free a slot in some lanes; its variable rests at the bound that it reached.

        Variables that could not enter may try again.
        """
        lanes = self.lanes
        self.place(at, slot, lanes.x[at, slot])
        lanes.variables[at, slot] = self.x.shape[1]
        lanes.lower[at, slot], lanes.upper[at, slot] = -np.inf, np.inf
        lanes.x[at, slot] = 0
        lanes.leaving[at, slot] = False
        lanes.H[at, slot] = 0
        lanes.H[at, :, slot] = 0
        lanes.length[at] -= 1
        lanes.reopen(at)
        self.n_downdates[lanes.system[at]] += 1

    def move(self, moves: Mask, polish: Mask) -> None:
        """Move x towards the passive least-squares solution while it stays feasible.

        If no variable blocks it, this is a Newton step, which also corrects rounding
        errors of H and of earlier steps. Passes that only `polish` x do not count in
        `nit`. If H is not finite, x does not move.
        """
        lanes = self.lanes
        limit = moves & (self.nit[lanes.system] >= self.maxiter)
        moves = moves & ~limit
        self.nit[lanes.system[moves]] += 1
        moves = moves | polish
        at, w = np.arange(len(moves)), lanes.passive_gradient()
        d, shift = self.step(at, w, lanes.H, self.missing(at, lanes.all_x(at)))
        d = np.where(moves[:, None] & np.isfinite(d), d, 0)
        self.shift_multiplier(at, np.where(moves, shift, 0))
        target = lanes.x + d
        low = target <= lanes.lower
        blocks = (low | (target >= lanes.upper)) & (moves & self.may_leave())[:, None]
        end = np.where(low, lanes.lower, lanes.upper)
        step = np.where(blocks, np.fmax((end - lanes.x) / d, 0), np.inf)
        first = np.min(step, axis=1)
        x = lanes.x + np.minimum(first, 1)[:, None] * d
        x = np.clip(x, lanes.lower, lanes.upper)
        np.copyto(x, end, where=blocks & (step <= first[:, None]))
        lanes.x = x
        lanes.leaving &= ~moves[:, None]
        lanes.leaving |= blocks & (x == end)
        lanes.optimal = np.where(moves, ~blocks.any(axis=1), lanes.optimal)
        lanes.polish &= ~moves
        lanes.fresh &= ~moves | polish
        if limit.any():
            self.stop(limit, ITERATION_LIMIT)

    def step(
        self, at: Indices, w: Array, H: Array, missing: Array
    ) -> tuple[Array, Array]:
        """The step ``H w`` of some lanes, by slot, for their passive gradient w.

        With a fixed sum, ``w - shift row`` takes the place of w, so that the step leads
        to that sum. The second result is `shift`.
        """
        d = panel_product(w, H)
        if not self.system.has_sum:
            return d, np.zeros(len(d))
        row = np.pad(self.sum_row(at), ((0, 0), (0, 1)))
        row = np.take_along_axis(row, self.lanes.variables[at], axis=1)
        along = panel_product(row, H)
        of_d, of_along = panel_product(row, np.stack([d, along], axis=-1)).T
        shift = (of_d - missing) / of_along
        return d - shift[:, None] * along, np.where(np.isfinite(shift), shift, 0)

    def missing(self, at: Indices, x: Array) -> Array:
        """What x lacks to a fixed sum, in some lanes; 0 if rounding explains it."""
        if not self.system.has_sum:
            return np.zeros(len(at))
        total = self.system.b[self.lanes.system[at], -1]
        return missing_in_sum(self.sum_row(at), total, x)

    def sum_row(self, at: Indices) -> Array:
        """The row of A that fixes the sum, for some lanes."""
        return of_all(self.system, self.system.A[..., -1, :])[self.lanes.system[at]]

    def shift_multiplier(self, at: Indices, shift: Array) -> None:
        """Change the multiplier of the fixed sum in some lanes."""
        if self.system.has_sum:
            self.lanes.multiplier[at] += shift
            self.lanes.c[at, :-1] -= shift[:, None] * self.sum_row(at)

    def refresh(self, at: Indices) -> None:
        """Compute the true residual of lanes in which no variable enters.

        The part of the residual along the passive columns is due to an error of x; both
        are corrected. A lane is finished if its certificate holds, or no longer
        improves.
        """
        lanes, system = self.lanes, self.system.take(self.lanes.system[at])
        witness, along, change = self.orthogonalise(system, at, lanes.all_x(at))
        refined = lanes.x[at] + change
        inside = (refined > lanes.lower[at]) & (refined < lanes.upper[at])
        follows: Mask = np.all(inside, axis=1)
        lanes.x[at[follows]] = refined[follows]
        x = lanes.all_x(at)
        r = self.residual(system, at, x)
        certificate = certify(system, x, witness, r, along)
        better = certificate.kkt < lanes.best[at]
        self.record(at[better], x[better], [field[better] for field in certificate])
        lanes.best[at[better]] = certificate.kkt[better]
        lanes.refreshes[at] += 1
        tol = self.tol * (1 + size_to_b(system, x))
        goes_on = (better | ~lanes.fresh[at]) & (certificate.kkt > tol)
        goes_on &= lanes.refreshes[at] < REFRESHES
        lanes.busy[at] = goes_on
        for lane in at[goes_on & (certificate.kkt > DRIFT * tol)]:
            lanes.invert(lane)
        on = np.flatnonzero(goes_on)
        lanes.reopen(at[on])
        w = gradient(system.take(on), r[on])
        lanes.set_gradient(at[on], np.where(lanes.closed[at[on]], w, along[on]))
        lanes.fresh[at[on]] = True
        lanes.polish[at[on]] = ~follows[on]

    def orthogonalise(
        self, system: ScaledSystem, at: Indices, x: Array
    ) -> tuple[Array, Array, Array]:
        """Make the residuals of x in some lanes orthogonal to the passive columns.

        Returns the residuals, their gradients, and the corresponding change of x.
        """
        lanes, lane = self.lanes, np.arange(len(at))[:, None]
        variables, H = lanes.variables[at], lanes.H[at]
        norms = np.abs(lanes.rows[at, :, -1])
        r, missing = self.residual(system, at, x), self.missing(at, x)
        change, w = np.zeros(variables.shape), gradient(system, r)
        for _ in range(CORRECTIONS):
            passive = np.pad(w, ((0, 0), (0, 1)))[lane, variables]
            length = data_norm(system, r)
            visible = np.abs(passive) > 0.5 * self.tol * norms * length[:, None]
            goes_on = visible.any(axis=1) | (missing != 0)
            if not goes_on.any():
                break
            d, shift = self.step(at, passive, H, missing)
            d = np.where(goes_on[:, None] & np.isfinite(d), d, 0)
            change += d
            self.shift_multiplier(at, np.where(goes_on, shift, 0))
            of_x = np.zeros((len(at), w.shape[1] + 1))
            of_x[lane, variables] = d
            x = x + of_x[:, :-1]
            missing = self.missing(at, x)
            r = self.with_multiplier(at, r - fitted(system, of_x[:, :-1]))
            w = gradient(system, r)
        return r, w, change

    def residual(self, system: ScaledSystem, at: Indices, x: Array) -> Array:
        """``b - A x`` of some lanes, with the multiplier in the row of a fixed sum."""
        return self.with_multiplier(at, residual(system, x))

    def with_multiplier(self, at: Indices, r: Array) -> Array:
        """A residual, after the multiplier was written to the row of a fixed sum."""
        if self.system.has_sum:
            r[:, self.system.data_rows] = -self.lanes.multiplier[at]
        return r

    def record(self, at: Indices, x: Array, certificate: list[Array]) -> None:
        """Record the best points so far of some lanes, with their certificates."""
        systems = self.lanes.system[at]
        self.x[systems] = x
        for field, values in zip(self.certificate, certificate, strict=True):
            field[systems] = values

    def stop(self, stopped: Mask, status: int) -> None:
        """Finish some lanes, at their best recorded point or else at their x."""
        lanes, at = self.lanes, np.flatnonzero(stopped & (self.lanes.refreshes == 0))
        if at.size:
            system, x = self.system.take(lanes.system[at]), lanes.all_x(at)
            self.record(at, x, list(certify(system, x, self.residual(system, at, x))))
        self.status[lanes.system[stopped]] = status
        lanes.busy &= ~stopped


def nnls_gram(
    system: ScaledSystem, start: Array, *, tol: float, maxiter: int
) -> tuple[Solution, Mask]:
    """Solve a batch of scaled systems in float64, one pivot in each system per pass.

    Parameters
    ----------
    system : ScaledSystem
        ``A`` is (m, n), shared, or (N, m, n); ``b`` is (N, m). All entries are finite.
    start : (N, n) array
        Starting points in the scaled variables. Variables start passive where this is
        between the bounds and not ``system.rest``.
    tol : float
        The `kkt` at which to stop.
    maxiter : int
        Limit on the least-squares solutions of a system.

    Returns
    -------
    solution : Solution
        With `x` in the scaled variables, feasible in any case. If it is not certified,
        the Gram matrix was too ill-conditioned, or `maxiter` too small.
    convincing : (N,) array
        Whether no other method could improve the solution.
    """
    turn = SMALL_BATCH_LOCK if start.size <= SMALL_BATCH else nullcontext()
    with np.errstate(all="ignore"):
        batch = GramBatch(system, start, tol, maxiter)
        with turn:
            batch.solve()
    x = system.rounded(batch.x)
    found = after_rounding(system, batch.x, x, batch.certificate)
    solution = Solution(
        x,
        *found[:3],
        nit=batch.nit,
        status=outcome(system, x, found, batch.status, tol),
        n_updates=batch.n_updates,
        n_downdates=batch.n_downdates,
        repaired=np.zeros(len(start), bool),
        method=np.full(len(start), BY_GRAM, np.uint8),
    )
    return solution, is_convincing(system, x, found, tol)


def after_rounding(
    system: ScaledSystem, x: Array, rounded: Array, found: Certificate
) -> Certificate:
    """The certificate of x, adapted to the rounded x."""
    if np.array_equal(x, rounded):
        return found
    with np.errstate(all="ignore"):
        r = residual(system, rounded)
        change = data_norm(system, r - residual(system, x))
        change = ratio(change, system.magnitude)
    rnorm = norm(r[:, : system.data_rows]) / system.b_scale
    return found._replace(rnorm=rnorm, kkt=found.kkt + change, by_x=found.by_x + change)
