// The matrix of a team of lanes in nnls_gram.cu: in shared memory, computed by the team, or by the
// block if all its teams have the same matrix.

#pragma once

#include "device_teams.cuh"
#include "gram_matrix.cuh"

/// Rows are in order. Of several lanes, each reads two entries of a row at once: if n is odd, the
/// entry after the last is 0. G and the norms are scaled; entries in memory are not, unless their
/// squares may overflow or underflow. So products with the entries are multiplied by factors, which
/// are powers of two: this is exact.
template <int lanes, int each, bool general>
struct GramMatrix<LaneTeam<lanes, each, general>> {
    using Team = LaneTeam<lanes, each, general>;

    NearVector<double> entries;
    int n;
    int leading;                   // distance of rows
    NearVector<double> G;          // by rows; entries beyond n are 0
    NearVector<double> norm;       // with the l2 penalty; not finite if an entry is not
    NearVector<double> per_norm;   // 1 / norm, or 0; of a matrix that all teams share
    NearVector<int> column_shift;  // the scales are these powers of two
    NearVector<int> factor_words;  // high words of factors

    __device__ void place(TeamMemory& memory, const GramOptions<Team>& options) {
        n = options.n;
        leading = n;
        if (lanes > 1) {
            // At most two of the lanes that read neighbouring rows access the same bank.
            leading = (n + 1) / 2 * 2;
            if (leading % 8 == 0) leading += 2;
        }
        const int padded = Team::padded(n);
        memory.take(G, padded * padded);
        memory.take(norm, padded);
        if (Team::shares_matrix) memory.take(per_norm, padded);
        memory.take(column_shift, padded);
        memory.take(factor_words, padded);
        memory.take(entries, leading * options.height() + beyond());
    }

    static constexpr __device__ bool has_gram() { return true; }
    /// Entries after the last row: a single lane reads as many columns as it has registers.
    __device__ int beyond() const { return lanes > 1 ? 0 : Team::width - n; }
    __device__ NearVector<double> row(int i) const { return entries.from(i * leading); }
    __device__ NearVector<double> column(int j) const { return entries.from(j); }

    __device__ __forceinline__ double& operator()(int i, int j) const {
        return entries[i * leading + j];
    }
    __device__ NearVector<double> gram(int j) const { return G.from(j * Team::padded(n)); }

    /// The scale of column j, over the scale of its entries in memory; the product for two columns.
    __device__ double factor(int j) const { return __hiloint2double(factor_words[j], 0); }
    __device__ double factor(int j, int k) const {
        return __hiloint2double(factor_words[j] + factor_words[k] - high_word(0), 0);
    }
    __device__ void set_factor(int j, int shift) const { factor_words[j] = high_word(shift); }

  private:
    static __device__ int high_word(int exponent) { return (exponent + 1023) << 20; }
};

/// Entries j and j + 1 of a row, by one access for several lanes; j is even. An entry beyond the
/// row is a number.
template <int lanes>
__device__ __forceinline__ double2 pair_of(NearVector<double> row, int j) {
    if constexpr (lanes > 1) return row.pair(j);
    return {row[j], row[j + 1]};
}

/// Compute G. A thread has tiles of 2 x 2 entries, on and below the diagonal.
template <class Workers, class Team>
__device__ void multiply_by_transpose(const GramMatrix<Team>& at, int height, int n) {
    const int tiles = (n + 1) / 2;
    int row = 0;
    for_each<Workers>(tiles * (tiles + 1) / 2, [&](int tile) {
        while ((row + 1) * (row + 2) / 2 <= tile) ++row;
        const int j = 2 * row, k = 2 * (tile - row * (row + 1) / 2);
        NearVector<double> of_j = at.entries.from(j), of_k = at.entries.from(k);
        double sum[2][2] = {{0, 0}, {0, 0}};
#pragma unroll 2
        for (int i = 0; i < height; ++i) {
            const double2 one = pair_of<Team::size()>(of_j, 0);
            const double2 other = pair_of<Team::size()>(of_k, 0);
            of_j = of_j.from(at.leading), of_k = of_k.from(at.leading);
            sum[0][0] += one.x * other.x, sum[0][1] += one.x * other.y;
            sum[1][0] += one.y * other.x, sum[1][1] += one.y * other.y;
        }
        for (int p = 0; p < 2; ++p)
            for (int q = 0; q < 2; ++q)
                if (Team::shares_matrix || max(j + p, k + q) < n)
                    at.gram(j + p)[k + q] = at.gram(k + q)[j + p] = sum[p][q];
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
        for (int k = 0; k <= j && j < n; ++k) at.gram(j)[k] = at.gram(k)[j] = sum[j][k];
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
        const double square = at.gram(j)[j];
        return options.has_ridge() ? square + damping(j) * damping(j) : square;
    };
    copy_matrix<Workers>(at, m, n, given);
    if (n < at.leading) for_each<Workers>(options.height(), [&](int i) { at(i, n) = 0; });
    for_each<Workers>(at.beyond(), [&](int j) { at.row(options.height())[j] = 0; });
    for_each<Workers>(options.variables(),
                      [&](int j) { at.column_shift[j] = at.factor_words[j] = 0; });
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
#pragma unroll 1
    for (int k = 0; k < options.variables(); ++k)
        for_each_variable<Workers>(options.variables(), [&](auto j) {
            double& entry = at.gram(k)[j];
            if (options.has_sum()) entry += at(m, j) * at(m, k);
            entry = j < n && k < n ? entry * at.factor(j, k) : 0;
        });
    for_each<Workers>(options.variables(), [&](int j) {
        const double norm = j < n ? square_root(square_of(j)) : 0;
        at.norm[j] = norm;
        if constexpr (Team::shares_matrix) at.per_norm[j] = norm > 0 ? 1 / norm : 0;
    });
    Workers::sync();
}
