// The matrices of nnls_gram.cu: scaled columns and their products.
//
// Columns are multiplied by powers of two, which is exact. `scale_columns` in nnls_gram.cu writes
// large matrices to global memory. A small matrix is copied to shared memory by the team or the
// block that needs it; G and products are scaled, and entries only if their squares may overflow or
// underflow. Rows are multiplied by the roots of their weights. If the sum of x is fixed, a last
// row says so. The l2 penalty is not part of the matrices: it may differ between systems.

#pragma once

#include "floating.cuh"
#include "nnls_systems.cuh"
#include "team.cuh"
#include "variables.cuh"

/// Arguments that are the same for all systems. A team that is not `general` solves plain problems:
/// non-negative least squares without penalties.
template <class Team>
struct GramOptions {
    int m, n, kind;
    double tol;
    int maxiter;

    __device__ bool has_ridge() const { return Team::general && kind & with_ridge; }
    __device__ bool has_sum() const { return Team::general && kind & with_sum; }
    /// Whether there is more than non-negative x, with the same l2 everywhere.
    __device__ bool has_bounds() const { return Team::general && kind & with_bounds; }
    __device__ bool has_penalties() const { return Team::general && kind & with_penalties; }

    /// Rows of the matrix: the given rows, and the row of a fixed sum.
    __device__ int height() const { return m + (has_sum() ? 1 : 0); }
    /// The same, and the rows of the l2 penalty.
    __device__ int rows() const { return height() + (has_ridge() ? n : 0); }
    /// Entries of arrays by variable; those beyond n are 0. Only plain problems have them.
    __device__ int variables() const {
        if constexpr (Team::is_small) return Team::padded(n);
        return n;
    }
    __device__ int capacity() const { return min(rows(), n); }
};

/// A matrix in memory. Strides are in elements.
struct MatrixView {
    Vector<double> entries;
    long long row_stride, column_stride;

    __device__ __forceinline__ double& operator()(int i, int j) const {
        return entries[i * row_stride + j * column_stride];
    }
};

/// The scaled matrix of a system, with its columns in order, as cuBLAS. It is in global memory. A
/// team of lanes has a matrix of its own kind: lane_matrix.cuh.
template <class Team>
struct GramMatrix {
    Vector<double> entries;
    long long leading;         // distance of columns
    Vector<double> G;          // n x n
    Vector<double> norm;       // n: norms of the columns; not finite if an entry is not
    Vector<int> column_shift;  // n: the scales are these powers of two

    __device__ void refer(long long which, const GramOptions<Team>& options,
                          const double* all_columns, const double* all_G, const double* all_norm,
                          const int* all_column_shift) {
        const long long first = which * options.n;
        leading = options.height();
        entries.first = const_cast<double*>(all_columns) + first * leading;
        G.first = const_cast<double*>(all_G) + first * options.n;
        norm.first = const_cast<double*>(all_norm) + first;
        column_shift.first = const_cast<int*>(all_column_shift) + first;
    }

    /// Whether G has been computed. Without it, gradients and products are computed from columns.
    static constexpr __device__ bool has_gram() { return true; }

    __device__ Vector<double> column(int j) const { return entries.from(leading * j); }
    __device__ __forceinline__ MatrixView view() const { return {entries, 1, leading}; }
};

/// The exponent of the scale of a column, from its square norm with what the l2 penalty adds to it:
/// the scaled square is in [1/4, 1), or in [1/16, 1/4) if the sum is fixed, unless it is 0. The row
/// of a fixed sum adds at most 1/4. So diagonals of G are at most 1.
__device__ __forceinline__ int shift_of(double square, bool has_sum) {
    const int half = Floating<double>::exponent(square) >> 1;
    return square == 0 ? 0 : -1 - half - (has_sum ? 1 : 0);
}

/// Whether squares of a column may overflow or underflow, which shows in its square norm; or
/// whether it is 0, or has an entry that is not finite. All norms of float32 are inside.
__device__ __forceinline__ bool is_extreme(double square) {
    return abs(Floating<double>::exponent(square)) > 256;
}

/// Scale an extreme column by its largest magnitude, with the l2 penalty's. `step` is the distance
/// of its entries. Returns the exponent of the scale; 0 if the column stays as it is.
__device__ __forceinline__ int scale_column(double* entry, long long step, int m, double damping,
                                            double square) {
    if (!is_extreme(square)) return 0;
    double largest = magnitude(damping);
#pragma unroll 1
    for (int i = 0; i < m; ++i) largest = max(largest, magnitude(entry[i * step]));
    if (largest == Floating<double>::infinity()) return 0;
    const double scale = inverse_power_of_two(largest);
#pragma unroll 1
    for (int i = 0; i < m; ++i) entry[i * step] *= scale;
    return Floating<double>::exponent(scale);
}

/// The row of a fixed sum has the scales of the columns, over 2 to the power of this number: at
/// most 1/2.
template <class Shifts>
__device__ __forceinline__ int sum_shift(Shifts column_shift, int n) {
    int largest = column_shift[0];
#pragma unroll 1
    for (int j = 1; j < n; ++j) largest = max(largest, column_shift[j]);
    return largest + 1;
}

// ---- large matrices: scaled copies in global memory -----------------------------------

/// The columns of a matrix that a block scales: a column for each of its warps. Shared memory holds
/// `held` rows of them; the matrix is read once if these are all rows, and twice otherwise.
constexpr int scaled_columns = 8;

template <class T>
struct HeldColumns {
    GivenMatrix<T> given;
    int m, n, first_column, held;

    /// Distance of the columns in shared memory: 2 more than a multiple of 16, so that two rows of
    /// eight columns are in different banks.
    __device__ int leading() const { return (held + 15) / 16 * 16 + 2; }

    /// Copy `count` rows from `first` on. Neighbouring lanes read neighbours.
    __device__ void load(double* columns, int first, int count) const {
        const bool by_rows = given.column_stride < given.row_stride;
        const int q = by_rows ? threadIdx.x % scaled_columns : warp_index();
        const int start = by_rows ? threadIdx.x / scaled_columns : lane_index();
        if (first_column + q >= n) return;
        for (int i = start; i < count; i += warp_threads)
            columns[leading() * q + i] = given(first + i, first_column + q);
    }

    /// use(i, value) for all rows i of the column of this warp. If `again`, the rows that are held
    /// are the last rows that were used.
    template <class Use>
    __device__ void for_each_row(bool again, Use use) const {
        double* columns = reinterpret_cast<double*>(dynamic_shared_memory());
        const double* column = columns + leading() * warp_index();
        for (int first = 0; first < m; first += held) {
            const int count = min(held, m - first);
            if (!again || held < m) {
                __syncthreads();
                load(columns, first, count);
                __syncthreads();
            }
            if (first_column + warp_index() >= n) continue;
            for (int i = lane_index(); i < count; i += warp_threads) use(first + i, column[i]);
        }
    }
};
