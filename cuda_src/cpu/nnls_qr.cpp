// nnls_qr.cu for one thread: a block of one thread solves system by system.
//
// All computation is in double, also for float. Several threads of a process may call it for the
// same systems; each thread takes the next system from a counter.
//
// Memory. A thread allocates the vectors, R and Q of a system.

#include "cuda.h"

#include "../nnls_qr.cu"
#include "exported.h"
#include "workspace.h"

template <class T>
int solve_systems(const NnlsSystems<T>& systems) {
    const long long n = systems.n;
    const long long rows =
        systems.m + (systems.kind & with_ridge ? n : 0) + (systems.kind & with_sum ? 1 : 0);
    const long long capacity = min(rows, n);
    QrMemory memory{nullptr, 0, 0, 0, 0};
    Vector<double> vectors, R, Q;
    const Workspace workspace([&](TeamMemory& all) {
        all.take(vectors, 2 * rows + 4 * n + 4 * capacity + 2 + n + 2 * capacity);
        all.take(R, capacity * (capacity + 2));
        all.take(Q, rows * capacity);
    });
    if (!workspace) return out_of_memory;
    memory.workspace = reinterpret_cast<unsigned char*>(vectors.first);
    memory.R = reinterpret_cast<unsigned char*>(R.first) - memory.workspace;
    memory.Q = reinterpret_cast<unsigned char*>(Q.first) - memory.workspace;
    const bool is_general = systems.kind & ~with_ridge || systems.options || systems.root_weight;
    if (!is_general)
        nnls_qr<double, false, T>(systems, memory);
    else
        nnls_qr<double, true, T>(systems, memory);
    return finished;
}

GPUSOLVE_EXPORTED int gpusolve_nnls_qr_float32(const NnlsSystems<float>* systems) {
    return solve_systems(*systems);
}
GPUSOLVE_EXPORTED int gpusolve_nnls_qr_float64(const NnlsSystems<double>* systems) {
    return solve_systems(*systems);
}
