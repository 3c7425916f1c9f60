// Kernel that tests AccurateSum: one thread per sum.

#include "compensated.cuh"
#include "thread.cuh"

/// results[i] = b[i] minus the sum of a[i][j] x[i][j] over j < n; the magnitudes of the products
/// add up to sizes[i].
__global__ void subtract_products(const double* a, const double* x, const double* b,
                                  const double* sizes, int count, int n, double* results) {
    const long long i = thread_of_grid();
    if (i >= count) return;
    AccurateSum sum = AccurateSum::of_size(sizes[i]);
    for (int j = 0; j < n; ++j) sum.take(a[i * n + j], x[i * n + j]);
    results[i] = sum.subtracted_from(b[i]);
}
