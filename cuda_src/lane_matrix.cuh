// The matrix of a team of lanes in nnls_gram.cu: in shared memory, computed by the team, or by the
// block if all its teams have the same matrix.

#pragma once

#include "device_teams.cuh"
#include "gram_matrix.cuh"

/// Rows are in order: neighbouring lanes then access different banks. G and the norms are scaled;
/// entries in memory are not, unless their squares may overflow or underflow. So products
/// with the entries are multiplied by factors, which are powers of two: this is exact.
template <int lanes, int each, bool general>
struct GramMatrix<LaneTeam<lanes, each, general>> {
    using Team = LaneTeam<lanes, each, general>;

    NearVector<double> entries;
    int n;
    int leading;              // distance of rows
    NearVector<double> G;     // n x n
    NearVector<double> norm;  // n: with the l2 penalty; not finite if an entry is not
    NearVector<int>
        column_shift;  // n: the scales are these powers of two; then n high words of factors

    __device__ void place(TeamMemory& memory, const GramOptions<Team>& options) {
        // Odd, so that rows of neighbouring lanes start in different banks.
        n = options.n;
        leading = lanes > 1 ? options.n | 1 : options.n;
        memory.take(entries, leading * options.height());
        memory.take(G, options.n * options.n);
        memory.take(norm, options.n);
        memory.take(column_shift, 2 * options.n);
    }

    static constexpr __device__ bool has_gram() { return true; }
    __device__ NearVector<double> column(int j) const { return entries.from(j); }

    __device__ __forceinline__ double& operator()(int i, int j) const {
        return entries[i * leading + j];
    }

    /// The scale of column j, over the scale of its entries in memory; the product for two columns.
    __device__ double factor(int j) const { return __hiloint2double(column_shift[n + j], 0); }
    __device__ double factor(int j, int k) const {
        return __hiloint2double(column_shift[n + j] + column_shift[n + k] - high_word(0), 0);
    }
    __device__ void set_factor(int j, int shift) const { column_shift[n + j] = high_word(shift); }

  private:
    static __device__ int high_word(int exponent) { return (exponent + 1023) << 20; }
};

/// Compute the lower triangle of G. A thread has tiles of 2 x 2 entries, on and below the diagonal;
/// if n is odd, the last row and column are in a tile twice.
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
                at.G[one * n + other] = sum[p][q];
            }
    });
}

/// The same by one lane, with G in registers.
template <int each, bool general>
__device__ void multiply_by_transpose(const GramMatrix<LaneTeam<1, each, general>>& at, int height,
                                      int n) {
    double sum[each][each] = {};
#pragma unroll 1
    for (int i = 0; i < height; ++i) {
        double entry[each];
#pragma unroll
        for (int j = 0; j < each; ++j) {
            if (j >= n) break;
            entry[j] = at(i, j);
#pragma unroll
            for (int k = 0; k <= j; ++k) sum[j][k] += entry[j] * entry[k];
        }
    }
#pragma unroll
    for (int j = 0; j < each; ++j)
        for (int k = 0; k <= j && j < n; ++k) at.G[j * n + k] = sum[j][k];
}

/// Copy a matrix into shared memory, times the roots of its weights. Ends without a barrier.
template <class Workers, class T, class Team>
__device__ void copy_matrix(const GramMatrix<Team>& at, int m, int n, GivenMatrix<T> given) {
    const bool by_rows = given.column_stride < given.row_stride;
    const int length = by_rows ? n : m, lines = by_rows ? m : n;
    if constexpr (Workers::is_small) {
        const bool is_flat =
            by_rows && given.column_stride == 1 && given.row_stride == n && at.leading == n;
        if (is_flat && given.weights.root == nullptr)
            return load_ahead<Workers::size()>(
                Workers::rank(), m * n, [&](int i, int ahead) { return given.A[i + ahead]; },
                [&](int i, int ahead, T value) { at.entries[i + ahead] = value; });
    }
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
}

/// Copy a matrix into shared memory, and compute its scales, G and the norms. `Workers` do it: the
/// team, or the block if its teams have the same matrix. Ends with a barrier.
///
/// G and the norms are scaled; entries in memory are not, but for columns whose squares may
/// overflow or underflow. G_jj <= 1 always holds.
template <class Workers, class T, class Team>
__device__ void scale_matrix(const GramMatrix<Team>& at, const GramOptions<Team>& options,
                             GivenMatrix<T> given, const Variables& variables) {
    const int m = options.m, n = options.n;
    const auto damping = [&](int j) {
        return options.has_ridge() ? shifted(variables.root_l2(j), at.column_shift[j]) : 0;
    };
    const auto square_of = [&](int j) {
        const double square = at.G[j * n + j];
        return options.has_ridge() ? square + damping(j) * damping(j) : square;
    };
    copy_matrix<Workers>(at, m, n, given);
    for_each<Workers>(n, [&](int j) { at.column_shift[j] = 0; });
    Workers::sync();
    for (bool changes = true; changes;) {
        if constexpr (Workers::is_small && Team::width == Team::each)
            multiply_by_transpose(at, m, n);
        else
            multiply_by_transpose<Workers>(at, m, n);
        Workers::sync();
        changes = false;
        for_each<Workers>(n, [&](int j) {
            const int shift = scale_column(&at(0, j), at.leading, m, damping(j), square_of(j));
            at.column_shift[j] += shift;
            changes |= shift != 0;
        });
        changes = Workers::sync_any(changes);
    }
    for_each<Workers>(n, [&](int j) {
        const int shift = shift_of(square_of(j), options.has_sum());
        at.set_factor(j, shift);
        at.column_shift[j] += shift;
    });
    Workers::sync();
    if (options.has_sum()) {
        const int unit = sum_shift(at.column_shift, n);
        for_each<Workers>(
            n, [&](int j) { at(m, j) = shifted(1 / at.factor(j), at.column_shift[j] - unit); });
        Workers::sync();
    }
    for_each<Workers>(n, [&](int j) {
#pragma unroll 1
        for (int k = 0; k <= j; ++k) {
            double entry = at.G[j * n + k];
            if (options.has_sum()) entry += at(m, j) * at(m, k);
            at.G[j * n + k] = at.G[k * n + j] = entry * at.factor(j, k);
        }
        at.norm[j] = square_root(square_of(j));
    });
    Workers::sync();
}
