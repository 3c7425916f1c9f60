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

/// Four sums that are computed at once: PlainSum or AccurateSum.
template <class Sum>
struct FourSums;

template <>
struct FourSums<PlainSum> {
    Four value;

    __forceinline__ void start(PlainSum empty) { value = all_four(empty.value); }
    __forceinline__ void take(Four a, Four x) { value = multiply_add(a, x, value); }
    __forceinline__ PlainSum operator[](int k) const { return {value[k]}; }
};

template <>
struct FourSums<AccurateSum> {
    double base;
    Four sum, low;

    __forceinline__ void start(AccurateSum empty) {
        base = empty.base;
        sum = all_four(empty.sum);
        low = all_four(empty.low);
    }
    __forceinline__ void take(Four a, Four x) {
        const Four next = multiply_add(a, x, sum);
        low += product_plus(a, x, sum - next);
        sum = next;
    }
    __forceinline__ AccurateSum operator[](int k) const { return {base, sum[k], low[k]}; }
};

/// Four rows `strips` times, from `first` on.
template <int strips, class Sum, class Use>
__forceinline__ void combine_strips(const double* columns, long long leading, int first,
                                    const Chosen<SerialTeam>& chosen, const double* y, Sum empty,
                                    Use use) {
    FourSums<Sum> sum[strips];
    for (int q = 0; q < strips; ++q) sum[q].start(empty);
    for (int p = 0; p < chosen.count; ++p) {
        const double value = y[p];
        if (value == 0) continue;
        const double* column = columns + leading * chosen[p] + first;
        const Four factor = all_four(value);
        for (int q = 0; q < strips; ++q) sum[q].take(load_four(column + four * q), factor);
    }
    for (int q = 0; q < strips; ++q)
        for (int k = 0; k < four; ++k) use(first + four * q + k, sum[q][k]);
}

template <class Sum, class Use>
__forceinline__ void combine(MatrixView rows, int count, const Chosen<SerialTeam>& chosen,
                             Vector<double> y, Sum empty, Use use) {
    const double* columns = rows.entries.first;
    int i = 0;
    for (; i + 4 * four <= count; i += 4 * four)
        combine_strips<4>(columns, rows.column_stride, i, chosen, y.first, empty, use);
    for (; i + four <= count; i += four)
        combine_strips<1>(columns, rows.column_stride, i, chosen, y.first, empty, use);
    for (; i < count; ++i) {
        Sum sum = empty;
        for (int p = 0; p < chosen.count; ++p) sum.take(rows(i, chosen[p]), y[p]);
        use(i, sum);
    }
}
