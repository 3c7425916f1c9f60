// Products and triangular solves with small matrices, by one thread: as in team_rows.cuh, with
// several elements at once.

#pragma once

#include "../team_rows.cuh"
#include "serial_team.cuh"

/// a b, or |a| |b|, for vectors of `count` elements.
template <bool magnitudes = false>
__forceinline__ double product_of(const double* a, const double* b, int count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < count; ++i)
        sum = magnitudes ? sum + fabs(a[i] * b[i]) : multiply_add(a[i], b[i], sum);
    return sum;
}

__forceinline__ double dot(SerialTeam&, const double* a, const double* b, int count) {
    return product_of(a, b, count);
}

__forceinline__ double sum_of_products(SerialTeam&, const double* a, const double* b, int count) {
    return product_of(a, b, count);
}

/// Four products at once: their sums, and the rest, are added in the end.
inline void subtract_products(SerialTeam&, const double* start, const double* M, int rows,
                              int columns, const double* x, double* out) {
    for (int i = 0; i < rows; ++i) {
        const double* const row = M + static_cast<long long>(i) * columns;
        Four high{}, low{};
        int j = 0;
        for (; j + four <= columns; j += four) {
            const Four a = load_four(row + j), b = load_four(x + j), product = a * b;
            const Four total = high - product, of_product = total - high;
            const Four error = (high - (total - of_product)) - (product + of_product);
            low += error - error_of_product(a, b, product);
            high = total;
        }
        Twofold<double> sum{start[i], 0};
        for (int q = 0; q < four; ++q) sum = AddTwofold<double>()(sum, {high[q], low[q]});
        for (; j < columns; ++j) sum = AddTwofold<double>()(sum, two_product(row[j], -x[j]));
        out[i] = sum.high + sum.low;
    }
}

template <bool magnitudes = false>
void multiply(SerialTeam&, const double* M, int rows, int columns, const double* x, double* out) {
    for (int i = 0; i < rows; ++i)
        out[i] = product_of<magnitudes>(M + static_cast<long long>(i) * columns, x, columns);
}

/// out += value row.
__forceinline__ void add_row(double value, const double* row, int count, double* out) {
#pragma omp simd
    for (int j = 0; j < count; ++j) out[j] = multiply_add(value, row[j], out[j]);
}

template <class Body>
__forceinline__ void for_each_element(SerialTeam&, int rows, int columns, Body body) {
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) body(i, j);
}

/// out += the sum of value(i) row(i): four rows at once.
template <class Value, class Row>
__forceinline__ void add_combination(int rows, Value value, Row row, int count, double* out) {
    int i = 0;
    for (; i + four <= rows; i += four) {
        const double *const a = row(i), *const b = row(i + 1), *const c = row(i + 2),
                            *const d = row(i + 3);
        const double of_a = value(i), of_b = value(i + 1), of_c = value(i + 2), of_d = value(i + 3);
#pragma omp simd
        for (int j = 0; j < count; ++j) {
            const double first = multiply_add(of_a, a[j], multiply_add(of_b, b[j], out[j]));
            out[j] = multiply_add(of_c, c[j], multiply_add(of_d, d[j], first));
        }
    }
    for (; i < rows; ++i) add_row(value(i), row(i), count, out);
}

template <class Row>
__forceinline__ void add_rows(SerialTeam&, int rows, const double* y, Row row, int count,
                              double* out) {
    add_combination(rows, [&](int i) { return y[i]; }, row, count, out);
}

template <bool magnitudes = false>
void add_transposed(SerialTeam&, const double* M, int rows, int columns, const double* y,
                    double* out) {
    const auto row = [&](int i) { return M + static_cast<long long>(i) * columns; };
    if (!magnitudes) {
        add_combination(rows, [&](int i) { return y[i]; }, row, columns, out);
        return;
    }
    for (int i = 0; i < rows; ++i) {
        const double* const of = row(i);
        const double value = y[i];
        if (value == 0) continue;
#pragma omp simd
        for (int j = 0; j < columns; ++j) out[j] += fabs(value * of[j]);
    }
}

__forceinline__ void add_squares(SerialTeam&, const double* M, int rows, int columns, double* out) {
    for (int i = 0; i < rows; ++i) {
        const double* const row = M + static_cast<long long>(i) * columns;
#pragma omp simd
        for (int j = 0; j < columns; ++j) out[j] += row[j] * row[j];
    }
}

/// H += M^T M, in the lower triangle, for four rows of M at once.
__forceinline__ void add_gram(SerialTeam&, const double* M, int rows, int columns, double* H) {
    int i = 0;
    for (; i + four <= rows; i += four) {
        const double *a = M + static_cast<long long>(i) * columns, *b = a + columns,
                     *c = b + columns, *d = c + columns;
        for (int j = 0; j < columns; ++j) {
            double* const out = H + j * columns;
            const double of_a = a[j], of_b = b[j], of_c = c[j], of_d = d[j];
#pragma omp simd
            for (int l = 0; l <= j; ++l) {
                const double first = multiply_add(of_a, a[l], multiply_add(of_b, b[l], out[l]));
                out[l] = multiply_add(of_c, c[l], multiply_add(of_d, d[l], first));
            }
        }
    }
    for (; i < rows; ++i) {
        const double* const row = M + static_cast<long long>(i) * columns;
        for (int j = 0; j < columns; ++j) add_row(row[j], row, j + 1, H + j * columns);
    }
}

/// Rows of U are longer from one row to the next, so four rows start at the first one's diagonal:
/// the elements below are zeros.
inline void multiply_upper(SerialTeam&, const double* M, int rows, int columns, const double* U,
                           double* out) {
    for (int i = 0; i < rows; ++i) {
        double* const to = out + i * columns;
        for (int j = 0; j < columns; ++j) to[j] = 0;
        for (int l = 0; l < columns; l += four)
            add_combination(
                min(four, columns - l), [&](int q) { return M[i * columns + l + q]; },
                [&](int q) { return U + (l + q) * columns + l; }, columns - l, to + l);
    }
}

/// Row i of J = (unit vector i - the sum of L[l][i] row l, l > i) / L[i][i].
inline void invert_transposed(SerialTeam&, const double* L, int n, double* J) {
    for (int i = n - 1; i >= 0; --i) {
        double* const to = J + i * n;
        for (int j = 0; j < n; ++j) to[j] = 0;
        for (int l = i + 1; l < n; l += four)
            add_combination(
                min(four, n - l), [&](int q) { return L[(l + q) * n + i]; },
                [&](int q) { return J + (l + q) * n + l; }, n - l, to + l);
        const double inverse = 1 / L[i * n + i];
        for (int j = i + 1; j < n; ++j) to[j] *= -inverse;
        to[i] = inverse;
    }
}

__forceinline__ void solve_lower(SerialTeam&, const double* L, int pitch, int count, double* x) {
    for (int i = 0; i < count; ++i)
        x[i] = (x[i] - product_of(L + i * pitch, x, i)) * L[i * pitch + i];
}

__forceinline__ void solve_transposed(SerialTeam&, const double* L, int pitch, int count,
                                      double* x) {
    for (int i = count - 1; i >= 0; --i) {
        x[i] *= L[i * pitch + i];
        add_row(-x[i], L + i * pitch, i, x);
    }
}

__forceinline__ void subtract_transposed(SerialTeam&, const double* M, int rows, int columns,
                                         const double* y, double* high, double* low) {
    for (int i = 0; i < rows; ++i) {
        const double* const row = M + static_cast<long long>(i) * columns;
        const double value = -y[i];
        if (value == 0) continue;
#pragma omp simd
        for (int j = 0; j < columns; ++j) {
            const double product = row[j] * value, before = high[j], total = before + product;
            const double of_product = total - before;
            const double error = (before - (total - of_product)) + (product - of_product);
            low[j] += error + __builtin_fma(row[j], value, -product);
            high[j] = total;
        }
    }
}
