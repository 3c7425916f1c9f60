// nnls_constrained.cu for one thread: least squares with linear constraints on a CPU.
//
// Several threads of a process may call it for the same systems; each thread takes the next systems
// from a counter, and keeps the matrices that successive systems share.

#include "cuda.h"

#include "../constrained_solver.cuh"
#include "exported.h"
#include "serial_rows.cuh"
#include "workspace.h"

template <class T>
int solve_constrained(const NnlsSystems<T>& systems, const ConstraintRows<T>& rows) {
    SerialTeam team{systems.counters};
    ConstrainedArrays arrays;
    arrays.set_sizes(systems, rows);
    const Workspace workspace([&](TeamMemory& memory) { arrays.place(memory); });
    if (!workspace) return out_of_memory;
    ConstrainedTeam<T, SerialTeam> thread{team, arrays, systems, rows};
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
