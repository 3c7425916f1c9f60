// What lanes of a warp do in their own way, for nnls_gram.cu: vectors by variable are in registers.

#pragma once

#include "gram_products.cuh"
#include "lane_matrix.cuh"

/// Variables of a problem, as a set of bits.
template <int lanes, int each, bool general>
struct Chosen<LaneTeam<lanes, each, general>> {
    using Team = LaneTeam<lanes, each, general>;

    unsigned bits;

    __device__ __forceinline__ bool has(int j) const { return bits >> j & 1; }

    /// body(j, j) for the chosen variables. A team of several lanes that has no more of them takes
    /// part with -1, until all teams of the warp are ready.
    template <class Body>
    __device__ __forceinline__ void by_all(Body body) const {
        // Without a vote, the compiler doubles the code of loops with shuffles.
#pragma unroll 1
        for (unsigned left = bits; lanes == 1 ? left != 0 : Team::any(left != 0);
             left &= left - 1) {
            const int j = __ffs(static_cast<int>(left)) - 1;
            body(j, j);
        }
    }

    /// The same; a team of one lane knows the registers of its variables.
    template <class Body>
    __device__ __forceinline__ void by_slot(Body body) const {
        if constexpr (lanes > 1) {
            by_all(body);
        } else {
            for_each_variable<Team>(Team::width, [&](auto j) {
                if (has(j)) body(j, j);
            });
        }
    }

    /// Element j, or 0 for -1.
    template <class Variable>
    static __device__ __forceinline__ double element(const LaneVector<double, Team>& values,
                                                     Variable j) {
        const double value = values.of(j);
        return lanes > 1 && j < 0 ? 0 : value;
    }
};

// ---- variables ----------------------------------------------------------------------------

/// See gram_steps.cuh. A key has the bits of a value, in order, but for the last: they say which
/// variable it is, so that values that differ in these bits only are equal.
template <int lanes, int each, bool general>
__device__ __forceinline__ Located<double> find_for_all(
    LaneTeam<lanes, each, general>& team,
    LaneVector<double, LaneTeam<lanes, each, general>>& values, int count, bool by_value,
    double least, int j) {
    using Team = LaneTeam<lanes, each, general>;
    constexpr long long last = Team::width - 1;
    const auto larger = [](long long a, long long b) { return max(a, b); };
    const auto key_of = [](double value, int i) {
        return (__double_as_longlong(value) & ~last) | (last - i);
    };
    long long key = -1;
    for_each_variable<Team>(count, [&](auto i) { key = larger(key, key_of(values[i], i)); });
    if (team.any(!by_value)) {
        if (!by_value) key = -1;
        for_each_variable<Team>(count, [&](auto i) {
            const bool may_be = !by_value && i > j && values[i] == values[i];
            if (may_be) key = larger(key, key_of(Floating<double>::largest(), i));
        });
    }
    key = team.reduce(key, larger);
    const double value = __longlong_as_double(key & ~last);
    return {value, value > least ? static_cast<int>(last - (key & last)) : -1};
}

// ---- products -----------------------------------------------------------------------------

/// part[q] += row[q] vector[i] over the rows i of a lane, of which `row` is the first, for q <
/// columns; if `all`, for all q. `leading` is the distance of rows.
template <class Team, bool all, int count>
__device__ __forceinline__ void add_rows(NearVector<double> row, int leading, int m, int columns,
                                         NearVector<double> vector, double (&part)[count]) {
    NearVector<double> value = vector.from(Team::rank());
    const int step = leading * Team::size();
#pragma unroll 1
    for (int i = Team::rank(); i < m;
         i += Team::size(), row = row.from(step), value = value.from(Team::size())) {
#pragma unroll
        for (int q = 0; q < count; ++q)
            if (all || q < columns) part[q] += row[q] * value[0];
    }
}

/// A^T vector, for all columns. A lane adds the products of its rows; then lanes exchange
/// halves of their sums, until each lane has the sums of its columns.
template <int lanes, int each, bool general>
__device__ void multiply_columns(const GramMatrix<LaneTeam<lanes, each, general>>& matrix, int m,
                                 int n, const Chosen<LaneTeam<lanes, each, general>>&,
                                 NearVector<double> vector,
                                 LaneVector<double, LaneTeam<lanes, each, general>>& out) {
    using Team = LaneTeam<lanes, each, general>;
    constexpr int count = Team::width < 8 ? Team::width : 8;
    constexpr int holders = lanes < count ? lanes : count;  // lanes that have different columns
    const int rank = Team::rank();
    out.forget();
#pragma unroll 1
    for (int first = 0; first < n; first += count) {
        double part[count];
#pragma unroll
        for (int q = 0; q < count; ++q) part[q] = 0;
        const auto row = matrix.entries.from(rank * matrix.leading + first);
        if (first + count <= n)
            add_rows<Team, true>(row, matrix.leading, m, count, vector, part);
        else
            add_rows<Team, false>(row, matrix.leading, m, n - first, vector, part);
#pragma unroll
        for (int half = holders / 2; half > 0; half /= 2) {
            const bool is_upper = rank & half;
#pragma unroll
            for (int q = 0; q < count; ++q) {
                if (q % holders >= half) continue;
                const double sent = is_upper ? part[q] : part[q + half];
                const double kept = is_upper ? part[q + half] : part[q];
                part[q] = kept + shuffle_xor(sent, half);
            }
        }
#pragma unroll
        for (int distance = holders; distance < lanes; distance *= 2)
            part[0] += shuffle_xor(part[0], distance);
#pragma unroll
        for (int q = 0; q < count; q += holders)
            for_each_variable<Team>(n, [&](auto j) {
                if (first + q == j - j % holders) out[j] = part[q] * matrix.factor(j);
            });
    }
}

/// use(i, sum) for every variable i < n of a lane. Several lanes read all columns of G: they need
/// no address for the next one, and no vote.
template <int lanes, int each, bool general, class Use>
__device__ __forceinline__ void combine_gram(
    const GramMatrix<LaneTeam<lanes, each, general>>& matrix, int n,
    const Chosen<LaneTeam<lanes, each, general>>& chosen,
    const LaneVector<double, LaneTeam<lanes, each, general>>& y, Use use) {
    using Team = LaneTeam<lanes, each, general>;
    typename Team::Reals sum{};
    if constexpr (lanes == 1) {
        chosen.by_all([&](int, int k) {
            const double value = y.of(k);
            for_each_variable<Team>(n, [&](auto i) { sum[i] += matrix.G[k * n + i] * value; });
        });
    } else {
        typename Team::Reals factor;
        const double* entry[each];
        for_each_variable<Team>(Team::width, [&](auto i) {
            factor[i] = chosen.has(i) ? y.of(i) : 0;
            entry[i.slot] = &matrix.G[min(i, n - 1)];
        });
#pragma unroll
        for (int slot = 0; slot < each; ++slot) {
            const int count = min(n - slot * lanes, lanes);
#pragma unroll 2
            for (int lane = 0; lane < count; ++lane) {
                const double value = __shfl_sync(whole_warp, factor.own[slot], lane, lanes);
#pragma unroll
                for (int q = 0; q < each; ++q) {
                    sum.own[q] += *entry[q] * value;
                    entry[q] += n;
                }
            }
        }
    }
    for_each_variable<Team>(n, [&](auto i) { use(i, sum[i]); });
}

/// Sums of columns for the rows of a lane, some at once: see gram_products.cuh. Lanes shuffle y, so
/// they take as many turns as the last of them.
template <class Sum, class Team, class Use>
__device__ __forceinline__ void combine(const GramMatrix<Team>& matrix, int count,
                                        const Chosen<Team>& chosen,
                                        const LaneVector<double, Team>& y, Sum empty, Use use) {
    LaneVector<double, Team> scaled{};
    for_each_variable<Team>(Team::width, [&](auto j) {
        if (chosen.has(j)) scaled[j] = y.of(j) * matrix.factor(j);
    });
    constexpr int lanes = Team::size(), rows_at_once = Team::rows_at_once;
#pragma unroll 1
    for (int first = 0; first < count; first += rows_at_once * lanes) {
        // Rows that do not exist are computed like the last row, and not used.
        const auto row_of = [&](int q) { return first + q * lanes + Team::rank(); };
        Sum sum[rows_at_once];
        NearVector<double> row[rows_at_once];
#pragma unroll
        for (int q = 0; q < rows_at_once; ++q) {
            sum[q] = empty;
            row[q] = matrix.entries.from(min(row_of(q), count - 1) * matrix.leading);
        }
        chosen.by_slot([&](auto p, int j) {
            const double value = Chosen<Team>::element(scaled, p);
#pragma unroll
            for (int q = 0; q < rows_at_once; ++q) sum[q].take(row[q][max(j, 0)], value);
        });
#pragma unroll
        for (int q = 0; q < rows_at_once; ++q)
            if (row_of(q) < count) use(row_of(q), sum[q]);
    }
}
