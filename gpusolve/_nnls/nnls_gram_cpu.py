"""Non-negative least squares on Gram matrices, a whole batch in lockstep: the CPU path.

The method is the specification's (`gpusolve.reference.nnls_qr`, Lawson & Hanson),
the linear algebra is not: every *pass* makes one pivot in each system, with NumPy
looping over the systems. The Gram matrix squares the condition number, and the true
residual makes up for that: once no variable enters, ``A^T (b - A x)`` replaces the
gradient that the Gram matrix gave, and the passes go on until the certificate holds.
What is too ill-conditioned even so stays uncertified, for the caller to solve by QR.

No system's bits depend on its neighbours in the batch. Products are one BLAS call to
a system, and sums over the passive set, whose storage is as large as the largest
neighbour needs, are made panel by panel: panels of zeros add exactly nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress

import numpy as np

from ..reference._certificate import (
    Certificate,
    certify,
    gradient,
    is_convincing,
    norm,
    ratio,
    residual,
    size_to_b,
    times,
)
from ..reference._nnls_qr import CONVERGED, ITERATION_LIMIT, Solution, outcome
from ..reference._scaling import Array, Indices, Mask, ScaledSystem

PANEL = 32
"""Slots that are summed at once; storage for passive variables grows by as many."""

GATHERED = 4096
"""Matrices of up to as many entries are gathered and multiplied in one call."""

RESOLVED = 1e-12
"""Part of a column's square norm that must be left beside the passive columns."""

SLACK = 8.0
"""How much steeper than `tol` asks a Gram gradient must be to be trusted."""

CORRECTIONS = 10
"""How often the true residual may correct a system's gradient."""

DRIFT = 64.0
"""How many times `tol` a corrected gradient may be before H is made afresh."""

PURIFICATIONS = 3
"""How often what the passive columns see of a residual is taken out of it."""

CROWDED = 0.75
"""Finished systems are dropped when no more than this part of the lanes is busy."""

BRIEF = 2**16
"""Variables of a batch up to which NumPy's calls are too brief for several threads."""

TURN = threading.Lock()
"""Held by the thread whose batch of brief calls is under way.

Each NumPy call gives up the interpreter lock and wants it back a few microseconds
later. Threads that do so at once spend more time on handing it over than on their
work; the Gram matrices, most of the arithmetic, are made in parallel all the same.
"""


def panels(capacity: int) -> Iterator[slice]:
    """The slots in panels whose bounds do not depend on the capacity."""
    for first in range(0, capacity, PANEL):
        yield slice(first, first + PANEL)


def panel_product(weights: Array, vectors: Array) -> Array:
    """``sum_s weights[:, s] vectors[:, s]`` over the slots, one panel after another.

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


class Gram:
    """Rows of ``G = A^T A + diag(damping)^2``, made at once or, where A is wide, late.

    A matrix of many more columns than rows has fewer passive variables than G has
    rows, and G may not even fit in memory.
    """

    def __init__(self, system: ScaledSystem) -> None:
        self.A = system.A
        self.square = system.damping**2
        self.G = None
        if 2 * self.A.shape[-2] >= self.A.shape[-1]:
            self.G = np.matmul(self.A.swapaxes(-1, -2), self.A)
            np.einsum("...jj->...j", self.G)[...] += self.square

    def rows(self, systems: Indices, variables: Indices) -> Array:
        """The row of one variable for each of some systems, (lanes, n)."""
        at = (variables,) if self.A.ndim == 2 else (systems, variables)
        if self.G is not None:
            return np.asarray(self.G[at])
        columns = self.A.swapaxes(-1, -2)[at]
        rows = multiply(self.A, systems, columns, transpose=True)
        rows[np.arange(len(rows)), variables] += self.square[at]
        return rows


class Lanes:
    """Systems under way, one to a lane, each with its passive set in *slots*.

    A free slot names the variable n, which stands for none. So there is a column n
    wherever the columns are variables; in ``w`` it is ``|b| + norm @ x``, the magnitude
    of what cancels in b - A x, which comes out of the same product as the gradient.

    Attributes
    ----------
    system : (lanes,) array
        The place of the system in the batch.
    norm : (lanes, n) array
        Norms of the columns; infinite for a column of zeros, which never enters.
    c, w : (lanes, n + 1) array
        ``A^T b - penalty``, corrected by the true residual; the gradient ``c - G x``.
    variables, x : (lanes, capacity) array
        The variable in each slot and its value. A variable at 0 is about to leave.
    rows : (lanes, capacity, n + 1) array
        Rows of G of the passive variables.
    H : (lanes, capacity, capacity) array
        The inverse of G restricted to the passive variables; 0 at free slots.
    closed : (lanes, n) array
        Variables that are passive, or depended on those that are when they were tried.
    waiting : (lanes, n) array
        Positive starting values that have yet to be made passive.
    busy, optimal, fresh, polish : (lanes,) array
        The system is not finished; x minimises over the passive set; no variable has
        entered since w was corrected; x could not follow for want of being positive.
    corrections, best : (lanes,) array
        How often w was corrected, and the least `kkt` seen then.
    """

    def __init__(self, batch: ScaledSystem, start: Array, capacity: int) -> None:
        lanes, n = start.shape
        self.system = np.arange(lanes)
        self.norm = np.where(batch.norm > 0, batch.norm, np.inf) + np.zeros((lanes, 1))
        b_norm = np.sqrt(np.vecdot(batch.b, batch.b))
        c = multiply(batch.A, self.system, batch.b, transpose=True) - batch.penalty
        self.c = np.concatenate([c, b_norm[:, None]], axis=1)
        self.w = self.c.copy()
        self.variables = np.full((lanes, capacity), n)
        self.x = np.zeros((lanes, capacity))
        self.rows = np.zeros((lanes, capacity, n + 1))
        self.H = np.zeros((lanes, capacity, capacity))
        self.closed = np.zeros((lanes, n), bool)
        self.waiting = (start > 0) & np.isfinite(start)
        self.busy = np.ones(lanes, bool)
        self.optimal = ~self.waiting.any(axis=1)
        self.fresh, self.polish = np.zeros((2, lanes), bool)
        self.corrections = np.zeros(lanes, np.intp)
        self.best = np.full(lanes, np.inf)

    def keep(self, lanes: Mask) -> None:
        """Drop the other lanes."""
        for name, array in vars(self).items():
            setattr(self, name, array[lanes])

    def grow(self) -> None:
        """Make room for another panel of passive variables."""
        n, more = self.norm.shape[1], ((0, 0), (0, PANEL))
        self.variables = np.pad(self.variables, more, constant_values=n)
        self.x = np.pad(self.x, more)
        self.rows = np.pad(self.rows, (*more, (0, 0)))
        self.H = np.pad(self.H, (*more, (0, PANEL)))

    def occupied(self) -> Mask:
        """The slots that are not free."""
        return np.asarray(self.variables < self.norm.shape[1])

    def passive_gradient(self) -> Array:
        """``w`` of the variable in each slot; anything at free slots."""
        return np.asarray(self.w[np.arange(len(self.w))[:, None], self.variables])

    def update_inverse(self, v: Array, sign: Array) -> None:
        """Add ``sign v v^T`` to H."""
        for panel in panels(v.shape[1]):
            self.H[:, panel] += (sign[:, None] * v[:, panel])[:, :, None] * v[:, None]

    def invert(self, lane: int) -> None:
        """Make H afresh, from the slots in use alone."""
        slots = np.flatnonzero(self.occupied()[lane])
        G = self.rows[lane][np.ix_(slots, self.variables[lane, slots])]
        with suppress(np.linalg.LinAlgError):
            self.H[lane][np.ix_(slots, slots)] = np.linalg.inv(G)

    def reopen(self, lanes: Indices) -> None:
        """Let every variable of some lanes that is not passive try to enter again."""
        passive = np.zeros((len(lanes), self.w.shape[1]), bool)
        passive[np.arange(len(lanes))[:, None], self.variables[lanes]] = True
        self.closed[lanes] = passive[:, :-1]

    def all_variables(self, lanes: Indices) -> Array:
        """The values of all variables in some lanes, (len(lanes), n + 1)."""
        x = np.zeros((len(lanes), self.w.shape[1]))
        x[np.arange(len(lanes))[:, None], self.variables[lanes]] = self.x[lanes]
        return x


class Batch:
    """A batch of scaled systems under Lawson & Hanson's method (Algorithm 1)."""

    def __init__(
        self, system: ScaledSystem, start: Array, tol: float, maxiter: int
    ) -> None:
        rows, n = system.A.shape[-2:]
        self.system, self.start, self.tol, self.maxiter = system, start, tol, maxiter
        self.gram = Gram(system)
        self.most = n if system.has_ridge else min(rows, n)
        self.lanes = Lanes(system, start, capacity=max(1, min(self.most, PANEL)))
        self.x: Array = np.zeros(start.shape)
        self.certificate = certify(system, self.x, residual(system, self.x))
        self.status = np.full(len(start), CONVERGED, np.int32)
        self.nit, self.n_updates, self.n_downdates = np.zeros((3, len(start)), np.int32)

    def solve(self) -> None:
        """Make passes until every system is finished, or has had more than its due."""
        for _ in range(4 * (self.maxiter + self.x.shape[1]) + 64):
            busy = np.count_nonzero(self.lanes.busy)
            if not busy:
                return
            if busy <= CROWDED * len(self.lanes.busy):
                self.lanes.keep(self.lanes.busy)
            self.make_pass()
        self.stop(self.lanes.busy, ITERATION_LIMIT)

    def make_pass(self) -> None:
        """At most one variable enters or leaves each passive set, and x follows."""
        lanes = self.lanes
        if lanes.x.shape[1] < self.most and lanes.occupied().all(axis=1).any():
            lanes.grow()
        lanes.w = lanes.c - panel_product(lanes.x, lanes.rows)
        waits = lanes.busy & lanes.waiting.any(axis=1)
        leaving = lanes.occupied() & (lanes.x <= 0)
        leaves = lanes.busy & ~waits & leaving.any(axis=1)
        settled = lanes.busy & lanes.optimal & ~waits & ~leaves
        variable, enters = self.entering()
        enters &= settled
        polish = settled & ~enters & lanes.polish
        idle = settled & ~enters & ~polish
        if waits.any():
            variable = np.where(waits, np.argmax(lanes.waiting, axis=1), variable)
        entered = self.pivot(variable, enters | waits, leaving & leaves[:, None])
        moves = lanes.busy & ~waits & ~settled & (leaving.sum(axis=1) <= 1)
        self.move(moves | (entered & ~waits), polish)
        if idle.any():
            self.correct(np.flatnonzero(idle))

    def entering(self) -> tuple[Indices, Mask]:
        """The variable of steepest descent of each lane, and whether it may enter.

        Only on a corrected gradient is `tol` itself the measure.
        """
        lanes = self.lanes
        slope = np.where(lanes.closed, 0, lanes.w[:, :-1] / lanes.norm)
        variable = np.argmax(slope, axis=1)
        steepest = slope[np.arange(len(slope)), variable]
        least = self.tol * lanes.w[:, -1] * np.where(lanes.fresh, 1, SLACK)
        return variable, steepest > least

    def pivot(self, variable: Indices, tried: Mask, leaving: Mask) -> Mask:
        """Let a variable into some passive sets, and one out of others.

        Either is an update of H of rank one. Returns the lanes that a variable entered.
        """
        lanes = self.lanes
        v, sign = np.zeros_like(lanes.x), np.zeros(len(lanes.x))
        entered, leaves = np.zeros(len(lanes.x), bool), leaving.any(axis=1)
        if tried.any():
            entered = self.append(variable, tried, v)
            sign[entered] = 1
        if leaves.any():
            at = np.flatnonzero(leaves)
            slot = np.argmax(leaving[at], axis=1)
            column = lanes.H[at, slot]
            v[at] = column / np.sqrt(column[np.arange(len(at)), slot])[:, None]
            sign[at] = -1
        if tried.any() or leaves.any():
            lanes.update_inverse(v, sign)
        if leaves.any():
            self.clear(at, slot)
        return entered

    def append(self, variable: Indices, tried: Mask, v: Array) -> Mask:
        """Append a variable in those lanes where it does not depend on the passive.

        Writes to `v` the vector that updates H; returns the lanes that took theirs.
        """
        lanes, at = self.lanes, np.flatnonzero(tried)
        j, system = variable[at], lanes.system[at]
        norm = lanes.norm[at, j]
        row = np.empty((len(at), lanes.w.shape[1]))
        row[:, :-1] = self.gram.rows(system, j)
        row[:, -1] = -norm
        g = np.zeros_like(lanes.x)
        g[at] = row[np.arange(len(at))[:, None], lanes.variables[at]]
        u = panel_product(g, lanes.H)
        both = np.stack([g, lanes.passive_gradient()], axis=-1)
        along = panel_product(u, both)[at]
        square = row[np.arange(len(at)), j] - along[:, 0]
        waits = lanes.waiting[at, j]
        room = np.count_nonzero(lanes.occupied()[at], axis=1) < self.most
        descends = lanes.w[at, j] - along[:, 1] > (
            self.tol * lanes.w[at, -1] * np.sqrt(square)
        )
        taken = room & (square > RESOLVED * norm**2) & (waits | descends)
        lanes.closed[at, j] = True
        lanes.waiting[at, j] = False
        at, j, row, root = at[taken], j[taken], row[taken], np.sqrt(square[taken])
        slot = np.argmin(lanes.occupied()[at], axis=1)
        v[at] = u[at] / root[:, None]
        v[at, slot] = -1 / root
        lanes.variables[at, slot] = j
        lanes.rows[at, slot] = row
        lanes.x[at, slot] = np.where(waits[taken], self.start[lanes.system[at], j], 0)
        self.n_updates[lanes.system[at]] += 1
        entered = np.zeros_like(tried)
        entered[at] = True
        return entered

    def clear(self, at: Indices, slot: Indices) -> None:
        """Free a slot in some lanes, and let what depended on its variable retry."""
        lanes = self.lanes
        lanes.variables[at, slot] = self.x.shape[1]
        lanes.x[at, slot] = 0
        lanes.H[at, slot] = 0
        lanes.H[at, :, slot] = 0
        lanes.reopen(at)
        self.n_downdates[lanes.system[at]] += 1

    def move(self, moves: Mask, polish: Mask) -> None:
        """Move x towards the passive least-squares solution while it stays positive.

        Where nothing blocks it, that is a Newton step; it makes up for the rounding in
        H and in the steps before. Passes that merely `polish` x do not count. Where H
        has broken down, x stays where it is.
        """
        lanes = self.lanes
        limit = moves & (self.nit[lanes.system] >= self.maxiter)
        moves = moves & ~limit
        self.nit[lanes.system[moves]] += 1
        moves = moves | polish
        d = panel_product(lanes.passive_gradient(), lanes.H)
        d = np.where(moves[:, None] & np.isfinite(d), d, 0)
        blocks = lanes.occupied() & (lanes.x + d <= 0) & moves[:, None]
        step = np.where(blocks, np.where(lanes.x > 0, lanes.x / -d, 0), np.inf)
        first = np.min(step, axis=1)
        x = np.maximum(lanes.x + np.minimum(first, 1)[:, None] * d, 0)
        x[blocks & (step <= first[:, None])] = 0
        lanes.x = x
        lanes.optimal = np.where(moves, ~blocks.any(axis=1), lanes.optimal)
        lanes.polish &= ~moves
        lanes.fresh &= ~moves | polish
        if limit.any():
            self.stop(limit, ITERATION_LIMIT)

    def correct(self, at: Indices) -> None:
        """Measure the true residual where no variable enters: finished, or not yet.

        Its part along the passive columns is an error of x, which is taken out of both.
        """
        lanes, system = self.lanes, self.system.take(self.lanes.system[at])
        x = lanes.all_variables(at)[:, :-1]
        witness, along, change = self.purify(system, at, residual(system, x))
        refined = lanes.x[at] + change
        free = ~lanes.occupied()[at]
        follows: Mask = np.all((refined > 0) | free, axis=1)
        lanes.x[at[follows]] = refined[follows]
        x = lanes.all_variables(at)[:, :-1]
        r = residual(system, x)
        certificate = certify(system, x, witness, r, along)
        better = certificate.kkt < lanes.best[at]
        self.keep(at[better], x[better], [field[better] for field in certificate])
        lanes.best[at[better]] = certificate.kkt[better]
        lanes.corrections[at] += 1
        by_size = 1 + size_to_b(system, x)
        goes_on = (better | ~lanes.fresh[at]) & (certificate.kkt > self.tol * by_size)
        goes_on &= lanes.corrections[at] < CORRECTIONS
        lanes.busy[at] = goes_on
        for lane in at[goes_on & (certificate.kkt > DRIFT * self.tol * by_size)]:
            lanes.invert(lane)
        at, on = at[goes_on], np.flatnonzero(goes_on)
        of_x = gradient(system.take(on), r[on])
        w = np.where(x[on] > 0, of_x, along[on])
        now = lanes.c[at] - panel_product(lanes.x[at], lanes.rows[at])
        lanes.c[at, :-1] += w - now[:, :-1]
        lanes.fresh[at] = True
        lanes.polish[at] = ~follows[on]
        lanes.reopen(at)

    def purify(
        self, system: ScaledSystem, at: Indices, r: Array
    ) -> tuple[Array, Array, Array]:
        """Make residuals orthogonal to the passive columns.

        Returns them, their gradient, and how the passive x changes by that.
        """
        lanes, lane = self.lanes, np.arange(len(at))[:, None]
        variables, H = lanes.variables[at], lanes.H[at]
        norms = np.pad(lanes.norm[at], ((0, 0), (0, 1)))[lane, variables]
        change, w = np.zeros(variables.shape), gradient(system, r)
        for _ in range(PURIFICATIONS):
            seen = np.pad(w, ((0, 0), (0, 1)))[lane, variables]
            visible = np.abs(seen) > 0.5 * self.tol * norms * norm(r)[:, None]
            goes_on = visible.any(axis=1)
            if not goes_on.any():
                break
            d = panel_product(seen, H)
            d = np.where(goes_on[:, None] & np.isfinite(d), d, 0)
            change += d
            of_all = np.zeros((len(at), w.shape[1] + 1))
            of_all[lane, variables] = d
            r = r - times(system, of_all[:, :-1])
            w = gradient(system, r)
        return r, w, change

    def keep(self, at: Indices, x: Array, certificate: list[Array]) -> None:
        """Keep some points as the answers so far, with what certifies them."""
        systems = self.lanes.system[at]
        self.x[systems] = x
        for field, values in zip(self.certificate, certificate, strict=True):
            field[systems] = values

    def stop(self, stopped: Mask, status: int) -> None:
        """Finish some lanes where they stand, or at the best point that was checked."""
        lanes, at = self.lanes, np.flatnonzero(stopped & (self.lanes.corrections == 0))
        if at.size:
            system, x = self.system.take(lanes.system[at]), lanes.all_variables(at)
            x = x[:, :-1]
            self.keep(at, x, list(certify(system, x, residual(system, x))))
        self.status[lanes.system[stopped]] = status
        lanes.busy &= ~stopped


def nnls_gram(
    system: ScaledSystem, start: Array, *, tol: float, maxiter: int
) -> tuple[Solution, Mask]:
    """Solve a batch of scaled systems in float64, one pivot of each at a time.

    Parameters
    ----------
    system : ScaledSystem
        ``A`` is (m, n), shared, or (N, m, n); ``b`` is (N, m). All entries are finite.
    start : (N, n) array
        Starting points in the scaled variables; positive entries start passive.
    tol : float
        The violation of optimality, as :func:`certify` measures it, to stop at.
    maxiter : int
        The most inner passes of a system.

    Returns
    -------
    solution : Solution
        With `x` in the scaled variables. Where it is not certified, the Gram matrix
        was too ill-conditioned, or `maxiter` too small; x is feasible even then.
    convincing : (N,) array
        Where no other method could resolve more.
    """
    batch = Batch(system, start, tol, maxiter)
    with np.errstate(all="ignore"), TURN if start.size <= BRIEF else nullcontext():
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
    )
    return solution, is_convincing(system, x, found, tol)


def after_rounding(
    system: ScaledSystem, x: Array, rounded: Array, found: Certificate
) -> Certificate:
    """The certificate of x, turned into that of what x is rounded to."""
    if np.array_equal(x, rounded):
        return found
    with np.errstate(all="ignore"):
        r = residual(system, rounded)
        change = ratio(norm(r - residual(system, x)), norm(system.b))
    rnorm = norm(r[:, : system.b.shape[1]]) / system.b_scale
    return found._replace(rnorm=rnorm, kkt=found.kkt + change, by_x=found.by_x + change)
