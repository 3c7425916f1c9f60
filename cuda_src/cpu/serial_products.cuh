// Products with matrices by a team of one thread: see gram_products.cuh.
//
// Columns are contiguous. Four columns are multiplied by a vector at once; sums of columns are
// computed for 16 rows at once, in registers. The bits of an element do not depend on others.

#pragma once

#include "../gram_products.cuh"
#include "serial_matrix.cuh"
#include "serial_team.cuh"

/// The products of four columns with a vector.
__forceinline__ void dot_four(const double* const* columns, const double* vector, int count,
                              double* out) {
    Four even[four] = {}, odd[four] = {};
    int i = 0;
    for (; i + 2 * four <= count; i += 2 * four) {
        const Four first = load_four(vector + i), second = load_four(vector + i + four);
        for (int q = 0; q < four; ++q) {
            even[q] = multiply_add(load_four(columns[q] + i), first, even[q]);
            odd[q] = multiply_add(load_four(columns[q] + i + four), second, odd[q]);
        }
    }
    for (; i + four <= count; i += four) {
        const Four first = load_four(vector + i);
        for (int q = 0; q < four; ++q)
            even[q] = multiply_add(load_four(columns[q] + i), first, even[q]);
    }
    for (int q = 0; q < four; ++q) {
        double rest = 0;
        for (int k = i; k < count; ++k) rest = multiply_add(columns[q][k], vector[k], rest);
        out[q] = sum_of_four(even[q] + odd[q]) + rest;
    }
}

inline void multiply_columns(const GramMatrix<SerialTeam>& matrix, int m, int,
                             const Chosen<SerialTeam>& chosen, Vector<double> vector,
                             Vector<double> out) {
    for (int q = 0; q < chosen.count; q += four) {
        const double* columns[four];
        double products[four];
        const int count = min(four, chosen.count - q);
        for (int k = 0; k < four; ++k)
            columns[k] = matrix.column(chosen[q + min(k, count - 1)]).first;
        dot_four(columns, vector.first, m, products);
        for (int k = 0; k < count; ++k) out[q + k] = products[k];
    }
}

// ---- sums of columns --------------------------------------------------------------------

/// Sums of four rows that are computed at once; see the kinds of sums, such as PlainSum.
template <class Sum>
struct FourSums;

template <>
struct FourSums<PlainSum> {
    Four value;
    __forceinline__ void take(Four a, Four x) { value = multiply_add(a, x, value); }
    __forceinline__ Four rounded() const { return value; }
};

template <>
struct FourSums<PlainDifference> {
    Four value;
    __forceinline__ void take(Four a, Four x) { value = multiply_add(a, -x, value); }
    __forceinline__ Four rounded() const { return value; }
};

template <>
struct FourSums<AccurateDifference> {
    Four high, low;
    __forceinline__ void take(Four a, Four x) {
        const Four product = a * x, total = high - product, of_product = total - high;
        const Four error = (high - (total - of_product)) - (product + of_product);
        low += error - error_of_product(a, x, product);
        high = total;
    }
    __forceinline__ Four rounded() const { return high + low; }
};

/// Four rows `strips` times, from `first` on.
template <int strips, class Sum, class Start, class Use>
__forceinline__ void combine_strips(const double* columns, long long leading, int first,
                                    const Chosen<SerialTeam>& chosen, const double* y, Start start,
                                    Use use) {
    FourSums<Sum> sum[strips];
    for (int q = 0; q < strips; ++q) {
        const int i = first + four * q;
        sum[q] = FourSums<Sum>{Four{start(i), start(i + 1), start(i + 2), start(i + 3)}};
    }
    for (int p = 0; p < chosen.count; ++p) {
        const double value = y[p];
        if (value == 0) continue;
        const double* column = columns + leading * chosen[p] + first;
        const Four factor = all_four(value);
        for (int q = 0; q < strips; ++q) sum[q].take(load_four(column + four * q), factor);
    }
    for (int q = 0; q < strips; ++q) {
        const Four result = sum[q].rounded();
        for (int k = 0; k < four; ++k) use(first + four * q + k, result[k]);
    }
}

template <class Sum, class Team, class Start, class Use>
__forceinline__ void combine(MatrixView rows, int count, const Chosen<SerialTeam>& chosen,
                             Vector<double> y, Start start, Use use) {
    const double* columns = rows.entries.first;
    int i = 0;
    for (; i + 4 * four <= count; i += 4 * four)
        combine_strips<4, Sum>(columns, rows.column_stride, i, chosen, y.first, start, use);
    for (; i + four <= count; i += four)
        combine_strips<1, Sum>(columns, rows.column_stride, i, chosen, y.first, start, use);
    for (; i < count; ++i) {
        Sum sum{start(i)};
        for (int p = 0; p < chosen.count; ++p) sum.take(rows(i, chosen[p]), y[p]);
        use(i, sum.rounded());
    }
}
