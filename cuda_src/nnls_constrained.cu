// Least squares with linear constraints, a block for each system: constrained_solver.cuh has the
// solver, and the specification is
// gpusolve/reference/_nnls_constrained.py.
//
// Each block takes the next systems from a counter, and keeps the matrices that successive systems
// share.
//
// Memory. The arrays of a block are in shared memory if they fit, else in the workspace.

#include "constrained_solver.cuh"
#include "device_teams.cuh"

constexpr int constrained_max_threads = 128;

/// The memory of a launch. The fields are as in `CONSTRAINED_MEMORY` in
/// gpusolve/_nnls/nnls_constrained_kernel.py.
struct ConstrainedMemory {
    unsigned char* workspace;  // null: the arrays are in shared memory
    long long workspace_stride;
};

/// Solve the systems. A system that is left for another solver has the status `is_unsettled`.
template <class T>
__global__ void __launch_bounds__(constrained_max_threads, 3)
    nnls_constrained(const NnlsSystems<T> systems, const ConstraintRows<T> rows,
                     const ConstrainedMemory memory) {
    using Team = FarBlockTeam;
    __shared__ typename Team::Storage storage;
    __shared__ ConstrainedArrays arrays;
    __shared__ long long first;

    Team team(storage);
    if (threadIdx.x == 0) {
        arrays.set_sizes(systems, rows);
        TeamMemory of_block{memory.workspace == nullptr
                                ? dynamic_shared_memory()
                                : memory.workspace + blockIdx.x * memory.workspace_stride};
        arrays.place(of_block);
    }
    ConstrainedTeam<T, Team> block{team, arrays, systems, rows};
    for (;;) {
        if (threadIdx.x == 0)
            first = static_cast<long long>(
                atomicAdd(&systems.counters->taken, static_cast<unsigned long long>(rows.at_once)));
        team.sync();
        const long long begin = first, end = min(begin + rows.at_once, systems.count);
        if (begin >= end) return;
        for (long long k = begin; k < end; ++k) block.solve(k);
    }
}
