// Kernel that tests certificate.cuh: one thread per certificate.

#include "certificate.cuh"
#include "thread.cuh"

/// Whether solutions with these parts of `kkt` are certified, and whether they are convincing.
template <class T>
__global__ void judge(const double* by_x, const double* angle, int count, int* certified,
                      int* convincing) {
    const long long i = thread_of_grid();
    if (i >= count) return;
    const Certificate<T, double> found(by_x[i], 0, angle[i], 1, 1, 0, 0);
    certified[i] = found.is_good(true, 0);
    convincing[i] = found.is_good(false, 0);
}
