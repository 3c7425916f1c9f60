// Products with the matrices of nnls_gram.cu, for every kind of team: columns times a vector, and
// sums of columns.
//
// A thread of a large team has whole sums: of a column by the lanes of a warp, of a row by itself.
// Lanes share the rows of a column, and exchange halves of their sums.

#pragma once

#include "compensated.cuh"
#include "gram_matrix.cuh"
#include "passive_inverse.cuh"

/// out[q] = column_q . vector, for `count` columns: of `variables`, or the first columns if it
/// is null. One thread stores an element. Ends without a barrier.
template <class Team>
__device__ __noinline__ void multiply_columns(Vector<double> columns, long long leading, int m,
                                              Vector<int> variables, int count,
                                              Vector<double> vector, Vector<double> out) {
#pragma unroll 1
    for (int q = Team::group(); q < count; q += Team::groups()) {
        const int j = variables.first == nullptr ? q : variables[q];
        const auto column = columns.from(leading * j);
        double sum = 0;
#pragma unroll 2
        for (int i = Team::lane(); i < m; i += Team::lanes()) sum += column[i] * vector[i];
        sum = Team::reduce_group(sum, Called<Add<double>>());
        if (Team::lane() == 0) out[q] = sum;
    }
}
template <class Team>
__device__ void multiply_columns(const GramMatrix<Team>& matrix, int m, int,
                                 const Chosen<Team>& chosen, Vector<double> vector,
                                 Vector<double> out) {
    multiply_columns<Team>(matrix.entries, matrix.leading, m, chosen.list, chosen.count, vector,
                           out);
}

/// A sum of products, and a number minus such a sum, in working precision; the latter in twice of
/// it.
struct PlainSum {
    double value;
    __device__ __forceinline__ void take(double a, double x) { value += a * x; }
    __device__ __forceinline__ double rounded() const { return value; }
};
struct PlainDifference {
    double value;
    __device__ __forceinline__ void take(double a, double x) { value -= a * x; }
    __device__ __forceinline__ double rounded() const { return value; }
};
struct AccurateDifference {
    Twofold<double> value;
    __device__ __forceinline__ void take(double a, double x) {
        value = AddTwofold<double>()(value, two_product(a, -x));
    }
    __device__ __forceinline__ double rounded() const { return value.high + value.low; }
};

/// use(i, result) for i < count, by the thread that has element i. The result takes the products
/// of rows(i, j) and y[p] to start(i), for the chosen variables j at positions p.
template <class Sum, class Team, class Reals, class Start, class Use>
__device__ __forceinline__ void combine(MatrixView rows, int count, const Chosen<Team>& chosen,
                                        Reals y, Start start, Use use) {
    constexpr int unrolled = Team::rows_at_once;
    const int size = Team::size(), rank = Team::rank();
#pragma unroll 1
    for (int first = rank; first < count; first += unrolled * size) {
        Sum sum[unrolled];
#pragma unroll
        for (int q = 0; q < unrolled; ++q)
            sum[q] = {first + q * size < count ? start(first + q * size) : 0};
        chosen.by_all([&](int p, int j) {
            const double value = y.of(p);
            if (value == 0) return;
#pragma unroll
            for (int q = 0; q < unrolled; ++q)
                if (first + q * size < count) sum[q].take(rows(first + q * size, j), value);
        });
#pragma unroll
        for (int q = 0; q < unrolled; ++q)
            if (first + q * size < count) use(first + q * size, sum[q].rounded());
    }
}

/// use(i, sum) for every variable i < n, by the thread that has it: the sum of G(i, j) y[p].
template <class Team, class Use>
__device__ __forceinline__ void combine_gram(const GramMatrix<Team>& matrix, int n,
                                             const Chosen<Team>& chosen, typename Team::Reals y,
                                             Use use) {
    const MatrixView G{matrix.G, 1, n};
    if constexpr (Team::is_small) {
        typename Team::Reals sum{};
        chosen.by_all([&](int p, int j) {
            const double value = y.of(p);
            if (!chosen.has(j)) return;
            for_each_variable<Team>(n, [&](auto i) { sum[i] += G(i, j) * value; });
        });
        for_each_variable<Team>(n, [&](auto i) { use(i, sum[i]); });
    } else {
        combine<PlainSum, Team>(G, n, chosen, y, [](int) { return 0.0; }, use);
    }
}

/// out[i] -= factor * in[i]. A thread computes the elements of its rank.
template <class Team>
__device__ __noinline__ void subtract_multiple(Vector<double> out, int count, double factor,
                                               Vector<double> in) {
    for_each<Team>(count, [&](int i) { out[i] -= factor * in[i]; });
}
