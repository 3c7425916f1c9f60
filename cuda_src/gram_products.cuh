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
/// is null. A group multiplies two columns at once. Ends without a barrier.
template <class Team>
__device__ __noinline__ void multiply_columns(Vector<double> columns, long long leading, int m,
                                              Vector<int> variables, int count, Vector<double> in,
                                              Vector<double> out) {
    struct Row {
        double a, b, factor;
    };
    const Chosen<Team> chosen{variables, count};
    const Vector<double> vector = placed<Team>(in);
#pragma unroll 1
    for (int q = 2 * Team::group(); q < count; q += 2 * Team::groups()) {
        const int next = min(q + 1, count - 1);
        const auto one = columns.from(leading * chosen[q]);
        const auto other = columns.from(leading * chosen[next]);
        Two sum{0, 0};
        load_ahead<warp_threads>(
            Team::lane(), m,
            [&](int i, int ahead) {
                return Row{one[i + ahead], other[i + ahead], vector[i + ahead]};
            },
            [&](int, int, const Row& row) {
                sum.a += row.a * row.factor;
                sum.b += row.b * row.factor;
            });
        sum = Team::reduce_group(sum, Called<AddTwo>());
        if (Team::lane() == 0) {
            out[q] = sum.a;
            out[next] = sum.b;
        }
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
template <class Sum, class Team, class Start, class Use>
__device__ __forceinline__ void combine(MatrixView rows, int count, const Chosen<Team>& chosen,
                                        Vector<double> vector, Start start, Use use) {
    const Vector<double> y = placed<Team>(vector);
    for_each<Team>(count, [&](int i) {
        Sum sum{start(i)};
        load_ahead<1>(
            0, chosen.count,
            [&](int p, int ahead) { return Pair{rows(i, chosen[p + ahead]), y[p + ahead]}; },
            [&](int, int, Pair loaded) { sum.take(loaded.a, loaded.b); });
        use(i, sum.rounded());
    });
}

/// use(i, sum) for every variable i < n, by the thread that has it: the sum of G(i, j) y[p].
template <class Team, class Use>
__device__ __forceinline__ void combine_gram(const GramMatrix<Team>& matrix, int n,
                                             const Chosen<Team>& chosen, typename Team::Reals y,
                                             Use use) {
    combine<PlainSum, Team>(MatrixView{matrix.G, 1, n}, n, chosen, y, [](int) { return 0.0; }, use);
}

/// out[i] -= factor * in[i]. A thread computes the elements of its rank.
template <class Team>
__device__ __noinline__ void subtract_multiple(Vector<double> out, int count, double factor,
                                               Vector<double> in) {
    for_each<Team>(count, [&](int i) { out[i] -= factor * in[i]; });
}
