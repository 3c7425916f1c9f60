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
template <class Team, class In>
__device__ __noinline__ void multiply_columns(Vector<double> columns, long long leading, int m,
                                              Chosen<Team> chosen, In vector,
                                              typename Team::Reals out) {
    struct Row {
        double a, b, factor;
    };
    const int count = chosen.count;
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
template <class Team, class In>
__device__ void multiply_columns(const GramMatrix<Team>& matrix, int m, int,
                                 const Chosen<Team>& chosen, In vector, typename Team::Reals out) {
    multiply_columns<Team>(matrix.entries, matrix.leading, m, chosen, vector, out);
}

/// A sum of products in working precision; AccurateSum has twice the precision.
struct PlainSum {
    double value;

    __device__ __forceinline__ void take(double a, double x) { value += a * x; }
    __device__ __forceinline__ double subtracted_from(double b) const { return b - value; }
};

/// use(i, sum) for i = first, first + the team's size, ... below `count`, by the thread that has
/// element i; `rows_` elements at once, if there are as many. The sum has the terms
/// matrix(i, j) y[p] of the chosen variables j at positions p; `empty` is a sum without terms.
template <int rows_, class Sum, class Team, class In, class Use>
__device__ __forceinline__ void combine_rows(MatrixView matrix, int first, int count,
                                             const Chosen<Team>& chosen, In y, Sum empty, Use use) {
    struct Column {
        double entries[rows_], factor;
    };
    const int step = Team::size();
    int i = first;
#pragma unroll 1
    for (; i + (rows_ - 1) * step < count; i += rows_ * step) {
        Sum sum[rows_];
        for (int q = 0; q < rows_; ++q) sum[q] = empty;
        load_ahead<1>(
            0, chosen.count,
            [&](int p, int ahead) {
                const int j = chosen[p + ahead];
                Column column{{}, y[p + ahead]};
                for (int q = 0; q < rows_; ++q) column.entries[q] = matrix(i + q * step, j);
                return column;
            },
            [&](int, int, const Column& column) {
                for (int q = 0; q < rows_; ++q) sum[q].take(column.entries[q], column.factor);
            });
        for (int q = 0; q < rows_; ++q) use(i + q * step, sum[q]);
    }
    if constexpr (rows_ > 1) combine_rows<rows_ / 2>(matrix, i, count, chosen, y, empty, use);
}
template <class Sum, class Team, class Address, class Use>
__device__ __forceinline__ void combine(MatrixView matrix, int count, const Chosen<Team>& chosen,
                                        Vector<double, Address> y, Sum empty, Use use) {
    combine_rows<Team::rows_at_once>(matrix, Team::rank(), count, chosen, y, empty, use);
}

template <class Sum, class Team, class Address, class Use>
__device__ __forceinline__ void combine(const GramMatrix<Team>& matrix,
                                        const PassiveInverseArrays<Team>&, int count,
                                        const Chosen<Team>& chosen, Vector<double, Address> y,
                                        Sum empty, Use use) {
    combine(matrix.view(), count, chosen, y, empty, use);
}

/// use(i, sum) for every variable i < n, by the thread that has it: the sum of G(i, j) y[p].
template <class Team, class Use>
__device__ __forceinline__ void combine_gram(const GramMatrix<Team>& matrix,
                                             const PassiveInverseArrays<Team>&, int n,
                                             const Chosen<Team>& chosen, typename Team::Reals y,
                                             Use use) {
    combine(MatrixView{matrix.G, 1, n}, n, chosen, y, PlainSum{0},
            [&](int i, PlainSum sum) { use(i, sum.value); });
}

/// out[i] -= factor * in[i]. A thread computes the elements of its rank.
template <class Team, class Out, class In>
__device__ __noinline__ void subtract_multiple(Out out, int count, double factor, In in) {
    for_each<Team>(count, [&](int i) { out[i] -= factor * in[i]; });
}
