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
};

// ---- arrays -----------------------------------------------------------------------------

/// Numbers that all lanes of a team read: the factors of columns, or a row of the tableau and its
/// pivot. A single lane has them in registers.
template <int lanes, int width>
struct TeamRow : NearVector<double> {
    __device__ void place(TeamMemory& memory) {
        memory.take(static_cast<NearVector<double>&>(*this), width + 1);
    }
    __device__ __forceinline__ void set_pair(int k, double2 values) const { pair(k) = values; }
};
template <int width>
struct TeamRow<1, width> {
    double entries[width + 1];

    __device__ void place(TeamMemory&) {}
    __device__ __forceinline__ double& operator[](int k) { return entries[k]; }
    __device__ __forceinline__ double operator[](int k) const { return entries[k]; }
    __device__ __forceinline__ double2 pair(int k) const { return {entries[k], entries[k + 1]}; }
    __device__ __forceinline__ void set_pair(int k, double2 values) {
        entries[k] = values.x;
        entries[k + 1] = values.y;
    }
};

template <int lanes, int each, bool general>
struct PassiveInverseArrays<LaneTeam<lanes, each, general>> {
    TeamRow<lanes, lanes * each> row;

    __device__ void place(TeamMemory& memory, int) { row.place(memory); }
    __device__ void place(unsigned char*, unsigned char*, int) {}
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
    // The last bits: first which register of a lane has the value, then which lane.
    const auto key_of = [](double value, int slot) {
        return (__double_as_longlong(value) & ~last) | (each - 1 - slot) * lanes;
    };
    long long key = -1;
    for_each_variable<Team>(count, [&](auto i) { key = larger(key, key_of(values[i], i.slot)); });
    if (team.any(!by_value)) {
        if (!by_value) key = -1;
        for_each_variable<Team>(count, [&](auto i) {
            const bool may_be = !by_value && i > j && values[i] == values[i];
            if (may_be) key = larger(key, key_of(Floating<double>::largest(), i.slot));
        });
    }
    key = team.reduce(key | (lanes - 1 - Team::rank()), larger);
    const double value = __longlong_as_double(key & ~last);
    return {value, value > least ? static_cast<int>(last - (key & last)) : -1};
}

// ---- products -----------------------------------------------------------------------------

/// part[q] += row[q] vector[i] over the rows i of a lane, of which `row` is the first, for q <
/// columns; if `all`, for all q. `leading` is the distance of rows. Returns the sum of vector[i]^2.
template <class Team, bool all, int count>
__device__ __forceinline__ double add_rows(NearVector<double> row, int leading, int m, int columns,
                                           NearVector<double> vector, double (&part)[count]) {
    NearVector<double> value = vector.from(Team::rank());
    const int step = leading * Team::size();
    double square = 0;
#pragma unroll 1
    for (int i = Team::rank(); i < m;
         i += Team::size(), row = row.from(step), value = value.from(Team::size())) {
#pragma unroll
        for (int q = 0; q < count; q += 2) {
            if (!all && q >= columns) break;
            const double2 entries = pair_of<Team::size()>(row, q);
            part[q] += entries.x * value[0];
            part[q + 1] += entries.y * value[0];
        }
        square += value[0] * value[0];
    }
    return square;
}

/// A^T vector, for all columns. A lane adds the products of its rows; then lanes exchange
/// halves of their sums, until each lane has the sums of its columns. Returns the lane's part of
/// the square norm of the vector.
template <int lanes, int each, bool general>
__device__ double multiply_columns(const GramMatrix<LaneTeam<lanes, each, general>>& matrix, int m,
                                   int n, const Chosen<LaneTeam<lanes, each, general>>&,
                                   NearVector<double> vector,
                                   LaneVector<double, LaneTeam<lanes, each, general>>& out) {
    using Team = LaneTeam<lanes, each, general>;
    constexpr int count = Team::width < 8 ? Team::width : 8;
    constexpr int holders = lanes < count ? lanes : count;  // lanes that have different columns
    const int rank = Team::rank();
    out.forget();
    double square = 0;
#pragma unroll 1
    for (int first = 0; first < n; first += count) {
        double part[count];
#pragma unroll
        for (int q = 0; q < count; ++q) part[q] = 0;
        const auto row = matrix.entries.from(rank * matrix.leading + first);
        if (lanes == 1 || first + count <= n)
            square = add_rows<Team, true>(row, matrix.leading, m, count, vector, part);
        else
            square = add_rows<Team, false>(row, matrix.leading, m, n - first, vector, part);
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
            for_each_variable<Team>(Team::padded(n), [&](auto j) {
                if (first + q == j - j % holders) out[j] = part[q] * matrix.factor(j);
            });
    }
    return square;
}

/// use(i, sum) for every variable i < n of a lane, from all rows of G.
template <int lanes, int each, bool general, class Use>
__device__ __forceinline__ void combine_gram(
    const GramMatrix<LaneTeam<lanes, each, general>>& matrix,
    PassiveInverseArrays<LaneTeam<lanes, each, general>>& shared, int n,
    const Chosen<LaneTeam<lanes, each, general>>& chosen,
    const LaneVector<double, LaneTeam<lanes, each, general>>& y, Use use) {
    using Team = LaneTeam<lanes, each, general>;
    auto& factors = shared.row;
    Team::sync();
    for_each_variable<Team>(Team::width, [&](auto k) { factors[k] = chosen.has(k) ? y.of(k) : 0; });
    Team::sync();
    typename Team::Reals sum{};
    const int padded = Team::padded(n);
    // A team of one lane knows the registers of its factors.
#pragma unroll(lanes == 1 ? each : 2)
    for (int k = 0; k < (lanes == 1 ? each : n); ++k) {
        const double factor = factors[k];
        if (lanes > 1 || k < n)
            for_each_variable<Team>(padded, [&](auto i) { sum[i] += matrix.gram(k)[i] * factor; });
    }
    for_each_variable<Team>(padded, [&](auto i) { use(i, sum[i]); });
}

/// Sums of columns for the rows of a lane, some at once: see gram_products.cuh. Columns that are
/// not chosen have factors of 0: the teams of a warp have not chosen the same columns.
template <class Sum, int lanes, int each, bool general, class Use>
__device__ __forceinline__ void combine(
    const GramMatrix<LaneTeam<lanes, each, general>>& matrix,
    PassiveInverseArrays<LaneTeam<lanes, each, general>>& shared, int count,
    const Chosen<LaneTeam<lanes, each, general>>& chosen,
    const LaneVector<double, LaneTeam<lanes, each, general>>& y, Sum empty, Use use) {
    using Team = LaneTeam<lanes, each, general>;
    auto& factors = shared.row;
    Team::sync();
    for_each_variable<Team>(
        Team::width, [&](auto j) { factors[j] = chosen.has(j) ? y.of(j) * matrix.factor(j) : 0; });
    Team::sync();
    constexpr int rows_at_once = Team::rows_at_once;
    // A team of one lane knows the registers of its factors.
    constexpr int unrolled = lanes == 1 ? each / 2 : (sizeof(Sum) == sizeof(double) ? 2 : 1);
#pragma unroll 1
    for (int first = 0; first < count; first += rows_at_once * lanes) {
        // Rows that do not exist are computed like the last row, and not used.
        const auto row_of = [&](int q) { return first + q * lanes + Team::rank(); };
        Sum sum[rows_at_once];
        NearVector<double> row[rows_at_once];
#pragma unroll
        for (int q = 0; q < rows_at_once; ++q) {
            sum[q] = empty;
            row[q] = matrix.row(min(row_of(q), count - 1));
        }
#pragma unroll(unrolled)
        for (int j = 0; j < (lanes == 1 ? Team::width : matrix.n); j += 2) {
            const double2 factor = factors.pair(j);
#pragma unroll
            for (int q = 0; q < rows_at_once; ++q) {
                const double2 entries = pair_of<lanes>(row[q], j);
                sum[q].take(entries.x, factor.x);
                sum[q].take(entries.y, factor.y);
            }
        }
#pragma unroll
        for (int q = 0; q < rows_at_once; ++q)
            if (row_of(q) < count) use(row_of(q), sum[q]);
    }
}
