// The matrices of nnls_gram.cu: scaled columns and their products.
//
// Columns are multiplied by powers of two, which is exact. `scale_columns` in nnls_gram.cu writes
// large matrices to global memory; a small matrix is scaled by the team or the block that needs it,
// into shared memory. Rows are multiplied by the roots of their weights. If the sum of x is fixed,
// a last row says so. The l2 penalty is not part of the matrices: it may differ between systems.

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

/// The scaled matrix of a system. Large teams have its columns in order, as cuBLAS; small
/// teams its rows, because neighbouring lanes then access different banks.
template <class Team>
struct GramMatrix {
    Vector<double> entries;
    long long leading;            // distance of rows or columns
    Vector<double> G;             // n x n
    Vector<double> norm;          // n: norms of the columns; infinite if an entry is not finite
    Vector<double> column_scale;  // n: powers of two

    /// Refer to a matrix in global memory.
    __device__ void refer(long long which, const GramOptions<Team>& options,
                          const double* all_columns, const double* all_G, const double* all_norm,
                          const double* all_column_scale) {
        const long long first = which * options.n;
        leading = options.height();
        entries.first = const_cast<double*>(all_columns) + first * leading;
        G.first = const_cast<double*>(all_G) + first * options.n;
        norm.first = const_cast<double*>(all_norm) + first;
        column_scale.first = const_cast<double*>(all_column_scale) + first;
    }

    /// Allocate the arrays of a team that scales its matrix itself.
    __device__ void place(TeamMemory& memory, const GramOptions<Team>& options) {
        leading = options.n | 1;  // odd, so that neighbouring rows start in different banks
        memory.take(entries, leading * options.height());
        memory.take(G, static_cast<long long>(options.n) * options.n);
        memory.take(norm, options.n);
        memory.take(column_scale, options.n);
    }

    /// Whether G has been computed. Without it, gradients and products are computed from columns.
    static constexpr __device__ bool has_gram() { return true; }

    __device__ Vector<double> column(int j) const { return entries.from(leading * j); }
    __device__ __forceinline__ MatrixView view() const {
        if constexpr (Team::is_small) return {entries, leading, 1};
        return {entries, 1, leading};
    }
    __device__ __forceinline__ double& operator()(int i, int j) const { return view()(i, j); }
};

/// The scale of a column with this largest magnitude; 0 if an entry is not finite.
__device__ __forceinline__ double scale_of(double largest) {
    return largest < Floating<double>::infinity() ? inverse_power_of_two(largest) : 0;
}
__device__ __forceinline__ double scaled_by(double value, double scale) {
    return scale > 0 ? value * scale : 0;
}

/// The norm of a column; infinite if an entry is not finite.
__device__ __forceinline__ double norm_of(double squares, double scale) {
    return scale > 0 ? square_root(squares) : Floating<double>::infinity();
}

/// Compute G. A thread has tiles of 2 x 2 entries, on and below the diagonal; if n is odd, the last
/// row and column are in a tile twice.
template <class Workers, class Team>
__device__ void multiply_by_transpose(const GramMatrix<Team>& at, int height, int n) {
    const int tiles = (n + 1) / 2;
    int row = 0;
    for_each<Workers>(tiles * (tiles + 1) / 2, [&](int tile) {
        while ((row + 1) * (row + 2) / 2 <= tile) ++row;
        const int j = 2 * row, k = 2 * (tile - row * (row + 1) / 2);
        const int next_j = min(j + 1, n - 1), next_k = min(k + 1, n - 1);
        const double *of_j = &at(0, j), *of_next_j = &at(0, next_j);
        const double *of_k = &at(0, k), *of_next_k = &at(0, next_k);
        double sum[2][2] = {{0, 0}, {0, 0}};
#pragma unroll 2
        for (int i = 0; i < height; ++i) {
            const double one[] = {*of_j, *of_next_j}, other[] = {*of_k, *of_next_k};
            of_j += at.leading, of_next_j += at.leading;
            of_k += at.leading, of_next_k += at.leading;
            for (int p = 0; p < 2; ++p)
                for (int q = 0; q < 2; ++q) sum[p][q] += one[p] * other[q];
        }
        for (int p = 0; p < 2; ++p)
            for (int q = 0; q < 2; ++q) {
                const int one = p ? next_j : j, other = q ? next_k : k;
                at.G[one * n + other] = at.G[other * n + one] = sum[p][q];
            }
    });
}

/// Scale a matrix into shared memory, and compute G and the norms. `Workers` do it: the team, or
/// the block if its teams have the same matrix. Ends with a barrier.
template <class Workers, class T, class Team>
__device__ void scale_matrix(const GramMatrix<Team>& at, const GramOptions<Team>& options,
                             GivenMatrix<T> given, const Variables& variables) {
    const int m = options.m, n = options.n;
    const bool by_rows = given.column_stride < given.row_stride;
    const int length = by_rows ? n : m, lines = by_rows ? m : n;
    const int step = Workers::size() / length, rest = Workers::size() - step * length;
    int line = Workers::rank() / length, place = Workers::rank() - line * length;
    const long long of_line = by_rows ? given.row_stride : given.column_stride;
    const long long of_place = by_rows ? given.column_stride : given.row_stride;
    const int to_line = by_rows ? at.leading : 1, to_place = by_rows ? 1 : at.leading;
    const T* from = given.A + line * of_line + place * of_place;
    double* to = &at.entries[line * to_line + place * to_place];
    const long long from_step = step * of_line + rest * of_place,
                    from_next = of_line - length * of_place;
    const int to_step = step * to_line + rest * to_place, to_next = to_line - length * to_place;
#pragma unroll 1
    while (line < lines) {
        *to = given.weights.times(static_cast<double>(*from), by_rows ? line : place);
        line += step;
        place += rest;
        from += from_step;
        to += to_step;
        if (place >= length) {
            place -= length;
            ++line;
            from += from_next;
            to += to_next;
        }
    }
    Workers::sync();
    for_each<Workers>(n, [&](int j) {
        double* entry = &at(0, j);
        // Magnitudes have the order of their bits; NaN is the largest.
        long long largest = __double_as_longlong(variables.root_l2(j));
#pragma unroll 2
        for (int i = 0; i < m; ++i, entry += at.leading)
            largest = max(largest, __double_as_longlong(fabs(*entry)));
        const double scale = scale_of(__longlong_as_double(largest));
#pragma unroll 2
        for (int i = 0; i < m; ++i) {
            entry -= at.leading;
            *entry = scaled_by(*entry, scale);
        }
        at.column_scale[j] = scale;
    });
    Workers::sync();
    if (options.has_sum()) {
        for_each<Workers>(n, [&](int j) {
            double largest = 0;
#pragma unroll 1
            for (int k = 0; k < n; ++k) largest = max(largest, at.column_scale[k]);
            at(m, j) = at.column_scale[j] / largest;
        });
        Workers::sync();
    }
    multiply_by_transpose<Workers>(at, options.height(), n);
    Workers::sync();
    for_each<Workers>(n, [&](int j) { at.norm[j] = norm_of(at.G[j * n + j], at.column_scale[j]); });
    Workers::sync();
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
