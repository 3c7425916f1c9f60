// Residuals b - A x of a sparse matrix in twice the working precision, for several systems.
//
// Four systems are computed at once: their elements of x are neighbours in memory, so an entry of
// the matrix is read once for all of these. The sums are those of compensated.cuh, along the row.
//
// A call computes some rows, in one thread. Its results do not depend on other calls.

#include "cuda.h"

#include "exported.h"
#include "four.h"

namespace {

/// A matrix in compressed sparse rows.
template <class Index>
struct SparseRows {
    const Index *starts, *columns;
    const double* values;
};

/// Subtract the product of a row and four vectors x from r.
template <class Index>
void subtract_row(const SparseRows<Index>& A, long long row, const double* x, long long pitch,
                  double* r, long long m) {
    double sums[four];
    for (int k = 0; k < four; ++k) sums[k] = r[k * m + row];
    Four high = load_four(sums), low = all_four(0);
    for (Index e = A.starts[row]; e < A.starts[row + 1]; ++e) {
        const Four a = all_four(-A.values[e]), of_x = load_four(x + A.columns[e] * pitch);
        const Four product = a * of_x, total = high + product, of_product = total - high;
        const Four rounding = (high - (total - of_product)) + (product - of_product);
        low += rounding + error_of_product(a, of_x, product);
        high = total;
    }
    store_four(sums, high + low);
    for (int k = 0; k < four; ++k) r[k * m + row] = sums[k];
}

template <class Index>
void subtract_products(const SparseRows<Index>& A, long long begin, long long end, const double* x,
                       long long systems, double* r, long long m) {
    for (long long row = begin; row < end; ++row)
        for (long long k = 0; k < systems; k += four)
            subtract_row(A, row, x + k, systems, r + k * m, m);
}

}  // namespace

/// r -= A x for rows begin to end - 1. The number of systems is a multiple of 4; x has n rows of
/// `systems` numbers, r has `systems` rows of m numbers. `wide` says whether indices have 64 bits.
GPUSOLVE_EXPORTED int gpusolve_sparse_residual(const void* starts, const void* columns,
                                               const double* values, long long wide,
                                               long long begin, long long end, const double* x,
                                               long long systems, double* r, long long m) {
    if (wide)
        subtract_products<long long>(
            {static_cast<const long long*>(starts), static_cast<const long long*>(columns), values},
            begin, end, x, systems, r, m);
    else
        subtract_products<int>(
            {static_cast<const int*>(starts), static_cast<const int*>(columns), values}, begin, end,
            x, systems, r, m);
    return 0;
}
