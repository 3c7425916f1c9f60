// Least squares with linear constraints on a CPU; constrained_solver.cuh has the solver.
//
// Several threads of a process may call it for the same systems; each thread takes the next systems
// from a counter, and keeps the matrices that successive systems share.

#include "cuda.h"

#include "constrained_solver.cuh"
#include "exported.h"
#include "workspace.h"

/// A thread, and whose matrices are in its arrays.
template <class T>
struct ConstrainedThread {
    const NnlsSystems<T>& systems;
    const ConstraintRows<T>& rows;
    SerialTeam team;
    ConstrainedArrays arrays;
    const T *held_A = nullptr, *held_weights = nullptr;
    const double *held_ub = nullptr, *held_eq = nullptr;
    bool is_held = false, is_read = false;

    ConstrainedThread(const NnlsSystems<T>& systems, const ConstraintRows<T>& rows)
        : systems(systems), rows(rows), team{systems.counters} {
        arrays.m = systems.m;
        arrays.n = systems.n;
        arrays.k = rows.below + rows.equal + ((systems.kind & with_sum) != 0);
    }

    /// Read the matrices of a system, unless the system before had the same matrices.
    bool read(long long number) {
        const auto matrix = systems.matrix_of(number);
        const double* const ub =
            rows.C_ub + BatchOffsets{rows.C_ub_offset, rows.C_ub_batch_stride}[number];
        const double* const eq =
            rows.C_eq + BatchOffsets{rows.C_eq_offset, rows.C_eq_batch_stride}[number];
        const bool is_same = is_held && rows.same_l2 && matrix.A == held_A &&
                             matrix.weights.root == held_weights && ub == held_ub && eq == held_eq;
        if (is_same) return is_read;
        held_A = matrix.A;
        held_weights = matrix.weights.root;
        held_ub = ub;
        held_eq = eq;
        is_held = true;
        is_read = ConstrainedMatrices<T, SerialTeam>{team, arrays, systems, rows}.read(number);
        return is_read;
    }

    void solve(long long k) {
        const long long number = systems.first + k;
        int status = is_unsettled;
        if (read(number))
            status = ConstrainedSolver<T, SerialTeam>{team, arrays, systems, rows}.solve(k, number);
        systems.status[k] = status;
        if (status == is_unsettled) atomicAdd(&systems.counters->listed, 1);
    }
};

template <class T>
int solve_constrained(const NnlsSystems<T>& systems, const ConstraintRows<T>& rows) {
    ConstrainedThread<T> thread(systems, rows);
    const Workspace workspace([&](TeamMemory& memory) { thread.arrays.place(memory); });
    if (!workspace) return out_of_memory;
    for (;;) {
        const long long first = atomicAdd(&systems.counters->taken, rows.at_once);
        const long long end = min(first + rows.at_once, systems.count);
        if (first >= end) return finished;
        for (long long k = first; k < end; ++k) thread.solve(k);
    }
}

GPUSOLVE_EXPORTED int gpusolve_constrained_float32(const NnlsSystems<float>* systems,
                                                   const ConstraintRows<float>* rows) {
    return solve_constrained(*systems, *rows);
}
GPUSOLVE_EXPORTED int gpusolve_constrained_float64(const NnlsSystems<double>* systems,
                                                   const ConstraintRows<double>* rows) {
    return solve_constrained(*systems, *rows);
}
