"""Non-negative least squares from Gram matrices: the CPU path, a batch in lockstep.

The method is that of the specification (`gpusolve.reference.nnls_qr`, Lawson & Hanson);
the linear algebra differs. Every *pass* makes one pivot in each system, with NumPy
looping over the systems. The Gram matrix squares the condition number. To make up for
that, when no variable enters, ``A^T (b - A x)`` replaces the gradient that was computed
from the Gram matrix, and the passes continue until the certificate holds. Systems that
are too ill-conditioned for this stay uncertified; the caller solves them by QR.

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

from ..reference._certificate import (
    Certificate,
    certify,
    gradient,
    is_convincing,
    norm,
    ratio,
    residual,
    size_to_b,
)
from ..reference._nnls_gram import fitted
from ..reference._nnls_qr import (
    BY_GRAM,
    CONVERGED,
    ITERATION_LIMIT,
    Solution,
    outcome,
)
from ..reference._scaling import Array, Indices, Mask, ScaledSystem

PANEL = 32
"""Slots that are summed at once, and by which storage for passive variables grows."""

GATHERED = 4096
"""Matrices with at most this many entries are gathered and multiplied in one call."""

RESOLVED = 1e-12
"""Part of a column's square norm that must be orthogonal to the passive columns."""

SLACK = 8.0
"""Factor on `tol` for the less accurate gradients from the Gram matrix."""

REFRESHES = 10
"""Limit on how often the gradient of a system is computed from the true residual."""

DRIFT = 64.0
"""H is recomputed if `kkt` exceeds this number times `tol` after a refresh."""

ORTHOGONALISATIONS = 3
"""Limit on how often a residual is made orthogonal to the passive columns."""

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


class Gram:
    """Rows of ``G = A^T A + diag(damping)^2``.

    G is computed in advance, except if A has more than twice as many columns as rows.
    Then most rows of G are never used, and G may not fit into memory: each row is
    computed when it is needed.
    """

    def __init__(self, system: ScaledSystem) -> None:
        self.A = system.A
        self.square = system.damping**2
        self.G = None
        if 2 * self.A.shape[-2] >= self.A.shape[-1]:
            self.G = np.matmul(self.A.swapaxes(-1, -2), self.A)
            np.einsum("...jj->...j", self.G)[...] += self.square

    def rows(self, systems: Indices, variables: Indices) -> Array:
        """The row of one variable for each of some systems, as a (lanes, n) array."""
        at = (variables,) if self.A.ndim == 2 else (systems, variables)
        if self.G is not None:
            return np.asarray(self.G[at])
        columns = self.A.swapaxes(-1, -2)[at]
        rows = multiply(self.A, systems, columns, transpose=True)
        rows[np.arange(len(rows)), variables] += self.square[at]
        return rows


class Lanes:
    """Unfinished systems, one per lane, each with its passive variables in *slots*.

    A free slot holds the variable n, which means none. Therefore arrays over variables
    have a column n. In ``w`` it holds ``|b| + norm @ x``, the magnitude of the terms
    that cancel in b - A x; the product that gives the gradient gives this as well.

    Attributes
    ----------
    system : (lanes,) array
        The index of the system in the batch.
    norm : (lanes, n) array
        Norms of the columns; infinity for a column of zeros, which never enters.
    c, w : (lanes, n + 1) array
        ``A^T b - penalty``, corrected by the true residual; the negative gradient
        ``w = c - G x``.
    variables, x : (lanes, capacity) array
        The variable in each slot and its value. A variable whose value is 0 leaves
        next.
    rows : (lanes, capacity, n + 1) array
        Rows of G of the passive variables.
    H : (lanes, capacity, capacity) array
        The inverse of G restricted to the passive variables; 0 at free slots.
    closed : (lanes, n) array
        Variables that are passive, or could not enter the current passive set.
    waiting : (lanes, n) array
        Variables with a positive starting value that have yet to enter.
    busy, optimal, fresh, polish : (lanes,) array
        Whether the system is not finished; whether x minimises over the passive set;
        whether x has not moved since the last refresh, except to polish it; whether
        the refined x was not positive, so that x needs another step.
    refreshes, best : (lanes,) array
        The number of refreshes, and the least `kkt` found in them.
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
        self.refreshes = np.zeros(lanes, np.intp)
        self.best = np.full(lanes, np.inf)

    def select(self, lanes: Mask) -> None:
        """Keep these lanes and drop the others."""
        for name, array in vars(self).items():
            setattr(self, name, array[lanes])

    def grow(self) -> None:
        """Add a panel of free slots."""
        n, more = self.norm.shape[1], ((0, 0), (0, PANEL))
        self.variables = np.pad(self.variables, more, constant_values=n)
        self.x = np.pad(self.x, more)
        self.rows = np.pad(self.rows, (*more, (0, 0)))
        self.H = np.pad(self.H, (*more, (0, PANEL)))

    def occupied(self) -> Mask:
        """The slots that are not free."""
        return np.asarray(self.variables < self.norm.shape[1])

    def passive_gradient(self) -> Array:
        """``w`` of the variable in each slot; arbitrary at free slots."""
        return np.asarray(self.w[np.arange(len(self.w))[:, None], self.variables])

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

    def all_variables(self, lanes: Indices) -> Array:
        """The values of all variables in some lanes, as a (len(lanes), n + 1) array."""
        x = np.zeros((len(lanes), self.w.shape[1]))
        x[np.arange(len(lanes))[:, None], self.variables[lanes]] = self.x[lanes]
        return x


class GramBatch:
    """Lawson & Hanson's method (Algorithm 1) for a batch of scaled systems."""

    def __init__(
        self, system: ScaledSystem, start: Array, tol: float, maxiter: int
    ) -> None:
        rows, n = system.A.shape[-2:]
        self.system, self.start, self.tol, self.maxiter = system, start, tol, maxiter
        self.gram = Gram(system)
        self.capacity = n if system.has_ridge else min(rows, n)
        self.lanes = Lanes(system, start, capacity=max(1, min(self.capacity, PANEL)))
        self.x: Array = np.zeros(start.shape)
        self.certificate = certify(system, self.x, residual(system, self.x))
        self.status = np.full(len(start), CONVERGED, np.int32)
        self.nit, self.n_updates, self.n_downdates = np.zeros((3, len(start)), np.int32)

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
        if lanes.x.shape[1] < self.capacity and lanes.occupied().all(axis=1).any():
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
            self.refresh(np.flatnonzero(idle))

    def entering(self) -> tuple[Indices, Mask]:
        """The variable of steepest descent of each lane, and whether it may enter.

        The threshold is `tol` right after a refresh, and `SLACK` times `tol` otherwise.
        """
        lanes = self.lanes
        slope = np.where(lanes.closed, 0, lanes.w[:, :-1] / lanes.norm)
        variable = np.argmax(slope, axis=1)
        steepest = slope[np.arange(len(slope)), variable]
        least = self.tol * lanes.w[:, -1] * np.where(lanes.fresh, 1, SLACK)
        return variable, steepest > least

    def pivot(self, variable: Indices, tried: Mask, leaving: Mask) -> Mask:
        """Append a variable to some passive sets, and remove one from others.

        Both are updates of H of rank one. Returns the lanes in which a variable
        entered.
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
        """Append a variable in the lanes where it is independent and descends.

        Writes to `v` the vector that updates H. Returns the lanes that it entered.
        """
        lanes, at = self.lanes, np.flatnonzero(tried)
        j, systems = variable[at], lanes.system[at]
        norm = lanes.norm[at, j]
        row = np.concatenate([self.gram.rows(systems, j), -norm[:, None]], axis=1)
        u, square, descent = self.project(at, j, row)
        waits = lanes.waiting[at, j]
        fits = np.count_nonzero(lanes.occupied()[at], axis=1) < self.capacity
        descends = descent > self.tol * lanes.w[at, -1] * np.sqrt(square)
        accepted = fits & (square > RESOLVED * norm**2) & (waits | descends)
        lanes.closed[at, j] = True
        lanes.waiting[at, j] = False
        at, j, root = at[accepted], j[accepted], np.sqrt(square[accepted])
        slot = np.argmin(lanes.occupied()[at], axis=1)
        v[at] = u[accepted] / root[:, None]
        v[at, slot] = -1 / root
        start = np.where(waits[accepted], self.start[lanes.system[at], j], 0)
        lanes.variables[at, slot] = j
        lanes.rows[at, slot] = row[accepted]
        lanes.x[at, slot] = start
        self.n_updates[lanes.system[at]] += 1
        entered = np.zeros_like(tried)
        entered[at] = True
        return entered

    def project(
        self, at: Indices, j: Indices, row: Array
    ) -> tuple[Array, Array, Array]:
        """Project column j of some lanes onto their passive columns.

        `row` is the row of G for j. Returns the coefficients by slot, the square norm
        of the part orthogonal to the passive columns, and the descent along this part.
        """
        lanes = self.lanes
        g = np.zeros_like(lanes.x)
        g[at] = row[np.arange(len(at))[:, None], lanes.variables[at]]
        u = panel_product(g, lanes.H)
        both = np.stack([g, lanes.passive_gradient()], axis=-1)
        along = panel_product(u, both)[at]
        square = row[np.arange(len(at)), j] - along[:, 0]
        return u[at], square, lanes.w[at, j] - along[:, 1]

    def clear(self, at: Indices, slot: Indices) -> None:
        """Free a slot in some lanes; variables that could not enter may try again."""
        lanes = self.lanes
        lanes.variables[at, slot] = self.x.shape[1]
        lanes.x[at, slot] = 0
        lanes.H[at, slot] = 0
        lanes.H[at, :, slot] = 0
        lanes.reopen(at)
        self.n_downdates[lanes.system[at]] += 1

    def move(self, moves: Mask, polish: Mask) -> None:
        """Move x towards the passive least-squares solution while it stays positive.

        If no variable blocks it, this is a Newton step, which also corrects rounding
        errors of H and of earlier steps. Passes that only `polish` x do not count in
        `nit`. If H is not finite, x does not move.
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

    def refresh(self, at: Indices) -> None:
        """Compute the true residual of lanes in which no variable enters.

        The part of the residual along the passive columns is due to an error of x; both
        are corrected. A lane is finished if its certificate holds, or no longer
        improves.
        """
        lanes, system = self.lanes, self.system.take(self.lanes.system[at])
        x = lanes.all_variables(at)[:, :-1]
        witness, along, change = self.orthogonalise(system, at, residual(system, x))
        refined = lanes.x[at] + change
        follows: Mask = np.all((refined > 0) | ~lanes.occupied()[at], axis=1)
        lanes.x[at[follows]] = refined[follows]
        x = lanes.all_variables(at)[:, :-1]
        r = residual(system, x)
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
        w = np.where(x[on] > 0, gradient(system.take(on), r[on]), along[on])
        lanes.set_gradient(at[on], w)
        lanes.fresh[at[on]] = True
        lanes.polish[at[on]] = ~follows[on]
        lanes.reopen(at[on])

    def orthogonalise(
        self, system: ScaledSystem, at: Indices, r: Array
    ) -> tuple[Array, Array, Array]:
        """Make residuals orthogonal to the passive columns.

        Returns the residuals, their gradients, and the corresponding change of x.
        """
        lanes, lane = self.lanes, np.arange(len(at))[:, None]
        variables, H = lanes.variables[at], lanes.H[at]
        norms = np.pad(lanes.norm[at], ((0, 0), (0, 1)))[lane, variables]
        change, w = np.zeros(variables.shape), gradient(system, r)
        for _ in range(ORTHOGONALISATIONS):
            passive = np.pad(w, ((0, 0), (0, 1)))[lane, variables]
            visible = np.abs(passive) > 0.5 * self.tol * norms * norm(r)[:, None]
            goes_on = visible.any(axis=1)
            if not goes_on.any():
                break
            d = panel_product(passive, H)
            d = np.where(goes_on[:, None] & np.isfinite(d), d, 0)
            change += d
            of_all = np.zeros((len(at), w.shape[1] + 1))
            of_all[lane, variables] = d
            r = r - fitted(system, of_all[:, :-1])
            w = gradient(system, r)
        return r, w, change

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
            system, x = self.system.take(lanes.system[at]), lanes.all_variables(at)
            x = x[:, :-1]
            self.record(at, x, list(certify(system, x, residual(system, x))))
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
        Starting points in the scaled variables. Positive entries start passive.
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
    batch = GramBatch(system, start, tol, maxiter)
    turn = SMALL_BATCH_LOCK if start.size <= SMALL_BATCH else nullcontext()
    with np.errstate(all="ignore"), turn:
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
        change = ratio(norm(r - residual(system, x)), norm(system.b))
    rnorm = norm(r[:, : system.b.shape[1]]) / system.b_scale
    return found._replace(rnorm=rnorm, kkt=found.kkt + change, by_x=found.by_x + change)
