// nnls_gram.cu for one thread: the Gram method on a CPU.
//
// Several threads of a process may call it for the same systems; each thread takes the next systems
// from a counter. Each thread scales a matrix that successive systems share once.
//
// Memory. A thread allocates a matrix, G, H and the vectors of a system.

#include "cuda.h"

#include "../gram_solver.cuh"
#include "../nnls_systems.cuh"
#include "exported.h"
#include "serial_inverse.cuh"
#include "workspace.h"

/// The arguments of a thread, in addition to the systems.
struct GramRun {
    const double* root_l2;  // n: the largest of all systems, for the scales of a shared matrix
    int has_gram;
    int at_once;  // systems that a thread takes from the counter
};

/// The arrays of a thread, and whose matrix is in them.
template <class T>
struct GramThread {
    const NnlsSystems<T>& systems;
    const GramRun& run;
    SerialTeam team;
    GramOptions<SerialTeam> options;
    GramArrays<SerialTeam> arrays;
    const T *scaled_A = nullptr, *scaled_by = nullptr;

    GramThread(const NnlsSystems<T>& systems, const GramRun& run)
        : systems(systems),
          run(run),
          team{systems.counters},
          options{systems.m, systems.n, systems.kind, systems.tol, systems.maxiter} {}

    void place(TeamMemory& memory) {
        arrays.matrix.place(memory, options, run.has_gram);
        arrays.place(memory, options);
        arrays.refer_to_norms(options);
    }

    /// Scale the matrix of a system, unless the system before had the same matrix.
    void scale(long long k) {
        const auto matrix = systems.matrix_of(k);
        const bool is_shared = run.root_l2 != nullptr || systems.options == nullptr;
        if (is_shared && matrix.A == scaled_A && matrix.weights.root == scaled_by) return;
        scale_matrix(team, arrays.matrix, options, matrix, systems.variables_of(k), run.root_l2);
        scaled_A = matrix.A;
        scaled_by = matrix.weights.root;
    }

    void solve(long long k) {
        const long long number = systems.first + k;
        scale(number);
        GramSolver<T, SerialTeam> solver{
            {{{team, options, arrays, PassiveInverse<SerialTeam>(arrays.inverse),
               systems.b_of(number), systems.b_stride, systems.weights_of(number)}}}};
        solver.run(true, systems, systems.results(), k, number);
    }
};

template <class T>
int solve_systems(const NnlsSystems<T>& systems, const GramRun& run) {
    GramThread<T> thread(systems, run);
    const Workspace workspace([&](TeamMemory& memory) { thread.place(memory); });
    if (!workspace) return out_of_memory;
    for (;;) {
        const long long first = atomicAdd(&systems.counters->taken, run.at_once);
        const long long end = min(first + run.at_once, systems.count);
        if (first >= end) return finished;
        for (long long k = first; k < end; ++k) thread.solve(k);
    }
}

GPUSOLVE_EXPORTED int gpusolve_nnls_gram_float32(const NnlsSystems<float>* systems,
                                                 const GramRun* run) {
    return solve_systems(*systems, *run);
}
GPUSOLVE_EXPORTED int gpusolve_nnls_gram_float64(const NnlsSystems<double>* systems,
                                                 const GramRun* run) {
    return solve_systems(*systems, *run);
}
